"""The functions that users call. Stages of passes (stages.py) meet only here."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, overload

from xdsl.dialects.builtin import ModuleOp

from qmlir import arguments
from qmlir.arguments import Network
from qmlir.dialects.inputs import note_reading
from qmlir.errors import OptionError, ProfileError
from qmlir.files import path_of
from qmlir.frontends import read_network
from qmlir.frontends.cut import Cut
from qmlir.frontends.opaque import refuse_opaque
from qmlir.frontends.torch_modules import TorchModule, example_for, file_of, is_torch_module, refuse_torch_module
from qmlir.ir.budget import BUDGET, limit
from qmlir.ir.callable_network import Calibration
from qmlir.ir.context import QmlirContext, make_context
from qmlir.ir.facts import DEVICE
from qmlir.ir.garbage import collected_rarely
from qmlir.ir.interfaces import Array
from qmlir.ir.passes import Pipeline, configured_pass
from qmlir.ir.reading import ReadingNotes
from qmlir.ir.signature import main_function
from qmlir.ir.states import bind_states, states_of
from qmlir.ir.upstream.tosa_0_80 import is_tosa
from qmlir.ir.verify import require_module, verify
from qmlir.settings.fields import FORMATS as EXPORT_FORMATS
from qmlir.settings.quant_config import QuantConfig, QuantOptions, config_of
from qmlir.stages import FOLD_CASTS as FOLD_CASTS
from qmlir.stages import IMPORTED as IMPORTED
from qmlir.stages import OBSERVE as OBSERVE
from qmlir.stages import QUANTIZE as QUANTIZE
from qmlir.stages import SIMPLIFY as SIMPLIFY
from qmlir.stages import TO_COMMANDS as TO_COMMANDS
from qmlir.stages import TO_INTEGERS as TO_INTEGERS
from qmlir.stages import TO_LAYERS as TO_LAYERS
from qmlir.stages import TO_LLVM as TO_LLVM
from qmlir.stages import TO_LOOPS as TO_LOOPS

if TYPE_CHECKING:
    from qmlir.backends.cpu.jit import Executable
    from qmlir.backends.cpu.machine import Machine
    from qmlir.backends.reference import Reference
    from qmlir.backends.simulated import Simulated
    from qmlir.devices import Accelerator
    from qmlir.ir.signature import Signature
    from qmlir.policies.ledger import Decisions
    from qmlir.profiles.profile import Profile
    from qmlir.profiling import Profiler
    from qmlir.settings.policy import Policy


PARTIAL = 'Pipeline(("apply-profile", {"file": …, "partial": True}))'
"""The Python call that accepts a profile without some tensors; `quantize` names it in errors."""

VERIFY_LOOPS = False
"""Whether `compile` verifies the module between the passes below qint."""


@collected_rarely
def load(
    path: "str | Path | TorchModule", bind: Mapping[str, int] | None = None,
    constants: Mapping[str, Array] | None = None, *, example: Any = None,
    numerics: str | None = None, signature: str | None = None, fold_budget: int = BUDGET,
    weights: str | Path | None = None, shapes: Mapping[str, str | Sequence[int]] | None = None,
    state: Mapping[str, str] | None = None,
    inputs: str | Sequence[str] | None = None, outputs: str | Sequence[str] | None = None,
) -> ModuleOp:  # fmt: skip
    """Reads a network from a file, or from a module of PyTorch.

    Args:
        path: An `.onnx`, `.tflite` or Caffe2 file (`.pb`, `.pbtxt`), an `.mlir` file of nn or of tosa, or a
            `torch.nn.Module`, which PyTorch's exporter writes as ONNX.
        example: What a module of PyTorch is called with: an array, a tuple of arrays, or a dict of them by parameter.
        bind: Values for the symbolic dimensions of an .onnx file; an unbound first dimension is 1.
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
    from_tosa = ("tosa-to-nn", "inline") if any(map(is_tosa, module.walk())) else ()
    if from_tosa or source.suffix != ".mlir":
        Pipeline(*from_tosa, "fold-fake-quant").apply(module, make_context())
    limit(module, fold_budget)
    if state:
        bind_states(main_function(module), arguments.name_pairs_given("state", state))
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
        Pipeline(*SIMPLIFY if simplified else ()).apply(module, make_context())
        return module
    refuse_torch_module(network)
    require_module(network)
    return network


