"""The functions that users call. Stages of passes (stages.py) meet only here."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, get_args, overload

from xdsl.dialects.builtin import ModuleOp

from qmlir import stages
from qmlir.backends.cpu.products import adding_in_machine_code
from qmlir.backends.cpu.tally import counting_in_machine_code
from qmlir.dialects.inputs import note_reading, reading_notes
from qmlir.errors import OptionError
from qmlir.frontends import read_network
from qmlir.frontends.cut import Cut
from qmlir.frontends.opaque import refuse_opaque
from qmlir.frontends.torch_modules import TorchModule, file_of, refuse_torch_module
from qmlir.ir.budget import BUDGET, limit
from qmlir.ir.callable_network import Calibration
from qmlir.ir.context import QmlirContext, make_context
from qmlir.ir.entries import entry_of
from qmlir.ir.facts import DEVICE, ROTATION
from qmlir.ir.garbage import collect_weights, collected_rarely
from qmlir.ir.interfaces import Array
from qmlir.ir.passes import Pipeline, configured_pass
from qmlir.ir.reading import ReadingNotes
from qmlir.ir.replayed import Replayed
from qmlir.ir.signature import main_function, signature_of
from qmlir.ir.states import bind_states, states_of
from qmlir.ir.upstream.tosa_0_80 import is_tosa
from qmlir.ir.verify import require_module, verify
from qmlir.running.executors import Given, Progress, workers_of
from qmlir.running.files import path_of
from qmlir.settings import arguments
from qmlir.settings.arguments import Network
from qmlir.settings.fields import FORMATS as EXPORT_FORMATS
from qmlir.settings.quant_config import QuantConfig, QuantOptions, Rotate, config_of

if TYPE_CHECKING:
    from qmlir.backends.cpu.jit import Executable
    from qmlir.backends.reference import Reference
    from qmlir.backends.simulated import Simulated
    from qmlir.devices import Accelerator
    from qmlir.policies.ledger import Decisions
    from qmlir.profiles.profile import Profile
    from qmlir.running.profiler import Profiler
    from qmlir.samples.files import Samples
    from qmlir.settings.policy import Policy
    from qmlir.transforms.quantize.entries import FirstEntry


PARTIAL = 'Pipeline(("apply-profile", {"file": …, "partial": True}))'
"""The Python call that accepts a profile without some tensors; `quantize` names it in errors."""


@collected_rarely
def load(
    path: "str | Path | TorchModule", bind: Mapping[str, int] | None = None,
    constants: Mapping[str, Array] | None = None, *, example: Any = None,
    numerics: str | None = None, signature: str | None = None, fold_budget: int = BUDGET,
    weights: str | Path | None = None, shapes: Mapping[str, str | Sequence[int]] | None = None,
    state: Mapping[str, str] | None = None,
    inputs: str | Sequence[str] | None = None, outputs: str | Sequence[str] | None = None, entry: str | None = None,
) -> ModuleOp:  # fmt: skip
    """Reads a network from a file, or from a module of PyTorch.

    Args:
        path: An `.onnx`, `.tflite`, `.gguf` or Caffe2 file (`.pb`, `.pbtxt`), an `.mlir` file of nn or of tosa, or a
            `torch.nn.Module`, which PyTorch's exporter writes as ONNX.
        example: What a module of PyTorch is called with: an array, a tuple of arrays, or a dict of them by parameter.
        bind: Values for the symbolic dimensions of an .onnx file, an unbound first dimension being 1; for a .gguf file,
            `rows`, `context`, `positions` and `window`.
        constants: Inputs of an .onnx file or a Caffe2 net that become constants.
        numerics: The runtime whose rounding quantized operations follow: `default`, `onnxruntime`,
            `onnxruntime-vnni`, `litert-reference`, `litert-xnnpack` or `litert-builtin`. None keeps the file's choice.
        signature: The signature of a .tflite file whose subgraph is the network; by default its first subgraph.
        fold_budget: Bytes for constants that are computed at import or by a later simplification.
        weights: The init net of a Caffe2 net, which makes its weights.
        shapes: Shapes of the inputs of a Caffe2 net: sizes, or the inside of MLIR's tensor type, such as `8xi64`.
        state: Inputs that live from call to call, each with the output that is its next value.
        inputs: The tensors of the file at which the network begins; by default the file's inputs.
        outputs: The tensors of the file at which the network ends; by default the file's outputs.
        entry: The entry of an .mlir file with several, such as `decode`, that is the network; by default all are.

    >>> import qmlir
    >>> module = qmlir.load("digits.onnx", bind={"batch": 1})
    """
    key = None if signature is None else arguments.text_given("signature", signature)
    sizes, arrays = arguments.sizes_given("bind", bind), arguments.arrays_given("constants", constants)
    budget, types = arguments.integer_given("fold_budget", fold_budget), arguments.shapes_given("shapes", shapes)
    cut = Cut(arguments.names_given("inputs", inputs), arguments.names_given("outputs", outputs))
    with file_of(path, example) as source:
        init = None if weights is None else path_of(weights, "weights")
        module = read_network(source, sizes, arrays, key, budget, init, types, cut)
    from_tosa = stages.FROM_TOSA if any(map(is_tosa, module.walk())) else ()
    if from_tosa or source.suffix != ".mlir":
        Pipeline(*from_tosa, *stages.FROM_FILE).apply(module, make_context())
    limit(module, fold_budget)
    module = module if entry is None else entry_of(module, arguments.text_given("entry", entry))
    if state:
        function = main_function(module)
        bind_states(function, *signature_of(function).flat().names(), arguments.name_pairs_given("state", state))
    if numerics is not None:
        from qmlir.policies.runtimes import follow

        follow(module, arguments.text_given("numerics", numerics))
    return module


def loaded(network: Network, *, simplified: bool = True) -> ModuleOp:
    """Returns a network as a module: the module given, or the one that a file holds.

    Args:
        network: A module, or a path.
        simplified: Whether a network read from a file is simplified.

    Raises:
        OptionError: The argument is neither a module nor a path.
        FileError: The file does not exist or cannot be read.
    """
    if isinstance(network, str | Path):
        module = load(network)
        Pipeline(*stages.SIMPLIFY if simplified else ()).apply(module, make_context())
        return module
    refuse_torch_module(network)
    require_module(network)
    return network


def profile(
    module: Network, samples: Calibration, bins: int = 2000, *, per_channel: bool = False, rotate: str = "none",
    workers: Given = None, done: Progress | None = None,
) -> "Profile":  # fmt: skip
    """Learns the ranges of a float network's tensors by running the compiled network on samples.

    Args:
        module: A float network, or its path; it stays unchanged.
        samples: Arrays for the only input, or dicts of them by name. To a network with states they are one sequence,
            and a list of them is a sequence of its own.
        bins: The most bins a histogram may have.
        per_channel: Whether to learn the same for each channel, along the last axis, too.
        rotate: The rotations that the network will be quantized with, since rotated tensors have other ranges.
        workers: A number of processes, the address of a Dask scheduler, or a `concurrent.futures.Executor`; by default
            threads of this process. A network with states is always profiled in this process.
        done: Is called with the number of samples that workers have done.

    Raises:
        ProfileError: No sample was given, a tensor was not finite on a sample, or there is nothing to profile.
        QmlirError: The network has operations that qmlir does not know.

    >>> import qmlir
    >>> qmlir.profile("digits.onnx", samples).samples == len(samples)
    True
    """
    from qmlir.running.learning import learned, with_samples

    chosen = workers_of(workers)
    try:
        network = loaded(module)
        profiler, observed = profiler_of(network, bins, per_channel=per_channel, rotate=rotate)
        given = arguments.samples_given(samples)  # refused before the network is compiled
        if chosen.elsewhere and not states_of(main_function(network)):
            from qmlir.running.shards import profile_in_shards

            whole = compile(Pipeline(*stages.PROFILE)(observed))
            return with_samples(profile_in_shards(profiler, whole, given, chosen, done))
        return learned(profiler, observed, given, to_integers)
    finally:
        if chosen is not workers:
            chosen.close()


def profiler_of(module: Network, bins: int, *, per_channel: bool, rotate: str = "none") -> "tuple[Profiler, ModuleOp]":
    """Returns what learns the ranges of a float network's tensors, and the network with observers; see `profile`."""
    from qmlir.running.profiler import Profiler

    most, by_channel = arguments.integer_given("bins", bins), arguments.flag_given("per_channel", per_channel)
    module = loaded(module)
    refuse_opaque(module, "the network")
    what = arguments.choice_given("rotate", rotate, get_args(Rotate))
    observed = Pipeline(*stages.rotated(what), *stages.OBSERVE)(module)
    return Profiler(observed, most, per_channel=by_channel), observed


