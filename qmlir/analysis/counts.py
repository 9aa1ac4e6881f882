"""Counts what each operation of a network multiplies, stores and moves, and lists its tensors' quantization parameters.

The figures are plain numbers for reports and documents. They come from the IR alone: nothing is compiled or run.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import prod
from typing import Any

from xdsl.dialects.builtin import FixedBitwidthType, IntegerType, ModuleOp, Signedness, TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from qmlir.devices.model.properties import products
from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.quant.ops import CastOp
from qmlir.dialects.quant.types import LayerOrAxisType, ScaledType, UniformType
from qmlir.ir.levels import levels_of
from qmlir.ir.rewriting import tensor_name
from qmlir.ir.types import element_type, is_integer
from qmlir.numerics.packing import packed_bytes
from qmlir.policies.ledger import Entry, decided_operations


@dataclass(frozen=True)
class TensorFigures:
    """The figures of a tensor that an operation reads or writes.

    name         the tensor's name in the model; empty if it has none
    constant     whether the tensor is a constant of the network, such as weights
    shape        extents along each axis
    type         the type of the stored elements in MLIR's spelling: `i8`, `u8`, `i32`, `f32`
    scales       one scale for the tensor, or one for each index of `axis`; None if the tensor is not quantized
    zero_points  zero points in the order of the scales; None if the tensor is not quantized
    axis         the axis whose indices have scales of their own; None for a single scale
    bytes        bytes of its elements; elements of 2 to 7 bits count packed, booleans a byte each, and weights in
                 groups as their integers of few bits and a byte for each group
    """

    name: str
    constant: bool
    shape: tuple[int, ...]
    type: str
    scales: tuple[float, ...] | None
    zero_points: tuple[int, ...] | None
    axis: int | None
    bytes: int


@dataclass(frozen=True)
class OperationFigures:
    """The figures of an operation.

    macs              products of a contraction; 0 for every other operation
    weight_bytes      bytes of the constants that it reads: weights, biases, tables
    activation_bytes  bytes of the other tensors that it reads and of those that it writes
    operands          the tensors that it reads
    results           the tensors that it writes
    """

    macs: int
    weight_bytes: int
    activation_bytes: int
    operands: tuple[TensorFigures, ...]
    results: tuple[TensorFigures, ...]

    def as_dict(self) -> dict[str, Any]:
        """The figures as plain data for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Decided:
    """The decision about an operation, with the operation's figures.

    figures  the fields of `OperationFigures` as plain data; empty if they are not known
    """

    entry: Entry
    figures: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def as_dict(self) -> dict[str, Any]:
        """The decision for JSON: the entry's fields with the figures beside them."""
        return {**self.entry.as_dict(), **self.figures}

    @property
    def precision(self) -> str:
        """The type of its quantized result or operand, such as `int8`; empty if it is float or not known."""
        tensors = [*self.figures.get("results", ()), *self.figures.get("operands", ())]
        stored = next((str(t["type"]) for t in tensors if t["scales"] is not None), "")
        return re.sub("^u", "uint", re.sub("^i", "int", stored))


def decided(module: ModuleOp) -> list[Decided]:
    """Returns the decision about each operation of a network with the operation's figures, in program order."""
    return [Decided(entry, figures_of(op).as_dict()) for op, entry in decided_operations(module)]


def figures_of(op: Operation) -> OperationFigures:
    """Returns the figures of an operation on tensors, of the nn level or below."""
    operands, results = tuple(_read(op.operands)), tuple(_figures(v, constant=False) for v in _tensors(op.results))
    return OperationFigures(
        macs=products(op),
        weight_bytes=sum(t.bytes for t in operands if t.constant),
        activation_bytes=sum(t.bytes for t in (*operands, *results) if not t.constant),
        operands=operands,
        results=results,
    )


def _read(operands: Sequence[SSAValue]) -> Iterator[TensorFigures]:
    """Yields the figures of operands; a constant that is read through casts counts as it is stored."""
    for value in _tensors(operands):
        source = value
        while isinstance(source.owner, CastOp):
            source = source.owner.operands[0]
        constant = isinstance(source.owner, ConstantOp)
        yield _figures(source if constant else value, constant=constant, name=tensor_name(source))


def _tensors(values: Sequence[SSAValue]) -> Iterator[SSAValue]:
    return (value for value in values if isinstance(value.type, TensorType))


