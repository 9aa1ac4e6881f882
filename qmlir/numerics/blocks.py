"""Rows of large arrays in blocks: beside a table of 50,000 words stands a part of it only in a wider type."""

from collections.abc import Iterator

ROWS = 4096
"""The rows of a block."""


def blocks_of_rows(count: int) -> Iterator[slice]:
    """The rows of an array with so many, in blocks of at most `ROWS`; one empty block of an array without rows."""
    for first in range(0, max(count, 1), ROWS):
        yield slice(first, first + ROWS)
