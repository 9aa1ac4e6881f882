"""Normalizations: exponentials from a table, sums, quotients, roots and logarithms in integers."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import IntegerAttr, StringAttr, i64
from xdsl.ir import Operation, SSAValue

from qmlir.dialects import nn, qint
from qmlir.dialects.elementary.fixed_point import exponential, product
from qmlir.dialects.elementary.lanes import Lanes
from qmlir.dialects.interfaces import Array, shape_of
from qmlir.dialects.qint.base import int32
from qmlir.dialects.qint.normalization import FRACTION, LOGARITHM_BITS, SUM_BITS, Division
from qmlir.dialects.quant import numerics, tables
from qmlir.dialects.quant.types import UniformType
from qmlir.dialects.weights import WeightsAttr
from qmlir.legality import logarithm_bits
from qmlir.lowering.nn_to_qint.scales import displaced, limits, requantize
from qmlir.lowering.nn_to_qint.tables import half_away
from qmlir.quantized_values import uniform
from qmlir.runtimes import Rounding

TABLE_BITS = 30
"""Bits behind the point of an exponential that is divided exactly."""

INPUT_BITS = 5
"""Bits before the point of what gemmlowp takes the exponential of."""

MOST_TERMS = 1 << 12
"""Fewer exponentials than this fit the sum that Newton's method divides by."""


def lower_softmax(op: nn.SoftmaxOp, operands: Sequence[SSAValue], rounding: Rounding) -> list[Operation]:
    """y = z_y + exp((x − m)·s_x) / Σ exp((x − m)·s_x) / s_y, the exponentials from a table of all differences."""
    data, result = uniform(op.x), uniform(op.y)
    low, high = limits(op)
    newton, interpolated = _is_gemmlowps(op, rounding), _is_interpolated(op, rounding)
    table = _gemmlowp_table(data) if newton else _interpolated_table(data) if interpolated else _exact_table(data)
    properties = {
        "axis": op.axis,
        "table": WeightsAttr(table.astype(np.int32)),
        "inverse": WeightsAttr(_knots(lambda x: 1 / (1 + x), 0.0, 1.0)) if interpolated else None,
        "unit": IntegerAttr(round((1 << FRACTION) / result.scale), i64),
        "division": StringAttr("newton" if newton else "interpolated" if interpolated else "exact"),
        "zero_point": int32(result.zero_point),
        "min": int32(low),
        "max": int32(high),
    }
    return [qint.SoftmaxOp.make(operands, properties, element=result.storage_type)]


def _is_gemmlowps(op: nn.SoftmaxOp, rounding: Rounding) -> bool:
    """Whether a runtime computes it in fixed point: bytes, as many as it can sum, to a scale that is a power of two."""
    return rounding.function == "fixed_point" and _sums_as_gemmlowp(op) and _is_power_of_two(1 / uniform(op.y).scale)


def _sums_as_gemmlowp(op: nn.SoftmaxOp | nn.LogSoftmaxOp) -> bool:
    """Whether gemmlowp's numbers hold the data's differences and as many exponentials: bytes, in steps it can say."""
    data = uniform(op.x)
    small = shape_of(op.x)[op.axis.value.data] < MOST_TERMS
    return small and data.storage_width == 8 and data.scale >= 2.0 ** (INPUT_BITS - 31)


def _is_power_of_two(number: float) -> bool:
    return number.is_integer() and int(number).bit_count() == 1


def _is_interpolated(op: nn.SoftmaxOp, rounding: Rounding) -> bool:
    """Whether a runtime interpolates tables: 16 bits, as many as 31 bits can sum, to the scale 2^-15."""
    data, result = uniform(op.x), uniform(op.y)
    wide = data.storage_width == result.storage_width == 16
    fits = shape_of(op.x)[op.axis.value.data] < 1 << 16 and (result.scale, result.zero_point) == (2.0**-15, 0)
    return rounding.function == "fixed_point" and wide and fits


def _differences(data: UniformType) -> npt.NDArray[np.int64]:
    return np.arange(1 << data.storage_width)


def _exact_table(data: UniformType) -> npt.NDArray[Any]:
    """exp(−d · s) for each difference d, in steps of 2^−30."""
    return np.rint(np.exp(-_differences(data) * data.scale) * (1 << TABLE_BITS))


def _gemmlowp_table(data: UniformType) -> npt.NDArray[Any]:
    """The same in steps of 2^−31, from differences in steps of 2^−26; 0 where these would have more than 31 bits."""
    differences = _gemmlowp_differences(data)
    table = exponential(Lanes(np.maximum(differences, -((1 << 31) - 1))), INPUT_BITS).array
    return np.where(differences > LEAST, table, 0)


