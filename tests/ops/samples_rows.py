"""Samples of rows with scales of their own."""

from xdsl.dialects.builtin import f64, i8, i16
from xdsl.ir import Attribute

from qmlir.dialects import nn, qint
from qmlir.dialects.qint.requantize import int32
from tests.ops.sample import Operand, Sample, f, i

FLOAT_SAMPLES = (
    Sample(nn.RowMagnitudesOp, "rows", (f(5, 37),)),
    Sample(nn.RowMagnitudesOp, "one row", (f(9),)),
    Sample(nn.RowMagnitudesOp, "f64", (Operand((2, 3, 1), f64, -3, 2),)),
    Sample(nn.DivideRowsOp, "rows", (f(5, 37),)),
    Sample(nn.DivideRowsOp, "rows of zeros", (f(3, 9, low=0, high=0),)),
    Sample(nn.MultiplyRowsOp, "rows", (f(5, 37), f(5, 1, low=0))),
    Sample(nn.MultiplyRowsOp, "a batch", (f(2, 3, 8), f(2, 3, 1))),
)


def rows(zero_point: int = 0, limit: int | None = None) -> dict[str, Attribute | None]:
    """The zero point of the rows, and what stands for 1."""
    return {"zero_point": int32(zero_point), "limit": None if limit is None else int32(limit)}


QINT_SAMPLES = (
    Sample(qint.RowMagnitudesOp, "of bytes", (i(8, 5, 37),), rows()),
    Sample(qint.RowMagnitudesOp, "of bytes above 0", (i(8, 4, 16),), rows(-128)),
    Sample(qint.RowMagnitudesOp, "of i16", (i(16, 2, 3, 70),), rows()),
    Sample(qint.RowMagnitudesOp, "of i32", (i(32, 6, 19),), rows()),
    Sample(qint.DivideRowsOp, "i16 to bytes", (i(16, 5, 37),), rows(0, 127), i8),
    Sample(qint.DivideRowsOp, "bytes with a zero point", (i(8, 5, 37),), rows(-9, 127), i8),
    Sample(qint.DivideRowsOp, "i16 to i16", (i(16, 3, 70),), rows(77, 32767), i16),
    Sample(qint.DivideRowsOp, "i32 to bytes", (i(32, 3, 2, 21),), rows(0, 127), i8),
    Sample(qint.DivideRowsOp, "small rows", (i(16, 4, 16, most=3),), rows(0, 100), i8),
    Sample(qint.DivideRowsOp, "rows of zeros", (i(16, 3, 9, most=0),), rows(0, 127), i8),
)
