"""Lowering of unary functions: piecewise linear functions become a clamped requantization, all others a table."""

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import i16
from xdsl.ir import Operation, SSAValue

from qmlir.dialects import nn, qint
from qmlir.dialects.nn.pointwise import FunctionOp, UnaryOp
from qmlir.dialects.quant.types import UniformType
from qmlir.ir.interfaces import Array
from qmlir.ir.weights import WeightsAttr
from qmlir.lowering.nn_to_qint.scales import limits, requantize, stored
from qmlir.lowering.nn_to_qint.tables import between_casts, joined_table, knots, linear_table, table
from qmlir.numerics import fixed_point, tables
from qmlir.policies.legality import NoIntegerForm
from qmlir.policies.quantized_values import uniform
from qmlir.policies.runtimes import Rounding

INTERPOLATION_STEPS = 1
"""Largest error of an interpolated table, in steps of the result; beyond it, the table lists all 65,536 results."""

_EVERY_16 = np.arange(-(1 << 15), 1 << 15)
"""Every signed 16-bit integer, [65536]."""


def lower_linear(op: UnaryOp, operands: Sequence[SSAValue], rounding: Rounding) -> list[Operation]:
    """Lowers relu, clamp and requantize: y = clamp(z_y + (x − z_x) · s_x / s_y)."""
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
    """Lowers an input of LiteRT's concatenation: int8 is rescaled in float32, int16 keeps its stored integers."""
    if uniform(op.y).storage_width == 8:
        return [qint.LookupOp.make([operands[0]], {"table": WeightsAttr(joined_table(op))})]
    same = fixed_point.quantize_multiplier(1.0)
    return [requantize(operands[0], op, Rounding("single"), multiplier=same, zero_point=0)]


def _short_multiplier(data: UniformType, result: UniformType) -> tuple[int, int] | None:
    """The multiplier and shift of s_x / s_y rounded to 8 fractional bits, computed in float32.

    Returns:
        (multiplier, shift); None unless the result has 8 bits and the ratio lies in [2^−8, 2^7].
    """
    factor = np.float32(data.scale) / np.float32(result.scale)
    if result.storage_width != 8 or not 2.0**-8 <= factor <= 2.0**7:
        return None
    return fixed_point.quantize_multiplier(round(256 * float(factor)) / 256)


def lower_by_table(op: FunctionOp, operands: Sequence[SSAValue], rounding: Rounding) -> list[Operation]:
    """Lowers any other unary function to a table of all results, or to a 16-bit table that is interpolated.

    The exact results are interpolated only if every interpolated result lies within `INTERPOLATION_STEPS` of them.
    """
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
    """LiteRT's interpolation between breakpoints (knots), as an interpolated table where that gives the same results.

    LiteRT takes the difference of two breakpoints modulo 2^16. If that changes a result, the table lists all results.
    """
    entries = tables.interpolated(lines, _EVERY_16, wraps=True)
    if np.array_equal(entries, tables.interpolated(lines, _EVERY_16)):
        return [qint.InterpolatedLookupOp.make([x], {"table": WeightsAttr(lines)})]
    return [qint.LookupOp.make([x], {"table": WeightsAttr(entries)})]


def lower_on_floats(op: UnaryOp, operands: Sequence[SSAValue], quantization: str) -> list[Operation]:
    """Lowers a unary function that the source model computes on floats between casts: a table of these results."""
    return [qint.LookupOp.make([operands[0]], {"table": WeightsAttr(between_casts(op, quantization))})]


def _change_storage(op: UnaryOp, operands: Sequence[SSAValue]) -> list[Operation]:
    """Converts u8 storage to i8 or back: stored integers change by 128, the scale stays (storage.py)."""
    data, result = uniform(op.x), uniform(op.y)
    if not isinstance(op, nn.RequantizeOp) or (data.storage_width, result.storage_width) != (8, 8):
        raise NoIntegerForm("target", f"{data.storage} has no integer form at the edge of a network, only 8 bits have")
    bits = np.arange(-128, 128)
    q = bits if data.is_signed else bits & 255
    moved = np.clip(q - data.zero_point + result.zero_point, result.storage_min, result.storage_max)
    return [qint.LookupOp.make([operands[0]], {"table": WeightsAttr((moved & 255).astype(np.uint8).view(np.int8))})]
