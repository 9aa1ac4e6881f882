"""Integer forms of rows with scales of their own: magnitudes in steps of the rows, and quotients by them."""

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from qmlir.dialects import nn, qint
from qmlir.dialects.nn.quantizable import is_exact, uniform
from qmlir.dialects.qint.requantize import int32
from qmlir.lowering.nn_to_qint.scales import requantize, sums_of
from qmlir.policies.runtimes import Rounding


def lower_row_magnitudes(op: nn.RowMagnitudesOp, operands: Sequence[SSAValue], rounding: Rounding) -> list[Operation]:
    """Lowers m = max |x − z_x|, then y = z_y + m · s_x / s_y."""
    largest = qint.RowMagnitudesOp.make(operands, {"zero_point": int32(uniform(op.x).zero_point)})
    return [largest] if is_exact(op) else [largest, requantize(largest.y, op, rounding)]


def lower_divide_rows(op: nn.DivideRowsOp, operands: Sequence[SSAValue], rounding: Rounding) -> list[Operation]:
    """Lowers y = limit · (x − z_x) / max |x − z_x|, in which `limit` stands for 1."""
    limit = min(op.stored_one(), uniform(op.y).storage_max)
    properties = {"zero_point": int32(uniform(op.x).zero_point), "limit": int32(limit)}
    return [qint.DivideRowsOp.make(operands, properties, element=uniform(op.y).storage_type)]


def lower_multiply_rows(op: nn.MultiplyRowsOp, operands: Sequence[SSAValue], rounding: Rounding) -> list[Operation]:
    """Lowers acc = (x − z_x) · (m − z_m), then y = z_y + acc · s_x·s_m / s_y."""
    accumulator, rounding = sums_of(op, rounding)
    points = {"lhs_zero_point": int32(uniform(op.x).zero_point), "rhs_zero_point": int32(uniform(op.m).zero_point)}
    product = qint.MulOp.make(operands, points, element=accumulator)
    return [product, requantize(product.acc, op, rounding)]
