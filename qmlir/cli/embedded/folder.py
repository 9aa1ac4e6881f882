"""Makes the files of a bundle and writes them together: all of them appear, or none."""

import argparse
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from qmlir.cli.documents import document
from qmlir.cli.embedded.archive import archive_of
from qmlir.cli.embedded.header import bundle_header
from qmlir.cli.embedded.linked import linked_text
from qmlir.cli.embedded.manifest import Figures, manifest_fields, numerics_of
from qmlir.cli.embedded.plan import Plan, bundle_name, entry_of, planned
from qmlir.cli.embedded.selftest import (
    cmake_text,
    drawn_inputs,
    example_text,
    samples_of,
    selftest_text,
    vectors_text,
    weights_text,
)
from qmlir.cli.models import load_simplified, memory_of
from qmlir.cli.terminal import say
from qmlir.errors import FileError, OptionError, UnsupportedError
from qmlir.files import write_together

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from qmlir.backends.cpu.jit import Executable


COPIES = ("memcpy", "memmove", "memset")
"""Functions that code may call on systems with a C library, all of which any program there has."""


def write_folder(arguments: argparse.Namespace) -> tuple["Executable", list[Path], dict[str, int]]:
    """Writes the bundle that a command line asks for, and prints its files and sizes.

    Returns:
        The network's code, the files, and the sizes for a document.

    Raises:
        OptionError: An option is not for bundles.
        FileError: The folder is a file, or cannot be made.
    """
    _check(arguments)
    name = bundle_name(arguments.prefix, arguments.model.stem)
    module = load_simplified(arguments)
    if arguments.io is not None:
        from qmlir.compiler import with_interface

        module = with_interface(module, arguments.io)
    model = {"file": arguments.model.name, "sha256": sha256(arguments.model.read_bytes()).hexdigest()}
    plan, executable, contents, figures = _contents(arguments, name, module, model)
    folder: Path = arguments.output
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(folder, "must be a folder, or its name", got=error) from None
    files = {folder / file: data for file, data in contents.items()}
    write_together({path: partial(_write, data) for path, data in files.items()})
    for path in files:
        say(f"{path}: written")
    bound = "" if figures.bound is None else f" (at least {figures.bound} for any plan)"
    stack = "a stack of no known size" if figures.stack is None else f"{figures.stack} of stack"
    say(
        f"{plan.name}: {figures.code} bytes of code, {figures.constants} of weights, {figures.arena} of scratch memory"
        f"{bound}, {stack}"
    )
    sizes = {"weights": figures.constants, "arena": figures.arena, "code": figures.code, "threads": 1}
    return executable, list(files), sizes


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


def _contents(
    arguments: argparse.Namespace, name: str, module: "ModuleOp", model: dict[str, str]
) -> tuple[Plan, "Executable", dict[str, bytes], Figures]:
    """Returns the plan, the network's code, the files by name, the document first, and the sizes."""
    from xdsl.dialects.builtin import IntegerAttr, StringAttr

    from qmlir import compiler
    from qmlir.backends.cpu.machine import Machine, code_bytes, compile_assembly, compile_object
    from qmlir.backends.cpu.stack import called_outside, stack_bytes
    from qmlir.dialects.loops import ARENA_BOUND
    from qmlir.ir.signature import signature_of

    machine = Machine.of(arguments.cpu, arguments.features, arguments.triple)
    entry = compiler.main_function(module)
    signature = signature_of(entry)
    plan = planned(
        signature, name, api=arguments.api or "static", weights=arguments.weights_in, archive=arguments.archive
    )
    entry.sym_name = StringAttr(entry_of(name, plan.api))
    lowered = compiler.to_integers(module)
    numerics = numerics_of(lowered)
    memory = memory_of(arguments)
    executable = compiler.to_machine_code(lowered, 1, machine, memory=memory)
    if executable.calls_program:
        remedy = "compile it to an .o file, and link it with a program that has them in C"
        raise OptionError("--bundle", "is for networks without operators of the program's own", remedy=remedy)
    reference = compiler.reference(module)
    samples = [
        (given, reference.run_in_order(given))
        for given in (drawn_inputs(signature.inputs, n) for n in range(samples_of(plan)))
    ]
    bound = lowered.attributes.get(ARENA_BOUND)
    text = executable.llvm_ir + linked_text(plan, executable.weights, executable.sizes.arena, machine.system.bits)
    code = compile_object(text, machine)
    first = plan.entry if plan.api == "dynamic" else plan.name if plan.api == "glow" else f"{plan.name}_run"
    assembly = compile_assembly(text, machine)
    stack, outside = stack_bytes(assembly, first), called_outside(assembly)
    if foreign := sorted(outside - set(COPIES if machine.system.hosted else ())):
        need = "must call no function of a library, as code for floats does where a processor has no instruction"
        remedy = "choose integers with --io, another --cpu, or compile an .o file without --bundle"
        raise UnsupportedError(need, ", ".join(foreign), remedy, where="network")
    figures = Figures(
        code_bytes(code),
        executable.sizes.weights,
        executable.sizes.arena,
        bound.value.data if isinstance(bound, IntegerAttr) else None,
        stack,
    )
    files = {
        f"{plan.name}.h": bundle_header(plan, executable, stack).encode(),
        **_weights(plan, executable),
        f"{plan.name}_vectors.h": vectors_text(plan, samples).encode(),
        "selftest.c": selftest_text(plan).encode(),
        "main.c": example_text(plan).encode(),
        "CMakeLists.txt": cmake_text(plan).encode(),
        plan.linked: archive_of(f"{plan.name}.o", code, _symbols(plan)) if plan.archive else code,
    }
    fields = manifest_fields(plan, model, machine, memory, figures, numerics, files)
    return plan, executable, {"manifest.json": document("bundle", fields).encode(), **files}, figures


def _weights(plan: Plan, executable: "Executable") -> dict[str, bytes]:
    """The files of the weights, if they are not in the object."""
    match plan.weights:
        case "array":
            return {f"{plan.name}_weights.c": weights_text(plan, executable.weights).encode()}
        case "file":
            data = executable.weights.tobytes()
            numbers = "".join(f"0X{byte:02X}," for byte in data)  # as Glow writes it, to be included in an array
            text = {f"{plan.name}.weights.txt": numbers.encode()} if plan.api == "glow" else {}
            return {f"{plan.name}.weights.bin": data, **text}
        case _:
            return {}


def _symbols(plan: Plan) -> list[str]:
    """The symbols of the object that programs use."""
    weights = [f"{plan.name}_weights"] if plan.weights == "object" else []
    calls = {"static": [f"{plan.name}_run"], "dynamic": [], "glow": [plan.name]}[plan.api]
    return [plan.entry, *calls, *weights]