def _figures(value: SSAValue, *, constant: bool, name: str = "") -> TensorFigures:
    """Returns the figures of a tensor; `name` is that of the tensor that it was cast from, if it has none itself."""
    type: Any = value.type
    shape, element = tuple(type.get_shape()), element_type(type)
    stored, bits = _stored(element)
    levels = levels_of(value.owner) if isinstance(value.owner, ConstantOp) else None
    quantized = element if isinstance(element, ScaledType) else None
    return TensorFigures(
        name=tensor_name(value) or name,
        constant=constant,
        shape=shape,
        type=stored,
        scales=None if quantized is None else quantized.scales,
        zero_points=None if quantized is None else quantized.zero_points,
        axis=quantized.axis if isinstance(quantized, LayerOrAxisType) else None,
        bytes=packed_bytes(prod(shape), bits) if levels is None else levels.bytes(prod(shape), bits),
    )


def _stored(element: Attribute) -> tuple[str, int]:
    """Returns the name and the bits of a stored element."""
    match element:
        case UniformType():
            return f"{'i' if element.is_signed else 'u'}{element.storage_width}", element.storage_width
        case ScaledType():
            return _stored(element.storage)
        case IntegerType() if is_integer(element):
            width, unsigned = element.width.data, element.signedness.data == Signedness.UNSIGNED
            return f"{'u' if unsigned else 'i'}{width}", width if width > 1 else 8
        case FixedBitwidthType():
            return str(element), element.bitwidth
        case _:
            return str(element), 64  # an index


def totals(network: Sequence[Decided]) -> dict[str, int | None]:
    """Returns the totals of a ledger for JSON.

    Returns:
        The operations, those that are quantized, those that are float, those with a range without data; their MACs,
        those of quantized operations, and the bytes of all weights. A figure is None if the ledger lacks it.
    """
    quantized = [each for each in network if each.entry.outcome == "quantized"]

    def total(key: str, some: Sequence[Decided]) -> int | None:
        known = all(key in each.figures for each in network)
        return sum(each.figures[key] for each in some) if known else None

    return {
        "operations": len(network),
        "quantized": len(quantized),
        "float": sum(each.entry.outcome == "float" for each in network),
        "data_free": sum(each.entry.is_data_free for each in network),
        "macs": total("macs", network),
        "quantized_macs": total("macs", quantized),
        "weight_bytes": total("weight_bytes", network),
    }


@dataclass(frozen=True)
class KindCount:
    """How many operations of one kind were quantized, and to what.

    operation  the kind, such as `nn.conv2d`
    quantized  precision of the data, such as `int8` → operations; `UNKNOWN` for a precision that the ledger lacks
    float      operations that stayed float
    """

    operation: str
    quantized: Mapping[str, int]
    float: int

    @property
    def count(self) -> int:
        """All operations of the kind that were decided about."""
        return sum(self.quantized.values()) + self.float

    def as_dict(self) -> dict[str, Any]:
        """The count as plain data for JSON."""
        return {"operation": self.operation, "quantized": dict(self.quantized), "float": self.float}


UNKNOWN = "quantized"
"""Stands for the precision of a quantized operation if the ledger does not tell it: below nn, and in old ledgers."""


def kinds(network: Sequence[Decided]) -> list[KindCount]:
    """Counts the operations of a ledger by kind, precision and outcome; the most frequent kind comes first."""
    found: dict[str, Counter[str]] = {}
    floats: Counter[str] = Counter()
    for each in network:
        precisions = found.setdefault(each.entry.operation, Counter())
        if each.entry.outcome == "quantized":
            precisions[each.precision or UNKNOWN] += 1
        else:
            floats[each.entry.operation] += 1
    counts = [KindCount(kind, dict(sorted(found[kind].items())), floats[kind]) for kind in found]
    return sorted(counts, key=lambda each: -each.count)


def kinds_table(counts: Sequence[KindCount]) -> tuple[tuple[str, ...], list[tuple[str | int | None, ...]]]:
    """Returns counts by kind as a table.

    Returns:
        The headings after the first one, which is the operation's kind: `count`, each precision, and `float` if an
        operation stayed float. Then a row for each kind, with None in place of 0.
    """
    precisions = sorted({precision for each in counts for precision in each.quantized})
    left = any(each.float for each in counts)
    headings = ("count", *precisions, *(("float",) if left else ()))
    rows: list[tuple[str | int | None, ...]] = []
    for each in counts:
        quantized = [each.quantized.get(precision) for precision in precisions]
        rows.append((each.operation, each.count, *quantized, *((each.float or None,) if left else ())))
    return headings, rows
