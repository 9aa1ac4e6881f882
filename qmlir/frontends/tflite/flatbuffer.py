"""Checks that bytes are a flatbuffer of TFLite's schema: every offset, size and string that is read lies in the file.

The flatbuffers library has a verifier in C++ only, and its Python bindings read wherever an offset points. Therefore
the reader uses the bindings only after `verify` has walked all parts of the file that the reader follows. `MODEL` lists
these parts of TFLite's schema as data: field number → type of the field.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

MOST_DEPTH = 16
"""The deepest nesting of tables that is accepted; the schema nests six tables at most."""


class Malformed(Exception):
    """Raised when the bytes are not a flatbuffer of the schema; the message says what was found."""


@dataclass(frozen=True)
class Scalar:
    """A field that holds a number of `size` bytes."""

    size: int


@dataclass(frozen=True)
class Vector:
    """A field that holds a vector: of tables if `of` is given, else of numbers of `size` bytes."""

    size: int = 4
    of: "Table | None" = None


@dataclass(frozen=True)
class String:
    """A field that holds UTF-8 text."""


@dataclass(frozen=True)
class Table:
    """A field that holds a table, or the root table: field number → type. Other fields are not checked."""

    fields: Mapping[int, "Field"] = field(default_factory=dict[int, "Field"])


Field = Scalar | Vector | String | Table

_ANY = Table()
_INTS, _LONGS, _BYTES = Vector(4), Vector(8), Vector(1)
_QUANTIZATION = Table({0: _INTS, 1: _INTS, 2: _INTS, 3: _LONGS, 4: Scalar(1), 5: _ANY, 6: Scalar(4)})
_TENSOR = Table(
    {0: _INTS, 1: Scalar(1), 2: Scalar(4), 3: String(), 4: _QUANTIZATION, 5: Scalar(1), 6: _ANY, 7: _INTS, 8: Scalar(1)}
)
_OPERATOR = Table(
    {
        0: Scalar(4), 1: _INTS, 2: _INTS, 3: Scalar(1), 4: _ANY, 5: _BYTES, 6: Scalar(1), 7: _BYTES, 8: _INTS,
        9: Scalar(8), 10: Scalar(8), 11: Scalar(1), 12: _ANY,
    }
)  # fmt: skip
_SUBGRAPH = Table({0: Vector(of=_TENSOR), 1: _INTS, 2: _INTS, 3: Vector(of=_OPERATOR), 4: String()})
_CODE = Table({0: Scalar(1), 1: String(), 2: Scalar(4), 3: Scalar(4)})
_MAP = Table({0: String(), 1: Scalar(4)})
_SIGNATURE = Table({0: Vector(of=_MAP), 1: Vector(of=_MAP), 2: String(), 4: Scalar(4)})
_BUFFER = Table({0: _BYTES, 1: Scalar(8), 2: Scalar(8)})

MODEL = Table(
    {
        0: Scalar(4), 1: Vector(of=_CODE), 2: Vector(of=_SUBGRAPH), 3: String(), 4: Vector(of=_BUFFER),
        7: Vector(of=_SIGNATURE),
    }
)  # fmt: skip
"""The table Model of TFLite, with its fields numbered as in schema.fbs."""


def verify(data: bytes, schema: Table = MODEL) -> None:
    """Checks that a file is a flatbuffer of a schema.

    Raises:
        Malformed: A field of the schema lies outside the file, or holds text that is not UTF-8.
    """
    _Verifier(data).table(_Verifier(data).offset(0), schema, 0)


class _Verifier:
    """Walks a flatbuffer and checks every place before it reads there.

    visits   the number of tables that may still be visited. It begins with the most tables that fit into the file, so
             that a small file whose tables are shared cannot take long
    """

    def __init__(self, data: bytes):
        self.data, self.visits = data, len(data) // 4

    def number(self, at: int, code: str) -> int:
        """Returns the little-endian number at a place; `code` is its format in `struct`."""
        self.inside(at, struct.calcsize(code))
        return struct.unpack_from(code, self.data, at)[0]

    def inside(self, at: int, size: int) -> None:
        if at < 0 or at + size > len(self.data):
            raise Malformed(f"{size} bytes at {at} of {len(self.data)}")

    def offset(self, at: int) -> int:
        """Returns the place that the unsigned offset at a place points to."""
        return at + self.number(at, "<I")

    def table(self, at: int, schema: Table, depth: int) -> None:
        """Checks a table and the fields of it that its schema lists."""
        self.visits -= 1
        if self.visits < 0 or depth > MOST_DEPTH:
            raise Malformed("tables that hold more than the file has room for")
        vtable = at - self.number(at, "<i")
        length, size = self.number(vtable, "<H"), self.number(vtable + 2, "<H")
        self.inside(vtable, length)
        self.inside(at, size)
        if length < 4 or length % 2 or size < 4:
            raise Malformed(f"a table with a description of {length} bytes")
        for number, kind in schema.fields.items():
            where = self.number(vtable + 4 + 2 * number, "<H") if 4 + 2 * number < length else 0
            if where:
                self.field(at + where, kind, depth)

    def field(self, at: int, kind: Field, depth: int) -> None:
        match kind:
            case Scalar():
                self.inside(at, kind.size)
            case String():
                self.text(self.offset(at))
            case Vector():
                self.vector(self.offset(at), kind, depth)
            case Table():
                self.table(self.offset(at), kind, depth + 1)

    def vector(self, at: int, kind: Vector, depth: int) -> None:
        count = self.number(at, "<I")
        self.inside(at + 4, count * kind.size)
        if kind.of is not None:
            for i in range(count):
                self.table(self.offset(at + 4 + 4 * i), kind.of, depth + 1)

    def text(self, at: int) -> None:
        count = self.number(at, "<I")
        self.inside(at + 4, count)
        try:
            self.data[at + 4 : at + 4 + count].decode()
        except UnicodeDecodeError:
            raise Malformed(f"text at {at} that is no UTF-8") from None
