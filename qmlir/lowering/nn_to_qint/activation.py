"""Functions of one element: piecewise linear ones are a clamped change of scale, all others a table."""

from collections.abc import Sequence

import numpy as np
from xdsl.ir import Operation, SSAValue

from qmlir.dialects import nn, qint
from qmlir.dialects.interfaces import Array
from qmlir.dialects.nn.activation import UnaryOp
from qmlir.dialects.quant import numerics
from qmlir.dialects.weights import WeightsAttr
from qmlir.lowering.nn_to_qint.scales import NoIntegerForm, limits, per_tensor, requantize


def lower_linear(op: UnaryOp, operands: Sequence[SSAValue], contract: str) -> list[Operation]:
    """relu, clamp and requantize: y = clamp(z_y + (x − z_x) · s_x / s_y)."""
    data, result = per_tensor(op.x), per_tensor(op.y)
    low, high = limits(op, result)
    if isinstance(op, nn.ReluOp):
        low = max(low, min(max(result.zero_point, low), high))
    real = np.array([data.scale / result.scale])
    return [requantize(operands[0], real, result, (low, high), contract, data.zero_point)]


def lower_by_table(op: UnaryOp, operands: Sequence[SSAValue], contract: str) -> list[Operation]:
    """sigmoid, tanh: the 256 results, correctly rounded."""
    data, result = per_tensor(op.x), per_tensor(op.y)
    if data.storage_width != 8 or not data.is_signed:
        raise NoIntegerForm("target", f"tables are made for 8-bit signed data, not for {data}")
    return [qint.LookupOp.make([operands[0]], {"table": WeightsAttr(table(op, data.scale, data.zero_point))})]


def table(op: UnaryOp, scale: float, zero_point: int) -> Array:
    """The stored results of a function for each stored i8: f((q − z)·s), quantized as its result is; [256]."""
    result = per_tensor(op.y)
    real = op.scalar((np.arange(-128, 128, dtype=np.float64) - zero_point) * scale)
    return numerics.quantize(
        real, result.scale, result.zero_point, result.storage_min, result.storage_max, result.numpy_dtype
    )
