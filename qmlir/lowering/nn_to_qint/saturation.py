"""Contractions of u8 data and s8 weights as onnxruntime computes them without VNNI: pairs of products saturate.

onnxruntime's kernels multiply u8 by s8, add two neighbouring products with saturation at 16 bits, and accumulate the
pairs in 32 bits. The order of the weights, [rows, columns, channels], decides which products are neighbours. Therefore
the input of each output becomes one row of a matrix (im2col): the image is padded with the zero point, and one slice
for each weight position (tap) is concatenated. The data are the integers that the source model stores, with their zero
point. What the zero point adds to the sums, z · Σw, is subtracted from the bias.
"""

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, i8, i64
from xdsl.ir import Operation, SSAValue

from qmlir.dialects import nn, qint
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.dialects.qint.base import int32
from qmlir.dialects.qmlir import UNSIGNED_WEIGHTS
from qmlir.dialects.windows import ints
from qmlir.ir.interfaces import Array, Shape, shape_of
from qmlir.ir.marks import INTEGER_OPERATOR
from qmlir.lowering.nn_to_qint.scales import displaced, requantize
from qmlir.policies.legality import is_accumulator, stored_bias
from qmlir.policies.quantized_values import uniform
from qmlir.policies.runtimes import Rounding


def saturates(op: WeightedOp, rounding: Rounding) -> bool:
    """Whether pairs of products saturate: the operation is an integer operator of u8 by s8 in the source model."""
    constant = isinstance(op.w.owner, nn.ConstantOp)
    fits = isinstance(op, nn.FullyConnectedOp) or (isinstance(op, nn.Conv2DOp) and op.group_count() == 1)
    signed = uniform(op.w).storage == i8 and UNSIGNED_WEIGHTS not in op.attributes
    symmetric = signed and not any(uniform(op.w).zero_points)
    marked = INTEGER_OPERATOR in op.attributes and displaced(op) == 128
    return rounding.pairs and marked and constant and fits and symmetric


def lower_saturating(op: WeightedOp, operands: Sequence[SSAValue], rounding: Rounding) -> list[Operation]:
    """Lowers to acc = (b − z·Σw) + Σ sat16(x·w + x'·w'), x as stored, then y = z_y + acc · s_x·s_w / s_y."""
    assert isinstance(op.w.owner, nn.ConstantOp)
    weights = op.w.owner.value.array
    new, rows = _rows(op, operands[0])
    matrix = nn.ConstantOp(weights.reshape(weights.shape[0], -1))
    bias = nn.ConstantOp(_bias(op, weights))
    sums = qint.SaturatingFullyConnectedOp.make([rows, matrix.y, [bias.y]], {"zero_point": int32(-displaced(op))})
    new += [matrix, bias, sums]
    if not is_accumulator(op.y, op):
        new.append(requantize(sums.acc, op, rounding))
    if shape_of(new[-1].results[0]) != shape_of(op.y):
        new.append(_reshape(new[-1].results[0], shape_of(op.y)))
    return new


def _bias(op: WeightedOp, weights: Array) -> Array:
    point = uniform(op.x).zero_point + displaced(op)
    constant = -point * weights.reshape(weights.shape[0], -1).astype(np.int64).sum(axis=1)
    bias = stored_bias(op)
    total = constant if bias is None else constant + bias
    # The bound that legality.py proves for the sums covers this bias: the sum equals it if all data are stored as 0.
    return total.astype(np.int32)


def _rows(op: WeightedOp, x: SSAValue) -> tuple[list[Operation], SSAValue]:
    """The input of each output as one row of a matrix [N·OH·OW, KH·KW·C].

    Returns:
        The operations that make the matrix, and the matrix.
    """
    if not isinstance(op, nn.Conv2DOp):
        return [], x
    new: list[Operation] = []
    top, bottom, left, right = op.padding_values()
    if any((top, bottom, left, right)):
        value = IntegerAttr(uniform(op.x).zero_point, i8)
        pads = {"low": ints((0, top, left, 0)), "high": ints((0, bottom, right, 0)), "value": value}
        new.append(nn.PadOp.make([x], pads))
        x = new[-1].results[0]
    batch, *_, channels = shape_of(x)
    _, rows, columns, _ = shape_of(op.y)
    taps: list[SSAValue] = []
    for i, j in np.ndindex(*shape_of(op.w)[1:3]):
        offset = (0, i * op.dilation_values()[0], j * op.dilation_values()[1], 0)
        size, strides = (batch, rows, columns, channels), (1, *op.stride_values(), 1)
        if size == shape_of(x) and strides == (1, 1, 1, 1):
            taps.append(x)
            continue
        tap = nn.SliceOp.make([x], {"offsets": ints(offset), "sizes": ints(size), "strides": ints(strides)})
        new.append(tap)
        taps.append(tap.y)
    if len(taps) > 1:
        new.append(nn.ConcatOp.make([taps], {"axis": IntegerAttr(3, i64)}))
    flat = _reshape(new[-1].results[0] if new else x, (batch * rows * columns, len(taps) * channels))
    return [*new, flat], flat.y


def _reshape(x: SSAValue, shape: Shape) -> nn.ReshapeOp:
    return nn.ReshapeOp.make([x], {"shape": ints(shape)})
