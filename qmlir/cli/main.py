"""`qmlir`: import, profile, quantize, compile, export and run a network from the command line.

    qmlir profile  net.onnx --data calibration.npz -o net.yaml
    qmlir quantize net.onnx --profile net.yaml --schema symmetric -o net.mlir
    qmlir run      net.mlir --data test.npz -o outputs.npz

Each subcommand is a few calls of qmlir/compiler.py. Errors are one paragraph on standard error and exit status 1.
Help and completion import nothing of the compiler, so that they answer at once.
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qmlir.cli import (
    analyzing,
    bench,
    certify,
    compare,
    crosscheck,
    device,
    exploring,
    forms,
    ledger,
    profile_diff,
    quantizing,
    scoring,
    tuning,
)
from qmlir.cli import report as reporting
from qmlir.cli.data import samples_of, stored_in
from qmlir.cli.documents import add_json_option, prints_document, signature_fields, with_targets, write_document
from qmlir.cli.examples import EXAMPLES
from qmlir.cli.flags import ArgumentParser, RawHelpFormatter, file_of, one_of, version_text
from qmlir.cli.models import add_code_options, compiled, load_known, load_simplified
from qmlir.cli.printed_options import asks_for_options, print_options
from qmlir.cli.refusals import refuse_early, signature_before
from qmlir.cli.standard_streams import with_standard_streams
from qmlir.cli.terminal import Detail, is_verbose, printing, progress, say
from qmlir.display import counted
from qmlir.errors import OptionError, near_misses
from qmlir.settings.fields import LOADING, SAMPLES

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from qmlir.backends.simulated import Simulated
    from qmlir.ir.signature import Signature
    from qmlir.samples.files import Samples

SHELLS = ("bash", "zsh", "fish")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs `qmlir` and returns its exit status: 0, or 1 after an error has been reported.

    If the reader of standard output closes the pipe, as `head` does, the command ends at once with status 1.
    """
    argv = sys.argv[1:] if argv is None else argv
    if "_ARGCOMPLETE" in os.environ:  # a shell asks what may follow
        from qmlir.cli.completion import answer_for_commands

        parser, commands, add = _parser()
        answer_for_commands(parser, commands, add)
    return with_standard_streams(lambda: _run_command(argv))


def _run_command(argv: Sequence[str]) -> int:
    debug = "--debug" in argv or os.environ.get("QMLIR_DEBUG", "0") not in ("", "0")
    doing = "qmlir"
    try:
        if not argv or "--version" in argv:
            sys.stdout.write(version_text() if argv else _parser()[0].format_help())
            sys.stdout.flush()
            return 0
        arguments = _parse(argv)
        doing = f"qmlir {arguments.subcommand}"
        command: Callable[[argparse.Namespace], None] = arguments.command
        from qmlir.cli.diagnostics import reported_warnings

        if asks_for_options(arguments):
            print_options(arguments, command_parsers()[arguments.subcommand])
            sys.stdout.flush()
            return 0
        with reported_warnings(), printing(_detail(arguments)):
            device.change_device(arguments)
            refuse_early(arguments)
            command(arguments)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        from qmlir.cli.diagnostics import diagnose, report

        report([diagnose(error, doing=doing, debug=debug)])
        return 1
    return 0


def _detail(arguments: argparse.Namespace) -> Detail:
    return Detail(quiet=arguments.quiet or prints_document(arguments), verbose=arguments.verbose)


# ---------------------------------------------------------------------------------------------------------------
# The command line


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    """Parses the command line.

    Raises:
        OptionError: A command or an option is unknown or has an unusable value; the error proposes similar names.
    """
    parser, commands, _ = _parser()
    argv = with_targets(_joined(argv, commands))
    named = next((a for a in argv if not a.startswith("-")), None)
    if named is not None and named not in commands:
        raise OptionError(named, "there is no such command", remedy=near_misses(named, commands))
    argv = _with_dashes(argv, commands)
    if named is not None and "config" in commands[named].long_flags():
        argv = _with_options(argv, named, commands[named])
    arguments, unknown = parser.parse_known_args(argv)
    if not unknown and arguments.subcommand == "quantize" and arguments.policy is not None:
        from qmlir.cli.configuration import words_in

        at = argv.index(arguments.subcommand) + 1  # so that options of the command line come later, and win
        words = words_in(arguments.policy, commands["quantize"])
        arguments = parser.parse_args([*argv[:at], *words, *argv[at:]])
    if unknown:
        flag = unknown[0].partition("=")[0]
        if not flag.startswith("-"):
            raise OptionError(unknown[0], "there can be one model only", remedy="drop this one")
        known = commands[arguments.subcommand].long_flags()
        remedy = near_misses(flag.lstrip("-"), known, prefix="--")
        raise OptionError(flag, f"qmlir {arguments.subcommand} has no such option", remedy=remedy)
    return arguments


