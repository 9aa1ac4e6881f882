"""`#qmlir.name`, the names of the source model, which every rewrite passes on."""

from collections.abc import Iterable, Iterator

from xdsl.ir import Data, Operation
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from qmlir.ir.facts import NAME

# ---------------------------------------------------------------------------------------------------------------
# `#qmlir.name`: the names of the source model
#
# A rewrite passes the names of the operations that it replaces to the new operation. When a chain of n operations is
# fused step by step, the last operation has the names of all; copying them at every step would cost n² strings. `Names`
# joins in constant time: it keeps the lists that it was joined from, and flattens them when the strings are read.


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


def parse_text(parser: AttrParser) -> str:
    """Parses a string literal, including literals with escaped UTF-8 bytes, which xDSL prints but parses as bytes."""
    at = parser.pos
    if (data := parser.parse_optional_bytes_literal()) is None:
        return parser.parse_str_literal()
    try:
        return data.decode()
    except UnicodeDecodeError:
        parser.raise_error("expected text in UTF-8", at)


@irdl_attr_definition
class NameAttr(Data[SourceNames]):
    """Source names of an operation: `#qmlir.name<nodes ["conv1", "relu1"], tensors ["y"], absorbed ["conv1_out"]>`.

    nodes     the source nodes that the operation replaces, in graph order; nodes without a name are left out
    tensors   the tensor name of each result
    absorbed  tensors of the source model between fused nodes, which are not values any more
    """

    name = "qmlir.name"

    @staticmethod
    def of(
        nodes: Iterable[str | Names] = (), tensors: Iterable[str] = (), absorbed: Iterable[str | Names] = ()
    ) -> "NameAttr":
        """Builds the attribute from strings and from lists of names, which are joined without flattening (`Names`).

        Empty and repeated node names are left out, and so are absorbed tensors that are results.
        """
        return NameAttr(SourceNames(Names(nodes), tuple(tensors), Names(absorbed)))

    @property
    def nodes(self) -> Names:
        """The names of the source nodes."""
        return self.data.nodes

    @property
    def tensors(self) -> tuple[str, ...]:
        """The tensor name of each result."""
        return self.data.tensors

    @property
    def absorbed(self) -> tuple[str, ...]:
        """The source tensors that are not values any more."""
        return self.data.absorbed

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> SourceNames:
        def strings() -> list[str]:
            return parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: parse_text(parser))

        with parser.in_angle_brackets():
            fields: dict[str, list[str]] = {}
            while not fields or parser.parse_optional_punctuation(","):
                keyword = next((k for k in ("nodes", "tensors", "absorbed") if parser.parse_optional_keyword(k)), None)
                if keyword is None:
                    parser.raise_error("expected nodes, tensors or absorbed")
                if keyword in fields:
                    parser.raise_error(f"{keyword} is given twice")
                fields[keyword] = strings()
        return cls.of(**fields).data

    def print_parameter(self, printer: Printer) -> None:
        fields = (("nodes", self.nodes), ("tensors", self.tensors), ("absorbed", self.absorbed))
        with printer.in_angle_brackets():
            for i, (keyword, names) in enumerate([f for f in fields if len(f[1])] or [fields[1]]):
                printer.print_string(", " if i else "")
                printer.print_string(keyword + " [")
                printer.print_list(names, printer.print_string_literal)
                printer.print_string("]")


def names_of(op: Operation) -> NameAttr:
    """Returns the source names of an operation; an empty `NameAttr` if the operation has none."""
    return NAME.of(op) or NameAttr.of()
