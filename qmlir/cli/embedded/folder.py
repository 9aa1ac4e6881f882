"""Makes the files of a bundle and writes them together: all of them appear, or none."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qmlir.cli.documents import document
from qmlir.cli.embedded.accelerator import (
    Firmware,
    device_header,
    manifest_part,
    model_text,
    network_text,
    routine_symbol,
)
from qmlir.cli.embedded.archive import archive_of
from qmlir.cli.embedded.gemmini import ENCODER, gemmini_files, require_plain
from qmlir.cli.embedded.header import bundle_header
from qmlir.cli.embedded.linked import linked_text, weights_text_of
from qmlir.cli.embedded.manifest import Figures, manifest_fields, numerics_of
from qmlir.cli.embedded.plan import APIS, PLACES, Plan, bundle_name, planned
from qmlir.cli.embedded.selftest import cmake_text, example_text, selftest_text
from qmlir.cli.embedded.steps import step_example_text, step_selftest_text
from qmlir.cli.embedded.told import layers_text, told_layers
from qmlir.cli.embedded.vectors import (
    drawn_inputs,
    glow_text,
    index_bounds,
    samples_of,
    step_vectors_text,
    steps_of,
    vectors_text,
    weights_text,
)
from qmlir.cli.models import load_simplified, memory_of
from qmlir.cli.streams import StateBlock
from qmlir.cli.terminal import say
from qmlir.errors import FileError, OptionError, UnsupportedError
from qmlir.running.files import path_of, write_together

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from qmlir.backends.cpu.jit import Executable
    from qmlir.backends.cpu.llvm import Machine
    from qmlir.backends.reference import Reference
    from qmlir.backends.simulated import Simulated
    from qmlir.devices import Accelerator, Device
    from qmlir.ir.callable_network import CallableNetwork
    from qmlir.numerics import Array
    from qmlir.settings.arguments import Network


COPIES = ("memcpy", "memmove", "memset")
"""Functions that code may call on systems with a C library, all of which any program there has."""


@dataclass(frozen=True)
class Asked:
    """What is asked of a bundle; `name`, `api`, `weights` and `archive` are those of `Plan`.

    machine  the processor
    memory   what the code is made for
    debug    whether debug lines name the layers
    device   the device whose commands compute the network; None if the processor computes all of it
    layers   whether the code tells a function where layers begin and end
    """

    name: str
    api: str
    weights: str | None
    archive: bool
    machine: "Machine"
    memory: str
    debug: bool
    device: "Device | None" = None
    layers: bool = False


@dataclass(frozen=True)
class _Made:
    """A bundle to write: the network as it runs, the files by name, the document first, and the sizes."""

    network: "CallableNetwork"
    contents: Mapping[str, bytes]
    figures: Figures


def bundle(
    module: "Network", directory: str | Path, *, prefix: str | None = None, api: str = "static",
    weights_in: str | None = None, archive: bool = False, cpu: str | None = None, features: str | None = None,
    triple: str | None = None, memory: str = "small", io: str | None = None, debug_info: bool = False,
    target: "Accelerator | None" = None, layers: bool = False,
) -> list[Path]:  # fmt: skip
    """Writes a bundle: a folder with the object of a network and all that a program in C takes beside it.

    Args:
        module: A network, or its path; it stays unchanged.
        directory: The folder, which is made if it does not exist.
        prefix: The prefix of all symbols and files; by default the name of the model's file, or of the folder.
        api: How programs call the network: "static", with weights and scratch memory inside the object; "dynamic", with
            memory of their own; or "glow", as Glow's bundles are called.
        weights_in: Where the weights are: "object", a section of the object; "array", a file in C; or "file". By
            default the object, and files for "glow".
        archive: Whether the object lies in a static library.
        cpu: The processor, as for `qmlir.compile`.
        features: Features to switch on and off in addition.
        triple: The architecture and system.
        memory: "small" for as little scratch memory as possible, or "fast".
        io: What the network takes and gives: "int8", "uint8", "int16" or "float"; by default what the module says.
        debug_info: Whether debug lines name the layers, as for `qmlir.compile`.
        target: An accelerator, its name, or the path of its file: the bundle then has its program, a runtime in C, and
            the code of what the processor, its host, computes.
        layers: Whether the code calls a function of the program's, `PREFIX_layer`, where each layer begins and ends,
            with the layer's result.

    Returns:
        The files written, of which the first is `manifest.json`, with all sizes.

    Raises:
        OptionError: An argument has no such value.
        UnsupportedError: The network takes batches; it has states or entries with "glow", or entries on a device; or
            its code calls a library.
        FileError: The folder is a file, or cannot be made.

    >>> import qmlir
    >>> quantized = qmlir.quantize("digits.onnx", data=samples)
    >>> files = qmlir.bundle(quantized, "digits", cpu="cortex-m4", io="int8")
    >>> [path.name for path in files][:3]
    ['manifest.json', 'digits.h', 'digits_vectors.h']
    """
    from qmlir import compiler
    from qmlir.backends.cpu.arguments import machine_given
    from qmlir.devices import load_device
    from qmlir.frontends.opaque import refuse_opaque
    from qmlir.ir.weights import WeightsMode, module_text
    from qmlir.settings import arguments

    folder = path_of(directory, "directory")
    name = None if prefix is None else arguments.text_given("prefix", prefix)
    place = None if weights_in is None else arguments.choice_given("weights_in", weights_in, PLACES)
    asked = Asked(
        bundle_name(name, Path(module).stem if isinstance(module, str | Path) else folder.resolve().name),
        arguments.choice_given("api", api, APIS),
        place,
        arguments.flag_given("archive", archive),
        machine_given(cpu, features, triple),
        arguments.memory_given(memory, 1),
        arguments.flag_given("debug_info", debug_info),
        None if target is None else load_device(target),
        arguments.flag_given("layers", layers),
    )
    source = compiler.loaded(module)
    refuse_opaque(source, "the network" if not isinstance(module, str | Path) else str(module))
    if isinstance(module, str | Path):
        model = {"file": Path(module).name, "sha256": sha256(Path(module).read_bytes()).hexdigest()}
    else:
        model = {"file": None, "sha256": sha256(module_text(source, WeightsMode.INLINE).encode()).hexdigest()}
    if io is not None:
        source = compiler.with_interface(source, io)
    made = _made(asked, source.clone(), model)
    return _written(folder, made.contents)


def write_folder(
    arguments: argparse.Namespace,
) -> tuple["CallableNetwork", list[Path], dict[str, int], dict[str, Any] | None]:
    """Writes the bundle that a command line asks for, and prints its files and sizes.

    Returns:
        The network as it runs, the files, the sizes of the code for a document, and figures of a device's program.

    Raises:
        OptionError: An option is not for bundles.
        FileError: The folder is a file, or cannot be made.
    """
    from qmlir.backends.cpu.llvm import Machine
    from qmlir.devices import load_device

    _check(arguments)
    name = bundle_name(arguments.prefix, arguments.model.stem)
    machine, api = Machine.of(arguments.cpu, arguments.features, arguments.triple), arguments.api or "static"
    device = None if arguments.target is None else load_device(arguments.target)
    places, debug = (arguments.weights_in, arguments.archive), arguments.debug_info
    asked = Asked(name, api, *places, machine, memory_of(arguments), debug, device, arguments.layers)
    module = load_simplified(arguments)
    if arguments.io is not None:
        from qmlir.compiler import with_interface

        module = with_interface(module, arguments.io)
    model = {"file": arguments.model.name, "sha256": sha256(arguments.model.read_bytes()).hexdigest()}
    made = _made(asked, module, model)
    files, figures = _written(arguments.output, made.contents), made.figures
    program = None
    if device is not None:
        from qmlir.backends.simulated import Simulated
        from qmlir.cli.device import print_program

        assert isinstance(made.network, Simulated)
        program = print_program(made.network, files)
    else:
        for path in files:
            say(f"{path}: written")
    bound = "" if figures.bound is None else f" (at least {figures.bound} for any plan)"
    stack = "a stack of no known size" if figures.stack is None else f"{figures.stack} of stack"
    held = "weights" if device is None else "program and constants"
    say(
        f"{name}: {figures.code} bytes of code, {figures.constants} of {held}, {figures.arena} of scratch memory"
        f"{bound}, {stack}"
    )
    sizes = {"weights": figures.constants, "arena": figures.arena, "code": figures.code, "threads": 1}
    return made.network, files, sizes, program


def _written(folder: Path, contents: Mapping[str, bytes]) -> list[Path]:
    """Writes files into a folder, all or none, and returns them."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(folder, "must be a folder, or its name", got=error) from None
    files = {folder / file: data for file, data in contents.items()}
    write_together({path: partial(_write, data) for path, data in files.items()})
    return list(files)


