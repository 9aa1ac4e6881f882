"""Makes the files of a bundle and writes them together: all of them appear, or none."""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from qmlir.cli.documents import document
from qmlir.cli.embedded.archive import archive_of
from qmlir.cli.embedded.header import bundle_header
from qmlir.cli.embedded.linked import linked_text, weights_text_of
from qmlir.cli.embedded.manifest import Figures, manifest_fields, numerics_of
from qmlir.cli.embedded.plan import APIS, PLACES, Plan, bundle_name, planned
from qmlir.cli.embedded.selftest import cmake_text, example_text, selftest_text
from qmlir.cli.embedded.steps import step_example_text, step_selftest_text
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
from qmlir.cli.terminal import say
from qmlir.errors import FileError, OptionError, UnsupportedError
from qmlir.running.files import path_of, write_together

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from qmlir.backends.cpu.jit import Executable
    from qmlir.backends.cpu.llvm import Machine
    from qmlir.backends.reference import Reference
    from qmlir.settings.arguments import Network


COPIES = ("memcpy", "memmove", "memset")
"""Functions that code may call on systems with a C library, all of which any program there has."""


@dataclass(frozen=True)
class Asked:
    """What is asked of a bundle; `name`, `api`, `weights` and `archive` are those of `Plan`.

    machine  the processor
    memory   what the code is made for
    debug    whether debug lines name the layers
    """

    name: str
    api: str
    weights: str | None
    archive: bool
    machine: "Machine"
    memory: str
    debug: bool


@dataclass(frozen=True)
class _Made:
    """A bundle to write: the network's code, the files by name, the document first, and the sizes."""

    executable: "Executable"
    contents: Mapping[str, bytes]
    figures: Figures


def bundle(
    module: "Network", directory: str | Path, *, prefix: str | None = None, api: str = "static",
    weights_in: str | None = None, archive: bool = False, cpu: str | None = None, features: str | None = None,
    triple: str | None = None, memory: str = "small", io: str | None = None, debug_info: bool = False,
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

    Returns:
        The files written, of which the first is `manifest.json`, with all sizes.

    Raises:
        OptionError: An argument has no such value.
        UnsupportedError: The network takes batches; it has states or entries with "glow"; or its code calls a library.
        FileError: The folder is a file, or cannot be made.

    >>> import qmlir
    >>> quantized = qmlir.quantize("digits.onnx", data=samples)
    >>> files = qmlir.bundle(quantized, "digits", cpu="cortex-m4", io="int8")
    >>> [path.name for path in files][:3]
    ['manifest.json', 'digits.h', 'digits_vectors.h']
    """
    from qmlir import compiler
    from qmlir.backends.cpu.arguments import machine_given
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


def write_folder(arguments: argparse.Namespace) -> tuple["Executable", list[Path], dict[str, int]]:
    """Writes the bundle that a command line asks for, and prints its files and sizes.

    Returns:
        The network's code, the files, and the sizes for a document.

    Raises:
        OptionError: An option is not for bundles.
        FileError: The folder is a file, or cannot be made.
    """
    from qmlir.backends.cpu.llvm import Machine

    _check(arguments)
    name = bundle_name(arguments.prefix, arguments.model.stem)
    module = load_simplified(arguments)
    if arguments.io is not None:
        from qmlir.compiler import with_interface

        module = with_interface(module, arguments.io)
    model = {"file": arguments.model.name, "sha256": sha256(arguments.model.read_bytes()).hexdigest()}
    machine, api = Machine.of(arguments.cpu, arguments.features, arguments.triple), arguments.api or "static"
    places, debug = (arguments.weights_in, arguments.archive), arguments.debug_info
    asked = Asked(name, api, *places, machine, memory_of(arguments), debug)
    made = _made(asked, module, model)
    files, figures = _written(arguments.output, made.contents), made.figures
    for path in files:
        say(f"{path}: written")
    bound = "" if figures.bound is None else f" (at least {figures.bound} for any plan)"
    stack = "a stack of no known size" if figures.stack is None else f"{figures.stack} of stack"
    say(
        f"{name}: {figures.code} bytes of code, {figures.constants} of weights, {figures.arena} of scratch memory"
        f"{bound}, {stack}"
    )
    sizes = {"weights": figures.constants, "arena": figures.arena, "code": figures.code, "threads": 1}
    return made.executable, files, sizes


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
        ("--target", arguments.target),
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

    from qmlir import compiler
    from qmlir.backends.cpu.llvm import code_bytes, compile_both
    from qmlir.backends.cpu.stack import called_outside, stack_bytes
    from qmlir.ir.entries import signatures_of
    from qmlir.ir.facts import ARENA_BOUND
    from qmlir.ir.signature import entry_functions
    from qmlir.running.machine_code import to_machine_code
    from qmlir.settings.recorded import recorded_quantizer

    machine, memory = asked.machine, asked.memory
    plan = planned(signatures_of(module), asked.name, api=asked.api, weights=asked.weights, archive=asked.archive)
    bounds: dict[str, int] = {}
    for function, call in zip(entry_functions(module), plan.calls, strict=True):
        function.sym_name = StringAttr(call.symbol)
        names = [spec.name for spec in call.signature.flat().inputs]
        bounds |= {names[place]: bound for place, bound in index_bounds(function).items()}
    lowered = compiler.to_integers(module)
    numerics = numerics_of(lowered)
    executable = to_machine_code(lowered, 1, machine, memory=memory, debug_info=asked.debug, later=True)
    if executable.calls_program:
        remedy = "compile it to an .o file, and link it with a program that has them in C"
        raise OptionError("--bundle", "is for networks without operators of the program's own", remedy=remedy)
    word, arena = machine.system.bits, executable.arena_size
    text = executable.llvm_ir + linked_text(plan, executable.weights, arena, word)
    code, assembly = compile_both(text, machine, weights_text_of(plan, executable.weights))
    outside = called_outside(assembly)
    if foreign := sorted(outside - set(COPIES if machine.system.hosted else ())):
        need = "must call no function of a library, as code for floats does where a processor has no instruction"
        remedy = "choose integers with --io, another --cpu, or compile an .o file without --bundle"
        raise UnsupportedError(need, ", ".join(foreign), remedy, where="network")
    depths = [stack_bytes(assembly, plan.called(call)) for call in plan.calls]
    figures = Figures(
        code_bytes(code),
        executable.weights.nbytes,
        arena,
        ARENA_BOUND.of(lowered),
        max((depth for depth in depths if depth is not None), default=None) if None not in depths else None,
    )
    files = {
        f"{plan.name}.h": bundle_header(plan, executable, figures.stack).encode(),
        **_weights(plan, executable),
        **_programs(plan, compiler.reference(module), bounds),
        "CMakeLists.txt": cmake_text(plan).encode(),
        plan.linked: archive_of(f"{plan.name}.o", code, plan.symbols()) if plan.archive else code,
    }
    fields = manifest_fields(plan, model, machine, memory, figures, numerics, files, recorded_quantizer(module))
    return _Made(executable, {"manifest.json": document("bundle", fields).encode(), **files}, figures)


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


def _weights(plan: Plan, executable: "Executable") -> dict[str, bytes]:
    """The files of the weights, if they are not in the object."""
    match plan.weights:
        case "array":
            return {f"{plan.name}_weights.c": weights_text(plan, executable.weights).encode()}
        case "file":
            data = executable.weights.tobytes()
            text = {f"{plan.name}.weights.txt": glow_text(data)} if plan.api == "glow" else {}
            return {f"{plan.name}.weights.bin": data, **text}
        case _:
            return {}
