"""Standard output: lines and cells of tables, in which names from a user's files stand as `printable` shows them."""

import sys

from rich.console import Console
from rich.text import Text

from qmlir.printable import printable

LONGEST = 4000
"""The most characters of a line."""


def say(line: str) -> None:
    """Prints a line."""
    sys.stdout.write(printable(line, longest=LONGEST) + "\n")


def cell(text: object) -> Text:
    """Text for a table; a name such as "[bold]" is no markup in it."""
    return Text(printable(str(text), longest=LONGEST))


def terminal() -> Console:
    """Standard output; a pipe has no width, and 80 columns would fold every sentence."""
    return Console(width=None if sys.stdout.isatty() else 160)