def profile(module: Network, samples: Calibration, bins: int = 2000, *, per_channel: bool = False) -> "Profile":
    """Learns the ranges of a float network's tensors by running the compiled network on samples.

    Args:
        module: A float network, or its path; it stays unchanged.
        samples: Arrays for the only input, or dicts of them by name. To a network with states they are one sequence,
            and a list of them is a sequence of its own.
        bins: The most bins a histogram may have.
        per_channel: Whether to learn the same for each channel, along the last axis, too.

    Raises:
        ProfileError: No sample was given, a tensor was not finite on a sample, or there is nothing to profile.
        QmlirError: The network has operations that qmlir does not know.

    >>> import qmlir
    >>> qmlir.profile("digits.onnx", samples).samples == len(samples)
    True
    """
    profiler, network = profiler_of(module, bins, per_channel=per_channel)
    return with_samples(profiler.profile(compile(network), arguments.samples_given(samples)))


def profiler_of(module: Network, bins: int, *, per_channel: bool) -> "tuple[Profiler, ModuleOp]":
    """Returns what learns the ranges of a float network's tensors, and the network that it runs; see `profile`."""
    from qmlir.profiling import Profiler

    most, by_channel = arguments.integer_given("bins", bins), arguments.flag_given("per_channel", per_channel)
    module = loaded(module)
    refuse_opaque(module, "the network")
    observed = Pipeline(*OBSERVE)(module)
    network = Pipeline("observers-to-results")(observed)
    return Profiler(observed, most, per_channel=by_channel), network


def with_samples(found: "Profile") -> "Profile":
    """Returns a profile; raises `ProfileError` if it is over no samples."""
    if not found.samples:
        raise ProfileError("calibration data", "must hold at least one sample", got="none")
    return found


learn = profile
"""`profile` under a name that no argument hides."""


@collected_rarely
def quantize(
    module: "Network | TorchModule",
    profile: "Profile | str | Path | None" = None,
    *,
    data: Calibration | None = None,
    fail_on_float: bool = False,
    policy: "Policy | Mapping[str, Any] | str | Path | None" = None,
    target: "Accelerator | None" = None,
    runtime: str | None = None,
    preprocess: str | None = None,
    dtype: str | None = None,
    memory_budget: int | None = None,
    io: str | None = None,
    example: Any = None,
    **options: Unpack[QuantOptions],
) -> ModuleOp:
    """Returns a network on quantized types, made from a float network and the ranges of its tensors.

    Args:
        module: A float network, its path, or a `torch.nn.Module`; it stays unchanged.
        profile: The ranges, or the path of a profile; None if the module's observers hold them, or if `data` are to be
            profiled first.
        data: Samples, as for profiling. They serve to equalize channels, to find inputs that are integers times a
            step, to round weights and to correct biases layer by layer. None skips all of this. If neither a profile
            nor the module has ranges, they are learned from these samples.
        fail_on_float: Whether to raise an error if an operation stays float.
        policy: Rules for single operations, the same as plain data, or the path of a file of rules; its options, such
            as data and target, are the arguments that are left out here.
        target: A device, its name, or the path of its file. The device's requirements become the defaults, and an
            option that the device does not support is an error. The module keeps the device, so that `reference` and
            `compile` round as the device does.
        runtime: The runtime that the network is quantized for, whose defaults for other options then hold:
            "onnxruntime" (its fastest kernels exact on every x86 processor: unsigned activations, weights of 7 bits).
        preprocess: How pictures became these samples, as `qmlir --preprocess` reads it. The module keeps the text, and
            commands that read pictures for the module follow it. By default, it is what samples of
            `qmlir.read_samples` or the profile say.
        dtype: The element type in which raw files hold these samples; the module keeps it in the same way.
        memory_budget: Bytes that the values of all samples may take while weights are rounded and biases are corrected;
            a warning says if this allows fewer samples than given. By default 512 MiB.
        io: What the quantized network takes and gives: "int8", "uint8" or "int16", with the network's own scales and
            zero points, or "float". By default, floats stay floats.
        example: What a module of PyTorch is called with, as for `load`; by default the first of the samples.
        **options: The fields of `QuantConfig` (settings/quant_config.py), which says what each of them means: schema,
            precision, weight_precision, calibration, per_channel, granularity, bias, rounding, residuals, glow_exact.
            An option of None has its default, or what the target asks for.

    >>> import qmlir
    >>> q = qmlir.quantize("digits.onnx", data=samples, schema="symmetric")
    >>> {entry.outcome for entry in qmlir.decisions(q)}
    {'quantized'}
    """
    from qmlir.settings.fields import RUNTIMES
    from qmlir.settings.recorded import record_quantizer
    from qmlir.settings.resolve import resolve
    from qmlir.transforms.quantize.apply_profile import apply_profile
    from qmlir.transforms.quantize.before_ranges import check_before_ranges
    from qmlir.transforms.quantize.fold_qdq import is_as_imported
    from qmlir.transforms.quantize.observers import without_observers
    from qmlir.transforms.quantize.quantize import learns_ranges

    shown = example_for(module, data, example)
    network = load(module, example=shown) if is_torch_module(module) else loaded(module)
    result, rules = network.clone(), arguments.policy_given(policy)
    asked = arguments.options_given("quantize", options, QuantConfig().options())
    runtime = None if runtime is None else arguments.choice_given("runtime", runtime, list(RUNTIMES))
    settings = resolve(rules, asked, base=config_of(result), runtime=runtime, target=target)
    config = settings.config()
    if target is not None:
        from qmlir.devices import text_of

        DEVICE.put(result, text_of(target))
    context = context_of(result)
    if memory_budget is not None:
        context.samples_budget = arguments.integer_given("memory_budget", memory_budget)
    if data is not None:
        given = arguments.samples_given(data)
        context.samples[""] = samples = list(given) if isinstance(given, Iterator) else given  # both steps read them
        if profile is None and learns_ranges(result):
            check_before_ranges(result, rules, settings)
            profile = learn(result, samples)
        if states_of(main_function(result)):
            context.samples[""] = list(compile(without_observers(result)).replayed(samples))
    if profile is not None:
        held, source = arguments.profile_given(profile)
        apply_profile(result, held, source=source, switch=PARTIAL)
        note_reading(result, held.notes)
    if isinstance(notes := getattr(data, "notes", None), ReadingNotes):  # of samples that were read from files
        note_reading(result, notes)
    texts = {"preprocess": preprocess, "dtype": dtype}
    note_reading(result, ReadingNotes(**{n: arguments.text_given(n, t) for n, t in texts.items() if t is not None}))
    Pipeline(*() if target is None else ("settle-transposes",)).apply(result, context)  # devices take single samples
    step = configured_pass("quantize", {"fail_on_float": fail_on_float})
    context.policy = rules.with_default(config.options())
    if profile is not None or not is_as_imported(result):  # else its own file says how it is quantized
        record_quantizer(result, config, rules)
    step.apply(context, result)
    if io is not None:
        result = with_interface(result, io)
    verify(result)
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
    return Pipeline(*_fold_casts(module), *TO_INTEGERS)(module, context_of(module, target))


