"""`qmlir ledger` and `qmlir ledger diff`: what was decided about each operation, as tables and as documents."""

import argparse
import json
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rich.console import Console

from qmlir.cli.documents import FORMAT, add_json_option, document, ledger_fields, write_document
from qmlir.cli.flags import ArgumentParser
from qmlir.cli.models import add_processor_options, memory_of
from qmlir.cli.terminal import WIDE, is_verbose, table_of, terminal
from qmlir.display import counted
from qmlir.errors import FileError, OptionError
from qmlir.running.files import together, write_whole
from qmlir.settings.fields import PROCESSOR

if TYPE_CHECKING:
    from qmlir.analysis.counts import Decided
    from qmlir.analysis.layers import LayerKernel
    from qmlir.policies.ledger import Change, Entry

# ---------------------------------------------------------------------------------------------------------------
# Prints the ledger on a terminal, and writes it as JSON.


def print_decisions(network: "Sequence[Decided]", console: Console | None = None, *, whole: bool | None = None) -> None:
    """Prints a line that counts the operations, and a table; with details, a second table counts them by kind.

    Args:
        network: The decisions.
        console: Where to print; by default standard output.
        whole: Whether the table has a row for each operation, or only for each that is float or has a remark; by
            default, as the user asked for details or not.
    """
    console = console or terminal()
    if is_verbose() if whole is None else whole:
        rows = [_row(each.entry, console) for each in network]
        console.print(table_of(_headings(console), rows, names=("node",), whole=KINDS))
        _print_kinds(network, console)
        console.print(_counted(network))
        return
    told = [each.entry for each in network if each.entry.outcome != "quantized" or each.entry.remedy]
    remarked = [each.entry for each in network if each.entry.has_remark and each.entry not in told]
    shown = remarked if len(remarked) <= REMARKS else []
    console.print(_counted(network) + (":" if told or shown else ""))
    if rows := [(e.node, e.operation, _why(e)) for e in told] + [(e.node, e.operation, e.remark) for e in shown]:
        console.print(table_of(("node", "operation", "why"), rows, names=("node",), whole=KINDS))
    if len(remarked) > len(shown):
        console.print(f"{len(remarked)} quantized operations have remarks, which --verbose shows")


REMARKS = 4
"""The most remarks about quantized operations that are shown unless the user asks for details."""

KINDS = ("operation", "outcome")
"""Headings of columns that are never folded nor shortened."""


def _print_kinds(network: "Sequence[Decided]", console: Console) -> None:
    """Prints how many operations of each kind were quantized, to what, and how many were not."""
    from qmlir.analysis.counts import kinds, kinds_table

    headings, rows = kinds_table(kinds(network))
    cells = [tuple("" if value is None else str(value) for value in row) for row in rows]
    if cells:
        console.print()
        console.print(table_of(("operation", *headings), cells, numbers=headings, whole=KINDS))


def _headings(console: Console) -> tuple[str, ...]:
    return ("node", "operation", "outcome", *(("scale",) if console.width >= WIDE else ()), "why")


def _row(entry: "Entry", console: Console) -> tuple[str, ...]:
    scale = (entry.scale,) if console.width >= WIDE else ()
    return (entry.node, entry.operation, entry.outcome, *scale, _why(entry))


def _counted(network: "Sequence[Decided]") -> str:
    """Returns how many operations were quantized, to what, and how many were not."""
    quantized = [each for each in network if each.entry.outcome == "quantized"]
    line = f"{len(quantized)} of {len(network)} operations quantized"
    precisions = Counter(each.precision for each in quantized)
    if "" not in precisions and len(precisions) == 1:
        line += f" to {next(iter(precisions))}"
    elif "" not in precisions and precisions:
        line += f" ({', '.join(f'{count} to {name}' for name, count in precisions.most_common())})"
    if estimated := sum(each.entry.is_data_free for each in network):
        line += f", {estimated} of them in ranges that were estimated without data"
    left = len(network) - len(quantized)
    return f"{line}, {left} left float" if left else line


def print_changes(changes: "Sequence[Change]", console: Console | None = None) -> None:
    """Prints a table with up to two rows for each operation that changed, and a line that counts them."""
    console = console or terminal()
    rows: list[tuple[str, ...]] = []
    for change in changes:
        for sign, entry in (("-", change.before), ("+", change.after)):
            if entry is not None:
                rows.append((sign, *_row(entry, console)))
    if rows:
        console.print(table_of(("", *_headings(console)), rows, names=("node",), whole=("", *KINDS)))
    console.print(f"{counted(len(changes), 'operation')} changed" if rows else "no operation changed")


def _why(entry: "Entry") -> str:
    return f"{entry.reason}; {entry.remedy}" if entry.remedy and entry.remedy not in entry.reason else entry.reason


@contextmanager
def write_ledger(network: "Sequence[Decided]", model: Path, path: Path | None) -> Generator[None]:
    """Writes a model's ledger as JSON to `path`, if given, together with the block's own files: both or neither."""
    if path is None:
        yield
        return
    with together():
        write_whole(path, document("ledger", {"model": str(model), **ledger_fields(network), "kernels": None}))
        yield


# ---------------------------------------------------------------------------------------------------------------
# `qmlir ledger` and `qmlir ledger diff`: print the decision about each operation, and compare two ledgers.


WHAT = "a ledger as `quantize --ledger` writes it, or a quantized .mlir file"


