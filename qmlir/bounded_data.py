"""Bounds on what a file of YAML, TOML or JSON stands for: our files stay far below them, hostile ones do not."""

from collections.abc import Iterable
from typing import Any, cast

NESTING = 64
"""The most lists and mappings in each other."""

DIGITS = 1000
"""The most digits of an integer: Python does not print one of more than 4,300."""

VALUES = 50_000_000
"""The most values, those counted again that an alias of YAML repeats."""


def check_data(value: object) -> None:
    """Checks plain data.

    Raises:
        ValueError: Something is nested too deep, holds itself, is too long a number, or stands for too much.
    """
    _size(value, 0, {})


def _size(value: object, depth: int, known: dict[int, int]) -> int:
    """How many values one stands for; `known` holds those of containers, 0 while they are counted."""
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
