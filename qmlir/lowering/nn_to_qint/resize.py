"""Interpolation: weights as multiples of a power of two, sums in 32 bits, one rounding at the end."""

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Operation, SSAValue

from qmlir.dialects import nn, qint
from qmlir.dialects.qint.base import int32
from qmlir.dialects.weights import WeightsAttr
from qmlir.legality import interpolation_weights, uniform
from qmlir.lowering.nn_to_qint.scales import requantize
from qmlir.runtimes import Rounding


def lower_resize(op: nn.ResizeOp, operands: Sequence[SSAValue], rounding: Rounding) -> list[Operation]:
    """acc = Σ w · 2^b · (x − z_x), then y = z_y + acc · s_x / (s_y · 2^(b · axes))."""
    _, weights = interpolation_weights(op)
    properties = {
        "axes": op.axes,
        "taps": op.taps,
        "weights": ArrayAttr([WeightsAttr(w) for w in weights]),
        "zero_point": int32(uniform(op.x).zero_point),
    }
    sums = qint.ResizeOp.make(operands, properties)
    return [sums, requantize(sums.acc, op, rounding)]
