"""Objects that show themselves: as a table of text where Python prints them, as an HTML table in notebooks.

A class derives from `Shown` and says what its table holds. Names come from a user's files: text and HTML escape them.
`repr` of a module stays xDSL's, because xDSL prints modules in its own errors and debuggers; `qmlir.summary(module)`
makes the table of a module, and IPython shows it for a module, too (notebooks.py).
"""

import abc
import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from qmlir.errors import printable

MOST_ROWS = 50
"""The most rows that are shown; a line says how many more there are."""

WIDEST = 80
"""The most characters of a cell; a longer text loses its middle."""

T = TypeVar("T")


@dataclass(frozen=True)
class Table:
    """What an object shows of itself.

    title     a line above the table
    headings  the columns; none for an object that shows its title only
    rows      the cells; numbers are shown with four significant digits
    """

    title: str
    headings: Sequence[str] = ()
    rows: Sequence[Sequence[object]] = ()

    def text(self) -> str:
        """Returns the table as lines of text, with numbers aligned right."""
        shown = [[_cell(value) for value in row] for row in self.rows[:MOST_ROWS]]
        numeric = [all(isinstance(row[i], int | float) or row[i] is None for row in self.rows) for i in self._columns]
        widths = [max([len(self.headings[i]), *(len(row[i]) for row in shown)]) for i in self._columns]
        lines = [printable(self.title)]
        for row in [self.headings, *shown] if self.headings else []:
            cells = (c.rjust(w) if right else c.ljust(w) for c, w, right in zip(row, widths, numeric, strict=True))
            lines.append("  ".join(cells).rstrip())
        return "\n".join([*lines, *self._rest])

    def html(self) -> str:
        """Returns the table as HTML."""
        title = f"<p>{html.escape(printable(self.title))}</p>"
        if not self.headings:
            return title
        head = "".join(f"<th>{html.escape(heading)}</th>" for heading in self.headings)
        rows = ("".join(f"<td>{html.escape(_cell(value))}</td>" for value in row) for row in self.rows[:MOST_ROWS])
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        rest = "".join(f"<p>{line}</p>" for line in self._rest)
        return f"{title}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{rest}"

    @property
    def _columns(self) -> range:
        return range(len(self.headings))

    @property
    def _rest(self) -> list[str]:
        more = len(self.rows) - MOST_ROWS
        return [f"… and {more} more"] if more > 0 else []


def _cell(value: object) -> str:
    text = "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
    return printable(text, longest=WIDEST)


def counted(count: int, noun: str) -> str:
    """Returns a number of things: `1 sample`, `3 samples`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


LISTED = 8
"""How many names of a list a line shows."""


def listed(names: Sequence[str], *, whole: bool = False) -> str:
    """Returns names as a line shows them: the first ones, unless all are wanted, and how many more there are."""
    shown = names if whole or len(names) <= LISTED else names[:LISTED]
    rest = f", and {len(names) - len(shown)} more, which --verbose names" if len(shown) < len(names) else ""
    return ", ".join(shown) + rest


def bytes_text(count: int) -> str:
    """Returns a number of bytes as text: `812 B`, `12.3 kB`, `4.56 MB`."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} B"


SIZES = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
"""Unit of a size → bytes."""


def bytes_of(text: str) -> int | None:
    """Returns the bytes of a size such as 512MiB, 2GiB or a number of bytes; None for other text."""
    digits = text.rstrip("KMGiB")
    unit = text[len(digits) :]
    return int(digits) * SIZES[unit] if digits.isdecimal() and int(digits) >= 1 and unit in SIZES else None


class Shown(abc.ABC):
    """An object that shows itself as a table."""

    @abc.abstractmethod
    def table(self) -> Table:
        """What the object shows of itself."""

    def __repr__(self) -> str:
        return self.table().text()

    def _repr_html_(self) -> str:
        return self.table().html()


class Rows(Shown, list[T], abc.ABC):
    """A list that shows itself as a table; it is equal to a plain list of the same elements."""

    __hash__ = None
