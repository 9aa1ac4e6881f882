"""Writes a network in the form that a user runs it in: another runtime's file, machine code, or a device's program.

`qmlir export` and `qmlir compile` write one form each. `qmlir quantize` writes the form that its output's suffix names.
"""

import argparse
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qmlir.cli import device
from qmlir.cli.documents import add_json_option, signature_fields, write_document
from qmlir.cli.flags import ArgumentParser, choice, file_of, one_of
from qmlir.cli.models import (
    add_code_options,
    add_processor_options,
    compiled,
    load_simplified,
    memory_of,
    name_functions,
)
from qmlir.cli.printed_options import add_config_file_options
from qmlir.cli.terminal import say
from qmlir.errors import OptionError
from qmlir.settings.fields import ACTIVATIONS

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from qmlir.backends.cpu.jit import Executable
    from qmlir.ir.callable_network import CallableNetwork

CODE_SUFFIXES = {"obj": ".o", "llvm-ir": ".ll", "asm": ".s"}

# ---------------------------------------------------------------------------------------------------------------
# `qmlir export`: a file for another runtime.


def add_export_options(parser: ArgumentParser) -> None:
    """Adds the options of `qmlir export`."""
    parser.add_options("format", "onnx-activations", "opset")
    parser.add_argument("-o", "--output", type=file_of(".onnx", ".tflite"), required=True, help="the file to write")
    add_json_option(parser)


def run_export(arguments: argparse.Namespace) -> None:
    """Writes a network for another runtime."""
    _check_export(arguments)
    from qmlir.compiler import main_function
    from qmlir.ir.signature import signature_of

    module = load_simplified(arguments)
    files = _export(module, arguments)
    _say_written(files)
    fields = {"model": str(arguments.model), "files": [str(file) for file in files]}
    write_document(arguments, "export", fields | signature_fields(signature_of(main_function(module))))


def _check_export(arguments: argparse.Namespace) -> None:
    """Refuses options of ONNX files for a TFLite file."""
    form = arguments.format or ("tflite" if arguments.output.suffix == ".tflite" else "onnx-qdq")
    for option, given in (("--onnx-activations", arguments.onnx_activations), ("--opset", arguments.opset)):
        if given is not None and form == "tflite":
            raise OptionError(option, "is for .onnx files", got=f"-o {arguments.output}", remedy="leave it out")
    if arguments.onnx_activations is not None and form != "onnx-qdq":
        raise OptionError("--onnx-activations", "is for the format onnx-qdq", got=form, remedy="leave it out")


def _export(module: "ModuleOp", arguments: argparse.Namespace) -> list[Path]:
    from qmlir.compiler import export

    activations = arguments.onnx_activations or ACTIVATIONS[0]
    return export(module, arguments.output, format=arguments.format, opset=arguments.opset, activations=activations)


def _say_written(files: Iterable[Path]) -> None:
    for file in files:
        say(f"{file}: written")


# ---------------------------------------------------------------------------------------------------------------
# `qmlir compile`: machine code, or a device's program.


def add_compile_options(parser: ArgumentParser) -> None:
    """Adds the options of `qmlir compile`."""
    help = (
        "what to write (default: obj); with --target, the device's words as bytes, Intel HEX, $readmemh or a C array, "
    )
    help += "or what its encoder writes besides: a driver's registers in C, or a folder of traces"
    parser.add_argument("--emit", **one_of((*CODE_SUFFIXES, *device.WORD_SUFFIXES, *device.OWN_FORMS)), help=help)
    parser.add_options("threads", "batch")
    help = "write the program of an accelerator instead, or with --emit asm its commands as text"
    parser.add_options("target", "set", what=help)
    with parser.section("which processor"):
        add_code_options(parser)
    parser.add_options("io")
    help = "add debug lines, by which gdb and perf name the layer that code computes; the instructions stay the same"
    parser.add_argument("-g", "--debug-info", action="store_true", help=help)
    with parser.section("a bundle for embedded programs"):
        add_bundle_options(parser)
    help = "the .o, .ll, .s or .npu file to write, or the folder of a bundle"
    parser.add_argument("-o", "--output", type=Path, required=True, help=help)
    add_config_file_options(parser)
    add_json_option(parser)


BUNDLE_OPTIONS = {
    "--api": "api", "--weights-in": "weights_in", "--prefix": "prefix", "--archive": "archive", "--layers": "layers"
}  # fmt: skip
"""Options that are for bundles only, and their names among the parsed arguments."""