def add_ledger_options(parser: ArgumentParser) -> None:
    """Adds the options of `qmlir ledger`."""
    parser.add_argument("ledger", type=Path, help=WHAT)
    add_processor_options(parser)
    add_json_option(parser)


def add_diff_options(parser: ArgumentParser) -> None:
    """Adds the options of `qmlir ledger diff`."""
    parser.add_argument("before", type=Path, help=WHAT)
    parser.add_argument("after", type=Path, help=WHAT)
    add_json_option(parser)


def run_ledger(arguments: argparse.Namespace) -> None:
    """Prints a ledger, and the kernels of the network's layers if a processor is named."""
    kernels = _kernels(arguments)
    network = read_ledger(arguments.ledger)
    print_decisions(network, whole=True)
    if kernels:
        rows = [(layer.name, layer.kernel, layer.why) for layer in kernels]
        terminal().print()
        terminal().print(table_of(("layer", "kernel", "why"), rows, names=("layer",)))
    chosen = None if kernels is None else [asdict(layer) for layer in kernels]
    fields = {"model": str(arguments.ledger), **ledger_fields(network), "kernels": chosen}
    write_document(arguments, "ledger", fields)


def _kernels(arguments: argparse.Namespace) -> "list[LayerKernel] | None":
    """The kernels of machine code for the processor that a command line names; None if it names none.

    Raises:
        OptionError: The ledger is no network, of which code could be made.
    """
    path: Path = arguments.ledger
    named = [name for name in PROCESSOR if getattr(arguments, name) is not None]
    if not named:
        return None
    if path.suffix == ".json":
        raise OptionError(f"--{named[0]}", "needs a quantized .mlir file", got=str(path))
    from qmlir.analysis.layers import kernels_of
    from qmlir.backends.cpu import Machine

    return kernels_of(path, Machine.of(arguments.cpu, arguments.features, arguments.triple), memory_of(arguments))


def run_diff(arguments: argparse.Namespace) -> None:
    """Prints the differences between two ledgers."""
    from qmlir.policies.ledger import changes

    before, after = read_ledger(arguments.before), read_ledger(arguments.after)
    found = changes([each.entry for each in before], [each.entry for each in after])
    print_changes(found)
    known = {id(each.entry): each.as_dict() for each in (*before, *after)}
    rows = [{"before": known.get(id(c.before)), "after": known.get(id(c.after))} for c in found]
    fields = {"before": str(arguments.before), "after": str(arguments.after), "changes": rows}
    write_document(arguments, "ledger diff", fields)


def read_ledger(path: Path) -> "list[Decided]":
    """Reads the decisions of a ledger in JSON, or of a quantized network.

    Ledgers of older versions are lists of decisions without figures.

    Raises:
        FileError: The file is neither of the two.
    """
    from qmlir.analysis.counts import Decided, decided
    from qmlir.policies.ledger import CROSSING, Entry

    if path.suffix != ".json":
        from qmlir.compiler import load

        return decided(load(path))
    names = list(Entry.__dataclass_fields__)
    found: list[Decided] = []
    for number, row in enumerate(_rows(path)):
        fields = cast(dict[str, Any], row) if isinstance(row, dict) else {}
        figures = {name: value for name, value in fields.items() if name in FIGURES}
        known = all(isinstance(fields.get(name), int | None if name == CROSSING else str) for name in names)
        if not known or not all(_is_figure(name, value) for name, value in figures.items()):
            need = f"must be a ledger: a list of rows with {', '.join(names)}"
            raise FileError(path, need, got=f"another row {number}", remedy=REMEDY)
        entry = Entry(**{name: fields[name] for name in names if name in fields})
        found.append(Decided(entry, figures))
    return found


REMEDY = "write one with `qmlir quantize --ledger`"

FIGURES = ("macs", "weight_bytes", "activation_bytes", "operands", "results")
"""Fields of a decision in JSON that are figures of its operation."""


def _is_figure(name: str, value: Any) -> bool:
    """Whether a figure of an operation has the type that `qmlir ledger` needs."""
    if name not in ("operands", "results"):
        return isinstance(value, int)
    tensors: list[Any] = cast(list[Any], value) if isinstance(value, list) else [None]
    return all(isinstance(t, dict) and isinstance(t.get("type"), str) and "scales" in t for t in tensors)  # pyright: ignore[reportUnknownMemberType]


def _rows(path: Path) -> list[Any]:
    """Returns the decisions in a ledger's file; a single None if the file holds something else."""
    need = "must be a ledger"
    try:
        found: Any = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FileError(path, need, got=error, remedy=REMEDY) from None
    except json.JSONDecodeError as error:
        place = f"{path}:{error.lineno}:{error.colno}"
        raise FileError(place, need, got=f"a mistake ({error.msg})", remedy=REMEDY) from None
    except (ValueError, RecursionError):  # not UTF-8, numbers of thousands of digits, thousands of brackets
        raise FileError(path, need, got="something that is no JSON", remedy=REMEDY) from None
    if isinstance(found, dict) and "format" in found:
        whole = cast(dict[str, Any], found)
        if whole["format"] != FORMAT or not isinstance(whole.get("decisions"), list):
            got = f"{whole.get('document')} of format {whole['format']}"
            raise FileError(path, f"{need} of format {FORMAT}", got=got, remedy=REMEDY)
        return whole["decisions"]
    return cast(list[Any], found) if isinstance(found, list) else [None]