def _write(data: bytes, path: Path) -> None:
    path.write_bytes(data)


def _check(arguments: argparse.Namespace) -> None:
    for option, given in (
        ("--threads", None if arguments.threads in (None, 1) else arguments.threads),
        ("--batch", arguments.batch),
        ("--emit", None if arguments.emit == "obj" else arguments.emit),
    ):
        if given is not None:
            remedy = "leave it out, or write an .o file without --bundle"
            raise OptionError(option, "is not for bundles", got=str(given), remedy=remedy)
    if arguments.output.suffix in (".o", ".ll", ".s", ".npu"):
        need = "must be a folder with --bundle"
        raise OptionError("--output", need, got=str(arguments.output), remedy="name a folder")


def _made(asked: Asked, module: "ModuleOp", model: Mapping[str, str | None]) -> _Made:
    """Makes a bundle of a module, which it changes."""
    from xdsl.dialects.builtin import StringAttr

    from qmlir.ir.entries import signatures_of
    from qmlir.ir.signature import entry_functions

    named = None if asked.device is None else asked.device.name
    signatures = signatures_of(module)
    plan = planned(
        signatures, asked.name, api=asked.api, weights=asked.weights, archive=asked.archive, device=named,
        layers=asked.layers,
    )  # fmt: skip
    bounds: dict[str, int] = {}
    for function, call in zip(entry_functions(module), plan.calls, strict=True):
        function.sym_name = StringAttr(call.symbol)
        names = [spec.name for spec in call.signature.flat().inputs]
        bounds |= {names[place]: bound for place, bound in index_bounds(function).items()}
    make = _on_the_processor if asked.device is None else _on_a_device
    return make(asked, plan, module, model, bounds)