def add_bundle_options(parser: ArgumentParser) -> None:
    """Adds the options of `qmlir compile --bundle`."""
    add = parser.add_argument
    help = (
        "write a folder with the object, header, weights, self-test, example, build file and manifest; with --target "
    )
    help += "also the accelerator's program, a runtime and a model of the accelerator in C"
    add("--bundle", action="store_true", help=help)
    help = (
        "how programs call the network: with weights and scratch memory inside the object, with memory of their own, "
    )
    help += "or as Glow's bundles are called (default: static)"
    add("--api", **choice(("static", "dynamic", "glow")), help=help)
    help = "where the weights are: a section of the object, an array in C, or a file (default: object; file for glow)"
    add("--weights-in", **choice(("object", "array", "file")), help=help)
    add("--prefix", metavar="NAME", help="prefix of all symbols and files (default: the model's name)")
    add("--archive", action="store_true", help="write a static library, .a, in place of the object")
    help = "call a function of the program, NAME_layer, where each layer begins and ends, with the layer's result"
    add("--layers", action="store_true", help=help)


def refuse_batch(arguments: argparse.Namespace, elsewhere: bool) -> None:
    """Refuses a batch for a network that this processor's machine code does not compute."""
    if elsewhere and arguments.batch is not None:
        got, remedy = str(arguments.batch), "leave it out"
        raise OptionError("--batch", "is for networks compiled for this processor", got=got, remedy=remedy)


def refuse_threads(arguments: argparse.Namespace, elsewhere: bool) -> None:
    """Refuses several threads for a network that this processor's machine code does not compute."""
    if elsewhere and (arguments.threads or 1) != 1:
        got, remedy = str(arguments.threads), "leave it out"
        raise OptionError("--threads", "is for networks compiled for this processor", got=got, remedy=remedy)


def run_compile(arguments: argparse.Namespace) -> None:
    """Compiles a network to machine code, or to a device's program with `--target`."""
    from qmlir.cli.bundle import entry_name

    if arguments.bundle:
        from qmlir.cli.embedded.folder import write_folder

        network, files, code, program = write_folder(arguments)
        _write_compiled(network, files, code, arguments, program)
        return
    for option, given in BUNDLE_OPTIONS.items():
        if getattr(arguments, given):
            raise OptionError(option, "is for bundles", remedy="add --bundle, or leave it out")
    device.refuse_code_options(arguments)
    refuse_threads(arguments, arguments.target is not None)
    refuse_batch(arguments, arguments.target is not None)
    if arguments.target is not None and arguments.debug_info:
        raise OptionError("--debug-info", "is for machine code", got="a device's program", remedy="leave it out")
    if arguments.target is not None:
        device.run_compile(arguments)
        return
    if arguments.emit in (*device.WORD_SUFFIXES, *device.OWN_FORMS):
        raise OptionError("--emit", "writes the words of a device", got=arguments.emit, remedy="name it by --target")
    suffix = CODE_SUFFIXES[arguments.emit]
    if arguments.output.suffix != suffix:
        raise OptionError("--output", f"must end in {suffix} with --emit {arguments.emit}", got=str(arguments.output))
    executable = compiled(arguments, entry_name(arguments.output.stem))  # no clash with a program's `main`
    _write_compiled(executable, *_write_code(executable, arguments, arguments.emit), arguments)


def _write_compiled(
    network: "CallableNetwork",
    files: list[Path],
    code: dict[str, int],
    arguments: argparse.Namespace,
    program: dict[str, Any] | None = None,
) -> None:
    """Writes the document of `qmlir compile`."""
    made = {"model": str(arguments.model), "target": device.target_text(arguments), "files": [str(f) for f in files]}
    fields = {**made, "code": code, "program": program}
    write_document(arguments, "compile", fields | signature_fields(network.signature))


def _write_code(
    executable: "Executable", arguments: argparse.Namespace, emit: str
) -> tuple[list[Path], dict[str, int]]:
    """Writes machine code, and prints its sizes; returns the files and the sizes for a document."""
    from qmlir.backends.cpu import described
    from qmlir.cli.bundle import write_bundle

    files = write_bundle(executable, arguments.output, emit)
    _say_written(files)
    sizes = executable.sizes
    say(f"{sizes.code} bytes of code, {sizes.weights} of weights, {sizes.arena} of scratch memory for each call")
    say(f"for {described(executable.machine)}")
    threads = arguments.threads or 1
    return files, {"weights": sizes.weights, "arena": sizes.arena, "code": sizes.code, "threads": threads}


