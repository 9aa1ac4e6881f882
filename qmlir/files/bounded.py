"""Bounds the size of data read from YAML, TOML or JSON; qmlir's own files stay far below, hostile files do not."""

from collections.abc import Iterable
from typing import Any, cast

NESTING = 64
"""The most levels of nested lists and mappings."""

DIGITS = 1000
"""The most digits of an integer; Python refuses to print an integer of more than 4,300."""

VALUES = 50_000_000
"""The most values in a file; values that a YAML alias repeats count each time."""


def check_data(value: object) -> None:
    """Checks that plain data stay within the bounds of this module.

    Raises:
        ValueError: The data are nested too deep, contain themselves, hold too long a number, or have too many values.
    """
    _size(value, 0, {})


def _size(value: object, depth: int, known: dict[int, int]) -> int:
    """Counts the values in a value; `known` caches containers' counts by id, 0 while a container is being counted."""
    if isinstance(value, int) and value.bit_length() > 3 * DIGITS:
        raise ValueError(f"a number of more than {DIGITS} digits")
    if not isinstance(value, dict | list | tuple | set):
        return 1
    size = known.get(id(cast(object, value)))
    if size is None:
        if depth == NESTING:
            raise ValueError(f"something nested more than {NESTING} levels deep")
        known[id(cast(object, value))] = 0
        parts: Iterable[Any] = [*value.keys(), *value.values()] if isinstance(value, dict) else cast(Any, value)
        size = known[id(cast(object, value))] = 1 + sum(_size(part, depth + 1, known) for part in parts)
    if size == 0:
        raise ValueError("something that holds itself")
    if size > VALUES:
        raise ValueError("aliases that stand for too much")
    return size
