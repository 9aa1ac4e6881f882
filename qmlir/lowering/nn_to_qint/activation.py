"""Functions of one element: piecewise linear ones are a clamped change of scale, all others a table."""

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from qmlir.dialects import nn, qint
from qmlir.dialects.interfaces import Array
from qmlir.dialects.nn.pointwise import UnaryOp
from qmlir.dialects.quant import numerics
from qmlir.dialects.weights import WeightsAttr
from qmlir.legality import uniform
from qmlir.lowering.nn_to_qint.scales import limits, requantize, stored


def lower_linear(op: UnaryOp, operands: Sequence[SSAValue], contract: str) -> list[Operation]:
    """relu, clamp and requantize: y = clamp(z_y + (x − z_x) · s_x / s_y)."""
    low, high = limits(op)
    if isinstance(op, nn.ReluOp):
        low = stored(0.0, uniform(op.y))
    return [requantize(operands[0], op, contract, bounds=(low, high), input_zero_point=uniform(op.x).zero_point)]


def lower_by_table(op: UnaryOp, operands: Sequence[SSAValue], contract: str) -> list[Operation]:
    """Any other function of one element: the 256 results, correctly rounded."""
    return [qint.LookupOp.make([operands[0]], {"table": WeightsAttr(table(op))})]


def table(op: UnaryOp) -> Array:
    """The stored results of a function for each stored i8: f((q − z)·s), quantized as its result is; [256]."""
    data, result = uniform(op.x), uniform(op.y)
    return numerics.lookup_table(
        op.scalar,
        data.scale,
        data.zero_point,
        result.scale,
        result.zero_point,
        out_range=(result.storage_min, result.storage_max),
        dtype=result.numpy_dtype,
    )
