"""Convolutions, fully connected layers and matrix products: i32 sums of products, then one requantization."""

from collections.abc import Sequence

from xdsl.ir import Attribute, Operation, SSAValue

from qmlir.dialects import nn, qint
from qmlir.dialects.nn.base import is_float
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.dialects.qint.base import int32
from qmlir.legality import NoIntegerForm, uniform
from qmlir.lowering.nn_to_qint.scales import requantize

_INTEGER_FORM: dict[type[WeightedOp], type[qint.Conv2DOp | qint.DepthwiseConv2DOp | qint.FullyConnectedOp]] = {
    nn.Conv2DOp: qint.Conv2DOp,
    nn.DepthwiseConv2DOp: qint.DepthwiseConv2DOp,
    nn.FullyConnectedOp: qint.FullyConnectedOp,
}


def lower_weighted(op: WeightedOp, operands: Sequence[SSAValue], contract: str) -> list[Operation]:
    """acc = Σ (x − z_x)·w + b, then y = z_y + acc · s_x·s_w / s_y."""
    if op.b is not None and is_float(op.b):
        raise NoIntegerForm("bias", "its bias is still float; run --quantize-bias")
    properties: dict[str, Attribute] = {"zero_point": int32(uniform(op.x).zero_point)}
    properties |= {k: op.properties[k] for k in ("strides", "padding", "dilations", "groups") if k in op.properties}
    x, w, *b = operands
    sums = _INTEGER_FORM[type(op)].make([x, w, b], properties)
    return [sums, requantize(sums.acc, op, contract)]


def lower_matmul(op: nn.MatMulOp, operands: Sequence[SSAValue], contract: str) -> list[Operation]:
    """acc = Σ (a − z_a)·(b − z_b), then y = z_y + acc · s_a·s_b / s_y."""
    lhs, rhs = uniform(op.lhs), uniform(op.rhs)
    sums = qint.MatMulOp.make(
        operands, {"lhs_zero_point": int32(lhs.zero_point), "rhs_zero_point": int32(rhs.zero_point)}
    )
    return [sums, requantize(sums.acc, op, contract)]