# ---------------------------------------------------------------------------------------------------------------
# `qmlir quantize`: the form that the output's suffix names.

MLIR = ".mlir"
ONLY_FOR: Mapping[str, tuple[str, ...]] = {
    "format": (".onnx", ".tflite"),
    "onnx_activations": (".onnx",),
    "opset": (".onnx",),
    "runtime": (MLIR, ".onnx"),
    "threads": (".o",),
    "batch": (".o",),
    "cpu": (".o",),
    "features": (".o",),
    "triple": (".o",),
    "memory": (".o",),
}
"""Option, by its name among the parsed arguments → suffixes of the files that it is for."""


@dataclass(frozen=True)
class Written:
    """The files of a network, and figures of its machine code or its program for a document; None for other forms."""

    files: list[Path]
    code: dict[str, int] | None = None
    program: dict[str, Any] | None = None


def add_form_options(parser: ArgumentParser) -> None:
    """Adds the output of `qmlir quantize`, and the options that are for one of its forms."""
    parser.add_options("io")
    with parser.section("an .onnx or .tflite file"):
        parser.add_options("format", "onnx-activations", "opset")
    with parser.section("an .o file"):
        parser.add_options("threads", "batch")
        add_processor_options(parser)
    parser.add_options("output")


def check_form(arguments: argparse.Namespace) -> None:
    """Refuses options that are not for the output's form, before anything is learned from data.

    Raises:
        OptionError: An option does not fit the output's suffix, or .npu has no device.
    """
    from qmlir.backends.cpu.arguments import require_threads
    from qmlir.backends.cpu.llvm import Machine
    from qmlir.devices import load_device

    output: Path = arguments.output
    for name, suffixes in ONLY_FOR.items():
        if getattr(arguments, name) is not None and output.suffix not in suffixes:
            option = "--for" if name == "runtime" else f"--{name.replace('_', '-')}"
            need = f"is for {' and '.join(suffixes)} files"
            raise OptionError(option, need, got=f"-o {output}", remedy="leave it out, or name such a file")
    given = arguments.format
    if given is not None and (given == "tflite") != (output.suffix == ".tflite"):
        needed = ".tflite" if given == "tflite" else ".onnx"
        raise OptionError(
            "--format",
            f"needs the suffix {needed} for {given}",
            got=f"-o {output}",
            remedy="leave it out: the suffix chooses the format",
        )
    if arguments.onnx_activations is not None and given not in (None, "onnx-qdq"):
        raise OptionError("--onnx-activations", "is for the format onnx-qdq", got=given, remedy="leave it out")
    if output.suffix == device.PROGRAM_SUFFIX and arguments.target is None:
        remedy = "name one of `qmlir device list`, or a device file"
        raise OptionError("--target", "must name the device of an .npu file", got="nothing", remedy=remedy)
    if arguments.target is not None:
        load_device(arguments.target)
    if arguments.opset is not None:
        from qmlir.backends.onnx import require_opset

        require_opset(arguments.opset)
    if output.suffix == ".o":
        machine = Machine.of(arguments.cpu, arguments.features, arguments.triple)
        require_threads(arguments.threads or 1, machine)


def write_form(module: "ModuleOp", arguments: argparse.Namespace) -> Written:
    """Writes a quantized network in the form that the output's suffix names, and prints the files and their figures.

    The files are the ones that `qmlir export` and `qmlir compile` make of the network's .mlir file.
    """
    from qmlir.compiler import compile, save

    output: Path = arguments.output
    if output.suffix == device.PROGRAM_SUFFIX:
        executable = compile(module, target=arguments.target)
        files = executable.save(output)
        return Written(files, program=device.print_program(executable, files))
    if output.suffix == ".o":
        from qmlir.cli.bundle import entry_name

        named = module.clone()
        name_functions(named, entry_name(output.stem))
        cpu, features, triple = arguments.cpu, arguments.features, arguments.triple
        threads, batch, memory = arguments.threads or 1, arguments.batch, memory_of(arguments)
        executable = compile(named, threads, cpu=cpu, features=features, triple=triple, batch=batch, memory=memory)
        files, code = _write_code(executable, arguments, "obj")
        return Written(files, code=code)
    files = save(module, output) if output.suffix == MLIR else _export(module, arguments)
    _say_written(files[:1] if output.suffix == MLIR else files)
    return Written(files)
