"""Samples of every operation: one line here enrols an operation in all table-driven tests of tests/ops/.

`SAMPLES` holds several for each operation of the dialects nn and qint, so that together they give each property a value
that is not its default. Families with many have a file of their own.
"""

import numpy as np
from xdsl.dialects.builtin import BoolAttr, IntegerAttr, i8, i16, i32, i64
from xdsl.ir import Attribute

from qmlir.dialects import nn, qint
from qmlir.dialects.nn.base import bound
from qmlir.dialects.qint.requantize import float32_parts, int32, int32s
from qmlir.dialects.windows import ints
from qmlir.ir.interfaces import TensorOp
from qmlir.ir.weights import WeightsAttr
from tests.ops import (
    samples_contraction,
    samples_detection,
    samples_movement,
    samples_normalization,
    samples_pointwise,
    samples_reduction,
)
from tests.ops.sample import (
    Array,
    Operand,
    Sample,
    axis,
    b,
    clamp,
    f,
    float_sum,
    groups,
    i,
    narrow,
    pads,
    quotients,
    rescaled,
    scaled,
    shares,
    summed,
    weights,
    window,
    zero,
    zeros,
)

__all__ = ["NN_SAMPLES", "OPERATIONS", "QINT_SAMPLES", "SAMPLES", "Array", "Operand", "Sample"]

