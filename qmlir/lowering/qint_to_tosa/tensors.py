"""The builder of tosa operations: methods that several rules share; each appends operations and returns the result.

TOSA's operations take whole tensors of equal rank, with integers of 8, 16 and 32 bits. Computations that TOSA has no
operation for are composed, here and in the rules, from exact operations. Operations that round in their own way, such
as `avg_pool2d`, are not used. Shapes, zero points and padding are operands, as in TOSA 1.0.
"""

from collections.abc import Sequence
from typing import cast

import numpy as np
from xdsl.dialects.builtin import (
    BoolAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    Signedness,
    TensorType,
    f64,
    i1,
    i8,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from qmlir.codegen.upstream import Array, BodyCode
from qmlir.dialects.nn import ConstantOp
from qmlir.ir.interfaces import element_of, shape_of, tensor_type
from qmlir.ir.types import dtype_of
from qmlir.ir.upstream.tosa import elementwise, reduction, shape
from qmlir.ir.upstream.tosa.base import ShapeType, TosaOp

ADD, SUB, INTDIV, EQUAL, GREATER_EQUAL = (
    elementwise.NAMED[name] for name in ("add", "sub", "intdiv", "equal", "greater_equal")
)


WIDE: tuple[Attribute, ...] = (i64, f64, IntegerType(64, Signedness.UNSIGNED))
"""Element types that TOSA 1.0 has no operations on."""


def integers(values: Sequence[int]) -> DenseArrayBase[IntegerType]:
    """`array<i64: …>` from Python ints."""
    return DenseArrayBase.from_list(i64, list(values))


class TosaCode(BodyCode):
    """A function body of tosa operations under construction.

    Raises:
        UnsupportedError: The operation being lowered has a tensor without elements, or a result with 64-bit elements.
    """

    def __init__(self, block: Block, source: Operation):
        super().__init__(block, source)
        for value in (*source.operands, *source.results):
            if isinstance(value.type, TensorType) and 0 in shape_of(value):
                type = str(tensor_type(value))
                self.refuse("has no form in tosa without elements", got=type, remedy="leave it out")
        for value in () if isinstance(source, ConstantOp) else source.results:
            if isinstance(value.type, TensorType) and element_of(value) in WIDE:
                self.refuse(
                    "has no form in tosa on elements of 64 bits", got=str(tensor_type(value)), remedy="use i32 or f32"
                )

    def op(
        self,
        kind: type[TosaOp],
        operands: Sequence[SSAValue | Sequence[SSAValue]],
        element: Attribute,
        shape: Sequence[int],
        properties: dict[str, Attribute] | None = None,
    ) -> SSAValue:
        """Appends an operation, given the element type and the shape of its result; returns the result."""
        result = TensorType(element, shape)
        return self.add(kind.build(operands=operands, properties=properties or {}, result_types=[result]))

    # -- constants ---------------------------------------------------------------------------------------------------

    def constant(self, array: Array) -> SSAValue:
        """A constant tensor; unsigned integers become signless integers of the same bits."""
        values = self.dense(array)
        return self.add(shape.ConstOp.build(properties={"values": values}, result_types=[values.type]))

    def number(self, value: float, like: SSAValue) -> SSAValue:
        """A constant of a single element, with the rank and element type of `like`, so that it broadcasts to it."""
        return self.constant(np.full([1] * len(shape_of(like)), value, dtype_of(element_of(like))))

    def zero_point(self, value: int, element: Attribute) -> SSAValue:
        """A zero point as a constant operand.

        Raises:
            UnsupportedError: The element type cannot hold the zero point.
        """
        bits = cast(IntegerType, element).width.data
        if not -(1 << bits - 1) <= value < 1 << bits - 1:
            self.refuse(
                f"needs a zero point that {element} holds", got=str(value), remedy="choose one within its range"
            )
        return self.constant(np.array([value], f"i{bits // 8}"))

    def shape(self, numbers: Sequence[int]) -> SSAValue:
        """A constant of type `!tosa.shape`."""
        values = DenseIntOrFPElementsAttr.from_list(TensorType(IndexType(), [len(numbers)]), list(numbers))
        result = ShapeType.of(len(numbers))
        return self.add(shape.ConstShapeOp.build(properties={"values": values}, result_types=[result]))

    # -- computation -------------------------------------------------------------------------------------------------

    def cast(self, x: SSAValue, element: Attribute) -> SSAValue:
        """Converts a tensor to another element type."""
        return x if element_of(x) == element else self.op(elementwise.CastOp, [x], element, shape_of(x))

    def combine(self, kind: type[TosaOp], *operands: SSAValue, element: Attribute | None = None) -> SSAValue:
        """An elementwise operation on tensors that broadcast like numpy arrays."""
        aligned, sizes = self._aligned(operands)
        return self.op(kind, aligned, element or element_of(operands[-1]), sizes)

    def _aligned(self, operands: Sequence[SSAValue]) -> tuple[list[SSAValue], tuple[int, ...]]:
        """Reshapes tensors to the same rank; returns them and the shape that they broadcast to."""
        shapes = [shape_of(x) for x in operands]
        rank = max(map(len, shapes))
        aligned = [self.reshape(x, (*[1] * (rank - len(s)), *s)) for x, s in zip(operands, shapes, strict=True)]
        return aligned, np.broadcast_shapes(*shapes)

    def plus(self, x: SSAValue, number: int) -> SSAValue:
        """x + number."""
        return self.combine(ADD, x, self.number(number, x)) if number else x

    def minus(self, x: SSAValue, number: int) -> SSAValue:
        """x − number."""
        return self.combine(SUB, x, self.number(number, x)) if number else x

    def product(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """a · b, both of one element type; products of i32 must not overflow."""
        factors, sizes = self._aligned([a, b])
        return self.op(elementwise.MulOp, [*factors, self.constant(np.zeros(1, np.int8))], element_of(a), sizes)

    def shifted(self, x: SSAValue, bits: int, *, rounded: bool = False) -> SSAValue:
        """x · 2^−bits, rounded down, or half up if `rounded`."""
        if not bits:
            return x
        properties: dict[str, Attribute] = {"round": BoolAttr.from_bool(rounded)}
        operands = [x, self.number(bits, x)]
        return self.op(elementwise.ArithmeticRightShiftOp, operands, element_of(x), shape_of(x), properties)

    def bounded(self, x: SSAValue, low: SSAValue | int, high: SSAValue | int) -> SSAValue:
        """min(max(x, low), high) on i32 too, for which TOSA has no clamp."""
        for kind, bound in ((elementwise.MaximumOp, low), (elementwise.MinimumOp, high)):
            x = self.combine(kind, x, self.number(bound, x) if isinstance(bound, int) else bound)
        return x

    def chosen(self, condition: SSAValue, a: SSAValue, b: SSAValue) -> SSAValue:
        """a where the condition is true, b elsewhere."""
        return self.combine(elementwise.SelectOp, condition, a, b)

    def compared(self, kind: type[TosaOp], a: SSAValue, b: SSAValue) -> SSAValue:
        """A comparison, which yields a tensor of i1."""
        return self.combine(kind, a, b, element=i1)

    def summed(self, x: SSAValue, axis: int) -> SSAValue:
        """The sum along an axis, which becomes a dimension of size 1."""
        sizes = list(shape_of(x))
        sizes[axis] = 1
        return self.op(reduction.ReduceSumOp, [x], element_of(x), sizes, {"axis": IntegerAttr(axis, i32)})

    def table(self, entries: Array) -> SSAValue:
        """A 1-D array as a constant table for `looked_up`."""
        return self.constant(entries.reshape(1, -1, 1))

    def looked_up(self, table: SSAValue, index: SSAValue) -> SSAValue:
        """table[index], for i32 indices of any shape."""
        flat = self.reshape(index, (1, -1))
        found = self.op(elementwise.GatherOp, [table, flat], element_of(table), (*shape_of(flat), 1))
        return self.reshape(found, shape_of(index))

    # -- movement ----------------------------------------------------------------------------------------------------

    def reshape(self, x: SSAValue, sizes: Sequence[int]) -> SSAValue:
        """Reshapes a tensor in row-major order; a single size may be −1, and is then computed."""
        have = shape_of(x)
        if -1 in sizes:
            rest = int(np.prod([s for s in sizes if s != -1]))
            sizes = [int(np.prod(have)) // rest if s == -1 else s for s in sizes]
        if tuple(sizes) == have:
            return x
        return self.op(shape.ReshapeOp, [x, self.shape(sizes)], element_of(x), sizes)

    def padded(self, x: SSAValue, low: Sequence[int], high: Sequence[int], number: int | Array) -> SSAValue:
        """Pads `x` with `number`: `low` elements before and `high` elements after it along each dimension."""
        if not any([*low, *high]):
            return x
        sizes = [a + size + b for a, size, b in zip(low, shape_of(x), high, strict=True)]
        counts = [count for pair in zip(low, high, strict=True) for count in pair]
        kept = number if isinstance(number, np.ndarray) else np.array(number, dtype_of(element_of(x)))
        element = self.constant(kept.reshape(1))
        return self.op(shape.PadOp, [x, self.shape(counts), element], element_of(x), sizes)

    def first(self, x: SSAValue, sizes: Sequence[int]) -> SSAValue:
        """The first elements of `x` along each dimension."""
        return self._slice(x, [0] * len(sizes), sizes)

    def part(self, x: SSAValue, axis: int, start: int, count: int) -> SSAValue:
        """`count` consecutive elements of `x` along an axis, from `start` on."""
        sizes = [count if d == axis else size for d, size in enumerate(shape_of(x))]
        return self._slice(x, [start if d == axis else 0 for d in range(len(sizes))], sizes)

    def _slice(self, x: SSAValue, start: Sequence[int], sizes: Sequence[int]) -> SSAValue:
        if tuple(sizes) == shape_of(x):
            return x
        return self.op(shape.SliceOp, [x, self.shape(start), self.shape(sizes)], element_of(x), sizes)

    def repeated(self, x: SSAValue, times: Sequence[int]) -> SSAValue:
        """`x` tiled `times` along each dimension."""
        if all(n == 1 for n in times):
            return x
        sizes = [size * n for size, n in zip(shape_of(x), times, strict=True)]
        return self.op(shape.TileOp, [x, self.shape(times)], element_of(x), sizes)

    def side_by_side(self, tensors: Sequence[SSAValue], axis: int) -> SSAValue:
        """Concatenates tensors along an axis."""
        if len(tensors) == 1:
            return tensors[0]
        sizes = list(shape_of(tensors[0]))
        sizes[axis] = sum(shape_of(x)[axis] for x in tensors)
        return self.op(shape.ConcatOp, [list(tensors)], element_of(tensors[0]), sizes, {"axis": IntegerAttr(axis, i32)})

    def transposed(self, x: SSAValue, permutation: Sequence[int]) -> SSAValue:
        """Transposes `x`: dimension i of the result is dimension permutation[i] of `x`."""
        properties: dict[str, Attribute] = {"perms": DenseArrayBase.from_list(i32, list(permutation))}
        sizes = [shape_of(x)[p] for p in permutation]
        return self.op(shape.TransposeOp, [x], element_of(x), sizes, properties)

    def spread(self, x: SSAValue, sizes: Sequence[int]) -> SSAValue:
        """Broadcasts `x` to a shape."""
        own = (*[1] * (len(sizes) - len(shape_of(x))), *shape_of(x))
        times = [to // size for to, size in zip(sizes, own, strict=True)]
        return self.repeated(self.reshape(x, own), times)

    def rows_at(self, rows: SSAValue, places: SSAValue) -> SSAValue:
        """Gathers rows from N lists [N, K, C] at i32 positions [1, W], the same positions in each list: [N, W, C].

        Raises:
            UnsupportedError: The rows are i1.
        """
        if element_of(rows) == i1:
            self.refuse("gathers no truth values in tosa", got=str(rows.type), remedy="use i8")
        lists, _, width = shape_of(rows)
        everywhere = self.repeated(places, [lists, 1])
        return self.op(elementwise.GatherOp, [rows, everywhere], element_of(rows), (lists, shape_of(places)[1], width))


def is_byte(x: SSAValue) -> bool:
    """Whether a tensor's elements are i8."""
    return element_of(x) == i8