def _fold_casts(module: ModuleOp) -> Sequence[str]:
    """Returns the stage that folds the casts of a module that is as imported; none for other modules."""
    from qmlir.transforms.quantize.fold_qdq import is_as_imported

    return FOLD_CASTS if is_as_imported(module) else ()


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
        from qmlir.devices.requirements import target_of_device

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
    from qmlir.backends.reference import Reference

    module = loaded(module)
    refuse_opaque(module, "the network")
    return Reference(main_function(to_integers(module, target)))


def with_interface(module: ModuleOp, io: str) -> ModuleOp:
    """Returns a quantized network that takes and gives integers or floats, as `io` says: "int8", …, "float"."""
    from qmlir.transforms.quant.set_interface import INTERFACES

    return Pipeline(("set-interface", {"type": arguments.choice_given("io", io, INTERFACES)}))(module)


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
    sharers = arguments.integer_given("threads", threads)
    machine = arguments.machine_given(cpu, features, triple, target)
    arguments.require_threads(sharers, machine)
    source = loaded(module)
    refuse_opaque(source, "the network" if isinstance(module, ModuleOp) else str(module))
    if io is not None:
        source = with_interface(source, io)
    if batch is not None:
        source = Pipeline(("batch-samples", {"most": arguments.batch_given(batch, target)}))(source)
    lowered = to_integers(source, target)
    if target is None:
        debug, chosen = arguments.flag_given("debug_info", debug_info), arguments.memory_given(memory, sharers)
        return to_machine_code(lowered, sharers, machine, memory=chosen, debug_info=debug)
    from qmlir.backends.simulated import simulated
    from qmlir.devices import text_of

    to_npu, fuse = TO_LAYERS
    Pipeline((to_npu, {"device": text_of(target)}), fuse).apply(lowered, make_context(), verify_each=VERIFY_LOOPS)
    entries = decisions(lowered)
    Pipeline(*TO_COMMANDS).apply(lowered, make_context(), verify_each=VERIFY_LOOPS)
    return simulated(lowered, lambda routine: to_machine_code(routine, sharers).run_in_order, entries)


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

    return load_simulated(path_of(path), load_device(target), lambda routine: to_machine_code(routine).run_in_order)


