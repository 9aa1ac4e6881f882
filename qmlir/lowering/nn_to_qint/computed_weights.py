"""Integer forms of convolutions and fully connected layers whose weights are computed at run time.

Kernels of layers pack constant weights. With computed weights a layer is a product of two computed matrices instead:

    rows [G, P, K] · weights [G, K, O/G]  →  acc [P, O]  →  + bias  →  y

G counts groups, P the outputs of a channel, K the products of an output. The rows are the windows of the image, one
slice for each position in the window; the image is padded with its zero point. A depthwise convolution has a group for
each channel.
"""

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Attribute, Operation, SSAValue

from qmlir.dialects import nn, qint
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.dialects.nn.quantizable import uniform
from qmlir.dialects.qint.requantize import int32, width_of
from qmlir.dialects.windows import ints
from qmlir.ir.interfaces import TensorOp, shape_of

Convolution = nn.Conv2DOp | nn.DepthwiseConv2DOp


class Made:
    """Operations in the order in which they are made."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []

    def add(
        self, op_type: type[TensorOp], operands: Sequence[SSAValue | Sequence[SSAValue]],
        properties: Mapping[str, Attribute],
    ) -> SSAValue:  # fmt: skip
        """Adds an operation and returns its result."""
        op = op_type.make(operands, dict(properties))
        self.operations.append(op)
        return op.results[0]

    def reshape(self, x: SSAValue, shape: Sequence[int]) -> SSAValue:
        """Returns a tensor under another shape."""
        return x if shape_of(x) == tuple(shape) else self.add(nn.ReshapeOp, [x], {"shape": ints(tuple(shape))})

    def transpose(self, x: SSAValue, order: Sequence[int]) -> SSAValue:
        """Returns a tensor with its dimensions permuted; a reshape where only dimensions of size 1 change places."""
        shape = shape_of(x)
        kept = [axis for axis in order if shape[axis] != 1]
        if kept == sorted(kept):
            return self.reshape(x, [shape[axis] for axis in order])
        return self.add(nn.TransposeOp, [x], {"permutation": ints(tuple(order))})


def products(op: WeightedOp, x: SSAValue, w: SSAValue, accumulator: Attribute) -> Made:
    """Makes the sums of products of stored data and stored, computed weights, in the shape of the result."""
    made, (groups, outputs) = Made(), _groups(op)
    taps, channels = prod(shape_of(w)[1:3]) if isinstance(op, Convolution) else 1, shape_of(x)[-1] // groups
    rows = windows(made, op, x) if isinstance(op, Convolution) else x
    places, products = prod(shape_of(op.y)[:-1]), taps * channels
    rows = made.reshape(rows, (places, taps, groups, channels))
    rows = made.reshape(made.transpose(rows, (2, 0, 1, 3)), (groups, places, products))
    if isinstance(op, nn.DepthwiseConv2DOp):
        weights = made.transpose(made.reshape(w, (taps, groups, outputs)), (1, 0, 2))
    else:
        weights = made.transpose(made.reshape(w, (groups, outputs, products)), (0, 2, 1))
    points = {"lhs_zero_point": int32(uniform(op.x).zero_point), "rhs_zero_point": int32(uniform(op.w).zero_points[0])}
    if groups == 1:
        rows, weights = made.reshape(rows, (places, products)), made.reshape(weights, (products, outputs))
    sums = qint.MatMulOp.make([rows, weights], points, element=accumulator)
    made.operations.append(sums)
    acc = made.transpose(sums.acc, (1, 0, 2)) if groups > 1 else sums.acc
    made.reshape(acc, shape_of(op.y))
    return made


def _groups(op: WeightedOp) -> tuple[int, int]:
    """The number of groups, and of output channels in each."""
    if isinstance(op, nn.DepthwiseConv2DOp):
        return shape_of(op.x)[3], op.multiplier()
    groups = op.group_count() if isinstance(op, nn.Conv2DOp) else 1
    return groups, op.output_channels() // groups


def windows(made: Made, op: Convolution, x: SSAValue) -> SSAValue:
    """Returns the windows of a convolution over stored data as [N, OH, OW, KH·KW·C], padded with the zero point."""
    top, bottom, left, right = op.padding_values()
    if any((top, bottom, left, right)):
        value = IntegerAttr(uniform(op.x).zero_point, width_of(x))
        pads = {"low": ints((0, top, left, 0)), "high": ints((0, bottom, right, 0)), "value": value}
        x = made.add(nn.PadOp, [x], pads)
    batch, *_, channels = shape_of(x)
    _, rows, columns, _ = shape_of(op.y)
    taps: list[SSAValue] = []
    for i, j in np.ndindex(*shape_of(op.w)[1:3]):
        offset = (0, i * op.dilation_values()[0], j * op.dilation_values()[1], 0)
        size, strides = (batch, rows, columns, channels), (1, *op.stride_values(), 1)
        if size == shape_of(x) and strides == (1, 1, 1, 1):
            taps.append(x)
            continue
        cut = {"offsets": ints(offset), "sizes": ints(size), "strides": ints(strides)}
        taps.append(made.add(nn.SliceOp, [x], cut))
    return made.add(nn.ConcatOp, [taps], {"axis": IntegerAttr(3, i64)}) if len(taps) > 1 else taps[0]
