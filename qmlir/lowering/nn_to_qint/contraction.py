"""Convolutions, fully connected layers and matrix products: i32 sums of products, then one requantization."""

from collections.abc import Sequence

import numpy as np
from xdsl.ir import Attribute, Operation, SSAValue

from qmlir.dialects import nn, qint
from qmlir.dialects.nn.base import is_float
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.dialects.qint.base import int32
from qmlir.legality import NoIntegerForm, centred_weights, is_accumulator, uniform
from qmlir.lowering.nn_to_qint.saturation import lower_saturating, saturates
from qmlir.lowering.nn_to_qint.scales import requantize
from qmlir.runtimes import Rounding

_INTEGER_FORM: dict[type[WeightedOp], type[qint.Conv2DOp | qint.DepthwiseConv2DOp | qint.FullyConnectedOp]] = {
    nn.Conv2DOp: qint.Conv2DOp,
    nn.DepthwiseConv2DOp: qint.DepthwiseConv2DOp,
    nn.FullyConnectedOp: qint.FullyConnectedOp,
}


def lower_weighted(op: WeightedOp, operands: Sequence[SSAValue], rounding: Rounding) -> list[Operation]:
    """acc = Σ (x − z_x)·w + b, then y = z_y + acc · s_x·s_w / s_y."""
    if op.b is not None and is_float(op.b):
        raise NoIntegerForm("bias", "its bias is still float; run --quantize-bias")
    if saturates(op, rounding):
        return lower_saturating(op, operands, rounding)
    properties: dict[str, Attribute] = {"zero_point": int32(uniform(op.x).zero_point)}
    properties |= {k: op.properties[k] for k in ("strides", "padding", "dilations", "groups") if k in op.properties}
    x, w, *b = operands
    centred = _centred(op)
    sums = _INTEGER_FORM[type(op)].make([x, w if centred is None else centred.y, b], properties)
    return [*([] if centred is None else [centred]), *_ended(op, sums, sums.acc, rounding)]


def _centred(op: WeightedOp) -> nn.ConstantOp | None:
    """Constant weights with a zero point as constants without: their differences from it, i8 where these fit."""
    if not any(uniform(op.w).zero_points) or not isinstance(op.w.owner, nn.ConstantOp):
        return None
    array = centred_weights(op, op.w.owner.value.array)
    narrow = np.int8 if np.abs(array).max(initial=0) < 128 else np.int16
    return nn.ConstantOp(array.astype(narrow))


def _ended(op: WeightedOp | nn.MatMulOp, sums: Operation, acc: SSAValue, rounding: Rounding) -> list[Operation]:
    """The sums and their requantization, if the result is not the sums themselves."""
    return [sums] if is_accumulator(op.y, op) else [sums, requantize(acc, op, rounding)]


def lower_matmul(op: nn.MatMulOp, operands: Sequence[SSAValue], rounding: Rounding) -> list[Operation]:
    """acc = Σ (a − z_a)·(b − z_b), then y = z_y + acc · s_a·s_b / s_y."""
    lhs, rhs = uniform(op.lhs), uniform(op.rhs)
    sums = qint.MatMulOp.make(
        operands, {"lhs_zero_point": int32(lhs.zero_point), "rhs_zero_point": int32(rhs.zero_point)}
    )
    return _ended(op, sums, sums.acc, rounding)
