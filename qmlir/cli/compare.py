"""`qmlir compare`: finds the first tensor whose bits differ between two runs of a network, or of two networks."""

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING

from qmlir.cli.data import add_comparison_options, samples_for
from qmlir.cli.documents import write_document
from qmlir.cli.flags import ArgumentParser
from qmlir.cli.models import load_simplified
from qmlir.cli.terminal import is_verbose, progress, say, table_of, terminal
from qmlir.display import counted, listed
from qmlir.errors import OptionError, QmlirError

if TYPE_CHECKING:
    from qmlir.analysis.differences import Agreement, Difference


def add_compare_options(parser: ArgumentParser) -> None:
    """Adds the options of `qmlir compare`."""
    parser.add_argument("other", type=Path, nargs="?", help="the network of the second run (default: the same)")
    parser.add_argument(
        "--run",
        action="append",
        default=[],
        metavar="WHERE",
        help="where the first run takes place, and given again, the second: cpu, reference (numpy), a device file, or "
        "a device that comes with qmlir (default: cpu, then reference; cpu twice for two networks)",
    )
    add_comparison_options(parser, fails="differs")


def run_compare(arguments: argparse.Namespace) -> None:
    """Compares two runs, and prints the tensors that differ in program order.

    Raises:
        QmlirError: A tensor differs, and `--fail` is given.
    """
    from qmlir.analysis.differences import compare, executor_given
    from qmlir.compiler import load

    named = _executors(arguments)
    first, second = (executor_given("--run", name) for name in named)
    module = load_simplified(arguments)
    paths: list[Path] = [arguments.model, *filter(None, [arguments.other])]
    models = [module, *map(load, paths[1:])]
    samples = samples_for(arguments, models, paths)
    shown = progress(samples, len(samples), "comparing")
    found = compare(module, shown, models[-1], executors=(first, second))
    if found.left_out:
        say(f"not compared, as the other run has no such tensor: {listed(found.left_out, whole=is_verbose())}")
    total = f"{counted(len(found.compared), 'tensor')} over {counted(found.samples, 'sample')}"
    if found.first is None:
        say(f"{total}: equal bit for bit")
        _write(arguments, named, found)
        return
    headings = ("tensor", "operation", "differ", "of", "by at most", "first sample", "place", "values")
    numbers = ("differ", "of", "by at most", "first sample")
    rows = [_cells(each) for each in found.differences[: arguments.most]]
    terminal().print(table_of(headings, rows, numbers, names=("tensor",), whole=("operation",)))
    first = found.first
    say(f"{total}: {len(found.differences)} differ, the first is {first.tensor} ({first.operation})")
    _write(arguments, named, found)
    if arguments.fail:
        raise QmlirError("the runs must be equal bit for bit", got=f"another {first.tensor}")


def _write(arguments: argparse.Namespace, executors: tuple[str, str], found: "Agreement") -> None:
    fields = {
        "model": str(arguments.model),
        "other": None if arguments.other is None else str(arguments.other),
        "executors": list(executors),
        "samples": found.samples,
        "compared": list(found.compared),
        "left_out": list(found.left_out),
        "differences": [each.as_dict() for each in found.differences],
    }
    write_document(arguments, "compare", fields)


def _executors(arguments: argparse.Namespace) -> tuple[str, str]:
    from qmlir.analysis.differences import CPU, REFERENCE

    match arguments.run:
        case []:
            return CPU, REFERENCE if arguments.other is None else CPU
        case [only] if arguments.other is not None:
            return only, only
        case [only]:
            return only, REFERENCE
        case [first, second]:
            return first, second
        case more:
            raise OptionError("--run", "can be given twice, once for each run", got=f"{len(more)} times")


def _cells(each: "Difference") -> tuple[str, ...]:
    largest = "NaN" if math.isnan(each.largest) else f"{each.largest:g}"
    place = "[" + ", ".join(map(str, each.place)) + "]"
    values = " / ".join(f"{value:g}" for value in each.values)
    return each.tensor, each.operation, str(each.elements), str(each.of), largest, str(each.sample), place, values
