"""Prints lines, tables and progress bars, and makes names from a user's files safe to print (`printable`)."""

import os
import re
import sys
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from shutil import get_terminal_size
from textwrap import wrap
from typing import TYPE_CHECKING, TextIO, TypeVar

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from qmlir.errors import printable

if TYPE_CHECKING:
    from rich.progress import Progress

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


def is_quiet() -> bool:
    """Whether the user asked for nothing but warnings and errors."""
    return _detail.get().quiet


def say(line: str) -> None:
    """Prints a line, unless the user asked for quiet; on a terminal, it breaks between words."""
    if not _detail.get().quiet:
        sys.stdout.write(broken(printable(line, longest=LONGEST), sys.stdout) + "\n")


def broken(line: str, stream: TextIO, *, indent: str = "  ") -> str:
    """Returns a line broken between words to the width of a terminal; unchanged if the stream is no terminal.

    Args:
        line: The line, which may be indented.
        stream: Where the line goes.
        indent: What precedes the further lines, besides the line's own indentation.
    """
    if not stream.isatty() or len(line) <= (width := get_terminal_size().columns):
        return line
    further = line[: len(line) - len(line.lstrip())] + indent
    return "\n".join(wrap(line, width, subsequent_indent=further, break_long_words=False, break_on_hyphens=False))


def cell(text: object) -> Text:
    """Returns text for a table's cell, in which a name such as "[bold]" is not markup."""
    return Text(printable(str(text), longest=LONGEST))


WIDE = 110
"""The least columns of a terminal on which tables show what is less important, too."""

LEAST_NAME = 20
"""The columns of a name that is shortened to fit the terminal."""


class Name:
    """A name for a table's cell, which is shortened where the terminal is too narrow for it (`shortened_apart`)."""

    def __init__(self, text: str, column: Sequence[str]):
        self.text, self.column = text, column

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        length = Text(self.text).cell_len
        return Measurement(min(length, LEAST_NAME), length)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(shortened_apart(tuple(self.column), options.max_width)[self.text], no_wrap=True)


@lru_cache(maxsize=16)
def shortened_apart(names: tuple[str, ...], width: int) -> Mapping[str, str]:
    """Returns each name of a column with its form of at most `width` characters.

    Of several ways to shorten names, this takes the one that keeps the most of them apart, in the order in which the
    ways are told: the middle goes (`shortened`); the folders in front go, then the middle; the folders and the end go.
    """
    different = tuple(dict.fromkeys(names))
    ways = ({name: way(name, width) for name in different} for way in (shortened, _without_front, _without_ends))
    return max(ways, key=lambda way: len({*way.values()}))


def _without_front(name: str, width: int) -> str:
    """A name without the folders in front: `…/Conv2d_1_depthwise/Relu6`."""
    tail, joined = _tail(name, width)
    return name if len(name) <= width else f"…{shortened(tail, width - 1 - len(joined))}{joined}"


def _without_ends(name: str, width: int) -> str:
    """The beginning of a name without the folders in front: `…Conv2d_10_dept…`."""
    tail, joined = _tail(name, width)
    if len(name) <= width or len(tail) + 1 + len(joined) <= width:
        return _without_front(name, width)
    return f"…{tail.lstrip('/')[: max(width - 2 - len(joined), 0)]}…{joined}"


def _tail(name: str, width: int) -> tuple[str, str]:
    """The last two folders of a name, or more if there is room, and of joined names what stands for the others."""
    joint = _JOINT.search(name, 1)
    joined = f"{joint[0]}…" if joint is not None else ""
    first = name[: joint.start()] if joint is not None else name
    parts = first.split("/")
    count = min(2, len(parts))
    while count < len(parts) and len("/".join(parts[-count - 1 :])) + 2 + len(joined) <= width:
        count += 1
    return ("/" if count < len(parts) else "") + "/".join(parts[-count:]), joined


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
    texts = [tuple(printable(str(each), longest=LONGEST) for each in row) for row in rows]
    columns = [[row[number] for row in texts] for number in range(len(headings))]
    for row in texts:
        cells = zip(headings, row, columns, strict=True)
        table.add_row(*(Name(each, column) if heading in names else Text(each) for heading, each, column in cells))
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
    with _bar() as bar:
        yield from bar.track(items, total=total, description=what)


@contextmanager
def counting(total: int, what: str) -> Generator[Callable[[int], None]]:
    """Gives a function that shows how many of the items are done, for items that others work on.

    Args:
        total: The number of items.
        what: The work, in a word.
    """
    with _bar() as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.update(task, completed=done)


def _bar() -> "Progress":
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
    return Progress(*columns, console=console, transient=True, disable=hidden)
