"""`qmlir analyze`: reports how far each tensor of a quantized network is from the float network's tensor."""

import argparse
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from qmlir.cli.flags import ArgumentParser, count, file_of, one_of
from qmlir.cli.models import load_known
from qmlir.cli.samples import add_data_options, samples_of
from qmlir.cli.terminal import progress, say, terminal

if TYPE_CHECKING:
    import numpy.typing as npt
    from xdsl.dialects.builtin import ModuleOp

    Samples: TypeAlias = Iterable[npt.NDArray[Any] | Mapping[str, npt.NDArray[Any]]]

Said: TypeAlias = tuple[str, str]
"""A count of rows, and the meaning of their figures, for the last line that the command prints."""

RANKINGS = ("isolated", "cumulative", "order")


def add_analyze_options(parser: ArgumentParser) -> None:
    """Adds the options of `qmlir analyze`."""
    parser.add_argument("quantized", type=Path, help="what `qmlir quantize` made of the model, an .mlir file")
    add_data_options(parser, "inputs to compare on")
    parser.add_argument(
        "--sort",
        **one_of(RANKINGS),
        help="the worst first by its operation's own error, by the whole error, or as computed (default: isolated)",
    )
    parser.add_argument(
        "--channels",
        action="store_true",
        help="name the channels of convolutions and fully connected layers that are further off than their storage "
        "explains; also names channels whose bias was corrected on few samples",
    )
    parser.add_argument("--worst", type=count, help="show this many rows only (default: all)")
    parser.add_argument("--json", type=file_of(".json"), help="write all rows to this .json file, in this order")


def run_analyze(arguments: argparse.Namespace) -> None:
    """Compares the tensors of two networks on samples, and prints a row for each tensor or channel."""
    from qmlir.compiler import load, main_function
    from qmlir.ir.signature import signature_of

    module = load_known(arguments)
    samples = samples_of(arguments, signature_of(main_function(module)))
    shown = progress(samples, len(samples), "analyzing")
    show = _show_channels if arguments.channels else _show_tensors
    rows, meaning = show(arguments, module, load(arguments.quantized), shown)
    say(f"{rows} over {len(samples)} samples; {meaning}")


def _show_tensors(arguments: argparse.Namespace, module: "ModuleOp", quantized: "ModuleOp", samples: "Samples") -> Said:
    """Prints a row for each tensor."""
    from qmlir.analysis.tensors import analyze, ranked

    rows = ranked(analyze(module, quantized, samples), arguments.sort)
    _write(arguments, [row.as_dict() for row in rows])
    headings = ("tensor", "operation", "own SQNR", "cosine", "whole SQNR", "cosine")
    cells = [
        (
            row.tensor,
            row.operation,
            *_figures(row.isolated_sqnr, row.isolated_cosine),
            *_figures(row.cumulative_sqnr, row.cumulative_cosine),
        )
        for row in rows[: arguments.worst]
    ]
    _print(headings, cells)
    return f"{len(rows)} tensors", "SQNR in dB"


def _show_channels(
    arguments: argparse.Namespace, module: "ModuleOp", quantized: "ModuleOp", samples: "Samples"
) -> Said:
    """Prints a row for each channel that is out of line."""
    from qmlir.analysis.channels import MARGIN, survey

    rows = survey(module, quantized, samples)
    out = [row for row in rows if row.is_out_of_line]
    _write(arguments, [row.as_dict() for row in out])
    if out:
        headings = ("tensor", "channel", "operation", "steps off", "explained", "beyond, dB")
        cells = [
            (r.tensor, str(r.channel), r.operation, f"{r.steps:.2f}", f"{r.expected:.2f}", f"{r.excess:.1f}")
            for r in out[: arguments.worst]
        ]
        _print(headings, cells)
    meaning = f"by more than {MARGIN:g} dB beyond what their storage explains"
    return f"{len(out)} of {len(rows)} channels are out of line", meaning


def _write(arguments: argparse.Namespace, rows: list[dict[str, Any]]) -> None:
    from qmlir.files import write_whole

    if arguments.json is not None:
        write_whole(arguments.json, json.dumps(rows, indent=2) + "\n")


def _print(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from qmlir.cli.ledger import table_of

    terminal().print(table_of(headings, rows))


def _figures(sqnr: float | None, cosine: float | None) -> tuple[str, str]:
    if sqnr is None or cosine is None:
        return "–", "–"
    return ("exact" if sqnr == math.inf else f"{sqnr:.2f}"), f"{cosine:.6f}"
