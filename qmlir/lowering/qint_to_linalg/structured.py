"""The builder of tensor code in upstream's dialects: every computation is a `linalg.generic`.

`TensorCode.generic` takes operands, the position at which each is read (affine expressions of the loops), and a formula
on single elements (value.py). Loops that do not occur in the result's position are reductions:

    n, o, i = loops(3)
    code.generic([(x, [n, i]), (w, [o, i])], (zeros, [n, o]), 3, lambda x, w, acc: acc + x.to(i32) * w.to(i32))

Tensors hold signless integers of 8 bits and more, or floats. The operations written here mean the same in all versions
of MLIR from LLVM 19 on.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, TypeAlias, cast

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import (
    AffineMapAttr,
    AnyFloat,
    ArrayAttr,
    FloatAttr,
    IntegerAttr,
    TensorType,
    i64,
)
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.dialects.linalg.ops import FillOp, GenericOp, YieldOp
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from qmlir.codegen.code import Code
from qmlir.codegen.upstream import Array, BodyCode
from qmlir.codegen.value import INDEX, Value
from qmlir.ir.interfaces import element_of, shape_of
from qmlir.ir.types import is_integer

Place: TypeAlias = Sequence[AffineExpr]
"""The position at which a tensor is read or written: for each dimension an affine expression of the loops."""

Formula: TypeAlias = Callable[..., Value]
"""(the operands' elements, and last the current element of the result) → the next element of the result."""


def loops(count: int) -> list[AffineExpr]:
    """The loop indices of a generic operation, outermost first."""
    return [AffineExpr.dimension(i) for i in range(count)]


class TensorCode(BodyCode):
    """A function body of linalg operations on tensors under construction."""

    # -- tensors ---------------------------------------------------------------------------------------------------

    def constant(self, array: Array) -> SSAValue:
        """A constant tensor; unsigned integers become signless integers of the same bits."""
        value = self.dense(array)
        return self.add(arith.ConstantOp.create(result_types=[value.type], properties={"value": value}))

    def scalar(self, number: float, element: Attribute) -> SSAValue:
        """A scalar constant."""
        is_float = isinstance(element, AnyFloat)
        value = FloatAttr(float(number), element) if is_float else IntegerAttr(int(number), cast(Any, element))
        return self.add(arith.ConstantOp.create(result_types=[element], properties={"value": value}))

    def empty(self, shape: Sequence[int], element: Attribute) -> SSAValue:
        """A tensor whose contents are undefined."""
        return self.add(tensor.EmptyOp([], TensorType(element, shape)))

    def filled(self, number: float, shape: Sequence[int], element: Attribute) -> SSAValue:
        """A tensor whose elements are all one number."""
        start = self.empty(shape, element)
        return self.add(FillOp([self.scalar(number, element)], [start], [start.type]))

    # -- computation -------------------------------------------------------------------------------------------------

    def generic(
        self, inputs: Sequence[tuple[SSAValue, Place]], into: tuple[SSAValue, Place], count: int, formula: Formula
    ) -> SSAValue:
        """Writes a loop nest as a `linalg.generic`, and returns its result.

        Args:
            inputs: The operands, each with the position at which it is read.
            into: The initial result, with the position at which it is written.
            count: The number of loops.
            formula: The computation of one iteration.
        """
        start, written = into
        tensors, places = [*(t for t, _ in inputs), start], [*(p for _, p in inputs), written]
        body = Block(arg_types=[element_of(t) for t in tensors])
        code = Code(body)
        result = formula(*(Value(code, argument.type, argument) for argument in body.args))
        code.add(YieldOp(result.ssa))
        code.finish()
        parallel = {place.position for place in written if isinstance(place, AffineDimExpr)}
        kinds = (IteratorTypeAttr.parallel() if i in parallel else IteratorTypeAttr.reduction() for i in range(count))
        return self.add(
            GenericOp(
                tensors[:-1],
                [start],
                Region(body),
                [AffineMapAttr(AffineMap(count, 0, tuple(place))) for place in places],
                list(kinds),
                [start.type],
            )
        )

    def elementwise(self, inputs: Sequence[SSAValue], result: TensorType[Attribute], formula: Formula) -> SSAValue:
        """Applies a formula to each element of tensors that broadcast to the result's shape.

        The formula gets the elements of the inputs only, not the element of the result.
        """
        shape = result.get_shape()
        dims = loops(len(shape))
        read = [(x, broadcast_place(shape_of(x), shape)) for x in inputs]
        into = (self.empty(shape, result.element_type), dims)

        def without_result(*elements: Value) -> Value:
            return formula(*elements[:-1])

        return self.generic(read, into, len(shape), without_result)

    # -- movement --------------------------------------------------------------------------------------------------

    def reshape(self, x: SSAValue, shape: Sequence[int]) -> SSAValue:
        """Reshapes a tensor in row-major order: collapses it to one dimension and expands it."""
        have, element = shape_of(x), element_of(x)
        if tuple(shape) == have:
            return x
        if not have or not shape:  # xDSL cannot expand from rank 0 or collapse to rank 0
            zero = [self.scalar(0, INDEX)] * len(have)
            return self.add(
                tensor.SplatOp(self.add(tensor.ExtractOp(x, zero, element)), [], TensorType(element, shape))
            )
        flat = TensorType(element, [prod(have)])
        if len(have) > 1:
            grouped = {"reassociation": _one_group(len(have))}
            x = self.add(tensor.CollapseShapeOp.create(operands=[x], result_types=[flat], properties=grouped))
        if len(shape) > 1:
            x = self.add(tensor.ExpandShapeOp(x, [], _one_group(len(shape)), shape, TensorType(element, shape)))
        return x

    def padded(self, x: SSAValue, low: Sequence[int], high: Sequence[int], number: float) -> SSAValue:
        """Pads `x` with `number`: `low` elements before and `high` elements after it along each dimension.

        Raises:
            UnsupportedError: The element type cannot hold the number.
        """
        element = element_of(x)
        if not any([*low, *high]):
            return x
        if is_integer(element):
            half = 1 << element.width.data - 1
            if not -half <= number < half:
                self.refuse(
                    f"needs padding that {element} holds",
                    got=str(number),
                    remedy="choose a zero point within its range",
                )
        block = Block(arg_types=[INDEX] * len(low))
        block.add_op(tensor.YieldOp(self.scalar(number, element)))
        shape = [a + size + b for a, size, b in zip(low, shape_of(x), high, strict=True)]
        return self.add(tensor.PadOp(x, [], [], Region(block), low, high, TensorType(element, shape)))


def copied(x: Value, _: Value) -> Value:
    """The formula of a copy: the element that is read."""
    return x


def tensor_of(element: Attribute, shape: Sequence[int]) -> TensorType[Attribute]:
    """A tensor type."""
    return TensorType(element, shape)


def broadcast_place(shape: Sequence[int], to: Sequence[int]) -> list[AffineExpr]:
    """The position at which a tensor is read that broadcasts (as in numpy) to a shape; the loops are its dimensions."""
    dims = loops(len(to))[len(to) - len(shape) :]
    sizes = zip(shape, to[len(to) - len(shape) :], strict=True)
    return [AffineExpr.constant(0) if size == 1 != wide else dim for dim, (size, wide) in zip(dims, sizes, strict=True)]


def _one_group(rank: int) -> ArrayAttr[ArrayAttr[IntegerAttr]]:
    return ArrayAttr([ArrayAttr([IntegerAttr(i, i64) for i in range(rank)])])
