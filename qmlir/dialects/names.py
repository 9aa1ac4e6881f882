"""Lists of source names that are joined often and read seldom.

A rewrite passes the names of the operations that it replaces to the new operation. When a chain of n operations is
fused step by step, the last operation has the names of all; copying them at every step would cost n² strings. `Names`
joins in constant time: it keeps the lists that it was joined from, and flattens them when the strings are read.
"""

from collections.abc import Iterable, Iterator


class Names:
    """An immutable ordered list of distinct, non-empty strings, built from strings and other `Names`."""

    __slots__ = ("_hash", "_listed", "_parts")

    _parts: "tuple[str | Names, ...]"
    _listed: tuple[str, ...] | None
    _hash: int | None

    def __init__(self, parts: "Iterable[str | Names]" = ()):
        """Joins strings and lists of names, in order."""
        self._parts = tuple(part for part in parts if part)
        self._listed = None
        self._hash = None

    def __bool__(self) -> bool:
        return bool(self._parts)

    def __iter__(self) -> Iterator[str]:
        return iter(self._strings())

    def __len__(self) -> int:
        return len(self._strings())

    def __getitem__(self, index: int) -> str:
        return self._strings()[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Names) and (self is other or self._strings() == other._strings())

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(self._strings())
        return self._hash

    def __repr__(self) -> str:
        return f"Names({list(self)})"

    def _strings(self) -> tuple[str, ...]:
        """Returns the flattened strings, and caches them in place of the parts."""
        if self._listed is None:
            self._listed = tuple(dict.fromkeys(_leaves(self._parts)))
            self._parts = self._listed
        return self._listed


def _leaves(parts: "tuple[str | Names, ...]") -> Iterator[str]:
    """Yields the strings of nested parts in order; skips a part that occurred before, whose strings did too."""
    waiting: list[Iterator[str | Names]] = [iter(parts)]
    met = set[int]()
    while waiting:
        part = next(waiting[-1], None)
        if part is None:
            waiting.pop()
        elif isinstance(part, str):
            yield part
        elif id(part) not in met:
            met.add(id(part))
            waiting.append(iter(part._parts))  # pyright: ignore[reportPrivateUsage]


class SourceNames:
    """The names of an operation in the source model.

    nodes     the source nodes that the operation replaces
    tensors   the tensor name of each result; names may repeat and be empty
    inside    tensors between fused nodes; it may also contain names in `tensors`
    """

    __slots__ = ("_absorbed", "inside", "nodes", "tensors")

    def __init__(self, nodes: Names, tensors: tuple[str, ...], inside: Names):
        self.nodes, self.tensors, self.inside = nodes, tensors, inside
        self._absorbed: tuple[str, ...] | None = None

    @property
    def absorbed(self) -> tuple[str, ...]:
        """The tensors between fused nodes that are no result of the operation any more."""
        if self._absorbed is None:
            results = set(self.tensors)
            self._absorbed = tuple(name for name in self.inside if name not in results)
        return self._absorbed

    def __bool__(self) -> bool:
        return bool(self.nodes or self.tensors or self.inside)

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, SourceNames)
            and self.tensors == other.tensors
            and self.nodes == other.nodes
            and self.absorbed == other.absorbed
        )

    def __hash__(self) -> int:
        return hash((self.nodes, self.tensors, self.absorbed))
