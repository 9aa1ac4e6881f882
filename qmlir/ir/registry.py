"""The registry: what a stage knows about each class of operations, declared in tables of its modules.

    RULES: Registry[Rule] = Registry({PointwiseOp: _pointwise, CastOp: _cast})

A stage that treats operations by class, such as an edge of the lowering, has one registry, joined from the tables that
its modules declare. Importing a module changes no registry.
"""

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from xdsl.ir import Operation

Entry = TypeVar("Entry")


class Registry(Mapping[type[Operation], Entry]):
    """Class of operations → entry. The entry of a base class holds for its subclasses that have no entry of their own.

    Iterating yields the classes that the tables list, base classes included.
    """

    # Any: to a type checker, a table of certain classes of operations is no table of all classes.
    def __init__(self, *tables: Mapping[Any, Entry]):
        self._entries: dict[type[Operation], Entry] = {}
        for table in tables:
            twice = sorted(kind.__name__ for kind in table.keys() & self._entries.keys())
            assert not twice, f"two entries for {', '.join(twice)}"
            self._entries.update(table)

    def __getitem__(self, kind: type[Operation]) -> Entry:
        for base in kind.__mro__:
            if base in self._entries:
                return self._entries[base]
        raise KeyError(kind)

    def __contains__(self, kind: object) -> bool:
        return isinstance(kind, type) and not self._entries.keys().isdisjoint(kind.__mro__)

    def __iter__(self) -> Iterator[type[Operation]]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)
