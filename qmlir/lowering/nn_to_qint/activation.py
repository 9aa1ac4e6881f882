"""Functions of one element: piecewise linear ones are a clamped change of scale, all others a table."""

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import i16
from xdsl.ir import Operation, SSAValue

from qmlir.dialects import nn, qint
from qmlir.dialects.interfaces import Array
from qmlir.dialects.nn.pointwise import FunctionOp, UnaryOp
from qmlir.dialects.quant import numerics, tables
from qmlir.dialects.quant.types import UniformType
from qmlir.dialects.weights import WeightsAttr
from qmlir.legality import NoIntegerForm
from qmlir.lowering.nn_to_qint.scales import limits, requantize, stored
from qmlir.lowering.nn_to_qint.tables import between_casts, joined_table, knots, linear_table, table
from qmlir.quantized_values import uniform
from qmlir.runtimes import Rounding

INTERPOLATION_STEPS = 1
"""How far an interpolated result may lie from the correctly rounded one; farther, and the table has all 65,536."""

_EVERY_16 = np.arange(-(1 << 15), 1 << 15)
"""Every integer of 16 bits."""


def lower_linear(op: UnaryOp, operands: Sequence[SSAValue], rounding: Rounding) -> list[Operation]:
    """relu, clamp and requantize: y = clamp(z_y + (x − z_x) · s_x / s_y)."""
    data = uniform(op.x)
    if data.storage != data.storage_type or uniform(op.y).storage != uniform(op.y).storage_type:
        return _change_storage(op, operands)
    if uniform(op.y).storage_width == 32 and rounding.contract.startswith("float"):
        raise NoIntegerForm("target", f"32 bits by contract {rounding.contract} have no integer form")
    if rounding.function == "float32" and data.storage_width == 8:
        return [qint.LookupOp.make([operands[0]], {"table": WeightsAttr(linear_table(op))})]
    if rounding.function == "joined":
        return _join(op, operands)
    low, high = limits(op)
    if isinstance(op, nn.ReluOp):
        low = stored(0.0, uniform(op.y))
    multiplier = None
    if rounding.function == "fixed_point_short":
        multiplier = _short_multiplier(data, uniform(op.y))
        rounding = rounding if multiplier is not None or rounding.otherwise is None else rounding.otherwise
    zero_point = data.zero_point
    return [
        requantize(operands[0], op, rounding, bounds=(low, high), input_zero_point=zero_point, multiplier=multiplier)
    ]


def _join(op: UnaryOp, operands: Sequence[SSAValue]) -> list[Operation]:
    """A part of LiteRT's concatenations: bytes change their scale in float32, 16 bits stay whatever their scale is."""
    if uniform(op.y).storage_width == 8:
        return [qint.LookupOp.make([operands[0]], {"table": WeightsAttr(joined_table(op))})]
    same = numerics.quantize_multiplier(1.0)
    return [requantize(operands[0], op, Rounding("single"), multiplier=same, zero_point=0)]


def _short_multiplier(data: UniformType, result: UniformType) -> tuple[int, int] | None:
    """s_x / s_y of bytes with 8 bits behind the point, computed in float32; None where it has not as many before it."""
    factor = np.float32(data.scale) / np.float32(result.scale)
    if result.storage_width != 8 or not 2.0**-8 <= factor <= 2.0**7:
        return None
    return numerics.quantize_multiplier(round(256 * float(factor)) / 256)


def lower_by_table(op: FunctionOp, operands: Sequence[SSAValue], rounding: Rounding) -> list[Operation]:
    """Any other function of one element: all its results, or knots of 16 bits where lines between them do as well."""
    if rounding.function == "interpolated" and uniform(op.x).storage == uniform(op.y).storage == i16:
        return _between_knots(operands[0], knots(op))
    entries = table(op, rounding)
    if rounding.function == "exact" and entries.shape == (1 << 16,) and entries.dtype == np.int16:
        lines = tables.interpolation_table(entries)
        off = tables.interpolated(lines, _EVERY_16) - entries.astype(np.int64)
        if np.abs(off).max() <= INTERPOLATION_STEPS:
            return [qint.InterpolatedLookupOp.make([operands[0]], {"table": WeightsAttr(lines)})]
    return [qint.LookupOp.make([operands[0]], {"table": WeightsAttr(entries)})]


def _between_knots(x: SSAValue, lines: Array) -> list[Operation]:
    """LiteRT's lines between knots; as all results where it takes a difference of two knots modulo 2^16."""
    entries = tables.interpolated(lines, _EVERY_16, wraps=True)
    if np.array_equal(entries, tables.interpolated(lines, _EVERY_16)):
        return [qint.InterpolatedLookupOp.make([x], {"table": WeightsAttr(lines)})]
    return [qint.LookupOp.make([x], {"table": WeightsAttr(entries)})]


def lower_on_floats(op: UnaryOp, operands: Sequence[SSAValue], quantization: str) -> list[Operation]:
    """A function of one element that the source model computes on floats: a table of just what that gives."""
    return [qint.LookupOp.make([operands[0]], {"table": WeightsAttr(between_casts(op, quantization))})]


def _change_storage(op: UnaryOp, operands: Sequence[SSAValue]) -> list[Operation]:
    """Unsigned bytes as signed ones or back: 128 less or more, under the same scale (storage.py)."""
    data, result = uniform(op.x), uniform(op.y)
    if not isinstance(op, nn.RequantizeOp) or (data.storage_width, result.storage_width) != (8, 8):
        raise NoIntegerForm("target", f"{data.storage} has no integer form at the edge of a network, only 8 bits have")
    bits = np.arange(-128, 128)
    q = bits if data.is_signed else bits & 255
    moved = np.clip(q - data.zero_point + result.zero_point, result.storage_min, result.storage_max)
    return [qint.LookupOp.make([operands[0]], {"table": WeightsAttr((moved & 255).astype(np.uint8).view(np.int8))})]
