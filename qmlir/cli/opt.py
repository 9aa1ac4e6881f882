"""`qmlir-opt`: reads MLIR text (or a model file), runs passes and prints MLIR text, in the manner of mlir-opt.

    qmlir-opt --fold-batch-norm --quantize="schema=symmetric per-channel=true" model.mlir -o quantized.mlir

Each error is one paragraph on standard error, and the exit status is then 1. Output files appear whole or not at all.
With `--split-input-file`, each piece is processed by itself, and a wrong piece does not prevent the others' output.

The compiler is imported only if there is work for it: help texts come from the source alone, in a quarter of the time.
"""

import os
import sys
from collections.abc import Sequence

from qmlir.cli.flags import argument_parser, fitted, help_width, version_text
from qmlir.cli.pass_list import pass_lines, pass_list
from qmlir.cli.standard_streams import with_standard_streams

AFTER_PASSES = (
    "qmlir-opt --PASS --help is about a pass, its options and their defaults; --list-passes lists those of all passes, "
    "and the passes of xDSL, which can be used alike."
)

EXAMPLE = """
example:
  qmlir-opt --fold-batch-norm --quantize="schema=symmetric" net.mlir -o q.mlir
"""


def after_passes() -> str:
    """Returns the end of `qmlir-opt --help`, behind the list of passes."""
    return "\n" + "\n".join(fitted(AFTER_PASSES, help_width(), 0)) + "\n" + EXAMPLE


def main(argv: Sequence[str] | None = None) -> int:
    """Runs `qmlir-opt` and returns its exit status: 0, or 1 after an error has been reported."""
    argv = sys.argv[1:] if argv is None else argv
    if "_ARGCOMPLETE" in os.environ:  # a shell asks what may follow
        from qmlir.cli.completion import answer_for_passes

        answer_for_passes()
    return with_standard_streams(lambda: _run_command(argv))


def _run_command(argv: Sequence[str]) -> int:
    debug = "--debug" in argv or os.environ.get("QMLIR_DEBUG", "0") not in ("", "0")
    try:
        if (text := _information(argv)) is not None:
            sys.stdout.write(text)
            sys.stdout.flush()
            return 0
        from qmlir.cli.arguments import parse_arguments
        from qmlir.cli.diagnostics import reported_warnings
        from qmlir.cli.run import Run

        with reported_warnings():
            return Run(parse_arguments(argv), debug=debug).run()
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        from qmlir.cli.diagnostics import diagnose, report

        report([diagnose(error, doing="qmlir-opt", debug=debug)])
        return 1


def _information(argv: Sequence[str]) -> str | None:
    """Returns the text for a command line that asks for help, passes or versions; None for all others."""
    if "--help" in argv or "-h" in argv:
        from qmlir.cli.pass_help import help_of

        return help_of(argv) or argument_parser().format_help() + "\n" + pass_lines() + after_passes()
    if "--list-passes" in argv:
        return pass_list(with_xdsl=True)
    if "--version" in argv:
        return version_text()
    return None
