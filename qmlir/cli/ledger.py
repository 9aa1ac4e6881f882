"""The reports `qmlir ledger`, `ledger diff` and `qmlir analyze`: what was decided, and how far off tensors are."""

import argparse
import json
import math
import sys
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from rich.console import Console

from qmlir.cli.data import add_data_options, samples_of
from qmlir.cli.flags import ArgumentParser, count, file_of, one_of
from qmlir.cli.models import load_known
from qmlir.cli.terminal import progress, say, table_of, terminal
from qmlir.errors import FileError
from qmlir.files import replacing, write_whole

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from qmlir.numerics import Array
    from qmlir.policies.ledger import Change, Entry

    Samples: TypeAlias = Iterable[Array | Mapping[str, Array]]

# ---------------------------------------------------------------------------------------------------------------
# Prints the ledger on a terminal, and writes it as JSON.


def print_decisions(entries: "Sequence[Entry]", console: Console | None = None) -> None:
    """Prints a table with a row for each operation, and a line that counts them."""
    console = console or terminal()
    rows = [(entry.node, entry.operation, entry.outcome, entry.scale, _why(entry)) for entry in entries]
    console.print(table_of(("node", "operation", "outcome", "scale", "why"), rows))
    quantized = sum(e.outcome == "quantized" for e in entries)
    console.print(f"{quantized} of {len(entries)} operations quantized")


def print_changes(changes: "Sequence[Change]", console: Console | None = None) -> None:
    """Prints a table with up to two rows for each operation that changed, and a line that counts them."""
    console = console or terminal()
    rows: list[tuple[str, ...]] = []
    for change in changes:
        for sign, entry in (("-", change.before), ("+", change.after)):
            if entry is not None:
                rows.append((sign, entry.node, entry.operation, entry.outcome, entry.scale, _why(entry)))
    if rows:
        console.print(table_of(("", "node", "operation", "outcome", "scale", "why"), rows))
    console.print(f"{len(changes)} operations changed" if rows else "no operation changed")


def _why(entry: "Entry") -> str:
    return f"{entry.reason}; {entry.remedy}" if entry.remedy and entry.remedy not in entry.reason else entry.reason


@contextmanager
def write_ledger(entries: "Sequence[Entry]", path: Path | None) -> Generator[None]:
    """Writes the ledger as JSON to `path`, if given, together with the block's own files: both or neither."""
    if path is None:
        yield
        return
    with replacing(path) as temporary:
        temporary.write_text(json.dumps([e.as_dict() for e in entries], indent=2) + "\n", encoding="utf-8")
        yield


# ---------------------------------------------------------------------------------------------------------------
# `qmlir ledger` and `qmlir ledger diff`: print the decision about each operation, and compare two ledgers.


WHAT = "a ledger as `quantize --ledger` writes it, or a quantized .mlir file"


def add_ledger_options(parser: ArgumentParser) -> None:
    """Adds the options of `qmlir ledger`."""
    parser.add_argument("ledger", type=Path, help=WHAT)
    _add_json(parser)


def add_diff_options(parser: ArgumentParser) -> None:
    """Adds the options of `qmlir ledger diff`."""
    parser.add_argument("before", type=Path, help=WHAT)
    parser.add_argument("after", type=Path, help=WHAT)
    _add_json(parser)


def _add_json(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")


def run_ledger(arguments: argparse.Namespace) -> None:
    """Prints a ledger."""
    entries = read_ledger(arguments.ledger)
    if arguments.json:
        _print_json([entry.as_dict() for entry in entries])
    else:
        print_decisions(entries)


def run_diff(arguments: argparse.Namespace) -> None:
    """Prints the differences between two ledgers."""
    from qmlir.policies.ledger import changes

    found = changes(read_ledger(arguments.before), read_ledger(arguments.after))
    if arguments.json:
        _print_json([change.as_dict() for change in found])
    else:
        print_changes(found)


def _print_json(rows: Any) -> None:
    sys.stdout.write(json.dumps(rows, indent=2) + "\n")


def read_ledger(path: Path) -> "list[Entry]":
    """Reads the entries of a ledger in JSON, or of a quantized network.

    Raises:
        FileError: The file is neither of the two.
    """
    from qmlir.policies.ledger import CROSSING, Entry, decisions

    if path.suffix != ".json":
        from qmlir.compiler import load

        return decisions(load(path))
    need, remedy = "must be a ledger", "write one with `qmlir quantize --ledger`"
    try:
        rows: Any = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FileError(path, need, got=error, remedy=remedy) from None
    except json.JSONDecodeError as error:
        place = f"{path}:{error.lineno}:{error.colno}"
        raise FileError(place, need, got=f"a mistake ({error.msg})", remedy=remedy) from None
    except (ValueError, RecursionError):  # not UTF-8, numbers of thousands of digits, thousands of brackets
        raise FileError(path, need, got="something that is no JSON", remedy=remedy) from None
    names = list(Entry.__dataclass_fields__)
    found: list[Entry] = []
    for number, row in enumerate(cast(list[object], rows) if isinstance(rows, list) else [None]):
        fields = cast(dict[str, Any], row) if isinstance(row, dict) else {}
        if not all(isinstance(fields.get(name), int | None if name == CROSSING else str) for name in names):
            need = f"must be a ledger: a list of rows with {', '.join(names)}"
            raise FileError(path, need, got=f"another row {number}", remedy=remedy)
        found.append(Entry(**{name: fields[name] for name in names if name in fields}))
    return found


# ---------------------------------------------------------------------------------------------------------------
# `qmlir analyze`: reports how far each tensor of a quantized network is from the float network's tensor.


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
    terminal().print(table_of(headings, cells))
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
        terminal().print(table_of(headings, cells))
    meaning = f"by more than {MARGIN:g} dB beyond what their storage explains"
    return f"{len(out)} of {len(rows)} channels are out of line", meaning


def _write(arguments: argparse.Namespace, rows: list[dict[str, Any]]) -> None:
    if arguments.json is not None:
        write_whole(arguments.json, json.dumps(rows, indent=2) + "\n")


def _figures(sqnr: float | None, cosine: float | None) -> tuple[str, str]:
    if sqnr is None or cosine is None:
        return "–", "–"
    return ("exact" if sqnr == math.inf else f"{sqnr:.2f}"), f"{cosine:.6f}"
