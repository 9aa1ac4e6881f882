"""Samples of normalizations along axes."""

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, StringAttr, f64, i8, i16, i64
from xdsl.ir import Attribute

from qmlir.dialects import nn, qint
from qmlir.dialects.nn.base import bound
from qmlir.dialects.qint.requantize import int32
from tests.ops.sample import Operand, Sample, axis, epsilon, f, i, narrow, weights

Properties = dict[str, Attribute | None]


def p(value: int) -> Properties:
    """Which norm."""
    return {"p": IntegerAttr(value, i64)}


def response(size: int, alpha: float, beta: float, bias: float) -> Properties:
    """The properties of nn.local_response_normalization."""
    return {"size": IntegerAttr(size, i64), "alpha": bound(alpha), "beta": bound(beta), "bias": bound(bias)}


FLOAT_SAMPLES = (
    Sample(nn.LogSoftmaxOp, "last axis", (f(3, 10, low=-6, high=6),), axis(1)),
    Sample(nn.LogSoftmaxOp, "middle axis", (f(2, 5, 3),), axis(1)),
    Sample(nn.LogSoftmaxOp, "beyond exp", (f(5, 4, low=-2000, high=2000),), axis(0)),
    Sample(nn.LayerNormOp, "last axis", (f(6, 37, low=-1, high=5),), axis(1) | epsilon(1e-5)),
    Sample(nn.LayerNormOp, "many rows", (f(19, 21, low=-1, high=5),), axis(1) | epsilon(1e-5)),
    Sample(nn.LayerNormOp, "two axes", (f(2, 3, 4, 5),), axis(2) | epsilon(0.1)),
    Sample(nn.RMSNormOp, "last axis", (f(6, 37, low=-1, high=5),), axis(1) | epsilon(1e-6)),
    Sample(nn.RMSNormOp, "all", (f(2, 3, 5),), axis(0) | epsilon(0.25)),
    Sample(nn.LpNormalizationOp, "of squares", (f(3, 20, 2),), axis(1) | p(2)),
    Sample(nn.LocalResponseNormalizationOp, "odd", (f(2, 3, 4, 7),), response(3, 0.5, 0.75, 1.0)),
    Sample(nn.LocalResponseNormalizationOp, "even", (f(2, 9),), response(4, 2.0, 0.3, 0.5)),
    Sample(nn.LocalResponseNormalizationOp, "wider than there are channels", (f(2, 3),), response(9, 1.0, 1.0, 1.0)),
    Sample(nn.LpNormalizationOp, "of zeros", (f(3, 4, low=0, high=0),), axis(1) | p(2)),
)


def logarithms(step: float, width: int, integer_bits: int, fraction: int = 26) -> Properties:
    """The tables of qint.log_softmax for data in steps of `step`."""
    d = np.arange(1 << width) * step
    return {
        "table": weights(np.rint(np.exp(-d) * 2.0 ** (31 - integer_bits)), np.int32),
        "differences": weights(np.maximum(np.rint(-d * (1 << fraction)), -(1 << 31)), np.int32),
        "integer_bits": int32(integer_bits),
        "fraction": int32(fraction),
    }


def root(multiplier: int, shift: int, contract: str, left: int = 0, zero_point: int = 0) -> Properties:
    """How qint.l2_normalization divides."""
    return {
        "input_zero_point": int32(zero_point),
        "multiplier": int32(multiplier),
        "shift": int32(shift),
        "contract": StringAttr(contract),
        "left": int32(left),
    }


def over_root(
    first: int, end: int, multiplier: int, shift: int, fraction: int, epsilon: int, zero_point: int | None = None
) -> Properties:
    """The numbers of qint.layer_norm, and with a zero point of qint.rms_norm, over some dimensions."""
    numbers: Properties = {
        "axis": IntegerAttr(first, i64),
        "end": IntegerAttr(end, i64),
        "multiplier": int32(multiplier),
        "shift": int32(shift),
        "fraction": int32(fraction),
        "epsilon": IntegerAttr(epsilon, i64),
    }
    return numbers | ({} if zero_point is None else {"input_zero_point": int32(zero_point)})


def power(
    before: int, after: int, bits: int, fraction: int, bias: int, beta: float, segments: int, zero_point: int = 0
) -> Properties:
    """The tables of qint.local_response_normalization, for a base in steps of 2^(1 − bits)."""
    breakpoints = (1 + np.arange(segments + 1) / segments) ** -beta
    gains = beta * np.arange(bits)
    return {
        "breakpoints": weights(np.rint(breakpoints / breakpoints.max() * 2.0**30), np.int32),
        "multipliers": weights(np.minimum(np.rint(2.0 ** (30 + gains % 1)), (1 << 31) - 1), np.int32),
        "shifts": weights(np.clip(29 - np.floor(gains), 2, 62), np.int32),
        "before": IntegerAttr(before, i64),
        "after": IntegerAttr(after, i64),
        "bits": int32(bits),
        "fraction": int32(fraction),
        "bias": IntegerAttr(bias, i64),
        "input_zero_point": int32(zero_point),
    }


HALF = 1 << 30