def profile_and_calls(module: ModuleOp, samples: Calibration) -> "tuple[Profile, Replayed]":
    """Returns what `profile` does, and the samples of a network with states as single calls; none of others."""
    from qmlir.profiles.tensor_profile import BINS
    from qmlir.running.learning import learned

    calls = Replayed()
    profiler, observed = profiler_of(module, BINS, per_channel=False)
    return learned(profiler, observed, samples, to_integers, calls if states_of(main_function(module)) else None), calls


def rotate(module: ModuleOp, what: str) -> None:
    """Rotates the channels of a network without ranges in place, once; `what` is the setting `rotate`."""
    from qmlir.transforms.quantize.ranges.observers import observers

    if not ROTATION.on(module) and not observers(module):
        Pipeline(*stages.rotated(what)).apply(module, make_context())
        collect_weights(module)  # the weights before


@collected_rarely
def give_ranges(
    module: ModuleOp, profile: "Profile | str | Path | None", data: Calibration | None
) -> Calibration | None:
    """Gives the tensors of a float network their ranges, on observers in place.

    A network that is quantized several times gets its ranges once: `quantize` takes it as it is then, without a
    profile, and the samples that this function returns.

    Args:
        module: The network.
        profile: The ranges; None to learn them from the data if the network has none.
        data: Samples, as for `quantize`.

    Returns:
        The samples, which may be read again; those of a network with states as single calls.
    """
    from qmlir.profiles.tensor_profile import BINS
    from qmlir.running.learning import learned
    from qmlir.running.profiler import Profiler
    from qmlir.transforms.quantize.quantize import learns_ranges
    from qmlir.transforms.quantize.ranges.apply_profile import apply_profile
    from qmlir.transforms.quantize.ranges.observers import observers, without_observers

    samples = arguments.samples_given(data) if data is not None else None
    samples = list(samples) if isinstance(samples, Iterator) else samples  # several steps read them
    held, source, fresh = None, "profile", False
    has_states = samples is not None and not isinstance(samples, Replayed) and bool(states_of(main_function(module)))
    calls = Replayed()
    if profile is not None:
        held, source = arguments.profile_given(profile)
    elif samples is not None and learns_ranges(module):
        refuse_opaque(module, "the network")
        if fresh := not observers(module):
            Pipeline(*stages.OBSERVE).apply(module, make_context())
        observed = module if fresh else Pipeline(*stages.OBSERVE)(module)
        profiler = Profiler(observed, BINS, per_channel=False)
        held = learned(profiler, observed, samples, to_integers, calls if has_states else None)
        collect_weights(observed)  # the network that was compiled
    if samples is not None and has_states:
        samples = calls or Replayed(compile(without_observers(module)).replayed(samples))
    if held is not None:
        apply_profile(module, held, source=source, switch=PARTIAL, simplified=fresh)
        note_reading(module, held.notes)
    return samples


