"""Convolutions, fully connected layers and matrix products: i32 sums of products, then one requantization."""

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute, Operation, SSAValue

from qmlir.dialects import nn, qint
from qmlir.dialects.interfaces import element_of, shape_of
from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.dialects.qint.base import int32
from qmlir.dialects.quant.types import UniformType
from qmlir.lowering.nn_to_qint.scales import NoIntegerForm, limits, per_tensor, prove_accumulator, requantize, uniform, widest

_INTEGER_FORM: dict[type[WeightedOp], type[qint.Conv2DOp | qint.DepthwiseConv2DOp | qint.FullyConnectedOp]] = {
    nn.Conv2DOp: qint.Conv2DOp,
    nn.DepthwiseConv2DOp: qint.DepthwiseConv2DOp,
    nn.FullyConnectedOp: qint.FullyConnectedOp,
}


def lower_weighted(op: WeightedOp, operands: Sequence[SSAValue], contract: str) -> list[Operation]:
    """acc = Σ (x − z_x)·w + b, then y = z_y + acc · s_x·s_w / s_y."""
    data, weights, result = per_tensor(op.x), uniform(op.w), per_tensor(op.y)
    if any(weights.zero_points):
        raise NoIntegerForm("target", "weights with a zero point have no integer form; quantize them symmetrically")
    if op.b is not None and not isinstance(element_of(op.b), UniformType | IntegerType):
        raise NoIntegerForm("bias", "its bias is still float; run --quantize-bias")
    _prove(op, data, weights)
    properties: dict[str, Attribute] = {"zero_point": int32(data.zero_point)}
    properties |= {k: op.properties[k] for k in ("strides", "padding", "dilations") if k in op.properties}
    x, w, *b = operands
    acc = _INTEGER_FORM[type(op)].make([x, w, b], properties)
    real = np.array([data.scale * s / result.scale for s in weights.scales])
    return [acc, requantize(acc.acc, real, result, limits(op, result), contract)]


def _prove(op: WeightedOp, data: UniformType, weights: UniformType) -> None:
    """Bounds the accumulators: exactly from constant weights, from their type otherwise."""
    axes = (0, 1, 2) if isinstance(op, nn.DepthwiseConv2DOp) else tuple(range(1, len(shape_of(op.w))))
    if isinstance(op.w.owner, ConstantOp):
        sums = np.abs(op.w.owner.value.array.astype(np.int64)).sum(axis=axes)
    else:
        terms = int(np.prod([shape_of(op.w)[a] for a in axes]))
        sums = np.full(op.output_channels(), terms * widest(weights), np.int64)
    bias = np.zeros(1, np.int64)
    if op.b is not None:
        stored = op.b.owner.value.array if isinstance(op.b.owner, ConstantOp) else np.array([2**30])
        bias = np.abs(stored.astype(np.int64))
    bounds = sums * widest(data) + bias
    prove_accumulator(bounds.max(initial=0), f"the sum of products in channel {int(bounds.argmax())}")


def lower_matmul(op: nn.MatMulOp, operands: Sequence[SSAValue], contract: str) -> list[Operation]:
    """acc = Σ (a − z_a)·(b − z_b), then y = z_y + acc · s_a·s_b / s_y."""
    lhs, rhs, result = per_tensor(op.lhs), per_tensor(op.rhs), per_tensor(op.y)
    prove_accumulator(shape_of(op.lhs)[-1] * widest(lhs) * widest(rhs), "a sum of products")
    acc = qint.MatMulOp.make(
        operands, {"lhs_zero_point": int32(lhs.zero_point), "rhs_zero_point": int32(rhs.zero_point)}
    )
    real = np.array([lhs.scale * rhs.scale / result.scale])
    return [acc, requantize(acc.acc, real, result, limits(op, result), contract)]
