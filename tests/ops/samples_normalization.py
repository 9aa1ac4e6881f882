"""Samples of normalizations along axes."""

from xdsl.dialects.builtin import IntegerAttr, f64, i64
from xdsl.ir import Attribute

from qmlir.dialects import nn
from qmlir.dialects.nn.base import bound
from tests.ops.sample import Operand, Sample, axis, epsilon, f

Properties = dict[str, Attribute | None]


def p(value: int) -> Properties:
    """Which norm."""
    return {"p": IntegerAttr(value, i64)}


def response(size: int, alpha: float, beta: float, bias: float) -> Properties:
    """The properties of nn.local_response_normalization."""
    return {"size": IntegerAttr(size, i64), "alpha": bound(alpha), "beta": bound(beta), "bias": bound(bias)}


FLOAT_SAMPLES = (
    Sample(nn.LayerNormOp, "last axis", (f(6, 37, low=-1, high=5),), axis(1) | epsilon(1e-5)),
    Sample(nn.LayerNormOp, "two axes", (f(2, 3, 4, 5),), axis(2) | epsilon(0.1)),
    Sample(nn.RMSNormOp, "last axis", (f(6, 37, low=-1, high=5),), axis(1) | epsilon(1e-6)),
    Sample(nn.RMSNormOp, "all", (f(2, 3, 5),), axis(0) | epsilon(0.25)),
    Sample(nn.LpNormalizationOp, "of absolute values", (f(5, 7),), axis(0) | p(1)),
    Sample(nn.LpNormalizationOp, "of squares", (f(3, 20, 2),), axis(1) | p(2)),
    Sample(nn.LocalResponseNormalizationOp, "odd", (f(2, 3, 4, 7),), response(3, 0.5, 0.75, 1.0)),
    Sample(nn.LocalResponseNormalizationOp, "even", (f(2, 9),), response(4, 2.0, 0.3, 0.5)),
    Sample(nn.LocalResponseNormalizationOp, "wider than there are channels", (f(2, 3),), response(9, 1.0, 1.0, 1.0)),
    Sample(nn.LpNormalizationOp, "of zeros", (f(3, 4, low=0, high=0),), axis(1) | p(2)),
)

OTHER_SAMPLES = (
    Sample(nn.LayerNormOp, "f64", (Operand((3, 9), f64, -1, 5),), axis(1) | epsilon(1e-5)),
    Sample(nn.SoftmaxOp, "f64", (Operand((3, 9), f64, -1, 5),), axis(1)),
    Sample(nn.SoftmaxOp, "f64 columns", (Operand((3, 9), f64, -1, 5),), axis(0)),
)
"""Of floats that are not quantized."""