def read_samples(
    path: str | Path, network: Network, *, preprocess: str | None = None, dtype: str | None = None
) -> "Samples":
    """Returns the samples in a file or a folder, as inputs of a network, for functions that take samples.

    Args:
        path: Pictures, .npy, .npz or raw files, as `qmlir --data` reads them.
        network: The network, or its path.
        preprocess: How pictures become inputs, as for `qmlir --preprocess`; by default what the network keeps.
        dtype: The element type that raw files store; by default what the network keeps, or the input's type.

    Raises:
        OptionError: An option is unknown, or has an unusable value.
        FileError, InputError: See `Samples`.

    >>> import qmlir
    >>> read = qmlir.read_samples("digits.npz:calibration_images", "digits.onnx")
    >>> next(iter(read))["image"].shape
    (1, 1, 8, 8)
    """
    from qmlir.samples.reading import samples_as_noted

    module = loaded(network)
    notes = _notes(preprocess, dtype).over(reading_notes(module))
    return samples_as_noted(path_of(path), main_function(module), notes)


def _notes(preprocess: str | None, dtype: str | None) -> ReadingNotes:
    texts = {"preprocess": preprocess, "dtype": dtype}
    return ReadingNotes(**{n: arguments.text_given(n, t) for n, t in texts.items() if t is not None})


