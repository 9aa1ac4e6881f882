"""The ledger on a terminal, and as JSON."""

import json
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from qmlir.files import replacing
from qmlir.ledger import Entry


def print_decisions(entries: Sequence[Entry], console: Console | None = None) -> None:
    """A table with a row for each operation, and a line that counts them."""
    # A pipe has no width; 80 columns would fold every sentence.
    console = console or Console(width=None if sys.stdout.isatty() else 160)
    table = Table(box=None, pad_edge=False)
    for heading in ("node", "operation", "outcome", "scale", "why"):
        table.add_column(heading, overflow="fold")
    for entry in entries:
        # Text, since a name such as "[bold]" is no markup.
        table.add_row(*map(Text, (entry.node, entry.operation, entry.outcome, entry.scale, entry.reason)))
    console.print(table)
    quantized = sum(e.outcome == "quantized" for e in entries)
    console.print(f"{quantized} of {len(entries)} operations quantized")


@contextmanager
def write_ledger(entries: Sequence[Entry], path: Path | None) -> Generator[None]:
    """Writes the ledger as JSON, if anywhere, together with what the block writes: both or neither."""
    if path is None:
        yield
        return
    with replacing(path) as temporary:
        temporary.write_text(json.dumps([e.as_dict() for e in entries], indent=2) + "\n", encoding="utf-8")
        yield