def _on_the_processor(
    asked: Asked, plan: Plan, module: "ModuleOp", model: Mapping[str, str | None], bounds: Mapping[str, int]
) -> _Made:
    """Makes a bundle of a network that the processor computes."""
    from qmlir import compiler
    from qmlir.analysis.layers import number_layers
    from qmlir.backends.cpu.stack import stack_bytes
    from qmlir.devices.legality.limits import source_nodes
    from qmlir.ir.facts import ARENA_BOUND
    from qmlir.running.machine_code import to_machine_code
    from qmlir.settings.recorded import recorded_quantizer

    lowered = compiler.to_integers(module)
    numerics = numerics_of(lowered)
    names: list[str] = [source_nodes(op) for op in number_layers(lowered)] if asked.layers else []
    executable = to_machine_code(
        lowered, 1, asked.machine, memory=asked.memory, debug_info=asked.debug, later=True, hook=plan.hook
    )
    layers = told_layers(lowered, names) if asked.layers else []
    if executable.calls_program:
        remedy = "compile it to an .o file, and link it with a program that has them in C"
        raise OptionError("--bundle", "is for networks without operators of the program's own", remedy=remedy)
    plan = _renewing(plan, executable)
    word, arena = asked.machine.system.bits, executable.arena_size
    text = executable.llvm_ir + linked_text(plan, executable.weights, arena, word)
    code, size, assembly = _object(asked, plan, text, executable.weights, layers_text(plan, layers))
    depths = [stack_bytes(assembly, plan.called(call)) for call in plan.calls]
    figures = Figures(size, executable.weights.nbytes, arena, ARENA_BOUND.of(lowered), _deepest(depths))
    files = {
        f"{plan.name}.h": bundle_header(plan, executable, figures.stack, layers).encode(),
        **_weights(plan, executable.weights),
        **_programs(plan, compiler.reference(module), bounds),
        "CMakeLists.txt": cmake_text(plan).encode(),
        plan.linked: code,
    }
    quantizer = recorded_quantizer(module)
    fields = manifest_fields(plan, model, asked.machine, asked.memory, figures, numerics, files, quantizer, None)
    return _Made(executable, {"manifest.json": document("bundle", fields).encode(), **files}, figures)