@adding_in_machine_code
@counting_in_machine_code
@collected_rarely
def quantize(
    module: Network,
    profile: "Profile | str | Path | None" = None,
    *,
    data: Calibration | None = None,
    fail_on_float: bool | None = None,
    policy: "Policy | Mapping[str, Any] | str | Path | None" = None,
    target: "Accelerator | None" = None,
    runtime: str | None = None,
    preprocess: str | None = None,
    dtype: str | None = None,
    memory_budget: int | None = None,
    first_entry: "FirstEntry | None" = None,
    **options: Unpack[QuantOptions],
) -> ModuleOp:
    """Returns a network on quantized types, made from a float network and the ranges of its tensors.

    The arguments are those of `qmlir.quantize` (analysis/measured.py), which also measures the network. The policy has
    a default and rules only. The entries of a network have one `first_entry` in common.

    >>> from qmlir.compiler import quantize
    >>> quantize("digits.onnx", data=samples, schema="symmetric").name
    'builtin.module'
    """
    from qmlir.settings.fields import RUNTIMES
    from qmlir.settings.recorded import record_quantizer
    from qmlir.settings.resolve import resolve
    from qmlir.transforms.quantize.apply.fold_qdq import is_as_imported
    from qmlir.transforms.quantize.prepare.before_ranges import check_before_ranges
    from qmlir.transforms.quantize.prepare.recipes import with_recipe
    from qmlir.transforms.quantize.quantize import learns_ranges
    from qmlir.transforms.quantize.ranges.growing_states import warn_of_growing_states
    from qmlir.transforms.quantize.ranges.observers import observers

    rules = arguments.policy_given(policy)
    result = loaded(module).clone() if isinstance(module, ModuleOp) else loaded(module)
    asked = arguments.options_given("quantize", options, QuantConfig().options())
    runtime = None if runtime is None else arguments.choice_given("runtime", runtime, list(RUNTIMES))
    settings = resolve(rules, asked, base=config_of(result), runtime=runtime, target=target)
    rules, settings = with_recipe(result, rules, settings, ranged=profile is not None or not learns_ranges(result))
    config = settings.config()
    if target is not None:
        from qmlir.devices import text_of

        DEVICE.put(result, text_of(target))
    context = context_of(result)
    context.first_entry = first_entry
    if memory_budget is not None:
        context.samples_budget = arguments.integer_given("memory_budget", memory_budget)
    rotate(result, config.rotate)
    samples = None
    is_imported = profile is None and is_as_imported(result) and not observers(result)
    if data is not None:
        if profile is None and learns_ranges(result):
            is_imported = False
            check_before_ranges(result, rules, settings)
        context.samples[""] = samples = give_ranges(result, profile, data)
    elif profile is not None:
        give_ranges(result, profile, None)
    if isinstance(notes := getattr(data, "notes", None), ReadingNotes):  # of samples that were read from files
        note_reading(result, notes)
    note_reading(result, _notes(preprocess, dtype))
    Pipeline(*() if target is None else stages.FOR_DEVICE).apply(result, context)
    context.policy = rules.with_default({**config.options(), "recipe": "none"})  # it is in the rules and options
    if not is_imported:  # else its own file says how it is quantized
        record_quantizer(result, config, rules)
    configured_pass("quantize", {"fail_on_float": bool(fail_on_float)}).apply(context, result)
    verify(result)
    if isinstance(samples, Replayed):
        warn_of_growing_states(result, samples)
    return result


def decisions(module: Network) -> "Decisions":
    """Returns what the quantizer decided about each operation, in program order; the list shows itself as a table.

    Args:
        module: A network, or its path; the list is empty for one that has not been through the quantizer.

    >>> import qmlir
    >>> qmlir.decisions(qmlir.quantize("model.mlir"))[0].reason
    'i8 activations, i8 weights per channel'
    """
    from qmlir.policies.ledger import decisions as found

    return found(loaded(module, simplified=False))


@collected_rarely
def to_integers(module: Network, target: "Accelerator | None" = None) -> ModuleOp:
    """Returns the network in qint, which is its exact meaning; casts of an imported model are folded first.

    Args:
        module: A network, or its path; it stays unchanged.
        target: The device whose rounding to use; by default the device that the network was quantized for, or none.

    >>> import qmlir
    >>> integers = qmlir.to_integers(qmlir.quantize("model.mlir"))
    >>> sum(op.name == "qint.conv2d" for op in integers.walk())
    1
    """
    module = loaded(module)
    return Pipeline(*_fold_casts(module), *stages.TO_INTEGERS)(module, context_of(module, target))


def _fold_casts(module: ModuleOp) -> Sequence[str]:
    """Returns the stage that folds the casts of a module that is as imported; none for other modules."""
    from qmlir.transforms.quantize.apply.fold_qdq import is_as_imported

    return stages.FOLD_CASTS if is_as_imported(module) else ()


