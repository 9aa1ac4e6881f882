"""Tables of the converters of operators by name, which frontends fill family by family."""

from collections.abc import Mapping
from typing import Generic, Self, TypeVar

C = TypeVar("C")
"""A frontend's converters."""


class ConverterTable(Generic[C]):
    """A table that maps each operator to its converter."""

    def __init__(self, entries: Mapping[str, C] | None = None) -> None:
        self.entries: dict[str, C] = dict(entries or {})

    @classmethod
    def of(cls, *families: Self) -> Self:
        """Returns a table with the converters of all families, no two of which have a converter of one operator."""
        table = cls()
        for family in families:
            assert not table.entries.keys() & family.entries.keys(), "an operator is registered twice"
            table.entries.update(family.entries)
        return table

    def add(self, operator: str, converter: C) -> None:
        """Adds the converter of an operator that has none."""
        assert operator not in self.entries, f"{operator} is registered twice"
        self.entries[operator] = converter

    def get(self, operator: str) -> C | None:
        """Returns the converter of an operator, or None if the table has none."""
        return self.entries.get(operator)

    def operators(self) -> list[str]:
        """Returns the operators that have a converter, sorted."""
        return sorted(self.entries)