def _with_options(argv: Sequence[str], command: str, parser: ArgumentParser) -> Sequence[str]:
    """Returns the arguments with those of the file of `--config` in front, so that the command line's own win.

    With either `--config` or `--print-config`, what the command needs may stand in the file, or be missing.
    """
    from qmlir.cli.printed_options import words_in

    asking = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    asking.add_argument("--config", type=Path)
    asking.add_argument("--print-config", action="store_true")
    asked, _ = asking.parse_known_args(argv)
    if asked.print_config:
        parser.require_nothing()
    if asked.config is None:
        return argv
    at = argv.index(command) + 1
    words = words_in(asked.config, command, _parser()[1][command])
    return [*argv[:at], *words, *argv[at:]]


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
    first = next((i for i, argument in enumerate(argv) if not argument.startswith("-")), len(argv))
    words = " ".join(argv[first : first + 2])
    return [*argv[:first], words, *argv[first + 2 :]] if words in commands else argv


def command_parsers() -> dict[str, ArgumentParser]:
    """Returns the parser of each command by its name, for tests and documentation."""
    return _parser()[1]


def _parser() -> tuple[ArgumentParser, dict[str, ArgumentParser], Callable[[str], ArgumentParser]]:
    """Returns the parser of the command line, the parsers of the commands by name, and what adds another parser."""
    parser = ArgumentParser(
        "qmlir",
        description="A quantizing compiler for neural networks.",
        epilog="qmlir COMMAND --help shows a command's options and an example.",
        allow_abbrev=False,
    )
    parser.add_argument("--debug", action="store_true", help="show the traceback of a bug (also: QMLIR_DEBUG=1)")
    parser.add_argument("--version", action="store_true", help="print versions and stop; with any command, too")
    _add_detail_options(parser, False)
    subparsers = parser.add_subparsers(dest="subcommand", required=True, metavar="COMMAND")
    commands: dict[str, ArgumentParser] = {}

    def bare(name: str, run: Callable[[argparse.Namespace], None], help: str) -> ArgumentParser:
        sub = subparsers.add_parser(
            name,
            help=help,
            description=f"{help[0].upper()}{help[1:]}.",
            epilog=f"example:\n{EXAMPLES[name]}" if name in EXAMPLES else None,
            formatter_class=RawHelpFormatter,
            allow_abbrev=False,
        )
        sub.set_defaults(command=run)
        sub.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
        _add_detail_options(sub, argparse.SUPPRESS)
        commands[name] = sub
        return sub

    def command(name: str, run: Callable[[argparse.Namespace], None], help: str) -> ArgumentParser:
        sub = bare(name, run, help)
        sub.add_argument(
            "model", type=Path, help="an .onnx, .tflite, .gguf or .mlir file, or a Caffe2 net (.pb, .pbtxt)"
        )
        with sub.section("how to read the model"):
            sub.add_options(*LOADING)
        return sub

    sub = command("import", _import, "read a model, simplify it and write it as MLIR")
    sub.add_argument("-o", "--output", type=file_of(".mlir"), required=True, help="the .mlir file to write")
    sub.add_argument("--raw", action="store_true", help="leave the graph as it was imported")
    add_json_option(sub)

    quantizing.add_profile_options(
        command("profile", quantizing.run_profile, "learn the ranges of a float network's tensors from data")
    )
    quantizing.add_merge_options(
        bare("profile merge", quantizing.run_merge, "merge profiles of parts of the data into that of all of it")
    )

    profile_diff.add_profile_diff_options(
        bare("profile diff", profile_diff.run_profile_diff, "show how far a network's tensors have moved")
    )

    quantizing.add_quantize_options(
        command(
            "quantize",
            quantizing.run_quantize,
            "turn a float network into a quantized one, for qmlir, a runtime or a device",
        )
    )
    ledger.add_ledger_options(bare("ledger", ledger.run_ledger, "show what became of each operation"))
    ledger.add_diff_options(bare("ledger diff", ledger.run_diff, "compare what became of each operation"))

    analyzing.add_analyze_options(
        command("analyze", analyzing.run_analyze, "compare the tensors of a float network and a quantized one on data")
    )

    tuning.add_tune_options(
        command("tune", tuning.run_tune, "search the precision of each layer for a budget, or for a floor of accuracy")
    )

    exploring.add_explore_options(
        bare("explore", exploring.run_explore, "measure networks, quantized by policies, on variants of a device")
    )

    compare.add_compare_options(
        command("compare", compare.run_compare, "find the first tensor whose bits differ between two runs")
    )

    crosscheck.add_crosscheck_options(
        bare("crosscheck", crosscheck.run_crosscheck, "find the first tensor of two forms that is off by too much")
    )

    certify.add_certify_options(
        bare("certify", certify.run_certify, "prove that a network computes on integers only, or check such a proof")
    )

    sub = command("graph", _graph, "draw a network as a graph in the DOT language, for Graphviz")
    sub.add_argument("-o", "--output", type=file_of(".dot", ".gv"), required=True, help="the .dot file to write")
    add_json_option(sub)

    add_json_option(bare("device list", device.run_list, "list the devices that come with qmlir"))
    device.add_show_options(bare("device show", device.run_show, "print a device as the text of a device file"))
    sub = bare("device check", device.run_check, "print what a device can do, and what becomes of a network on it")
    device.add_check_options(sub)
    with sub.section("how to read the model"):
        sub.add_options(*LOADING)

    forms.add_compile_options(
        command("compile", forms.run_compile, "compile a network to an object file, its weights and a C header")
    )

    sub = command("bench", bench.run_bench, "measure how long a call of a network takes, layer by layer")
    with sub.section("which processor"):
        add_code_options(sub)
    bench.add_bench_options(sub)

    reporting.add_report_options(
        bare("report", reporting.run_report, "write a page that shows what quantization did to each layer")
    )

    forms.add_export_options(
        command("export", forms.run_export, "write a network, float or quantized, for another runtime")
    )

    sub = command("run", _run, "run a network on samples")
    with sub.section("samples"):
        sub.add_options(*SAMPLES, what="inputs", required="data")
        sub.add_options("sequence")
        scoring.add_scoring_options(sub, splits=False)
    sub.add_argument("--reference", action="store_true", help="evaluate in numpy instead of compiling")
    sub.add_options("threads", "batch")
    sub.add_options("target", "set", what="simulate an accelerator; the model may be a program compiled for it")
    device.add_simulation_options(sub)
    with sub.section("which processor"):
        add_code_options(sub)
    sub.add_argument("-o", "--output", type=file_of(".npz"), help="write the outputs of all samples to this .npz file")
    sub.add_argument(
        "--tensors",
        type=file_of(".npz"),
        help="write every named tensor of all samples to this .npz file, as it is stored; fused operations have one, "
        "programs those that lie in a memory while they run",
    )
    add_json_option(sub)

    sub = bare("completion", _completion, "print the script that completes command lines in a shell")
    sub.add_argument("shell", **(one_of(SHELLS) | {"default": None}), help="the shell that reads the script")
    return parser, commands, subparsers.add_parser


