"""`qmlir analyze`: reports how far each tensor of a quantized network is from the float network's tensor."""

import argparse
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from qmlir.cli.data import samples_of, stored_in
from qmlir.cli.documents import add_json_option, write_document
from qmlir.cli.flags import ArgumentParser, count, one_of
from qmlir.cli.models import load_known
from qmlir.cli.terminal import is_verbose, progress, say, table_of, terminal
from qmlir.cli.workers import add_worker_options, elsewhere, workers_from
from qmlir.display import counted
from qmlir.errors import OptionError
from qmlir.settings.fields import SAMPLES

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from qmlir.numerics import Array

    Samples: TypeAlias = Iterable[Array | Mapping[str, Array]]


Said: TypeAlias = tuple[dict[str, Any], str, str]
"""Fields of the document; a count of rows, and the meaning of their figures, for the last line of the text."""

RANKINGS = ("isolated", "cumulative", "order")


def add_analyze_options(parser: ArgumentParser) -> None:
    """Adds the options of `qmlir analyze`."""
    parser.add_argument("quantized", type=Path, help="what `qmlir quantize` made of the model, an .mlir file")
    with parser.section("samples"):
        parser.add_options(*SAMPLES, what="inputs to compare on", required="data")
    parser.add_argument(
        "--sort",
        **one_of(RANKINGS),
        help="the worst first by its operation's own SQNR, by its whole SQNR, or as computed (default: isolated)",
    )
    parser.add_argument(
        "--channels",
        action="store_true",
        help="name the channels of convolutions and fully connected layers that are further off than their storage "
        "explains; also names channels whose bias was corrected on few samples",
    )
    parser.add_argument(
        "--budget",
        action="store_true",
        help="split each operation's own noise among its causes: weights, clipping and rounding of data and results, "
        "and arithmetic",
    )
    parser.add_argument(
        "--effect",
        action="store_true",
        help="measure how far the output moves when the weights or the result of one operation alone are quantized, "
        "narrowed or widened; compare the sum with the network's error, and cheap scores with the effect",
    )
    parser.add_argument(
        "--metric", metavar="MODULE:FUNCTION", help="with --effect: your own score of the outputs, as for quantize"
    )
    add_worker_options(parser)
    parser.add_argument("--worst", type=count, help=f"show this many rows only (default: {SHOWN}; all with --verbose)")
    add_json_option(parser)


SHOWN = 10
"""The rows that are shown unless the user asks for more."""


def run_analyze(arguments: argparse.Namespace) -> None:
    """Compares the tensors of two networks on samples, and prints a row for each tensor or channel."""
    from qmlir.compiler import load, main_function
    from qmlir.ir.signature import signature_of

    module = load_known(arguments)
    stored = stored_in(arguments.quantized, arguments.model)
    samples = samples_of(arguments, signature_of(main_function(module)), stored)
    shown = progress(samples, len(samples), "analyzing")
    reports = {"channels": _show_channels, "budget": _show_budgets, "effect": _show_effects}
    asked = [name for name in reports if getattr(arguments, name)]
    if len(asked) > 1:
        raise OptionError(f"--{asked[1]}", f"is another report than --{asked[0]}", remedy="drop one of them")
    if arguments.metric is not None and not arguments.effect:
        raise OptionError("--metric", "is for effects on the output", remedy="give --effect, too")
    if not arguments.effect and (given := [option for option, value in elsewhere(arguments) if value is not None]):
        raise OptionError(given[0], "is for effects on the output", remedy="give --effect, too")
    show = reports[asked[0]] if asked else _show_tensors
    fields, what, meaning = show(arguments, module, load(arguments.quantized), shown)
    say(f"{what} over {counted(len(samples), 'sample')}; {meaning}")
    compared = {"model": str(arguments.model), "quantized": str(arguments.quantized), "samples": len(samples)}
    kinds = {"tensors": None, "channels": None, "budgets": None, "effects": None}
    write_document(arguments, "analyze", compared | kinds | fields)


def _show_tensors(arguments: argparse.Namespace, module: "ModuleOp", quantized: "ModuleOp", samples: "Samples") -> Said:
    """Prints a row for each tensor."""
    from qmlir.analysis.tensors import analyze, ranked

    rows = ranked(analyze(module, quantized, samples), arguments.sort)
    headings = ("tensor", "operation", "own SQNR", "cosine", "whole SQNR", "cosine")
    cells = [
        (
            row.tensor,
            row.operation,
            *_figures(row.isolated_sqnr, row.isolated_cosine),
            *_figures(row.cumulative_sqnr, row.cumulative_cosine),
        )
        for row in rows
    ]
    _print_first(arguments, headings, cells, headings[2:])
    fields = {"sort": arguments.sort, "tensors": [row.as_dict() for row in rows]}
    return fields, counted(len(rows), "tensor"), "SQNR in dB"