LONG_TABLE = weights([q * q % 65521 - 32768 for q in range(-32768, 32768)], np.int16)
BREAKPOINTS = weights([max(-32768, min(32767, (i - 200) * (i - 200) * (i - 300) // 300)) for i in range(513)], np.int16)
SQUARES = weights([min(127, (q // 8) ** 2 - 128) for q in range(-128, 128)], np.int8)
WIDE_TABLE = weights([q**3 for q in range(-128, 128)], np.int32)
COUNT_PAD: dict[str, Attribute | None] = {"count_include_pad": BoolAttr.from_bool(True)}
FALLING = weights([round(2**30 * 0.95**d) for d in range(256)], np.int32)
WIDE_FALLING = weights([round(2**30 * 0.9998**d) for d in range(1 << 16)], np.int32)
SHORT_FALLING = weights([round(32767 * 0.9998**d) for d in range(1 << 16)], np.int32)
INVERSE = weights([min(32767, round(2**15 / (1 + k / 512))) for k in range(513)], np.int16)
PAIRS = weights((np.arange(1 << 16).reshape(256, 256) * 7 % 251 - 125).tolist(), np.int8)
HALF, MOST = 1 << 30, (1 << 31) - 1

NN_SAMPLES = (
    Sample(nn.Conv2DOp, "plain", (f(1, 5, 4, 3), f(4, 3, 2, 3))),
    Sample(
        nn.Conv2DOp, "bias and relu6", (f(2, 5, 5, 2), f(3, 3, 3, 2), f(3)), window(padding=(1, 1, 1, 1)) | clamp(0, 6)
    ),
    Sample(nn.Conv2DOp, "uneven", (f(1, 9, 8, 2), f(3, 3, 2, 2), f(3)), window((2, 3), (1, 0, 2, 1), (2, 1))),
    Sample(nn.Conv2DOp, "of one pixel", (f(1, 3, 3, 8), f(5, 1, 1, 8), f(5)), clamp(-0.3, None)),
    Sample(nn.Conv2DOp, "in groups", (f(1, 5, 4, 6), f(4, 3, 2, 3), f(4)), groups(2) | clamp(-1, None)),
    Sample(
        nn.Conv2DOp,
        "in wide groups",
        (f(2, 5, 5, 8), f(44, 3, 3, 2), f(44)),
        groups(4) | window(padding=(1, 1, 1, 1), dilations=(1, 2)),
    ),
    Sample(nn.DepthwiseConv2DOp, "plain", (f(1, 5, 4, 6), f(1, 3, 3, 6))),
    Sample(nn.DepthwiseConv2DOp, "two for each", (f(1, 6, 6, 3), f(1, 3, 2, 6), f(6)), window((2, 1), (1, 1, 0, 1))),
    Sample(
        nn.DepthwiseConv2DOp, "dilated", (f(2, 7, 7, 4), f(1, 2, 3, 4), f(4)), window(dilations=(3, 2)) | clamp(0, 6)
    ),
    Sample(nn.FullyConnectedOp, "plain", (f(1, 16), f(10, 16))),
    Sample(nn.FullyConnectedOp, "bias and clamp", (f(3, 7), f(5, 7), f(5)), clamp(-1.5, 2.5)),
    Sample(nn.MatMulOp, "plain", (f(3, 5), f(5, 4))),
    Sample(nn.MatMulOp, "broadcast batches", (f(2, 1, 3, 4), f(3, 4, 2)), clamp(-1, 1)),
    Sample(nn.AddOp, "same shape", (f(2, 3, 4), f(2, 3, 4, low=-0.2, high=0.1))),
    Sample(nn.AddOp, "channels and relu", (f(1, 3, 3, 4), f(4, low=0, high=9)), clamp(0, None)),
    Sample(nn.AddOp, "of scalars", (f(), f()), clamp(-1, 1)),
    Sample(nn.MulOp, "same shape", (f(2, 3, 4), f(2, 3, 4))),
    Sample(nn.MulOp, "both broadcast", (f(3, 1, 4), f(2, 1)), clamp(None, 1.5)),
    Sample(nn.MulOp, "clamped below", (f(7), f(7, low=0, high=3)), clamp(-0.5, None)),
    Sample(nn.ReluOp, "plain", (f(3, 50),)),
    Sample(nn.ReluOp, "of one sign", (f(3, 50, low=-4, high=-1),)),
    Sample(nn.ClampOp, "both bounds", (f(3, 50),), clamp(-0.7, 1.1)),
    Sample(nn.ClampOp, "below", (f(3, 50),), clamp(-0.7, None)),
    Sample(nn.ClampOp, "to one value", (f(3, 50),), clamp(0.5, 0.5)),
    Sample(nn.SigmoidOp, "wide", (f(16, 40, low=-9, high=8),)),
    Sample(nn.SigmoidOp, "narrow", (f(16, 40, low=-0.2, high=0.3),)),
    Sample(nn.TanhOp, "wide", (f(16, 40, low=-5, high=5),)),
    Sample(nn.TanhOp, "narrow", (f(16, 40, low=-0.1, high=0.4),)),
    Sample(nn.RequantizeOp, "plain", (f(3, 50),)),
    Sample(nn.MaxPool2DOp, "halving", (f(1, 6, 4, 3),), window(strides=(2, 2), window=(2, 2))),
    Sample(nn.MaxPool2DOp, "padded", (f(2, 5, 7, 3, low=-9, high=-1),), window((2, 1), (1, 1, 0, 1), window=(3, 2))),
    Sample(nn.MaxPool2DOp, "dilated", (f(1, 7, 7, 2),), window(dilations=(2, 3), window=(3, 2))),
    Sample(nn.AveragePool2DOp, "halving", (f(1, 6, 4, 3),), window(strides=(2, 2), window=(2, 2))),
    Sample(nn.AveragePool2DOp, "padded", (f(2, 5, 7, 3),), window((2, 1), (1, 1, 2, 1), window=(3, 3))),
    Sample(
        nn.AveragePool2DOp,
        "counting padding",
        (f(1, 5, 5, 2),),
        COUNT_PAD | window(padding=(1, 2, 1, 0), window=(3, 3)),
    ),
    Sample(nn.AveragePool2DOp, "dilated", (f(1, 7, 7, 2),), window(dilations=(2, 3), window=(3, 2))),
    Sample(nn.GlobalAveragePoolOp, "plain", (f(2, 5, 4, 3),)),
    Sample(nn.GlobalAveragePoolOp, "of one pixel", (f(1, 1, 1, 6),)),
    Sample(nn.SoftmaxOp, "last axis", (f(3, 10, low=-6, high=6),), axis(1)),
    Sample(nn.SoftmaxOp, "middle axis", (f(2, 5, 3),), axis(1)),
    Sample(nn.SoftmaxOp, "beyond exp", (f(5, 4, low=-2000, high=2000),), axis(0)),
    Sample(nn.ConstantOp, "f32", (), {"value": weights([1.5, -0.0, np.nan], np.float32)}),
    Sample(nn.ConstantOp, "i8", (), {"value": weights([[1, -128]], np.int8)}),
    Sample(nn.ReshapeOp, "flatten", (f(2, 3, 4),), {"shape": ints([2, 12])}),
    Sample(nn.ReshapeOp, "to a scalar", (f(1, 1),), {"shape": ints([])}),
    Sample(nn.TransposeOp, "to channels first", (f(2, 3, 4, 5),), {"permutation": ints([0, 3, 1, 2])}),
    Sample(nn.TransposeOp, "of a matrix", (f(3, 7),), {"permutation": ints([1, 0])}),
    Sample(nn.ConcatOp, "channels", (f(1, 2, 3), f(1, 2, 5)), axis(2)),
    Sample(nn.ConcatOp, "three", (f(2, 3), f(1, 3), f(4, 3)), axis(0)),
    Sample(nn.ConcatOp, "one", (f(2, 3),), axis(1)),
    Sample(nn.PadOp, "zeros", (f(1, 3, 3, 2),), pads([0, 1, 0, 0], [0, 2, 1, 0], bound(0))),
    Sample(nn.PadOp, "another value", (f(2, 3),), pads([1, 0], [0, 2], bound(-0.7))),
    Sample(nn.PadOp, "saturated value", (f(2, 3),), pads([1, 0], [0, 2], bound(99))),
    *samples_contraction.FLOAT_SAMPLES,
    *samples_normalization.FLOAT_SAMPLES,
    *samples_pointwise.FLOAT_SAMPLES,
    *samples_reduction.FLOAT_SAMPLES,
    *samples_movement.FLOAT_SAMPLES,
    *samples_detection.FLOAT_SAMPLES,
)

MOVEMENT_SAMPLES = (
    Sample(nn.ConstantOp, "ui8", (), {"value": weights([0, 255], np.uint8)}),
    Sample(nn.ConstantOp, "scalar", (), {"value": WeightsAttr(np.array(7, np.int64))}),
    Sample(nn.ReshapeOp, "i8", (i(8, 2, 6),), {"shape": ints([3, 4])}),
    Sample(nn.TransposeOp, "i16", (i(16, 2, 3, 4),), {"permutation": ints([2, 0, 1])}),
    Sample(nn.ConcatOp, "i32", (i(32, 2, 3), i(32, 2, 1)), axis(1)),
    Sample(nn.PadOp, "i8", (i(8, 2, 3),), pads([1, 0], [0, 2], IntegerAttr(-128, i8))),
    Sample(nn.PadOp, "i16", (i(16, 3),), pads([1], [2], IntegerAttr(32767, i16))),
    *samples_movement.INTEGER_SAMPLES,
)
"""Data movement on plain integers, beside the samples of it on floats above."""

QINT_SAMPLES = (
    Sample(qint.Conv2DOp, "plain", (i(8, 1, 4, 4, 3), i(8, 4, 3, 2, 3))),
    Sample(
        qint.Conv2DOp, "bias", (i(8, 2, 4, 4, 2), i(8, 3, 3, 3, 2), b(3)), zero(-128) | window(padding=(1, 1, 1, 1))
    ),
    Sample(
        qint.Conv2DOp,
        "uneven",
        (i(8, 1, 7, 8, 2), i(8, 3, 3, 2, 2), b(3)),
        window((2, 3), (1, 0, 2, 1), (2, 1)) | zero(17),
    ),
    Sample(qint.Conv2DOp, "sums beyond f32", (i(8, 1, 1, 2, 600), i(8, 2, 1, 1, 600), b(2)), zero(127)),
    Sample(qint.Conv2DOp, "i16 data", (i(16, 1, 3, 3, 2), i(8, 2, 2, 2, 2), b(2)), zero(-5)),
    Sample(qint.Conv2DOp, "in groups", (i(8, 1, 4, 4, 6), i(8, 4, 3, 2, 3), b(4)), groups(2) | zero(7)),
    Sample(
        qint.Conv2DOp,
        "in wide groups",
        (i(8, 1, 4, 4, 8), i(8, 44, 2, 2, 2), b(44)),
        groups(4) | zero(-128) | window(padding=(1, 0, 0, 1)),
    ),
    Sample(qint.DepthwiseConv2DOp, "plain", (i(8, 1, 5, 4, 3), i(8, 1, 3, 3, 3))),
    Sample(
        qint.DepthwiseConv2DOp,
        "two for each",
        (i(8, 1, 4, 4, 3), i(8, 1, 3, 2, 6), b(6)),
        zero(-100) | window((2, 1), (1, 1, 0, 1)),
    ),
    Sample(qint.DepthwiseConv2DOp, "dilated", (i(8, 2, 7, 7, 2), i(8, 1, 2, 3, 2), b(2)), window(dilations=(3, 2))),
    Sample(qint.FullyConnectedOp, "plain", (i(8, 1, 16), i(8, 5, 16))),
    Sample(qint.FullyConnectedOp, "bias", (i(8, 3, 7), i(8, 5, 7), b(5)), zero(-128)),
    Sample(
        qint.FullyConnectedOp, "i16 data and weights", (i(16, 2, 9, most=8000), i(16, 3, 9, most=8000), b(3)), zero(1)
    ),
    Sample(
        qint.Conv2DOp,
        "sums of 64 bits",
        (i(16, 1, 5, 5, 6), i(8, 6, 3, 2, 3), i(64, 6, most=1 << 40)),
        groups(2) | window(padding=(1, 0, 1, 1)),
        i64,
    ),
    Sample(
        qint.Conv2DOp, "i16 weights, 64 bits", (i(16, 1, 3, 3, 8), i(16, 5, 2, 2, 8), i(64, 5, most=1 << 40)), {}, i64
    ),
    Sample(
        qint.DepthwiseConv2DOp,
        "sums of 64 bits",
        (i(16, 1, 4, 4, 5), i(8, 1, 3, 2, 10), i(64, 10, most=1 << 40)),
        window((2, 1), (1, 1, 0, 1)) | zero(-3),
        i64,
    ),
    Sample(qint.DepthwiseConv2DOp, "i16 weights, 64 bits", (i(16, 1, 4, 4, 5), i(16, 1, 3, 2, 5)), {}, i64),
    Sample(
        qint.FullyConnectedOp, "sums of 64 bits", (i(16, 2, 700), i(8, 5, 700), i(64, 5, most=1 << 40)), zero(2), i64
    ),
    Sample(qint.FullyConnectedOp, "few products, 64 bits", (i(16, 2, 9), i(8, 5, 9), i(64, 5, most=1 << 40)), {}, i64),
    Sample(qint.FullyConnectedOp, "no bias, 64 bits", (i(16, 2, 9), i(8, 5, 9)), {}, i64),
    Sample(qint.MatMulOp, "i16, 64 bits", (i(16, 3, 17), i(16, 17, 4)), {}, i64),
    Sample(qint.MatMulOp, "i16 by i8, 64 bits", (i(16, 2, 3, 17), i(8, 17, 4)), zeros(0, 3), i64),
    *samples_contraction.BLOCKS,
    Sample(qint.SaturatingFullyConnectedOp, "pairs", (i(8, 3, 16), i(8, 5, 16)), zero(-128)),
    Sample(qint.SaturatingFullyConnectedOp, "bias, odd", (i(8, 3, 7), i(8, 20, 7), b(20)), zero(-128)),
    Sample(qint.MatMulOp, "plain", (i(8, 3, 5), i(8, 5, 4))),
    Sample(qint.MatMulOp, "broadcast batches", (i(8, 2, 1, 3, 4), i(8, 3, 4, 2)), zeros(-128, 3)),
    Sample(qint.RequantizeOp, "half", (i(32, 200, most=400),), scaled([HALF], [0]) | narrow(), i8),
    Sample(
        qint.RequantizeOp,
        "channels",
        (i(32, 40, 4, most=90_000),),
        scaled([HALF, MOST, HALF + 12345, 0], [-8, -11, 2, 0]) | narrow(8, -3, -100, 90),
        i8,
    ),
    Sample(
        qint.RequantizeOp,
        "i8 to i8",
        (i(8, 256),),
        scaled([1_500_000_000], [1]) | narrow(8, 5) | {"input_zero_point": int32(-128)},
        i8,
    ),
    Sample(qint.RequantizeOp, "to i16", (i(32, 100),), scaled([MOST], [-14]) | narrow(16, 100), i16),
    Sample(qint.RequantizeOp, "to i32", (i(32, 100),), scaled([MOST], [0]) | narrow(32), i32),
    Sample(qint.RequantizeOp, "double", (i(32, 300, most=4000),), scaled([HALF], [-4], "double") | narrow(), i8),
    Sample(qint.RequantizeOp, "double up", (i(32, 300, most=70),), scaled([HALF + 7], [3], "double") | narrow(), i8),
    Sample(
        qint.RequantizeOp,
        "away16",
        (i(32, 300, most=4000),),
        scaled([HALF + (12345 << 16)], [-4], "away16") | narrow(),
        i8,
    ),
    Sample(qint.RequantizeOp, "away", (i(32, 300, most=4000),), scaled([HALF + 12345], [-4], "away") | narrow(), i8),
    Sample(qint.RequantizeOp, "away of halves", (i(32, 300, most=4000),), scaled([HALF], [-4], "away") | narrow(), i8),
    Sample(
        qint.RequantizeOp,
        "away64",
        (i(64, 40, 3, most=(1 << 47) - 1),),
        scaled([HALF + 1, MOST, HALF], [-28, -31, -30], "away64") | narrow(16, 3, -30000, 30000),
        i16,
    ),
    Sample(qint.RequantizeOp, "even", (i(32, 300, most=4000),), scaled([HALF], [-4], "even") | narrow(), i8),
    Sample(qint.RequantizeOp, "updown", (i(32, 300, most=4000),), scaled([HALF], [-4], "updown") | narrow(), i8),
    Sample(qint.RequantizeOp, "upup", (i(32, 300, most=4000),), scaled([HALF], [-4], "upup") | narrow(), i8),
    Sample(
        qint.RequantizeOp,
        "float_even",
        (i(32, 300),),
        scaled([(HALF // 128 + 12345) * 128], [-22], "float_even") | narrow(16),
        i16,
    ),
    Sample(
        qint.RequantizeOp, "float_even ties", (i(32, 300, most=600),), scaled([HALF], [-1], "float_even") | narrow(), i8
    ),
    Sample(
        qint.RequantizeOp,
        "float_sum ties",
        (i(32, 300, most=600),),
        scaled([HALF], [-1], "float_sum") | narrow(zero_point=-128) | {"constant": int32s(float32_parts(131.0))},
        i8,
    ),
    Sample(
        qint.RequantizeOp,
        "float_sum of a fraction",
        (i(32, 300, most=6000),),
        scaled([(HALF // 128 + 12345) * 128], [-5], "float_sum")
        | narrow()
        | {"constant": int32s(float32_parts(np.float32(-3.7)))},
        i8,
    ),
    Sample(
        qint.RequantizeOp,
        "single64",
        (i(64, 40, 3, most=(1 << 47) - 1),),
        scaled([HALF + 1, MOST, HALF], [-28, -31, -30], "single64") | narrow(16, 3, -30000, 30000),
        i16,
    ),
    Sample(qint.RequantizeOp, "single64 of i32", (i(32, 90),), scaled([MOST], [-9], "single64") | narrow(32), i32),
    Sample(
        qint.RequantizeOp,
        "double64",
        (i(64, 40, 4, most=1 << 40),),
        scaled([HALF, HALF + 40_000, MOST, 0], [-20, -25, -27, 0], "double64") | narrow(8, -3),
        i8,
    ),
    Sample(
        qint.RequantizeOp,
        "reduced16",
        (i(64, 40, 4, most=1 << 40),),
        scaled([HALF, HALF + 40_000, MOST, 0], [-20, -25, -27, 0], "reduced16") | narrow(16, -3),
        i16,
    ),
    Sample(qint.RequantizeOp, "shift", (i(32, 300, most=4000),), scaled([HALF], [-4], "shift") | narrow(), i8),
    Sample(qint.AddOp, "same scale", (i(8, 200), i(8, 200)), summed([HALF, HALF], 31) | narrow(), i8),
    Sample(
        qint.AddOp,
        "broadcast",
        (i(8, 2, 3, 4), i(8, 4)),
        zeros(-128, 7) | summed([HALF - 1, 12345], 29) | narrow(8, -3, -50, 60),
        i8,
    ),
    Sample(
        qint.AddOp,
        "difference to i16",
        (i(16, 3, 4), i(8, 3, 1)),
        zeros(5, 0) | summed([HALF, -HALF], 30) | narrow(16),
        i16,
    ),
    Sample(
        qint.RescaledAddOp,
        "broadcast",
        (i(8, 2, 3, 40), i(8, 40)),
        zeros(-128, 7) | rescaled([HALF, MOST - 7, HALF + 99], [0, -1, -18], 20) | narrow(8, -3, -100, 90),
        i8,
    ),
    Sample(
        qint.RescaledAddOp,
        "difference of i16, each rounded its way",
        (i(16, 300), i(16, 300)),
        rescaled([HALF, 3 * HALF // 2, HALF], [0, -1, -14], 15, ("single", "upup"))
        | narrow(16)
        | {"subtract": BoolAttr.from_bool(True)},
        i16,
    ),
    Sample(qint.FloatAddOp, "same shape", (i(8, 200), i(8, 200)), float_sum() | narrow(), i8),
    Sample(
        qint.FloatAddOp,
        "broadcast, from unsigned",
        (i(8, 2, 3, 4), i(8, 3, 1)),
        float_sum(128) | narrow(zero_point=-128),
        i8,
    ),
    Sample(qint.MulOp, "same shape", (i(8, 3, 40), i(8, 3, 40))),
    Sample(qint.MulOp, "broadcast", (i(8, 3, 1, 4), i(8, 2, 1)), zeros(-128, 3)),
    Sample(
        qint.DivOp, "bytes", (i(8, 300), i(8, 300)), quotients(3 * HALF // 2, 5) | zeros(-100, 3) | narrow(8, 7), i8
    ),
    Sample(qint.DivOp, "broadcast", (i(16, 40, 1), i(16, 30)), quotients(HALF, -3) | narrow(16, 0, -3000), i16),
    Sample(
        qint.DivOp, "by small numbers", (i(16, 40, 1), i(16, 9, most=4)), quotients(1518500250, 12) | narrow(16), i16
    ),
    Sample(
        qint.DivOp, "shifts that wrap around", (i(8, 40, 1), i(8, 30)), quotients(HALF, 2, wraps=True) | narrow(8), i8
    ),
    Sample(
        qint.DivOp,
        "shifts beyond 64",
        (i(16, 40, 1, most=3), i(16, 30)),
        quotients(1518500250, -30, wraps=True) | narrow(16),
        i16,
    ),
    Sample(qint.SoftmaxOp, "exact", (i(8, 5, 7),), axis(1) | shares(FALLING, 256 << 12) | narrow(8, -128), i8),
    Sample(
        qint.SoftmaxOp, "of columns", (i(8, 2, 9, 3),), axis(1) | shares(FALLING, 1000003) | narrow(8, 5, -9, 90), i8
    ),
    Sample(qint.SoftmaxOp, "fine", (i(8, 5, 40),), axis(1) | shares(FALLING, 1 << 31) | narrow(8, -128), i8),
    Sample(qint.SoftmaxOp, "of long rows", (i(8, 3, 141),), axis(1) | shares(FALLING, 256 << 12) | narrow(8, -128), i8),
    Sample(qint.SoftmaxOp, "of equals", (i(8, 2, 64, most=0),), axis(1) | shares(FALLING, 96 << 12) | narrow(8), i8),
    Sample(qint.SoftmaxOp, "of i16", (i(16, 3, 20),), axis(1) | shares(WIDE_FALLING, 1 << 27) | narrow(16), i16),
    Sample(
        qint.SoftmaxOp,
        "by newton",
        (i(8, 40, 10),),
        axis(1) | shares(FALLING, 256 << 12, "newton") | narrow(8, -128),
        i8,
    ),
    Sample(
        qint.SoftmaxOp,
        "interpolated",
        (i(16, 30, 11),),
        axis(1) | shares(SHORT_FALLING, 1 << 27, "interpolated") | {"inverse": INVERSE} | narrow(16, 0, 0),
        i16,
    ),
    Sample(qint.MaxPool2DOp, "halving", (i(8, 1, 6, 4, 3),), window(strides=(2, 2), window=(2, 2))),
    Sample(qint.MaxPool2DOp, "padded", (i(16, 2, 5, 7, 2),), window((2, 1), (1, 1, 0, 1), window=(3, 2))),
    Sample(qint.MaxPool2DOp, "dilated", (i(8, 1, 7, 7, 2),), window(dilations=(2, 3), window=(3, 2))),
    Sample(
        qint.MaxPool2DOp, "windows beside the image", (i(8, 1, 2, 2, 2),), window(padding=(2, 0, 0, 0), window=(2, 1))
    ),
    Sample(qint.AveragePool2DOp, "halving", (i(8, 1, 6, 8, 3),), window(strides=(2, 2), window=(2, 2))),
    Sample(qint.AveragePool2DOp, "padded", (i(8, 2, 5, 7, 3),), window((2, 1), (1, 1, 2, 1), window=(3, 3))),
    Sample(
        qint.AveragePool2DOp,
        "counting padding",
        (i(8, 1, 5, 5, 2),),
        COUNT_PAD | zero(-100) | window(padding=(1, 2, 1, 0), window=(3, 3)),
    ),
    Sample(
        qint.AveragePool2DOp,
        "of unsigned bytes",
        (i(8, 1, 6, 8, 3),),
        {"offset": int32(128)} | window(strides=(2, 2), padding=(1, 0, 0, 1), window=(2, 2)),
    ),
    Sample(
        qint.AveragePool2DOp,
        "of unsigned bytes, counting padding",
        (i(8, 1, 5, 5, 2),),
        COUNT_PAD | zero(-100) | {"offset": int32(128)} | window(padding=(1, 1, 1, 0), window=(2, 2)),
    ),
    Sample(qint.AveragePool2DOp, "dilated", (i(16, 1, 7, 7, 2),), window(dilations=(2, 3), window=(3, 2))),
    Sample(
        qint.AveragePool2DOp,
        "windows beside the image",
        (i(8, 1, 2, 2, 2),),
        window(padding=(2, 0, 0, 0), window=(2, 1)),
    ),
    Sample(qint.GlobalSumPoolOp, "plain", (i(8, 2, 4, 3, 5),)),
    Sample(qint.GlobalSumPoolOp, "zero point", (i(8, 1, 7, 7, 2),), zero(-128)),
    Sample(qint.PairLookupOp, "same shape", (i(8, 3, 40), i(8, 3, 40)), {"table": PAIRS}),
    Sample(qint.PairLookupOp, "broadcast", (i(8, 2, 1, 5), i(8, 3, 5)), {"table": PAIRS}),
    Sample(qint.LookupOp, "i8", (i(8, 3, 40),), {"table": SQUARES}),
    Sample(qint.LookupOp, "i32", (i(8, 7),), {"table": WIDE_TABLE}),
    Sample(qint.LookupOp, "i16", (i(16, 3, 50),), {"table": LONG_TABLE}),
    Sample(qint.InterpolatedLookupOp, "curve", (i(16, 3, 120),), {"table": BREAKPOINTS}),
    Sample(qint.LookupOp, "i16 to i8", (i(16, 50),), {"table": WeightsAttr((LONG_TABLE.array >> 8).astype(np.int8))}),
    *samples_movement.QINT_SAMPLES,
    *samples_normalization.QINT_SAMPLES,
)

SAMPLES = (
    *NN_SAMPLES,
    *MOVEMENT_SAMPLES,
    *QINT_SAMPLES,
    *samples_movement.OTHER_SAMPLES,
    *samples_contraction.OTHER_SAMPLES,
    *samples_normalization.OTHER_SAMPLES,
    *samples_pointwise.OTHER_SAMPLES,
    *samples_reduction.OTHER_SAMPLES,
    *samples_detection.OTHER_SAMPLES,
)
OPERATIONS: tuple[type[TensorOp], ...] = tuple(
    op for dialect in (nn.NN, qint.QINT) for op in dialect.operations if issubclass(op, TensorOp)
)
"""Every operation of the dialects nn and qint."""
