"""Functions of one stored integer as tables: of all results, or of knots with lines between them. numpy only."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from qmlir.dialects.quant import numerics
from qmlir.dialects.quant.numerics import Array, Float64s


def lookup_table(
    function: Callable[[Float64s], Float64s],
    in_scale: float,
    in_zero_point: int,
    out_scale: float,
    out_zero_point: int,
    *,
    in_range: tuple[int, int] = (-128, 127),
    out_range: tuple[int, int] = (-128, 127),
    dtype: npt.DTypeLike = np.int8,
) -> Array:
    """The values of a function at every stored integer of `in_range`, in order, as stored integers.

    Entry for q = quantize(function(S_in · (q − Z_in))): the argument, the function and the division by S_out are in
    float64 with no float32 between, rounding is half to even. For a function exact in float64 the table is correctly
    rounded; a real tie after an inexact one may fall either way. Shape [in_range's length], 256 for int8.
    """
    q = np.arange(in_range[0], in_range[1] + 1)
    x = (q - in_zero_point).astype(np.float64) * in_scale
    return numerics.quantize(function(x), out_scale, out_zero_point, *out_range, dtype)


KNOTS = 513
"""Entries of a table from which a function of 16 bits is interpolated: one for every 128th integer, and the last."""

SEGMENT_BITS = 7


def interpolated(table: Array, x: Array, *, wraps: bool = False) -> Array:
    """t[k] + ((t[k+1] − t[k])·f + 2^6 >> 7) for x + 2^15 = 2^7·k + f: lines between the knots of a table, half up.

    Args:
        table: [KNOTS], int16.
        x: int16 of any shape.
        wraps: Whether the difference of two knots is taken modulo 2^16, as LiteRT does: where it does not fit 16 bits,
            its line leads the other way.
    """
    place = x.astype(np.int64) + (1 << 15)
    knot, offset = place >> SEGMENT_BITS, place & (1 << SEGMENT_BITS) - 1
    wide = table.astype(np.int64)
    slope = wide[knot + 1] - wide[knot]
    slope = slope.astype(np.int16).astype(np.int64) if wraps else slope
    line = slope * offset + (1 << SEGMENT_BITS - 1) >> SEGMENT_BITS
    return (wide[knot] + line).astype(np.int16)


def interpolation_table(exact: Array) -> Array:
    """The knots from which a function is interpolated; each moved against half the errors in the middles beside it.

    Args:
        exact: Its stored results at every integer of 16 bits, in order, [65536].

    Returns:
        [KNOTS], int16.
    """
    step, half = 1 << SEGMENT_BITS, 1 << SEGMENT_BITS - 1
    real = exact.astype(np.float64)
    knots = np.append(real[::step], 2 * real[-1] - real[-2])  # there is no element for the last knot
    errors = (knots[:-1] + knots[1:]) / 2 - real[half::step]
    beside = (np.append(errors, errors[-1]) + np.insert(errors, 0, errors[0])) / 2
    return np.clip(np.rint(knots - beside / 2), -(1 << 15), (1 << 15) - 1).astype(np.int16)
