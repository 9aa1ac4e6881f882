"""Normalizations: exponentials from a table, sums and quotients in integers."""

from collections.abc import Callable, Sequence
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
from qmlir.dialects.qint.normalization import FRACTION
from qmlir.dialects.quant import numerics, tables
from qmlir.dialects.quant.types import UniformType
from qmlir.dialects.weights import WeightsAttr
from qmlir.legality import uniform
from qmlir.lowering.nn_to_qint.scales import limits
from qmlir.lowering.nn_to_qint.tables import half_away
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
    unit = 1 / uniform(op.y).scale
    fits = shape_of(op.x)[op.axis.value.data] < MOST_TERMS and unit.is_integer() and int(unit).bit_count() == 1
    return rounding.function == "fixed_point" and uniform(op.x).storage_width == 8 and fits


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
    steps = 1 << 31 - INPUT_BITS
    multiplier, shift = numerics.quantize_multiplier(min(data.scale * steps, float((1 << 31) - 1)))
    least = ((1 << INPUT_BITS) - 1) * steps >> shift
    differences = np.minimum(_differences(data), least)
    table = exponential(Lanes(product(Lanes(-differences << shift), multiplier).array), INPUT_BITS).array
    return np.where(_differences(data) <= least, table, 0)


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
