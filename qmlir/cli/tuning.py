"""`qmlir tune`: searches the policy that costs least above a floor, or reaches most within a budget."""

import argparse
import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qmlir.cli.data import samples_at
from qmlir.cli.device import target_text
from qmlir.cli.documents import add_json_option, write_document
from qmlir.cli.flags import ArgumentParser, count, file_of
from qmlir.cli.models import load_known
from qmlir.cli.printed_options import add_config_file_options
from qmlir.cli.quantizing import add_config_options, given_settings
from qmlir.cli.scoring import add_scoring_options, held_out
from qmlir.cli.terminal import say, table_of, terminal
from qmlir.cli.workers import add_worker_options, workers_from
from qmlir.display import counted
from qmlir.running.files import together, write_whole
from qmlir.settings.fields import SAMPLES

if TYPE_CHECKING:
    from qmlir.analysis.tune import Point, Tuned

QUALITIES = ("sqnr", "agreement", "top1", "metric")


def add_tune_options(parser: ArgumentParser) -> None:
    """Adds the options of `qmlir tune`."""
    limits = parser.add_mutually_exclusive_group(required=True)
    limits.add_argument(
        "--budget",
        metavar="COST=N",
        help="the most that the network may cost: bytes (of weights and biases, packed), stored (bytes in machine "
        "code), macs-bits, arena (bytes), cycles:DEVICE, ms; or a share of the int8 network's, such as bytes=60%%",
    )
    limits.add_argument(
        "--floor",
        metavar="QUALITY=X",
        help="the least that the network must reach, in the fewest bytes: sqnr (dB), agreement or top1 (percent), "
        "metric; or a difference to the int8 network, such as agreement=int8-0.5",
    )
    with parser.section("samples"):
        parser.add_options(*SAMPLES, what="learn ranges and quantize on these samples", required="data")
        parser.add_argument("--profile", type=Path, help="a profile (default: the ranges of --data)")
    with parser.section("scores"):
        add_scoring_options(parser, splits=True)
    with parser.section("options that the search leaves as they are"):
        add_config_options(parser)
        parser.add_options("target", "set", what="quantize for a device")
    parser.add_argument("--most", type=count, help="the most quantizations (default: 20)")
    parser.add_argument(
        "--levels",
        type=_levels,
        metavar="BITS,…",
        help="bits of weights below 8 to try (default: 4 to 7); 8 and 16 are tried always",
    )
    parser.add_argument(
        "--results",
        type=Path,
        metavar="FOLDER",
        help="keep what was measured here: a search goes on where it stopped (default: beside compiled networks)",
    )
    add_worker_options(parser)
    parser.add_argument("--front", type=file_of(".csv"), help="write all points, and which are on the front, as CSV")
    parser.add_argument("-o", "--output", type=file_of(".yaml"), required=True, help="the policy, for --policy")
    add_config_file_options(parser)
    add_json_option(parser)


def _levels(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(word) for word in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be numbers such as 4,6, got {text}") from None


def run_tune(arguments: argparse.Namespace) -> None:
    """Searches a policy, prints the front, and writes the policy with its reasons."""
    from qmlir.analysis.tune import LEVELS, MOST, tune
    from qmlir.compiler import main_function
    from qmlir.ir.signature import signature_of

    module = load_known(arguments)
    signature = signature_of(main_function(module))
    paths = (arguments.data, arguments.test_data)
    samples, tests = (None if path is None else samples_at(path, arguments, signature) for path in paths)
    assert samples is not None
    used, trial = held_out(arguments, samples, tests, signature)
    limits: dict[str, Any] = {
        "budget": arguments.budget,
        "floor": arguments.floor,
        "labels": trial.labels,
        "metric": trial.metric,
        "profile": arguments.profile,
        "target": arguments.target,
        "results": arguments.results,
        "most": arguments.most or MOST,
        "levels": arguments.levels or LEVELS,
    }
    limits |= given_settings(arguments)
    with workers_from(arguments) as workers:
        found = tune(module, list(used or ()), tests=list(trial.samples), workers=workers, **limits)
    say(trial.said)
    _print_front(found)
    files = [arguments.output]
    with together():
        found.save(arguments.output)
        if arguments.front is not None:
            write_whole(arguments.front, csv_of(found))
            files.append(arguments.front)
    say(f"{arguments.output}: written, {found.algorithm}")
    say(f"{counted(found.made, 'quantization')} made, {len(found.points)} networks compared")
    for path in files[1:]:
        say(f"{path}: written")
    fields = {"model": str(arguments.model), "files": list(map(str, files)), "target": target_text(arguments)}
    write_document(arguments, "tune", fields | found.as_dict())


def _print_front(found: "Tuned") -> None:
    """Prints the front, the cheapest network first."""
    whole = found.reference.trial.cost(found.cost)
    headings = ("weights and data", found.cost, "of int8", "SQNR", "agree", "")
    cells = [
        (
            point.said,
            f"{point.trial.cost(found.cost):g}" if found.cost == "ms" else f"{point.trial.cost(found.cost):.0f}",
            f"{100 * point.trial.cost(found.cost) / whole:.1f} %" if whole else "–",
            f"{point.trial.sqnr:.2f}",
            "–" if (share := point.trial.quality("agreement")) is None else f"{share:.2f} %",
            "chosen" if point is found.chosen else "",
        )
        for point in found.front
    ]
    terminal().print(table_of(headings, cells, headings[1:5], names=("weights and data",)))


def csv_of(found: "Tuned") -> str:
    """Returns all points of a search as CSV, in the order in which they were made."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("network", "cost", *QUALITIES, "predicted_sqnr", "bytes", "macs_bits", "front", "chosen"))
    front = {id(point) for point in found.front}

    def cells(point: "Point") -> list[object]:
        trial = point.trial
        figures = [trial.cost(found.cost), *(trial.quality(name) for name in QUALITIES), point.predicted]
        marks = [int(id(point) in front), int(point is found.chosen)]
        return [point.said, *("" if f is None else f for f in figures), trial.bytes, trial.macs_bits, *marks]

    writer.writerows(map(cells, found.points))
    return text.getvalue()
