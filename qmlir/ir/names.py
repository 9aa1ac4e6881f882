"""`#qmlir.name`, the names of the source model, and marks: what every rewrite passes on."""

from collections.abc import Iterable, Iterator

from xdsl.ir import Data, Operation
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

# ---------------------------------------------------------------------------------------------------------------
# `#qmlir.name`: the names of the source model
#
# A rewrite passes the names of the operations that it replaces to the new operation. When a chain of n operations is
# fused step by step, the last operation has the names of all; copying them at every step would cost n² strings. `Names`
# joins in constant time: it keeps the lists that it was joined from, and flattens them when the strings are read.


NAME = "qmlir.name"
"""The attribute key of an operation's `NameAttr`, and of the tensor name of a function argument."""


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
    name = op.attributes.get(NAME)
    return name if isinstance(name, NameAttr) else NameAttr.of()


# ---------------------------------------------------------------------------------------------------------------
# Marks: attributes by which an operation records how the source model computes it; every rewrite passes them on.


INTEGER_OPERATOR = "qmlir.integer_operator"
"""The attribute key that marks an operation whose source operator computes on integers, such as QLinearConv."""

ON_FLOATS = "qmlir.on_floats"
"""The attribute key that marks casts and operations which the source model computes on floats.

A marked cast is an operator of the source model, such as TFLite's QUANTIZE, that a float operator reads or feeds. A
marked operation of quantized types is computed on floats between such casts in the source model.
"""

POWER = "qmlir.power"
"""The attribute key, on a step of an operator that sums powers of its input, of the exponent of the powers.

A square has twice the digits of its base. The source model has no tensors between the steps of such an operator, so the
quantizer chooses their precision (transforms/quantize/recipes.py).
"""

PARAMETER = "qmlir.parameter"
"""The attribute key that marks an operation which computes a scale or a zero point at run time; it stays float."""

QUANTIZATION = "qmlir.quantization"
"""Attribute of a cast that selects how it computes and rounds: a name in `fixed_point.QUANTIZATIONS` for
`quant.qcast`, in `fixed_point.DEQUANTIZATIONS` for `quant.dcast`."""

REST = "qmlir.rest"
"""Attribute of a cast that selects how it computes the last elements, fewer than eight: a name as in `QUANTIZATION`."""

ADDITION = "qmlir.addition"
"""Attribute of a sum, mean or average pool of floats that selects how it adds: a name in `additions.ADDITIONS`."""

KERNEL = "qmlir.kernel"
"""The attribute key that names the source operator whose kernel rounds an operation otherwise than its own would."""

REMARK = "qmlir.remark"
"""The attribute key of an importer's remark on an operation, which the ledger adds to the operation's decision."""

TRANSPOSED = "TRANSPOSE_CONV"
"""The kernel (`KERNEL`) of a convolution on signed bytes that is a transposed convolution of a .tflite file."""

TRANSPOSED_UNSIGNED = "TRANSPOSE_CONV u8"
"""The same of unsigned bytes."""

UNDELEGATED = "qmlir.undelegated"
"""The attribute key that marks an operation whose source operator LiteRT's default delegate declines.

For example, the source model computes an operand that the delegate needs as a constant (frontends/tflite/delegate.py).
"""

UNSIGNED = "qmlir.unsigned"
"""The attribute key, on an operation, of the offset by which its stored integers were larger before they became signed.

The offset is 128 for 8 bits and 32768 for 16 bits (lowering/nn_to_qint/convert.py).
"""

MARKS = (INTEGER_OPERATOR, ON_FLOATS, POWER, PARAMETER, QUANTIZATION, REST, ADDITION, KERNEL, UNDELEGATED, REMARK)
"""All marks."""