def _add_detail_options(parser: ArgumentParser, default: Any) -> None:
    """Adds `--quiet` and `--verbose`, which hold before a command and behind it."""
    add = parser.add_argument
    add("-q", "--quiet", action="store_true", default=default, help="print nothing but warnings and errors")
    add("-v", "--verbose", action="store_true", default=default, help="print details, such as each operation")


# ---------------------------------------------------------------------------------------------------------------
# Subcommands


def _completion(arguments: argparse.Namespace) -> None:
    from qmlir.cli.completion import script

    sys.stdout.write(script(arguments.shell))


def _import(arguments: argparse.Namespace) -> None:
    from qmlir.compiler import Pipeline, main_function, save
    from qmlir.ir.signature import signature_of
    from qmlir.stages import IMPORTED

    module = load_known(arguments)
    if not arguments.raw:
        module = Pipeline(*IMPORTED)(module)
    files = save(module, arguments.output)
    census = _census(module)
    say(f"{arguments.output}: {', '.join(f'{count} {kind}' for kind, count in census.items()) or 'no operations'}")
    fields = {"model": str(arguments.model), "files": _texts(files), "operations": census}
    write_document(arguments, "import", fields | signature_fields(signature_of(main_function(module))))


def _graph(arguments: argparse.Namespace) -> None:
    from qmlir.analysis.graph import dot_text
    from qmlir.compiler import main_function
    from qmlir.ir.signature import signature_of
    from qmlir.running.files import write_whole

    module = load_simplified(arguments)
    write_whole(arguments.output, dot_text(module))
    say(f"{arguments.output}: written")
    fields = {"model": str(arguments.model), "files": [str(arguments.output)], "operations": _census(module)}
    write_document(arguments, "graph", fields | signature_fields(signature_of(main_function(module))))


def _census(module: "ModuleOp") -> dict[str, int]:
    """The number of operations of each kind, the most frequent first."""
    from collections import Counter

    from qmlir.policies.ledger import deciding_operations

    return dict(Counter(op.name for op in deciding_operations(module)).most_common())


def _texts(paths: Iterable[Path]) -> list[str]:
    return [str(path) for path in paths]


