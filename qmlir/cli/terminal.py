"""Prints lines, tables and progress bars, and makes names from a user's files safe to print (`printable`)."""

import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TypeVar

from rich.console import Console
from rich.table import Table
from rich.text import Text

from qmlir.errors import printable

LONGEST = 4000
"""The most characters of a line."""


def say(line: str) -> None:
    """Prints a line."""
    sys.stdout.write(printable(line, longest=LONGEST) + "\n")


def cell(text: object) -> Text:
    """Returns text for a table's cell, in which a name such as "[bold]" is not markup."""
    return Text(printable(str(text), longest=LONGEST))


def table_of(headings: Sequence[str], rows: Iterable[Sequence[object]], numbers: Collection[str] = ()) -> Table:
    """Makes a table to be printed on a terminal; the columns under the headings in `numbers` are aligned right."""
    table = Table(box=None, pad_edge=False)
    for heading in headings:
        table.add_column(heading, overflow="fold", justify="right" if heading in numbers else "left")
    for row in rows:
        table.add_row(*map(cell, row))
    return table


def terminal() -> Console:
    """Returns the console of standard output, 160 columns wide for a pipe; 80 columns would fold every sentence."""
    return Console(width=None if sys.stdout.isatty() else 160)


# ---------------------------------------------------------------------------------------------------------------
# A progress bar with the rate and the time left; there is no bar unless standard error is a terminal.


T = TypeVar("T")


def progress(items: Iterable[T], total: int, what: str) -> Iterator[T]:
    """Yields the items and shows how many have been taken.

    Args:
        items: The items to work on.
        total: The number of items.
        what: The work, in a word.
    """
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeRemainingColumn,
    )

    class Rate(ProgressColumn):
        """A column that shows items per second; seconds per item if an item takes longer than a second."""

        def render(self, task: Task) -> Text:
            speed = task.finished_speed or task.speed
            if not speed:
                return Text("–/s")
            return Text(f"{speed:.1f}/s" if speed >= 1 else f"{1 / speed:.1f} s each")

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Rate(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        yield from bar.track(items, total=total, description=what)
