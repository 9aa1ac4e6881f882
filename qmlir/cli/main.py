"""`qmlir`: import, profile, quantize, compile, export and run a network from the command line.

    qmlir profile  net.onnx --data calibration.npz -o net.yaml
    qmlir quantize net.onnx --profile net.yaml --schema symmetric -o net.mlir
    qmlir run      net.mlir --data test.npz -o outputs.npz

Each subcommand is a few calls of qmlir/compiler.py. Errors are one paragraph on standard error and exit status 1.
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from qmlir.cli import bench, device, ledger, quantizing
from qmlir.cli.data import add_data_options, samples_of
from qmlir.cli.diagnostics import diagnose, report, reported_warnings
from qmlir.cli.flags import ArgumentParser, choice, count, file_of, one_of
from qmlir.cli.models import add_code_options, add_loading_options, compiled, load_known, load_simplified
from qmlir.cli.terminal import progress, say
from qmlir.errors import OptionError, near_misses

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

FORMATS = ("onnx-qdq", "onnx-qoperator", "onnx-integer", "tflite")
CODE_SUFFIXES = {"obj": ".o", "llvm-ir": ".ll", "asm": ".s"}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs `qmlir` and returns its exit status: 0, or 1 after an error has been reported."""
    argv = sys.argv[1:] if argv is None else argv
    debug = "--debug" in argv or os.environ.get("QMLIR_DEBUG", "0") not in ("", "0")
    doing = "qmlir"
    try:
        arguments = _parse(argv)
        doing = f"qmlir {arguments.subcommand}"
        command: Callable[[argparse.Namespace], None] = arguments.command
        with reported_warnings():
            command(arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of the output has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        report([diagnose(error, doing=doing, debug=debug)])
        return 1
    return 0


# ---------------------------------------------------------------------------------------------------------------
# The command line


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    """Parses the command line.

    Raises:
        OptionError: A command or an option is unknown or has an unusable value; the error proposes similar names.
    """
    parser, commands = _parser()
    argv = _joined(argv, commands)
    named = next((a for a in argv if not a.startswith("-")), None)
    if named is not None and named not in commands:
        raise OptionError(named, "there is no such command", remedy=near_misses(named, commands))
    arguments, unknown = parser.parse_known_args(_with_dashes(argv, commands))
    if unknown:
        flag = unknown[0].partition("=")[0]
        if not flag.startswith("-"):
            raise OptionError(unknown[0], "there can be one model only", remedy="drop this one")
        known = commands[arguments.subcommand].long_flags()
        remedy = near_misses(flag.lstrip("-"), known, prefix="--")
        raise OptionError(flag, f"qmlir {arguments.subcommand} has no such option", remedy=remedy)
    return arguments


def _with_dashes(argv: Sequence[str], commands: Mapping[str, ArgumentParser]) -> list[str]:
    """Returns the arguments with flags as they are declared: `--weight_precision` becomes `--weight-precision`."""
    known = {f"--{flag}" for parser in commands.values() for flag in parser.long_flags()}

    def declared(argument: str) -> str:
        flag, equals, value = argument.partition("=")
        dashed = flag.replace("_", "-")
        return f"{dashed}{equals}{value}" if flag.startswith("--") and dashed in known else argument

    return [declared(argument) for argument in argv]


def _joined(argv: Sequence[str], commands: Iterable[str]) -> Sequence[str]:
    """Returns the arguments with a command of two words, such as `profile merge`, joined into one argument."""
    return [" ".join(argv[:2]), *argv[2:]] if " ".join(argv[:2]) in commands else argv


def _parser() -> tuple[ArgumentParser, dict[str, ArgumentParser]]:
    """Returns the parser of the command line, and the parsers of the commands by name."""
    parser = ArgumentParser("qmlir", description="A quantizing compiler for neural networks.", allow_abbrev=False)
    parser.add_argument("--debug", action="store_true", help="show the traceback of a bug (also: QMLIR_DEBUG=1)")
    subparsers = parser.add_subparsers(dest="subcommand", required=True, metavar="COMMAND")
    commands: dict[str, ArgumentParser] = {}

    def bare(name: str, run: Callable[[argparse.Namespace], None], help: str) -> ArgumentParser:
        sub = subparsers.add_parser(name, help=help, description=help[0].upper() + help[1:] + ".", allow_abbrev=False)
        sub.set_defaults(command=run)
        sub.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
        commands[name] = sub
        return sub

    def command(name: str, run: Callable[[argparse.Namespace], None], help: str) -> ArgumentParser:
        sub = bare(name, run, help)
        sub.add_argument("model", type=Path, help="an .onnx, .tflite or .mlir file")
        add_loading_options(sub)
        return sub

    sub = command("import", _import, "read a model, simplify it and write it as MLIR")
    sub.add_argument("-o", "--output", type=file_of(".mlir"), required=True, help="the .mlir file to write")
    sub.add_argument("--raw", action="store_true", help="leave the graph as it was imported")

    quantizing.add_profile_options(
        command("profile", quantizing.run_profile, "learn the ranges of a float network's tensors from data")
    )
    quantizing.add_merge_options(
        bare("profile merge", quantizing.run_merge, "merge profiles of parts of the data into that of all of it")
    )

    quantizing.add_quantize_options(
        command("quantize", quantizing.run_quantize, "turn a float network and its profile into a quantized network")
    )
    ledger.add_ledger_options(bare("ledger", ledger.run_ledger, "show what became of each operation"))
    ledger.add_diff_options(bare("ledger diff", ledger.run_diff, "compare what became of each operation"))

    ledger.add_analyze_options(
        command("analyze", ledger.run_analyze, "compare the tensors of a float network and a quantized one on data")
    )

    sub = bare("device check", device.run_check, "print what a device can do, and what becomes of a network on it")
    device.add_check_options(sub)
    add_loading_options(sub)

    sub = command("compile", _compile, "compile a network to an object file, its weights and a C header")
    sub.add_argument("--emit", **one_of(tuple(CODE_SUFFIXES)), help="what to write (default: obj)")
    _add_threads_option(sub)
    device.add_target_option(
        sub, "write the program of an accelerator instead, or with --emit asm its commands as text"
    )
    add_code_options(sub)
    sub.add_argument("-o", "--output", type=Path, required=True, help="the .o, .ll, .s or .npu file to write")

    sub = command("bench", bench.run_bench, "measure how long a call of a network takes, layer by layer")
    add_code_options(sub)
    bench.add_bench_options(sub)

    sub = command("export", _export, "write a network, float or quantized, for another runtime")
    sub.add_argument(
        "--format",
        **choice(FORMATS),
        help="what to write: floats between casts, onnxruntime's operators on integers, integers spelled out in ONNX's "
        "operators, or a TFLite file (default: by the file's name, tflite or onnx-qdq)",
    )
    sub.add_argument("--opset", type=count, help="version of ONNX's operators (default: what onnxruntime runs)")
    sub.add_argument("-o", "--output", type=file_of(".onnx", ".tflite"), required=True, help="the file to write")

    sub = command("run", _run, "run a network on samples")
    add_data_options(sub, "inputs")
    sub.add_argument("--reference", action="store_true", help="evaluate in numpy instead of compiling")
    _add_threads_option(sub)
    device.add_target_option(sub, "simulate an accelerator; the model may be a program compiled for it")
    sub.add_argument("--serial", action="store_true", help="let nothing on the accelerator overlap")
    add_code_options(sub)
    sub.add_argument("-o", "--output", type=file_of(".npz"), help="write the outputs of all samples to this .npz file")
    return parser, commands


def _add_threads_option(parser: ArgumentParser) -> None:
    help = "threads that one call may use; the results are the same bits for any number (default: 1)"
    parser.add_argument("--threads", type=count, default=1, metavar="N", help=help)


def _refuse_threads(arguments: argparse.Namespace, elsewhere: bool) -> None:
    """Refuses several threads for a network that this processor's machine code does not compute."""
    if elsewhere and arguments.threads != 1:
        got, remedy = str(arguments.threads), "leave it out"
        raise OptionError("--threads", "is for networks compiled for this processor", got=got, remedy=remedy)


# ---------------------------------------------------------------------------------------------------------------
# Subcommands


def _import(arguments: argparse.Namespace) -> None:
    from qmlir.compiler import IMPORTED, Pipeline, save

    module = load_known(arguments)
    if not arguments.raw:
        module = Pipeline(*IMPORTED)(module)
    save(module, arguments.output)
    say(f"{arguments.output}: {_census(module)}")


def _census(module: "ModuleOp") -> str:
    from collections import Counter

    from qmlir.policies.ledger import deciding_operations

    kinds = Counter(op.name for op in deciding_operations(module))
    return ", ".join(f"{count} {kind}" for kind, count in kinds.most_common()) or "no operations"


def _compile(arguments: argparse.Namespace) -> None:
    device.refuse_code_options(arguments)
    _refuse_threads(arguments, arguments.target is not None)
    if arguments.target is not None:
        device.write_program(arguments)
        return
    from qmlir.cli.bundle import entry_name, write_bundle

    suffix = CODE_SUFFIXES[arguments.emit]
    if arguments.output.suffix != suffix:
        raise OptionError("--output", f"must end in {suffix} with --emit {arguments.emit}", got=str(arguments.output))
    executable = compiled(arguments, entry_name(arguments.output.stem))  # no clash with a program's `main`
    for path in write_bundle(executable, arguments.output, arguments.emit):
        say(f"{path}: written")
    sizes = executable.sizes
    say(f"{sizes.code} bytes of code, {sizes.weights} of weights, {sizes.arena} of scratch memory for each call")


def _export(arguments: argparse.Namespace) -> None:
    from qmlir.compiler import export

    module = load_simplified(arguments)
    for path in export(module, arguments.output, format=arguments.format, opset=arguments.opset):
        say(f"{path}: written")


def _run(arguments: argparse.Namespace) -> None:
    import time

    import numpy as np

    from qmlir.cli.samples import write_arrays

    device.require_target(arguments)
    device.refuse_code_options(arguments)
    _refuse_threads(arguments, arguments.reference or arguments.target is not None)
    simulated = None
    if arguments.reference:
        from qmlir.compiler import reference

        network = reference(load_simplified(arguments), arguments.target)
    elif arguments.target is not None:
        network = simulated = device.program_of(arguments)
    else:
        network = compiled(arguments)
    samples = samples_of(arguments, network.signature)
    outputs: list[list[np.ndarray]] = []
    seconds = 0.0
    together = device.AT_ONCE if simulated is not None else 1
    for some in device.chunks(progress(samples, len(samples), "running"), together):
        start = time.perf_counter()
        outputs += simulated.run_all(some) if simulated is not None else [network.run(some[0])]
        seconds += time.perf_counter() - start
    stacked = {
        spec.name: np.stack([arrays[i] for arrays in outputs]) for i, spec in enumerate(network.signature.outputs)
    }
    if arguments.output:
        write_arrays(arguments.output, stacked)
    for name, array in stacked.items():
        say(f"{name}: {array.dtype.name}{list(array.shape)}")
    if simulated is not None and simulated.report is not None:
        device.print_report(simulated.report, simulated.device)
    say(f"{len(outputs)} samples, {1000 * seconds / len(outputs):.3f} ms each")


if __name__ == "__main__":
    sys.exit(main())
