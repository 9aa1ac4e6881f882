"""Lookup tables for functions of one stored integer. numpy only.

A table holds either the results for all inputs (8 bits), or the breakpoints of a piecewise linear function
(16 bits).
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from qmlir.numerics import Array, Float64s, fixed_point
from qmlir.numerics.elementary.lanes import I16, Lanes, N


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
    """Tabulates a function at every stored integer of `in_range`, in order; entries are stored integers.

    The entry for q is quantize(function(S_in · (q − Z_in))). The argument, the function and the division by S_out are
    computed in float64, without float32 in between; rounding is half to even. If the function is exact in float64,
    the table is correctly rounded; otherwise a real tie may round either way.

    Returns:
        [number of integers in `in_range`], 256 for int8, of type `dtype`.
    """
    q = np.arange(in_range[0], in_range[1] + 1)
    x = (q - in_zero_point).astype(np.float64) * in_scale
    return fixed_point.quantize(function(x), out_scale, out_zero_point, *out_range, dtype)


BREAKPOINTS = 513
"""Entries of an interpolation table for 16-bit inputs: one at every 128th integer, and one for the upper end."""

SEGMENT_BITS = 7


def interpolated(table: Array, x: Array, *, wraps: bool = False) -> Array:
    """Interpolates linearly between the breakpoints of a table; products are rounded half up.

    The result is t[k] + ((t[k+1] − t[k])·f + 2^6 >> 7), where x + 2^15 = 2^7·k + f.

    Args:
        table: The breakpoints t, [BREAKPOINTS], int16.
        x: The inputs, int16 of any shape.
        wraps: Whether the difference of two breakpoints is taken modulo 2^16, as LiteRT does: a difference that does
            not fit 16 bits changes its sign, and so does the slope of its line.
    """
    wide = table.astype(np.int64)
    place = Lanes(x.astype(np.int64) + (1 << 15))
    return between_breakpoints(place, lambda at: Lanes(wide[at.array]), wraps=wraps).array.astype(np.int16)


def between_breakpoints(place: N, breakpoint: Callable[[N], N], *, wraps: bool = False) -> N:
    """The formula of `interpolated` at place = 2^7·k + f; `breakpoint` reads an entry as the type of `place`."""
    at, offset = place >> SEGMENT_BITS, place & (1 << SEGMENT_BITS) - 1
    first = breakpoint(at)
    rise = breakpoint(at + 1) - first
    rise = rise.to(I16).to(rise.dtype) if wraps else rise
    return first + ((rise * offset + (1 << SEGMENT_BITS - 1)) >> SEGMENT_BITS)


def interpolation_table(exact: Array) -> Array:
    """Computes the breakpoints of an interpolation table for a function of 16-bit integers.

    Each breakpoint is corrected by half of the mean interpolation error at the middles of its two neighbouring
    segments.

    Args:
        exact: The function's stored results at every 16-bit integer, in order, [65536].

    Returns:
        [BREAKPOINTS], int16.
    """
    step, half = 1 << SEGMENT_BITS, 1 << SEGMENT_BITS - 1
    real = exact.astype(np.float64)
    breakpoints = np.append(real[::step], 2 * real[-1] - real[-2])  # the last breakpoint is beyond `exact`: extrapolate
    errors = (breakpoints[:-1] + breakpoints[1:]) / 2 - real[half::step]
    beside = (np.append(errors, errors[-1]) + np.insert(errors, 0, errors[0])) / 2
    return np.clip(np.rint(breakpoints - beside / 2), -(1 << 15), (1 << 15) - 1).astype(np.int16)
