"""Writing tensor code of upstream's dialects: everything that computes is one `linalg.generic`.

`TensorCode.generic` takes operands with the place each is read at, as affine expressions of the loops, and a formula on
single elements (value.py); loops that do not occur in the result's place are reductions:

    n, o, i = loops(3)
    code.generic([(x, [n, i]), (w, [o, i])], (zeros, [n, o]), 3, lambda x, w, acc: acc + x.to(i32) * w.to(i32))

Tensors hold signless integers of 8 bits and more, or floats; none of the operations written here has an alternative
meaning in another version of MLIR (LLVM 19 and later).
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NoReturn, TypeAlias, cast

import numpy as np
import numpy.typing as npt
from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import (
    AffineMapAttr,
    AnyFloat,
    ArrayAttr,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    TensorType,
    i64,
)
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.dialects.linalg.ops import FillOp, GenericOp, YieldOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from qmlir.dialects.dtypes import element_type_of
from qmlir.dialects.interfaces import element_of, shape_of
from qmlir.dialects.loops import is_integer
from qmlir.errors import LoweringError
from qmlir.lowering.code import Code
from qmlir.lowering.value import INDEX, Value
from qmlir.rewriting import node_name

Array: TypeAlias = npt.NDArray[Any]

Place: TypeAlias = Sequence[AffineExpr]
"""Where a tensor is read or written: an expression of the loops for each dimension."""

Formula: TypeAlias = Callable[..., Value]
"""The operands' elements, and last what the result holds so far → what it holds next."""


def loops(count: int) -> list[AffineExpr]:
    """The loops of a generic operation, outermost first."""
    return [AffineExpr.dimension(i) for i in range(count)]


class TensorCode:
    """A function body under construction.

    source   the operation that is being lowered: what is written takes its location, refusals name it
    """

    def __init__(self, block: Block, source: Operation):
        self.block = block
        self.source = source

    def refuse(self, need: str, *, got: str | None = None, remedy: str | None = None) -> NoReturn:
        """Ends the lowering because of the operation at hand."""
        raise LoweringError(self.source.name, node_name(self.source), need, got=got, remedy=remedy)

    def add(self, op: Operation) -> SSAValue:
        """Appends an operation; its first result."""
        op.location = self.source.location
        self.block.add_op(op)
        return op.results[0]

    # -- tensors ---------------------------------------------------------------------------------------------------

    def constant(self, array: Array) -> SSAValue:
        """A constant tensor; unsigned integers become signless ones of the same bits."""
        if array.dtype.kind == "b":
            self.refuse("has no constants of one bit upstream", got=f"bool{list(array.shape)}", remedy="use i8")
        stored = array.view(f"i{array.dtype.itemsize}") if array.dtype.kind == "u" else array
        type = TensorType(element_type_of(stored.dtype), stored.shape)
        dense: Any = DenseIntOrFPElementsAttr  # its overloads do not know a tensor of any element type
        value = dense(type, BytesAttr(np.ascontiguousarray(stored).tobytes()))
        return self.add(arith.ConstantOp.create(result_types=[type], properties={"value": value}))

    def scalar(self, number: float, element: Attribute) -> SSAValue:
        """A constant number."""
        is_float = isinstance(element, AnyFloat)
        value = FloatAttr(float(number), element) if is_float else IntegerAttr(int(number), cast(Any, element))
        return self.add(arith.ConstantOp.create(result_types=[element], properties={"value": value}))

    def empty(self, shape: Sequence[int], element: Attribute) -> SSAValue:
        """A tensor without contents."""
        return self.add(tensor.EmptyOp([], TensorType(element, shape)))

    def filled(self, number: float, shape: Sequence[int], element: Attribute) -> SSAValue:
        """A tensor of one number."""
        start = self.empty(shape, element)
        return self.add(FillOp([self.scalar(number, element)], [start], [start.type]))

    # -- computation -------------------------------------------------------------------------------------------------

    def generic(
        self, inputs: Sequence[tuple[SSAValue, Place]], into: tuple[SSAValue, Place], count: int, formula: Formula
    ) -> SSAValue:
        """A loop nest.

        Args:
            inputs: Tensors, and where each is read.
            into: The tensor that the result starts as, and where it is written.
            count: How many loops there are.
            formula: What one step of them computes.
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
        """A formula on each element of tensors that broadcast to the result's shape, without the result's element."""
        shape = result.get_shape()
        dims = loops(len(shape))
        read = [(x, broadcast_place(shape_of(x), shape)) for x in inputs]
        into = (self.empty(shape, result.element_type), dims)

        def without_result(*elements: Value) -> Value:
            return formula(*elements[:-1])

        return self.generic(read, into, len(shape), without_result)

    # -- movement --------------------------------------------------------------------------------------------------

    def reshape(self, x: SSAValue, shape: Sequence[int]) -> SSAValue:
        """The same elements in row-major order: by way of one dimension."""
        have, element = shape_of(x), element_of(x)
        if tuple(shape) == have:
            return x
        if not have or not shape:  # one element; xDSL cannot say that no dimensions become some
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
        """`x` with `low` elements before and `high` after it along each dimension.

        Raises:
            LoweringError: The elements cannot hold the number.
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
    """The formula of what moves elements."""
    return x


def tensor_of(element: Attribute, shape: Sequence[int]) -> TensorType[Attribute]:
    """A tensor type."""
    return TensorType(element, shape)


def broadcast_place(shape: Sequence[int], to: Sequence[int]) -> list[AffineExpr]:
    """Where a tensor is read that broadcasts, as numpy has it, to a shape whose dimensions are the loops."""
    dims = loops(len(to))[len(to) - len(shape) :]
    sizes = zip(shape, to[len(to) - len(shape) :], strict=True)
    return [AffineExpr.constant(0) if size == 1 != wide else dim for dim, (size, wide) in zip(dims, sizes, strict=True)]


def _one_group(rank: int) -> ArrayAttr[ArrayAttr[IntegerAttr]]:
    return ArrayAttr([ArrayAttr([IntegerAttr(i, i64) for i in range(rank)])])
