"""Forms of constants and data movement.

A quantized tensor is moved as real values between a DequantizeLinear and a QuantizeLinear of the same scale, which do
not change it. Runtimes recognize this pattern and move the integers instead.
"""

import numpy as np
from xdsl.ir import SSAValue

from qmlir.backends.onnx.exporters import exports
from qmlir.backends.onnx.graph import WIDER
from qmlir.backends.onnx.values import Permutation, Values, constant, identity
from qmlir.dialects import nn
from qmlir.ir.dtypes import is_numpys_own
from qmlir.ir.interfaces import Shape, shape_of


@exports(nn.ConstantOp)
def make_constant(op: nn.ConstantOp, values: Values) -> None:
    """Writes nothing: a constant becomes a tensor when an operation reads it, in the dimension order that it needs."""


@exports(nn.TransposeOp)
def transpose(op: nn.TransposeOp, values: Values) -> None:
    """Writes no node: records that the result is the operand in another dimension order."""
    values.view(op.y, op.x, tuple(op.permutation.get_values()))


@exports(nn.ReshapeOp)
def reshape(op: nn.ReshapeOp, values: Values) -> None:
    """Writes Reshape, or no node if only dimensions of size 1 move."""
    before, after = shape_of(op.x), shape_of(op.y)
    if (moved := unit_dimensions_moved(before, after)) is not None:
        values.view(op.y, op.x, moved)
        return
    keeps_zeros = 1 if 0 in after else None
    y = values.graph.node("Reshape", values.real(op.x), values.graph.indices(after), allowzero=keeps_zeros)
    values.define(op.y, y)


def unit_dimensions_moved(before: Shape, after: Shape) -> Permutation | None:
    """Returns the transpose that equals a reshape if the reshape only moves dimensions of size 1; else None."""
    if len(before) != len(after) or [s for s in before if s != 1] != [s for s in after if s != 1]:
        return None
    ones = iter([i for i, size in enumerate(before) if size == 1])
    others = iter([i for i, size in enumerate(before) if size != 1])
    return tuple(next(ones if size == 1 else others) for size in after)


@exports(nn.BroadcastOp)
def broadcast(op: nn.BroadcastOp, values: Values) -> None:
    """Writes Expand."""
    y = values.graph.node("Expand", values.real(op.x), values.graph.indices(shape_of(op.y)))
    values.define(op.y, y)


@exports(nn.ConcatOp)
def concat(op: nn.ConcatOp, values: Values) -> None:
    """Writes Concat in the dimension order of the first computed operand."""
    computed: list[SSAValue] = [x for x in op.inputs if constant(x) is None]
    order = values.order(computed[0]) if computed else identity(len(shape_of(op.y)))
    stored = [values.real(x, order) for x in op.inputs]
    values.define(op.y, values.graph.node("Concat", *stored, axis=order.index(op.axis.value.data)), order)


@exports(nn.PadOp)
def pad(op: nn.PadOp, values: Values) -> None:
    """Writes Pad; a quantized tensor is padded with the nearest real number that its integers represent."""
    order, fill = values.order(op.x), values.number(op.y, op.value.value.data)
    x, low, high = values.real(op.x, order), op.low.get_values(), op.high.get_values()
    number = fill.astype(x.dtype) if is_numpys_own(x.dtype) else fill.astype(np.float32).astype(x.dtype)
    amounts = values.graph.indices([*(low[p] for p in order), *(high[p] for p in order)])
    stored, wide = x.dtype, WIDER.get(x.dtype, x.dtype)
    y = values.graph.node("Pad", values.graph.cast(x, wide), amounts, values.graph.constant(number.astype(wide)))
    values.define(op.y, values.graph.cast(y, stored), order)