QINT_SAMPLES = (
    Sample(qint.LogSoftmaxOp, "rows", (i(8, 5, 7),), axis(1) | logarithms(0.05, 8, 1)),
    Sample(qint.LogSoftmaxOp, "columns, steep", (i(8, 2, 9, 3),), axis(1) | logarithms(0.9, 8, 12)),
    Sample(qint.LogSoftmaxOp, "far down", (i(8, 3, 20),), axis(1) | logarithms(0.7, 8, 1, 23)),
    Sample(qint.LogSoftmaxOp, "of i16", (i(16, 3, 20),), axis(1) | logarithms(0.0007, 16, 1)),
    Sample(qint.L2NormalizationOp, "once", (i(8, 5, 7),), axis(1) | root(1518500250, 8, "single") | narrow(8, 5), i8),
    Sample(qint.L2NormalizationOp, "once, columns", (i(8, 2, 9, 3),),
           axis(1) | root(HALF, 16, "single", zero_point=-100) | narrow(16, 0, -20000, 20000), i16),
    Sample(qint.L2NormalizationOp, "twice", (i(8, 30, 4),),
           axis(1) | root(HALF, 8, "double", zero_point=3) | narrow(8), i8),
    Sample(qint.L2NormalizationOp, "twice, of unsigned", (i(8, 30, 40),),
           axis(1) | root(HALF, 8, "double", 7, zero_point=-128) | narrow(8), i8),
    Sample(qint.L2NormalizationOp, "of small numbers", (Operand((30, 4), i8, -1, 1),),
           axis(1) | root(HALF, 8, "double") | narrow(8), i8),
    Sample(qint.L2NormalizationOp, "of zeros", (Operand((3, 4), i8, 5, 5),),
           axis(1) | root(HALF, 8, "single", zero_point=5) | narrow(8), i8),
    Sample(qint.LayerNormOp, "rows", (i(8, 5, 37),), over_root(1, 2, 1518500250, 27, 34, 999) | narrow(8, 5), i8),
    Sample(qint.LayerNormOp, "long rows", (i(8, 2, 5000),), over_root(1, 2, HALF, 28, 20, 12345) | narrow(16), i16),
    Sample(qint.LayerNormOp, "two dimensions to i16", (i(8, 3, 4, 5),),
           over_root(1, 3, 2000000000, 37, 38, 0) | narrow(16, -3), i16),
    Sample(qint.LayerNormOp, "of equal elements", (Operand((3, 24), i8, 7, 7),),
           over_root(1, 2, HALF, 26, 36, 0) | narrow(8, 3), i8),
    Sample(qint.LayerNormOp, "almost equal elements of i16", (Operand((4, 300), i16, -20001, -20000),),
           over_root(1, 2, HALF, 30, 14, 77) | narrow(16), i16),
    Sample(qint.LayerNormOp, "columns", (i(16, 2, 9, 3),), over_root(1, 2, HALF, 31, 24, 5) | narrow(8), i8),
    Sample(qint.LayerNormOp, "steep", (i(8, 3, 5),), over_root(1, 2, HALF, 22, -2, 1 << 61) | narrow(8), i8),
    Sample(qint.LayerNormOp, "single elements", (i(8, 6, 1),), over_root(1, 2, HALF, 26, 40, 3) | narrow(8, -7), i8),
    Sample(qint.LocalResponseNormalizationOp, "of bytes", (i(8, 2, 3, 9),),
           power(2, 2, 31, 10, 1 << 29, 0.75, 32, 3) | narrow(8, 5), i8),
    Sample(qint.LocalResponseNormalizationOp, "even, of i16", (i(16, 4, 7),),
           power(1, 2, 62, 27, 0, 0.5, 512) | narrow(16), i16),
    Sample(qint.LocalResponseNormalizationOp, "wider than there are channels, growing", (i(8, 5, 3),),
           power(4, 4, 31, -3, 12345, -1.5, 64) | narrow(16), i16),
    Sample(qint.RMSNormOp, "rows", (i(8, 5, 37),), over_root(1, 2, HALF, 30, 40, 4711, 3) | narrow(8, 5), i8),
    Sample(qint.RMSNormOp, "far from zero", (Operand((3, 70), i16, -32768, 32767),),
           over_root(1, 2, 1234567890, 28, 22, 1, -30000) | narrow(16), i16),
    Sample(qint.RMSNormOp, "all", (i(16, 2, 3, 50),), over_root(0, 3, HALF, 27, 22, 0, 0) | narrow(16), i16),
    Sample(qint.RMSNormOp, "columns", (i(16, 2, 9, 3),), over_root(1, 2, HALF, 26, 26, 0, 0) | narrow(16), i16),
    Sample(qint.RMSNormOp, "of zeros", (Operand((3, 40), i8, 5, 5),),
           over_root(1, 2, HALF, 26, 40, 0, 5) | narrow(8, 9), i8),
)  # fmt: skip

OTHER_SAMPLES = (
    Sample(nn.RootQuotientOp, "i32", (i(32, 300), i(32, 300))),
    Sample(nn.RootQuotientOp, "by few", (i(32, 5, 60), i(32, 5, 1, most=40))),
    Sample(nn.LpNormalizationOp, "of absolute values", (f(5, 7),), axis(0) | p(1)),
    Sample(nn.LayerNormOp, "f64", (Operand((3, 9), f64, -1, 5),), axis(1) | epsilon(1e-5)),
    Sample(nn.SoftmaxOp, "f64", (Operand((3, 9), f64, -1, 5),), axis(1)),
    Sample(nn.SoftmaxOp, "f64 columns", (Operand((3, 9), f64, -1, 5),), axis(0)),
    Sample(nn.LogSoftmaxOp, "f64 columns", (Operand((3, 9), f64, -1, 5),), axis(0)),
)
"""Of floats that are not quantized, or have no integer form then."""
