"""Samples of attention behind its scores."""

from xdsl.dialects.builtin import IntegerAttr, i8, i16, i64
from xdsl.ir import Attribute

from qmlir.dialects import nn, qint
from qmlir.dialects.qint.requantize import int32
from tests.ops.sample import Operand, Sample, axis, f, i, narrow, weights

Properties = dict[str, Attribute | None]

FLOAT_SAMPLES = (
    Sample(nn.AttendOp, "a matrix", (f(5, 9, low=-6, high=6), f(9, 4))),
    Sample(nn.AttendOp, "heads", (f(2, 3, 4, 21), f(2, 3, 21, 8, low=-1, high=3))),
    Sample(nn.AttendOp, "shared values", (f(2, 2, 3, 7), f(2, 1, 7, 5))),
    Sample(nn.AttendOp, "one score", (f(3, 1), f(1, 9))),
    Sample(nn.AttendOp, "beyond exp", (f(6, 5, low=-2000, high=2000), f(5, 3))),
)


def falling(factor: float, count: int, most: int = 32767) -> Properties:
    """The table of exponentials of which each is `factor` times the one before it."""
    return {"table": weights([round(most * factor**d) for d in range(count)], "int16")}


def quotient(unit: int, fraction: int, offset: int) -> Properties:
    """The arithmetic of qint.row_quotient."""
    return {"unit": IntegerAttr(unit, i64), "fraction": int32(fraction), "offset": int32(offset)}


def weighted(*shape: int, most: int = 32767) -> Operand:
    """Weights of rows."""
    return Operand(shape, i16, 0, most)


QINT_SAMPLES = (
    Sample(qint.ExponentialsOp, "of bytes", (i(8, 5, 37),), axis(1) | falling(0.95, 256)),
    Sample(qint.ExponentialsOp, "columns", (i(8, 2, 9, 3),), axis(1) | falling(0.9, 60, 255)),
    Sample(qint.ExponentialsOp, "of i16", (i(16, 3, 70),), axis(1) | falling(0.999, 9000)),
    Sample(qint.ExponentialsOp, "of equals", (i(8, 3, 20, most=0),), axis(1) | falling(0.5, 1)),
    Sample(qint.RowQuotientOp, "to bytes", (i(32, 5, 13, most=1 << 22), weighted(5, 37)),
           quotient(1234567, 20, 1 << 10) | narrow(8, -5, -120, 100), i8),
    Sample(qint.RowQuotientOp, "to i16", (i(32, 2, 3, 9, most=1 << 24), weighted(2, 3, 70)),
           quotient(3 << 18, 12, 1 << 19) | narrow(16), i16),
    Sample(qint.RowQuotientOp, "of i64, weights broadcast", (i(64, 2, 3, 4, 8, most=1 << 30), weighted(3, 4, 21)),
           quotient(77777, 16, 1 << 17) | narrow(16), i16),
    Sample(qint.RowQuotientOp, "by single weights", (i(32, 6, 5, most=1000), Operand((6, 1), i16, 20, 30)),
           quotient(1 << 20, 20, 64) | narrow(8), i8),
)  # fmt: skip