def _show_channels(
    arguments: argparse.Namespace, module: "ModuleOp", quantized: "ModuleOp", samples: "Samples"
) -> Said:
    """Prints a row for each channel that is out of line."""
    from qmlir.analysis.channels import MARGIN, survey

    rows = survey(module, quantized, samples)
    out = [row for row in rows if row.is_out_of_line]
    headings = ("tensor", "channel", "operation", "steps off", "explained", "beyond, dB")
    cells = [
        (r.tensor, str(r.channel), r.operation, f"{r.steps:.2f}", f"{r.expected:.2f}", f"{r.excess:.1f}") for r in out
    ]
    _print_first(arguments, headings, cells, ("channel", *headings[3:]))
    fields = {"sort": "excess", "channels": [row.as_dict() for row in out]}
    meaning = f"by more than {MARGIN:g} dB beyond what their storage explains"
    return fields, f"{len(out)} of {len(rows)} channels are out of line", meaning


def _show_budgets(arguments: argparse.Namespace, module: "ModuleOp", quantized: "ModuleOp", samples: "Samples") -> Said:
    """Prints a row for each operation, with the SQNR that each cause alone would leave."""
    from qmlir.analysis.error_budget import CAUSES, error_budgets

    rows = error_budgets(module, quantized, samples)
    known = ("tensor", "operation", "own SQNR")
    whole = [(row.tensor, row.operation, _decibels(row.whole)) for row in rows]
    main = [row.main_cause.replace("_", " ") if row.whole < math.inf else "–" for row in rows]
    if terminal().width < WIDEST:
        alone = [_decibels(getattr(row, row.main_cause)) for row in rows]
        cells = [(*start, *each) for start, each in zip(whole, zip(main, alone, strict=True), strict=True)]
        _print_first(arguments, (*known, "main cause", "alone"), cells, ("own SQNR", "alone"))
    else:
        causes = ("weights", "data clipped", "data rounded", "result clipped", "result rounded", "arithmetic")
        split = [[_decibels(getattr(row, cause)) for cause in CAUSES] for row in rows]
        cells = [(*start, *each, most) for start, each, most in zip(whole, split, main, strict=True)]
        _print_first(arguments, (*known, *causes, "main cause"), cells, ("own SQNR", *causes))
    fields = {"sort": "whole", "budgets": [row.as_dict() for row in rows]}
    return (
        fields,
        counted(len(rows), "operation"),
        "SQNR in dB that each cause alone leaves; – for less than floats round",
    )


def _show_effects(arguments: argparse.Namespace, module: "ModuleOp", quantized: "ModuleOp", samples: "Samples") -> Said:
    """Prints a row for the weights and for the result of each operation, with what other precisions would do."""
    from qmlir.analysis.effects import effects
    from qmlir.analysis.output_measure import decibels
    from qmlir.cli.scoring import metric_of

    metric = None if arguments.metric is None else metric_of(arguments.metric)
    with workers_from(arguments) as workers:
        found = effects(module, quantized, samples, metric=metric, workers=workers)
    others: dict[tuple[str, str], list[str]] = {}
    for row in found.changed:
        if row.precision not in [r.precision for r in found.effects if (r.tensor, r.part) == (row.tensor, row.part)]:
            others.setdefault((row.tensor, row.part), []).append(f"{_decibels(row.sqnr)} {row.precision}")
    headings = ("tensor", "part", "precision", "output SQNR", "agree", "own SQNR", "in other precisions")
    cells = [
        (
            row.tensor,
            row.part,
            row.precision,
            _decibels(row.sqnr),
            "–" if row.agreeing is None else f"{100 * row.agreeing:.1f} %",
            _decibels(decibels(row.own)),
            ", ".join(others.get((row.tensor, row.part), ())),
        )
        for row in found.effects
    ]
    _print_first(arguments, headings, cells, headings[3:6])
    total = f"their sum predicts {_decibels(decibels(found.predicted))} dB at the output"
    say(f"{total}, and the network has {_decibels(decibels(found.measured))} dB")
    scores = {"own": "own noise", "gained": "own noise times gain", "informed": "own noise times Fisher information"}
    known = {name: "–" if math.isnan(rank) else f"{rank:.2f}" for name, rank in found.correlations.items()}
    ranks = [f"{said} {known[name]}" for name, said in scores.items()]
    say(f"rank correlation of cheap scores with the effect: {', '.join(ranks)}")
    fields = {"sort": "effect", "effects": found.as_dict()}
    return fields, counted(len(cells), "part"), "SQNR in dB that each part alone leaves at the output"


WIDEST = 150
"""The least columns of a terminal on which the table of causes has a column for each of them."""


def _decibels(sqnr: float) -> str:
    return f"{sqnr:.1f}" if sqnr < FLOATS_ROUND else "–"


FLOATS_ROUND = 120.0
"""dB from which an error is that of float32 itself."""


def _print_first(
    arguments: argparse.Namespace, headings: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[str]
) -> None:
    """Prints the first rows of a table, as many as the user wants, and how many there are more."""
    most = arguments.worst or (len(rows) if is_verbose() else SHOWN)
    if rows:
        terminal().print(table_of(headings, rows[:most], numbers, names=("tensor",), whole=("operation",)))
    if arguments.worst is None and len(rows) > most:
        say(f"and {len(rows) - most} more, which --verbose shows")


def _figures(sqnr: float | None, cosine: float | None) -> tuple[str, str]:
    if sqnr is None or cosine is None:
        return "–", "–"
    return ("exact" if sqnr == math.inf else f"{sqnr:.2f}"), f"{cosine:.6f}"