LEAST = -(1 << 31)
"""What stands for a difference that gemmlowp leaves out."""


def _gemmlowp_differences(data: UniformType) -> npt.NDArray[np.int64]:
    """−d · s in steps of 2^−26, by a multiplier of 31 bits."""
    steps = 1 << 31 - INPUT_BITS
    multiplier, shift = numerics.quantize_multiplier(min(data.scale * steps, float((1 << 31) - 1)))
    least = ((1 << INPUT_BITS) - 1) * steps >> shift
    within = np.minimum(_differences(data), least)
    scaled = product(Lanes(-within << shift), multiplier).array
    return np.where(_differences(data) <= least, scaled, LEAST)


def lower_log_softmax(op: nn.LogSoftmaxOp, operands: Sequence[SSAValue], rounding: Rounding) -> list[Operation]:
    """acc = (x − m)·s_x − log Σ exp((x − m)·s_x) in steps of 2^−fraction, then y = z_y + acc / s_y."""
    data, fraction = uniform(op.x), logarithm_bits(op)
    fixed = rounding.function == "fixed_point"
    gemmlowps = fraction == LOGARITHM_BITS and _sums_as_gemmlowp(op) and _is_power_of_two(1 / uniform(op.y).scale)
    if fixed and gemmlowps:
        differences, bits = _gemmlowp_differences(data), SUM_BITS
        table = Division("newton", 0).term(Lanes(_gemmlowp_table(data).astype(np.int64))).array
    else:
        differences, bits = np.rint(-_differences(data) * data.scale * (1 << fraction)), 31 - TABLE_BITS
        table = _exact_table(data)
        rounding = replace(rounding, contract="single") if fixed else rounding
    properties = {
        "axis": op.axis,
        "table": WeightsAttr(table.astype(np.int32)),
        "differences": WeightsAttr(np.maximum(differences, LEAST).astype(np.int32)),
        "integer_bits": int32(bits),
        "fraction": int32(fraction),
    }
    logarithm = qint.LogSoftmaxOp.make(operands, properties)
    return [logarithm, requantize(logarithm.y, op, rounding)]


def lower_lp_normalization(
    op: nn.LpNormalizationOp, operands: Sequence[SSAValue], rounding: Rounding
) -> list[Operation]:
    """y = z_y + (x − z_x) / √Σ (x − z_x)² / s_y.

    Of signed integers TFLite rounds twice; what its source stores unsigned it moves left first, so that the first time
    loses nothing.
    """
    data, result = uniform(op.x), uniform(op.y)
    low, high = limits(op)
    multiplier, shift = numerics.quantize_multiplier(1 / result.scale)
    twice = rounding.contract == "double" and _is_power_of_two(1 / result.scale)
    properties = {
        "axis": op.axis,
        "input_zero_point": int32(data.zero_point),
        "multiplier": int32(multiplier),
        "shift": int32(shift),
        "contract": StringAttr("double" if twice else "single"),
        "left": int32(shift - 1 if twice and displaced(op) else 0),
        "zero_point": int32(result.zero_point),
        "min": int32(low),
        "max": int32(high),
    }
    return [qint.L2NormalizationOp.make(operands, properties, element=result.storage_type)]


DEPTH = 10.0
"""Exponentials are interpolated from −DEPTH on; below it they are that of −DEPTH."""


def _interpolated_table(data: UniformType) -> npt.NDArray[Any]:
    """The same in steps of 2^−15, from lines between knots of e^x; a difference of 65535 is −DEPTH there."""
    factor = float(np.float32(data.scale)) / (DEPTH / 65535)
    scaled = numerics.requantize(-_differences(data), *numerics.quantize_multiplier(factor), "double")
    places = np.clip(scaled + 32767, -32768, 32767)
    return tables.interpolated(_knots(np.exp, -DEPTH, 0.0), places)


def _knots(function: Callable[[Array], Array], low: float, high: float) -> npt.NDArray[np.int16]:
    """A function in steps of 2^−15, each knot lower by half of what a line to the next is too high in its middle."""
    step = (high - low) / (tables.KNOTS - 1)
    at = low + step * np.arange(tables.KNOTS)
    exact, middle = (function(x) * (1 << 15) for x in (at, at[:-1] + step / 2))
    stored = half_away(exact)
    error = half_away((exact[1:] + stored[:-1]) / 2) - half_away(middle)
    stored[:-1] -= half_away(error / 2)
    return np.clip(stored, -(1 << 15), (1 << 15) - 1).astype(np.int16)
