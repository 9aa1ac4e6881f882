"""Samples of contractions and pools: places of maxima, and elements other than f32."""

from xdsl.dialects.builtin import IntegerType, Signedness, f64

from qmlir.dialects import nn
from tests.ops.sample import Operand, Sample, clamp, f, groups, i, window


def d(*shape: int) -> Operand:
    """An f64 operand."""
    return Operand(shape, f64, -2, 2)


def u8(*shape: int) -> Operand:
    return Operand(shape, IntegerType(8, Signedness.UNSIGNED), 0, 255)


FLOAT_SAMPLES = (
    Sample(nn.MaxPoolIndices2DOp, "halving", (f(1, 6, 4, 3),), window(strides=(2, 2), window=(2, 2))),
    Sample(
        nn.MaxPoolIndices2DOp,
        "padded and dilated",
        (f(2, 7, 7, 3, low=-9, high=-1),),
        window((2, 1), (1, 1, 0, 1), (2, 1), (3, 2)),
    ),
)

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