def _renewing(plan: Plan, executable: "Executable") -> Plan:
    """A plan in which states have one place in the block if the code renews them there."""
    if plan.block is None:
        return plan
    entries = executable.entries or {executable.entry: executable}
    known = {state.argument.name: state for each in entries.values() for state in each.signature.states}
    return replace(plan, block=StateBlock.of([known[state.argument.name] for state in plan.block.states]))


def _object(asked: Asked, plan: Plan, text: str, weights: "Array", beside: str = "") -> tuple[bytes, int, str]:
    """Compiles LLVM IR, what is linked with it, and the weights to the file to link.

    Returns:
        The file, the bytes of machine code in it, and the assembly text of the code.

    Raises:
        UnsupportedError: The code calls a function that no bundle has.
    """
    from qmlir.backends.cpu.llvm import code_bytes, compile_both
    from qmlir.backends.cpu.stack import called_outside

    code, assembly = compile_both(text, asked.machine, weights_text_of(plan, weights) + beside)
    outside = called_outside(assembly) - {plan.hook}
    if foreign := sorted(outside - set(COPIES if asked.machine.system.hosted else ())):
        need = "must call no function of a library, as code for floats does where a processor has no instruction"
        remedy = "choose integers with --io, another --cpu, or compile an .o file without --bundle"
        raise UnsupportedError(need, ", ".join(foreign), remedy, where="network")
    linked = archive_of(f"{plan.name}.o", code, plan.symbols()) if plan.archive else code
    return linked, code_bytes(code), assembly


def _deepest(depths: Sequence[int | None]) -> int | None:
    """The most bytes of stack of several calls; None if one of them is not known."""
    known = [depth for depth in depths if depth is not None]
    return max(known, default=0) if len(known) == len(depths) else None


