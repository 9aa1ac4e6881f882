"""The ledger on a terminal."""

import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from qmlir.ledger import Entry


def print_decisions(entries: Sequence[Entry], console: Console | None = None) -> None:
    """A table with a row for each operation, and a line that counts them."""
    # A pipe has no width; 80 columns would fold every sentence.
    console = console or Console(width=None if sys.stdout.isatty() else 160)
    table = Table(box=None, pad_edge=False)
    for heading in ("node", "operation", "outcome", "why"):
        table.add_column(heading, overflow="fold")
    for entry in entries:
        table.add_row(entry.node, entry.operation, entry.outcome, entry.reason)
    console.print(table)
    quantized = sum(e.outcome == "quantized" for e in entries)
    console.print(f"{quantized} of {len(entries)} operations quantized")
