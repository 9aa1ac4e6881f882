"""Tables in Markdown."""

from collections.abc import Iterable, Sequence


def table(heading: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A table with a heading."""
    rule = f"|{'---|' * len(heading)}"
    return "\n".join([_line(heading), rule, *map(_line, lines)]) + "\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