def _run(arguments: argparse.Namespace) -> None:
    import time

    import numpy as np

    from qmlir.cli.documents import cost_fields
    from qmlir.samples.arrays import write_arrays

    device.require_target(arguments)
    device.refuse_code_options(arguments)
    forms.refuse_threads(arguments, arguments.reference or arguments.target is not None)
    forms.refuse_batch(arguments, arguments.reference or arguments.target is not None)
    program = arguments.model.suffix == device.PROGRAM_SUFFIX
    scores = scoring.wants_score(arguments)
    before = None
    if (scores or arguments.sequence) and not program:
        _check_run(arguments, before := signature_before(arguments))
    simulated = None
    if arguments.reference:
        from qmlir.compiler import main_function, reference

        module = load_simplified(arguments)
        main_function(module)  # of several entries, callers choose one
        network = reference(module, arguments.target)
    elif arguments.target is not None:
        network = simulated = device.program_of(arguments)
    else:
        network = compiled(arguments)
    samples = samples_of(arguments, network.signature, stored_in(arguments.model))
    device.check_vectors(arguments, len(samples))
    trial = scoring.trial_of(arguments, samples, before or network.signature) if scores else None
    if arguments.tensors:
        _write_tensors(arguments, samples, simulated if program else None)
    outputs: list[list[np.ndarray]] = []
    vectors: list[Path] = []
    seconds = 0.0
    states = bool(network.signature.states)
    _require_states(arguments, network.signature)
    together = 1 if states else simulated.at_once if simulated is not None else arguments.batch or 1
    device.prepare(simulated, min(together, len(samples)))
    for some in device.chunks(progress(samples, len(samples), "running"), together):
        if arguments.sequence and len(outputs) % arguments.sequence == 0:
            network.reset()
        start = time.perf_counter()
        outputs += network.run_all(some)
        seconds += time.perf_counter() - start
    stacked = network.signature.stacked(outputs)
    if arguments.output:
        write_arrays(arguments.output, stacked)
    for name, array in stacked.items():
        say(f"{name}: {array.dtype.name}{list(array.shape)}")
    if simulated is not None and simulated.report is not None:
        device.print_report(simulated.report, simulated.device)
        if is_verbose():
            say(f"simulated in {'C' if simulated.simulated_by == 'c' else 'Python'}")
        device.write_trace(arguments, simulated)
        vectors = device.write_vectors(arguments, simulated, next(iter(samples)))
    say(f"{counted(len(outputs), 'sample')}, {1000 * seconds / len(outputs):.3f} ms each")
    accuracy = None
    if trial is not None:
        from qmlir.analysis.scores import score_outputs

        scoring.print_score(found := score_outputs(stacked, trial.labels, trial.metric), len(outputs))
        accuracy = asdict(found)
    ran = simulated.report if simulated is not None else None
    fields = {
        "model": str(arguments.model),
        "target": device.target_text(arguments),
        "reference": arguments.reference,
        "files": _texts(p for p in (arguments.output, arguments.tensors, arguments.trace, *vectors) if p is not None),
        "accuracy": accuracy,
        "samples": len(outputs),
        "seconds": seconds,
        "cost": cost_fields(ran, simulated.device) if simulated is not None and ran is not None else None,
    }
    write_document(arguments, "run", fields | signature_fields(network.signature))


def _check_run(arguments: argparse.Namespace, signature: "Signature") -> None:
    """Refuses scores and sequences that a network cannot have, before it is compiled."""
    _require_states(arguments, signature)
    if scoring.wants_score(arguments):
        scoring.trial_of(arguments, samples_of(arguments, signature, stored_in(arguments.model)), signature)


def _require_states(arguments: argparse.Namespace, signature: "Signature") -> None:
    if arguments.sequence and not signature.states:
        remedy = "leave it out, or name states by --state"
        raise OptionError("sequence", "is for networks with states", got=str(arguments.sequence), remedy=remedy)


def _write_tensors(arguments: argparse.Namespace, samples: "Samples", program: "Simulated | None") -> None:
    """Runs a program, or a network with each named tensor as a result, and writes the tensors."""
    import numpy as np

    from qmlir.analysis.differences import CPU, REFERENCE, Run
    from qmlir.samples.arrays import write_arrays

    shown = progress(samples, len(samples), "tensors")
    if program is not None:
        taken = list(program.tensors(shown))
    else:
        executor = REFERENCE if arguments.reference else arguments.target or CPU
        run = Run(load_simplified(arguments), executor, str(arguments.model))
        taken = [run.tensors(sample) for sample in shown]
    names = list(taken[0])
    write_arrays(arguments.tensors, {name: np.stack([arrays[name] for arrays in taken]) for name in names})
    say(f"{arguments.tensors}: {counted(len(names), 'tensor')} of {counted(len(taken), 'sample')}")


if __name__ == "__main__":
    sys.exit(main())