@collected_rarely
def to_machine_code(
    module: ModuleOp, threads: int = 1, machine: "Machine | None" = None, *, counter: str | None = None,
    memory: str = "fast", debug_info: bool = False,
) -> "Executable":  # fmt: skip
    """Compiles a network on the qint level to machine code; its passes change `module` in place.

    Args:
        module: The network.
        threads: Threads that one call may use.
        machine: The processor to generate code for; by default this one.
        counter: The counter that the code reads around each call of a kernel, an option of `time-calls`; the readings
            are one more output, behind the others. None for code without.
        memory: "fast", or "small" for kernels and a plan of the arena that take little memory.
        debug_info: Whether debug lines name the layers.
    """
    from qmlir.backends.cpu import Machine, build

    entry = main_function(module).sym_name.data
    machine = machine or Machine.host()
    signature = to_planned_loops(module, threads, machine, counter=counter, memory=memory)
    to_llvm = (TO_LLVM[-1], {"features": _enabled(machine), "index_bitwidth": machine.system.bits})
    Pipeline(to_llvm).apply(module, make_context(), verify_each=VERIFY_LOOPS)
    return build(module, signature, entry=entry, machine=machine, debug_info=debug_info)


def to_planned_loops(
    module: ModuleOp, threads: int = 1, machine: "Machine | None" = None, *, counter: str | None = None,
    memory: str = "fast",
) -> "Signature":  # fmt: skip
    """Lowers a network on the qint level to loops on one arena of memory; its passes change `module` in place.

    Args:
        module: The network.
        threads: Threads that one call may use.
        machine: The processor to generate code for; by default this one.
        counter: As for `to_machine_code`.
        memory: As for `to_machine_code`.

    Returns:
        The inputs and outputs of the code.
    """
    from qmlir.backends.cpu import Machine
    from qmlir.ir.signature import signature_of
    from qmlir.transforms.loops.hoist_scratch import LEAST_SMALL

    function = main_function(module)
    signature = signature_of(function)
    # There are thousands of scalar operations: verifying them takes longer than the passes do. The tests verify them.
    timing = () if counter is None else (("time-calls", {"counter": counter}),)
    small = {"memory": memory} if memory != "fast" else {}
    features = {"features": _enabled(machine or Machine.host())} | small
    halves, tabulate, nn_to_loops, qint_to_loops, finish = TO_LOOPS
    loops = Pipeline(halves, tabulate, (nn_to_loops, features), (qint_to_loops, features), finish, *timing)
    loops.apply(module, make_context(), verify_each=VERIFY_LOOPS)
    if timing:
        readings = signature_of(function).inputs[-1]  # results are arguments on this level, the readings the last
        signature = replace(signature, outputs=(*signature.outputs, readings))
    share, hoist, plan, _ = TO_LLVM
    hoisting = (hoist, {"least": LEAST_SMALL}) if small else hoist
    striping = ("stripe-calls",) if small else ()
    Pipeline((share, {"threads": threads}), hoisting, *striping, (plan, small)).apply(
        module, make_context(), verify_each=VERIFY_LOOPS
    )
    return signature


def _enabled(machine: "Machine") -> str:
    """The features of a processor as passes take them: `+avx2,+fma`."""
    from qmlir.backends.cpu import enabled

    return ",".join(f"+{name}" for name in sorted(enabled(machine)))


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

    written = _exportable(module, format)
    version = DEFAULT_OPSET if opset is None else arguments.integer_given("opset", opset)
    unsigned = unsigned and format == "onnx-qdq"
    function = main_function(written)
    files = export_onnx(function, path_of(path), opset=version, format=format, unsigned=unsigned)
    if format == "onnx-qdq":
        warn_of_saturation(function, unsigned=unsigned)
    return files


def _exportable(module: ModuleOp, format: str) -> ModuleOp:
    """Returns a network without sums of integers that the format's operators cannot compute."""
    products = "float-products", {"matrices": format == "tflite"}
    if format != "onnx-integer":
        return Pipeline(products)(module)
    return Pipeline(*_fold_casts(module), products, *TO_INTEGERS)(module, context_of(module))
