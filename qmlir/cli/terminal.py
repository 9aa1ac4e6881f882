"""Prints lines and tables to standard output, and makes names from a user's files safe to print (`printable`)."""

import sys

from rich.console import Console
from rich.text import Text

from qmlir.errors.printable import printable

LONGEST = 4000
"""The most characters of a line."""


def say(line: str) -> None:
    """Prints a line."""
    sys.stdout.write(printable(line, longest=LONGEST) + "\n")


def cell(text: object) -> Text:
    """Returns text for a table's cell, in which a name such as "[bold]" is not markup."""
    return Text(printable(str(text), longest=LONGEST))


def terminal() -> Console:
    """Returns the console of standard output, 160 columns wide for a pipe; 80 columns would fold every sentence."""
    return Console(width=None if sys.stdout.isatty() else 160)
