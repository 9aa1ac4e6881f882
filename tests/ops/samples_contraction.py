"""Samples of contractions and pools: places of maxima, and elements other than f32."""

from xdsl.dialects.builtin import IntegerAttr, IntegerType, Signedness, f64, i64

from qmlir.dialects import nn, qint
from tests.ops.sample import Operand, Sample, clamp, f, groups, i, window, zero


def d(*shape: int) -> Operand:
    """An f64 operand."""
    return Operand(shape, f64, -2, 2)


def u8(*shape: int) -> Operand:
    return Operand(shape, IntegerType(8, Signedness.UNSIGNED), 0, 255)


def u4(*shape: int) -> Operand:
    return Operand(shape, IntegerType(4, Signedness.UNSIGNED), 0, 15)


BLOCKS = (
    Sample(qint.BlockedFullyConnectedOp, "plain", (i(8, 3, 32), i(8, 5, 32), i(32, 5, 4, most=30_000)), {}, i64),
    Sample(qint.BlockedFullyConnectedOp, "bias, a block",
           (i(8, 1, 7), i(8, 20, 7), i(32, 20, 1, most=30_000), i(64, 20, most=1 << 40)), zero(-128), i64),
    Sample(qint.BlockedFullyConnectedOp, "i16 data and weights, odd blocks",
           (i(16, 9, 15), i(16, 17, 15, most=255), i(32, 17, 3, most=130_000), i(64, 17, most=1 << 40)), zero(5), i64),
    Sample(qint.AffineFullyConnectedOp, "of 4 bits",
           (i(8, 3, 64), i(8, 20, 64, most=7), i(16, 20, 2, most=2000), i(16, 20, 2, most=5000)), {}, i64),
    Sample(qint.AffineFullyConnectedOp, "bias, sums of 64 bits",
           (i(8, 5, 36), i(8, 7, 36), i(32, 7, 3, most=30_000), i(32, 7, 3, most=1 << 22), i(64, 7, most=1 << 40)),
           zero(-128), i64),
    Sample(qint.AffineFullyConnectedOp, "i16 data, odd blocks",
           (i(16, 2, 15), i(8, 17, 15), i(16, 17, 3), i(32, 17, 3, most=130_000)), zero(5), i64),
)  # fmt: skip
"""Integer layers with a multiplier, or a multiplier and an offset, for each block."""

FLOAT_SAMPLES = (
    Sample(nn.BlockedFullyConnectedOp, "of 4 bits, the last block shorter",
           (f(3, 20), u4(5, 20), f(5, 3, low=-0.2), u4(5, 3), f(5)), {"block": IntegerAttr(8, i64)} | clamp(-3, 4)),
    Sample(nn.BlockedFullyConnectedOp, "one block", (f(2, 6), i(8, 3, 6), f(3, 1, low=0.1), i(8, 3, 1)),
           {"block": IntegerAttr(9, i64)}),
    Sample(nn.MaxPoolIndices2DOp, "halving", (f(1, 6, 4, 3),), window(strides=(2, 2), window=(2, 2))),
    Sample(nn.MaxPoolIndices2DOp, "padded and dilated", (f(2, 7, 7, 3, low=-9, high=-1),),
           window((2, 1), (1, 1, 0, 1), (2, 1), (3, 2))),
)  # fmt: skip

OTHER_SAMPLES = (
    Sample(nn.MatMulOp, "i32", (i(32, 2, 3, 5), i(32, 5, 4))),
    Sample(nn.MatMulOp, "i64", (i(64, 3, 5), i(64, 5, 4))),
    Sample(nn.MatMulOp, "ui8", (u8(3, 5), u8(5, 4))),
    Sample(nn.MatMulOp, "f64", (d(3, 5), d(5, 21)), clamp(-1, None)),
    Sample(nn.FullyConnectedOp, "i32", (i(32, 2, 7), i(32, 5, 7), i(32, 5))),
    Sample(nn.Conv2DOp, "f64", (d(1, 5, 4, 4), d(6, 3, 3, 2), d(6)), groups(2) | window(padding=(1, 1, 0, 0))),
    Sample(nn.DepthwiseConv2DOp, "f64", (d(1, 5, 4, 4), d(1, 3, 3, 4), d(4)), window(padding=(1, 1, 0, 0))),
    Sample(nn.MaxPool2DOp, "i8", (i(8, 1, 5, 5, 3),), window(padding=(1, 0, 1, 1), window=(2, 2))),
    Sample(nn.MaxPool2DOp, "ui8", (u8(1, 5, 5, 3),), window(padding=(1, 0, 1, 1), window=(2, 2))),
    Sample(nn.MaxPool2DOp, "f64", (d(1, 5, 5, 3),), window(padding=(1, 0, 1, 1), window=(2, 2))),
    Sample(nn.MaxPoolIndices2DOp, "ui8", (u8(1, 5, 5, 3),), window(padding=(1, 0, 1, 1), window=(2, 2))),
    Sample(nn.AveragePool2DOp, "f64", (d(1, 5, 5, 3),), window(padding=(1, 0, 1, 1), window=(2, 2))),
    Sample(nn.GlobalAveragePoolOp, "f64", (d(1, 5, 5, 3),)),
)
"""Of elements that are not quantized."""
