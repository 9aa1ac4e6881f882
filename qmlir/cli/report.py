"""Prints the ledger on a terminal, and writes it as JSON."""

import json
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table

from qmlir.cli.terminal import cell, terminal
from qmlir.files.whole import replacing
from qmlir.policies.ledger import Change, Entry


def print_decisions(entries: Sequence[Entry], console: Console | None = None) -> None:
    """Prints a table with a row for each operation, and a line that counts them."""
    console = console or terminal()
    rows = [(entry.node, entry.operation, entry.outcome, entry.scale, _why(entry)) for entry in entries]
    console.print(table_of(("node", "operation", "outcome", "scale", "why"), rows))
    quantized = sum(e.outcome == "quantized" for e in entries)
    console.print(f"{quantized} of {len(entries)} operations quantized")


def print_changes(changes: Sequence[Change], console: Console | None = None) -> None:
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


def _why(entry: Entry) -> str:
    return f"{entry.reason}; {entry.remedy}" if entry.remedy and entry.remedy not in entry.reason else entry.reason


def table_of(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Makes a table of rows under headings, to be printed on a terminal."""
    table = Table(box=None, pad_edge=False)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*map(cell, row))
    return table


@contextmanager
def write_ledger(entries: Sequence[Entry], path: Path | None) -> Generator[None]:
    """Writes the ledger as JSON to `path`, if given, together with the block's own files: both or neither."""
    if path is None:
        yield
        return
    with replacing(path) as temporary:
        temporary.write_text(json.dumps([e.as_dict() for e in entries], indent=2) + "\n", encoding="utf-8")
        yield
