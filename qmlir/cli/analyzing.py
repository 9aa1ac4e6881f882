"""`qmlir analyze`: how far each tensor of a quantized network is from the float network's."""

import argparse
import json
import math
from pathlib import Path

from qmlir.cli.data import add_data_options, samples_of
from qmlir.cli.flags import ArgumentParser, count, file_of, one_of
from qmlir.cli.models import load_model
from qmlir.cli.progress import progress
from qmlir.cli.terminal import say, terminal

RANKINGS = ("isolated", "cumulative", "order")


def add_analyze_options(parser: ArgumentParser) -> None:
    """The options of `qmlir analyze`."""
    parser.add_argument("quantized", type=Path, help="what `qmlir quantize` made of the model, an .mlir file")
    add_data_options(parser, "inputs to compare on")
    parser.add_argument(
        "--sort",
        **one_of(RANKINGS),
        help="the worst first by its operation's own error, by the whole error, or as computed (default: isolated)",
    )
    parser.add_argument("--worst", type=count, help="show this many rows only (default: all)")
    parser.add_argument("--json", type=file_of(".json"), help="write all rows to this .json file, in this order")


def run_analyze(arguments: argparse.Namespace) -> None:
    """Compares the tensors of two networks on samples."""
    from qmlir.analysis import analyze, ranked
    from qmlir.cli.report import table_of
    from qmlir.compiler import load, main_function
    from qmlir.files import write_whole
    from qmlir.signature import signature_of

    module = load_model(arguments)
    samples = samples_of(arguments, signature_of(main_function(module)))
    rows = ranked(
        analyze(module, load(arguments.quantized), progress(samples, len(samples), "analyzing")), arguments.sort
    )
    if arguments.json is not None:
        write_whole(arguments.json, json.dumps([row.as_dict() for row in rows], indent=2) + "\n")
    shown = [
        (
            row.tensor,
            row.operation,
            *_figures(row.isolated_sqnr, row.isolated_cosine),
            *_figures(row.cumulative_sqnr, row.cumulative_cosine),
        )
        for row in rows[: arguments.worst]
    ]
    headings = ("tensor", "operation", "own SQNR", "cosine", "whole SQNR", "cosine")
    terminal().print(table_of(headings, shown))
    say(f"{len(rows)} tensors over {len(samples)} samples; SQNR in dB")


def _figures(sqnr: float | None, cosine: float | None) -> tuple[str, str]:
    if sqnr is None or cosine is None:
        return "–", "–"
    return ("exact" if sqnr == math.inf else f"{sqnr:.2f}"), f"{cosine:.6f}"
