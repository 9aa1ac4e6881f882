"""Prints lines, tables and progress bars, and makes names from a user's files safe to print (`printable`)."""

import os
import re
import sys
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from qmlir.errors import printable

LONGEST = 4000
"""The most characters of a line."""


@dataclass(frozen=True)
class Detail:
    """How much a command prints: nothing but warnings and errors if quiet, each operation if verbose."""

    quiet: bool = False
    verbose: bool = False


_detail: ContextVar[Detail] = ContextVar("detail", default=Detail())


@contextmanager
def printing(detail: Detail) -> Generator[None]:
    """Sets how much is printed within the block."""
    token = _detail.set(detail)
    try:
        yield
    finally:
        _detail.reset(token)


def is_verbose() -> bool:
    """Whether the user asked for details."""
    return _detail.get().verbose


def say(line: str) -> None:
    """Prints a line, unless the user asked for quiet."""
    if not _detail.get().quiet:
        sys.stdout.write(printable(line, longest=LONGEST) + "\n")


def cell(text: object) -> Text:
    """Returns text for a table's cell, in which a name such as "[bold]" is not markup."""
    return Text(printable(str(text), longest=LONGEST))


WIDE = 110
"""The least columns of a terminal on which tables show what is less important, too."""

LEAST_NAME = 20
"""The columns of a name that is shortened to fit the terminal."""


class Name:
    """A name for a table's cell, which is shortened where the terminal is too narrow for it (`shortened`)."""

    def __init__(self, text: str):
        self.text = printable(text, longest=LONGEST)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        length = Text(self.text).cell_len
        return Measurement(min(length, LEAST_NAME), length)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(shortened(self.text, options.max_width), no_wrap=True)


_JOINT = re.compile("[+;]")
"""What joins the names of operations that became one: `conv1+relu1`; in TFLite files `conv1/relu;conv1/conv2d`."""


def shortened(text: str, width: int) -> str:
    """Returns a name of at most `width` characters.

    Of names that are joined, the first one stays: `conv1+…`. A single name loses its middle, since its ends tell more:
    `model/block_3/…/conv2d`.
    """
    if len(text) <= width:
        return text
    if (joint := _JOINT.search(text, 1)) is not None and width > LEAST_NAME // 2:
        return f"{shortened(text[: joint.start()], width - 2)}{joint[0]}…"
    kept = max(width - 1, 0)
    return f"{text[: kept - kept // 2]}…{text[len(text) - kept // 2 :]}"[:width]


def table_of(
    headings: Sequence[str],
    rows: Iterable[Sequence[object]],
    numbers: Collection[str] = (),
    names: Collection[str] = (),
    whole: Collection[str] = (),
) -> Table:
    """Makes a table to be printed on a terminal.

    Args:
        headings: The columns' headings.
        rows: The cells of each row.
        numbers: Headings of columns that are aligned right.
        names: Headings of columns that hold names, which are shortened to the terminal's width, not folded.
        whole: Headings of columns of short words, which are neither folded nor shortened.
    """
    table = Table(box=None, pad_edge=False)
    for heading in headings:
        number = heading in numbers
        kept = number or heading in whole
        table.add_column(heading, overflow="fold", justify="right" if number else "left", no_wrap=kept)
    for row in rows:
        cells = zip(headings, row, strict=True)
        table.add_row(*(Name(str(each)) if heading in names else cell(each) for heading, each in cells))
    return table


def terminal() -> Console:
    """Returns the console of standard output, 160 columns wide for a pipe; 80 columns would fold every sentence."""
    fits = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console(width=None if fits else 160, quiet=_detail.get().quiet)


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
    hidden = _detail.get().quiet or not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=hidden) as bar:
        yield from bar.track(items, total=total, description=what)