def context_of(module: ModuleOp, target: "Accelerator | None" = None) -> QmlirContext:
    """Returns a context for a module; if the module is for a device, the context has that device as its target.

    Args:
        module: A network.
        target: A device; by default the device that the module names.
    """
    context = make_context()
    if target is None:
        target = DEVICE.of(module)
    if target is not None:
        from qmlir.devices import load_device  # device files need pydantic, a fifth of all imports
        from qmlir.devices.legality.requirements import target_of_device

        context.target = target_of_device(load_device(target))
    return context


@collected_rarely
def reference(module: Network, target: "Accelerator | None" = None) -> "Reference":
    """Returns a callable that evaluates the network's exact meaning operation by operation in numpy.

    Args:
        module: A network, or its path; it stays unchanged.
        target: The device whose rounding to use; by default the device that the network was quantized for, or none.

    >>> import qmlir
    >>> qmlir.reference("digits.onnx")(samples[0]).shape
    (1, 10)
    """
    from qmlir.backends.reference import reference_of

    module = loaded(module)
    refuse_opaque(module, "the network")
    return reference_of(to_integers(module, target))


def with_interface(module: ModuleOp, io: str) -> ModuleOp:
    """Returns a quantized network that takes and gives integers or floats, as `io` says: "int8", …, "float"."""
    from qmlir.transforms.quant.set_interface import INTERFACES

    return Pipeline(*stages.interface(arguments.choice_given("io", io, INTERFACES)))(module)


@overload
def compile(
    module: Network, threads: int = 1, *, cpu: str | None = None, features: str | None = None,
    triple: str | None = None, batch: int | None = None, memory: str = "fast", io: str | None = None,
    debug_info: bool = False,
) -> "Executable": ...  # fmt: skip


@overload
def compile(module: Network, threads: int = 1, *, target: "Accelerator") -> "Simulated": ...


@collected_rarely
def compile(
    module: Network, threads: int = 1, *, target: "Accelerator | None" = None, cpu: str | None = None,
    features: str | None = None, triple: str | None = None, batch: int | None = None, memory: str = "fast",
    io: str | None = None, debug_info: bool = False,
) -> "Executable | Simulated":  # fmt: skip
    """Returns a callable that runs machine code on this processor, or simulates the commands of a device.

    The arguments are those of `qmlir.compile` (cached.py), which keeps the code on disk.

    Raises:
        OptionError: The number of threads is not from 1 to 256.
    """
    from qmlir.backends.cpu.arguments import machine_given, require_threads
    from qmlir.running.machine_code import to_machine_code

    sharers = arguments.integer_given("threads", threads)
    machine = machine_given(cpu, features, triple, target)
    require_threads(sharers, machine)
    source = loaded(module)
    refuse_opaque(source, "the network" if isinstance(module, ModuleOp) else str(module))
    if io is not None:
        source = with_interface(source, io)
    if batch is not None:
        source = Pipeline(*stages.batched(arguments.batch_given(batch, target)))(source)
    lowered = to_integers(source, target)
    if target is None:
        debug, chosen = arguments.flag_given("debug_info", debug_info), arguments.memory_given(memory, sharers)
        return to_machine_code(lowered, sharers, machine, memory=chosen, debug_info=debug)
    from qmlir.backends.layered import layer_program
    from qmlir.backends.simulated import simulated
    from qmlir.devices import text_of

    Pipeline(*stages.to_layers(text_of(target))).apply(lowered, make_context(), verify_each=stages.VERIFY_LOOPS)
    entries, layered = decisions(lowered), layer_program(lowered)
    Pipeline(*stages.TO_COMMANDS).apply(lowered, make_context(), verify_each=stages.VERIFY_LOOPS)
    return simulated(lowered, lambda routine: to_machine_code(routine, sharers).run_in_order, entries, layered)


def load_program(path: str | Path, target: "Accelerator") -> "Simulated":
    """Returns the callable of a program that was saved.

    Args:
        path: The program's file; the code that the host runs lies beside it.
        target: The device that the program was compiled for, its name, or the path of its file.

    >>> import qmlir
    >>> q = qmlir.quantize("digits.onnx", data=samples, target="nmp")
    >>> files = qmlir.compile(q, target="nmp").save("digits.npu")  # the program, and the code of the host
    >>> qmlir.load_program("digits.npu", "nmp")(samples[0]).shape
    (1, 10)
    """
    from qmlir.backends.simulated import load_simulated
    from qmlir.devices import load_device
    from qmlir.running.machine_code import to_machine_code

    return load_simulated(path_of(path), load_device(target), lambda routine: to_machine_code(routine).run_in_order)