def _on_a_device(
    asked: Asked, plan: Plan, module: "ModuleOp", model: Mapping[str, str | None], bounds: Mapping[str, int]
) -> _Made:
    """Makes a bundle of a network that a device computes, with the processor as its host."""
    from qmlir import compiler
    from qmlir.backends.cpu.stack import stack_bytes
    from qmlir.backends.npu import firmware as parts
    from qmlir.settings.recorded import recorded_quantizer

    device = asked.device
    assert device is not None
    if device.encoder == ENCODER:
        require_plain(plan)
    network = compiler.compile(module, target=device)
    own = network.layered if device.encoder == ENCODER else None
    parts.require_aligned(network.program)
    plan = replace(plan, routines=[routine_symbol(plan, n) for n, _ in enumerate(network.program.routines)])
    firmware = Firmware(network.program, device, _host(asked, plan, network))
    weights, depths, size = firmware.weights, list[int | None](), 0
    linked: dict[str, bytes] = {}
    if plan.has_object:
        text = "" if firmware.host is None else firmware.host.llvm_ir
        code, size, assembly = _object(asked, plan, text, weights)
        linked[plan.linked] = code
        depths = [stack_bytes(assembly, symbol) for symbol in plan.routines]
    below = _deepest(depths)
    stack = None if below is None else below + parts.stack_bytes(network.program, asked.machine.system.bits)
    figures = Figures(size, weights.nbytes, firmware.arena, None, stack)
    files = {
        f"{plan.name}.h": device_header(plan, firmware, stack).encode(),
        f"{plan.name}.c": network_text(plan, firmware).encode(),
        f"{plan.name}_model.c": model_text(plan, firmware, parts.model_files(network.program, device)).encode(),
        **{name: text.encode() for name, text in parts.runtime_files().items()},
        **_weights(plan, weights),
        **_programs(plan, compiler.reference(module, device), bounds),
        "CMakeLists.txt": cmake_text(plan).encode(),
        **linked,
        **({} if own is None else gemmini_files(plan, firmware, own)),
    }
    numerics, quantizer = numerics_of(compiler.to_integers(module, device)), recorded_quantizer(module)
    part = manifest_part(firmware)
    fields = manifest_fields(plan, model, asked.machine, asked.memory, figures, numerics, files, quantizer, part)
    return _Made(network, {"manifest.json": document("bundle", fields).encode(), **files}, figures)


def _host(asked: Asked, plan: Plan, network: "Simulated") -> "Executable | None":
    """The code of the routines of a device's host, an entry for each; None if there are none."""
    from xdsl.dialects import func
    from xdsl.dialects.builtin import ModuleOp, StringAttr

    from qmlir.running.machine_code import to_machine_code

    known = {op.sym_name.data: op for op in network.routines.ops if isinstance(op, func.FuncOp)}
    functions: list[func.FuncOp] = []
    for routine, symbol in zip(network.program.routines, plan.routines, strict=True):
        function = known[routine.name].clone()
        function.properties.pop("sym_visibility", None)
        function.sym_name = StringAttr(symbol)
        functions.append(function)
    if not functions:
        return None
    executable = to_machine_code(ModuleOp(functions), 1, asked.machine, memory=asked.memory, debug_info=asked.debug)
    if executable.calls_program:
        remedy = "write an .npu file, which Python runs"
        raise OptionError("--bundle", "is for networks without operators of the program's own", remedy=remedy)
    return executable


def _programs(plan: Plan, reference: "Reference", bounds: Mapping[str, int]) -> dict[str, bytes]:
    """The self-test with its vectors, and the example."""
    if plan.block is not None or len(plan.calls) > 1:
        steps = steps_of(plan, reference, bounds)
        vectors, texts = step_vectors_text(plan, steps), (step_selftest_text(plan, steps), step_example_text(plan))
    else:
        inputs = plan.first.signature.inputs
        drawn = [drawn_inputs(inputs, n, bounds) for n in range(samples_of(plan.first))]
        samples = [(given, reference.run_in_order(given)) for given in drawn]
        vectors, texts = vectors_text(plan, samples), (selftest_text(plan), example_text(plan))
    files = {f"{plan.name}_vectors.h": vectors, "selftest.c": texts[0], "main.c": texts[1]}
    return {name: text.encode() for name, text in files.items()}


def _weights(plan: Plan, weights: "Array") -> dict[str, bytes]:
    """The files of the weights, if they are not in the object."""
    match plan.weights:
        case "array":
            return {f"{plan.name}_weights.c": weights_text(plan, weights).encode()}
        case "file":
            data = weights.tobytes()
            text = {f"{plan.name}.weights.txt": glow_text(data)} if plan.api == "glow" else {}
            return {f"{plan.name}.weights.bin": data, **text}
        case _:
            return {}
