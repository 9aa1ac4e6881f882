"""`qmlir crosscheck`: finds the first tensor of two forms of a network that is further off than its bits allow."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from qmlir.cli.data import add_comparison_options, samples_for
from qmlir.cli.documents import write_document
from qmlir.cli.flags import ArgumentParser
from qmlir.cli.terminal import is_verbose, progress, say, table_of, terminal
from qmlir.display import counted, listed
from qmlir.errors import QmlirError

if TYPE_CHECKING:
    from qmlir.analysis.crosscheck import CheckedTensor, Crosscheck

FORM = (
    "an .onnx or a .tflite file, which runs in onnxruntime or LiteRT; an .mlir file; or FILE@WHERE, as qmlir reads it, "
    "on the cpu, in the reference (numpy) or on a device"
)


def add_crosscheck_options(parser: ArgumentParser) -> None:
    """Adds the options of `qmlir crosscheck`."""
    parser.add_argument("first", metavar="A", help=FORM)
    parser.add_argument("second", metavar="B", help="another form of the network, such as one that was quantized")
    parser.add_options("bind", "state", "sequence")
    add_comparison_options(parser, fails="diverges")


def run_crosscheck(arguments: argparse.Namespace) -> None:
    """Compares two forms, and prints the tensors that diverge, or else those that are furthest off.

    Raises:
        QmlirError: A tensor diverges, and `--fail` is given.
    """
    from qmlir.analysis.crosscheck import crosscheck, parted
    from qmlir.compiler import load, main_function
    from qmlir.ir.signature import signature_of
    from qmlir.samples.reading import in_sequences

    paths: list[Path] = [parted(given)[0] for given in (arguments.first, arguments.second)]
    bind: dict[str, int] = dict(arguments.bind or ())
    state: dict[str, str] = dict(arguments.state or ())
    models = [
        load(path, bind=bind if path.suffix == ".onnx" else None, state=None if path.suffix == ".mlir" else state)
        for path in paths
    ]
    samples = samples_for(arguments, models, paths)
    signature = signature_of(main_function(models[0]))
    taken = in_sequences(progress(samples, len(samples), "comparing"), arguments.sequence, signature)
    found = crosscheck(arguments.first, arguments.second, taken, bind=bind, state=state)
    if found.left_out:
        say(f"not compared, as {arguments.second} has no such tensor: {listed(found.left_out, whole=is_verbose())}")
    diverging = [row for row in found.rows if row.diverges]
    rows = diverging or sorted((r for r in found.rows if r.sqnr is not None), key=lambda row: row.sqnr or 0.0)
    headings = ("tensor", "operation", "SQNR", "its bits allow", "by at most")
    cells = [_cells(row) for row in rows[: arguments.most]]
    terminal().print(table_of(headings, cells, headings[2:], names=("tensor",), whole=("operation",)))
    total = f"{counted(len(found.rows), 'tensor')} over {counted(found.samples, 'sample')}"
    first = found.first
    if first is None:
        say(f"{total}: none is further off than its bits allow")
    else:
        why = f": {first.why}" if first.why else ""
        step = f" in sample {first.sample}" if found.starts else ""
        say(f"{total}: {len(diverging)} diverge, the first is {first.tensor}{step} ({first.operation}{why})")
    _write(arguments, found)
    if first is not None and arguments.fail:
        got = f"{first.tensor} that is further off"
        raise QmlirError("the two forms must agree as far as their bits allow", got=got)


def _cells(row: "CheckedTensor") -> tuple[str, ...]:
    figures = ["–" if f is None else "exact" if f == float("inf") else f"{f:.1f}" for f in (row.sqnr, row.allowed)]
    return row.tensor, row.operation, *figures, f"{row.largest:.4g}"


def _write(arguments: argparse.Namespace, found: "Crosscheck") -> None:
    fields = {
        "first": str(arguments.first),
        "second": str(arguments.second),
        "samples": found.samples,
        "left_out": list(found.left_out),
        "tensors": [row.as_dict() for row in found.rows],
        "diverging": None if found.first is None else found.first.tensor,
    }
    write_document(arguments, "crosscheck", fields)