def save(module: ModuleOp, path: str | Path, *, weights: str = "file", generic: bool = False) -> list[Path]:
    """Writes a module as text; the file appears whole or not at all.

    Args:
        module: A module on any level.
        path: The file.
        weights: Where weights of more than 64 elements go. `file`: a .safetensors file beside the text; `inline`: the
            text, as hexadecimal digits; `resource`: behind the text, as upstream's `dense_resource`; `elide`: nowhere.
            mlir-opt reads all of these except `file`.
        generic: Whether to write operations in the generic form, which mlir-opt reads for every dialect.

    Returns:
        The files written: the text, and its side file if there is one.

    >>> import qmlir
    >>> [path.name for path in qmlir.save(qmlir.load("digits.onnx"), "digits.mlir")]
    ['digits.mlir', 'digits.safetensors']
    >>> qmlir.load("digits.mlir").name
    'builtin.module'
    """
    from qmlir.ir.storage import TextForm, write_module
    from qmlir.ir.weights import WeightsMode

    require_module(module)
    mode = WeightsMode(arguments.choice_given("weights", weights, [m.value for m in WeightsMode]))
    return write_module(module, path_of(path), TextForm(generic=arguments.flag_given("generic", generic), weights=mode))


def export(
    module: Network, path: str | Path, *, format: str | None = None, opset: int | None = None,
    activations: str = "uint8",
) -> list[Path]:  # fmt: skip
    """Writes a network on the nn level, float or quantized, in another runtime's format.

    Args:
        module: A network, or its path; it stays unchanged.
        path: The file.
        format: "onnx-qdq": an .onnx file with QuantizeLinear and DequantizeLinear around quantized operations;
            "onnx-qoperator": an .onnx file that uses operators on integers, such as QLinearConv, where they exist;
            "onnx-integer": an .onnx file that spells out all rounding and gives the same bits on every runtime;
            "tflite": a .tflite file with quantized tensors as integers. By default "tflite" if the path ends in
            .tflite, else "onnx-qdq".
        opset: The version of ONNX's operators; by default the newest that onnxruntime runs.
        activations: For "onnx-qdq", how signed bytes between operations are stored: "uint8", larger by 128 and with
            zero points larger by 128, which is the same network and much faster in onnxruntime on x86; or "kept". A
            warning says where onnxruntime's sums of these bytes can saturate on x86 without VNNI; weights of 7 bits,
            as `quantize` makes them for the runtime "onnxruntime", cannot.

    A first dimension that was dynamic in the source file is dynamic again in the exported file, if all operations
    treat the samples of a batch separately; otherwise a warning says which does not.

    Returns:
        The files written; weights of more than 2 GB go to a file of their own.

    >>> import qmlir
    >>> q = qmlir.quantize("digits.onnx", data=samples, weight_precision="int7")
    >>> [path.name for path in qmlir.export(q, "digits_int8.onnx")]
    ['digits_int8.onnx']
    """
    if format is None:
        format = "tflite" if path_of(path).suffix == ".tflite" else "onnx-qdq"
    format = arguments.choice_given("format", format, EXPORT_FORMATS)
    unsigned = arguments.choice_given("activations", activations, ["uint8", "kept"]) == "uint8"
    module = loaded(module)
    refuse_opaque(module, "the network")
    if format == "tflite":
        from qmlir.backends.tflite import export_tflite

        if opset is not None:
            raise OptionError("opset", "is for ONNX's formats", got=str(opset), remedy="leave it out")
        return export_tflite(main_function(_exportable(module, format)), path_of(path))
    from qmlir.backends.onnx import DEFAULT_OPSET, export_onnx, warn_of_saturation

    version = DEFAULT_OPSET if opset is None else arguments.integer_given("opset", opset)
    unsigned = unsigned and format == "onnx-qdq"
    function = main_function(_exportable(module, format))
    files = export_onnx(function, path_of(path), opset=version, format=format, unsigned=unsigned)
    if format == "onnx-qdq":
        warn_of_saturation(function, unsigned=unsigned)
    return files


def _exportable(module: ModuleOp, format: str) -> ModuleOp:
    """Returns a network without sums of integers that the format's operators cannot compute."""
    products = stages.exportable(matrices=format == "tflite")
    if format != "onnx-integer":
        return Pipeline(*products)(module)
    return Pipeline(*_fold_casts(module), *products, *stages.TO_INTEGERS)(module, context_of(module))
