"""Fixed-point arithmetic: the reference definition of quantization, dequantization and requantization."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from qmlir.errors import QmlirError
from qmlir.numerics import Array, Int64s

# ---------------------------------------------------------------------------------------------------------------
# Roundings of a · multiplier · 2^(shift − 31): a function for each way in which runtimes round it, on int64.
#
# The contract of each function (`CONTRACTS`) states which accumulators, multipliers and shifts it takes without
# overflow.


MULTIPLIER_BITS = 31


def half_up(value: Int64s, bits: Int64s | int) -> Int64s:
    """Returns value · 2^-bits rounded half up (toward +∞), for bits ≥ 0."""
    # Add half before the shift; for bits = 0 the half is 0.
    half = np.left_shift(np.int64(1), bits) >> 1
    return (value + half) >> bits


def half_away(value: Int64s, bits: Int64s) -> Int64s:
    """Returns value · 2^-bits rounded half away from zero, for bits ≥ 0: gemmlowp's RoundingDivideByPOT."""
    mask = np.left_shift(np.int64(1), bits) - 1
    return (value >> bits) + ((value & mask) > (mask >> 1) + (value < 0)).astype(np.int64)


def half_even(value: Int64s, bits: Int64s) -> Int64s:
    """Returns value · 2^-bits rounded half to even, for bits in [0, 62]."""
    floor = value >> bits
    twice_rest = (value - (floor << bits)) << 1
    one = np.left_shift(np.int64(1), bits)
    # Add 1 if the rest is above half, or if it is exactly half (never for bits = 0) and the floor is odd.
    return floor + ((twice_rest > one) | ((twice_rest == one) & (floor & 1 == 1))).astype(np.int64)


def left(a: Int64s, shift: Int64s) -> Int64s:
    """Returns a · 2^max(shift, 0), saturated to int32, the first step of the two-step contracts.

    The product is exact before saturation: |a| ≤ 2^31 and shift ≤ 30 stay within int64. TFLite leaves the overflow
    undefined; here it saturates. A clamp of the result to 29 bits or fewer hides the difference, as M ≥ 2^(shift − 2).
    """
    return np.clip(a << np.maximum(shift, 0), -(1 << 31), (1 << 31) - 1)


def single(a: Int64s, multiplier: Int64s, shift: Int64s) -> Int64s:
    """Contract `single`: one rounding, half up."""
    return half_up(a * multiplier, MULTIPLIER_BITS - shift)


def double(a: Int64s, multiplier: Int64s, shift: Int64s) -> Int64s:
    """Contract `double`: rounds half up to the high half of the product, then half away from zero."""
    # gemmlowp's high multiplication rounds half up for negative numbers too; only its division rounds half away.
    return half_away(half_up(left(a, shift) * multiplier, MULTIPLIER_BITS), np.maximum(-shift, 0))


def away(a: Int64s, multiplier: Int64s, shift: Int64s) -> Int64s:
    """Contract `away`: one rounding, half away from zero."""
    return half_away(a * multiplier, MULTIPLIER_BITS - shift)


def upup(a: Int64s, multiplier: Int64s, shift: Int64s) -> Int64s:
    """Contract `upup`: two roundings, both half up."""
    return half_up(half_up(left(a, shift) * multiplier, MULTIPLIER_BITS), np.maximum(-shift, 0))


def updown(a: Int64s, multiplier: Int64s, shift: Int64s) -> Int64s:
    """Contract `updown`: rounds half up to the high half of the product, then down."""
    return half_up(left(a, shift) * multiplier, MULTIPLIER_BITS) >> np.maximum(-shift, 0)


def bit_length(value: Int64s) -> Int64s:
    """Returns the bit length of each value ≥ 0: 0 for 0, 1 for 1, 2 for 2 and 3, …"""
    # The exponent of the value as float64. The bit below the leading bit is cleared, so that rounding to float64
    # cannot carry into the next exponent.
    return np.frexp((value & ~(value >> 1)).astype(np.float64))[1].astype(np.int64)


def to_significand(value: Int64s) -> Int64s:
    """Rounds each value to 24 significant bits, half to even: the integer value of its float32."""
    dropped = np.maximum(bit_length(np.abs(value)) - 24, 0)
    return half_even(value, dropped) << dropped


def float_even(a: Int64s, multiplier: Int64s, shift: Int64s) -> Int64s:
    """Contract `float_even`: rint(float32(a) · float32(M)), half to even."""
    # M = (multiplier / 2^7) · 2^(shift − 24): the significands have 24 bits, and their 48-bit product is exact.
    product = to_significand(to_significand(a) * (multiplier >> 7))
    exponent = shift - 24
    return half_even(product << np.maximum(exponent, 0), np.maximum(-exponent, 0))


def float_sum(a: Int64s, multiplier: Int64s, shift: Int64s, constant: float = 0.0) -> Int64s:
    """Contract `float_sum`: rint(float32(float32(a) · float32(M)) + constant), with the sum in float32."""
    # The product of two 24-bit significands is exact in float64. A float64 sum of two float32 has enough bits that
    # rounding it to float32 afterwards equals a single rounding.
    factor = np.ldexp(multiplier.astype(np.float64), shift - MULTIPLIER_BITS)
    product = (to_significand(a).astype(np.float64) * factor).astype(np.float32)
    total = (product.astype(np.float64) + constant).astype(np.float32)
    return np.rint(total).astype(np.int64)


def single64(a: Int64s, multiplier: Int64s, shift: Int64s) -> Int64s:
    """Contract `single64`: `single` for accumulators of 48 bits."""
    # a = high · 2^16 + low. The low 16 bits of the product matter only by their carry, once the half is added.
    bits = MULTIPLIER_BITS - shift
    high, low = a >> 16, a & 0xFFFF
    half = np.left_shift(np.int64(1), bits - 1)
    return (high * multiplier + (low * multiplier + half >> 16)) >> (bits - 16)


def away64(a: Int64s, multiplier: Int64s, shift: Int64s) -> Int64s:
    """Contract `away64`: `away` for accumulators of 48 bits."""
    # Rounding the magnitude half up rounds the signed number half away from zero.
    return np.where(a < 0, -1, 1) * single64(np.abs(a), multiplier, shift)


def reduced16(a: Int64s, multiplier: Int64s, shift: Int64s) -> Int64s:
    """Contract `reduced16`: one rounding, half up, with the multiplier reduced to 16 bits."""
    reduced = np.minimum(multiplier + (1 << 15) >> 16, (1 << 15) - 1)
    return half_up(a * reduced, 15 - shift)


# ---------------------------------------------------------------------------------------------------------------
# Fixed-point arithmetic: the reference definition of quantization, dequantization and requantization. numpy only.
#
# The CPU code and the simulators compute the same bits as this module; a back end that cannot follow an equation below
# raises an error. q is a stored integer, S a scale and Z a zero point (gemmlowp's letters):
#
#     real = S · (q − Z)                                                            (1)
#
# Requantization multiplies an integer by a real M > 0, which is stored as two integers:
#
#     M ≈ multiplier · 2^(shift − 31),   multiplier in [2^29, 2^31) or 0            (2)
#
# A *named contract* (see `CONTRACTS`) says how the product is rounded, because runtimes round differently.


class NumericsError(QmlirError):
    """Raised for numbers beyond fixed-point arithmetic, such as too large a scale ratio or too wide an accumulator."""


# Between real values and stored integers.


def _divided(x: Array, scale: Array) -> Array:
    return np.rint(x.astype(np.float64) / scale)


def _divided_in_float32(x: Array, scale: Array) -> Array:
    return np.rint(x.astype(np.float32) / scale.astype(np.float32))


def _divided_away(x: Array, scale: Array) -> Array:
    steps = (x.astype(np.float32) / scale.astype(np.float32)).astype(np.float64)
    return np.copysign(np.floor(np.abs(steps) + 0.5), steps)


def _multiplied(x: Array, scale: Array) -> Array:
    return np.rint(x.astype(np.float32) * (np.float32(1) / scale.astype(np.float32)))


QUANTIZATIONS: Mapping[str, Callable[[Array, Array], Array]] = {
    "exact": _divided,
    "float32": _divided_in_float32,
    "float32_away": _divided_away,
    "float32_reciprocal": _multiplied,
}
"""The ways to divide x by S and round to an integer, by name.

`exact` divides in float64 and rounds half to even. `float32` (ONNX) divides in float32 and rounds half to even.
`float32_away` (TFLite's reference) divides in float32 and rounds half away from zero. `float32_reciprocal` (XNNPACK)
computes x · (1 / S) in float32 and rounds half to even.
"""


def quantize(
    x: Array, scale: npt.ArrayLike, zero_point: npt.ArrayLike, qmin: int, qmax: int, dtype: npt.DTypeLike,
    by: str = "exact",
) -> Array:  # fmt: skip
    """q = clamp(rint(x / S) + Z, qmin, qmax)                                      (3)

    Division and rint (half to even) are in float64, or as `by`, a name in `QUANTIZATIONS`, says. Z is added after
    rounding, as in ONNX. NaN gives Z, clamped; infinities saturate. S and Z broadcast against x: callers with per-axis
    parameters reshape them (`UniformType.parameters_along`).
    """
    points = np.asarray(zero_point, np.float64)
    with np.errstate(all="ignore"):
        rounded = QUANTIZATIONS[by](np.asarray(x), np.asarray(scale, np.float64)).astype(np.float64) + points
    rounded = np.where(np.isnan(rounded), points, rounded)
    return np.clip(rounded, qmin, qmax).astype(dtype)


def quantize_in_float32(
    x: Array, scale: npt.ArrayLike, zero_point: npt.ArrayLike, qmin: int, qmax: int, dtype: npt.DTypeLike
) -> Array:
    """Computes (3) with the quotient rounded to float32 before rint, as ONNX's QuantizeLinear does; S is a float32."""
    return quantize(x, scale, zero_point, qmin, qmax, dtype, "float32")


def dequantize(q: Array, scale: npt.ArrayLike, zero_point: npt.ArrayLike, dtype: npt.DTypeLike = np.float32) -> Array:
    """x = dtype(S · (q − Z)): an exact integer difference, a product in float64, a single rounding to `dtype`.   (4)"""
    difference = np.asarray(q, np.int64) - np.asarray(zero_point, np.int64)
    with np.errstate(over="ignore"):
        return (difference.astype(np.float64) * np.asarray(scale, np.float64)).astype(dtype)


# A real multiplier as integers.

LEAST_MULTIPLIER, MOST_MULTIPLIER = 1 << 29, (1 << 31) - 1
"""Bounds of a nonzero multiplier of (2): at least 2^30 from `quantize_multiplier`, 2^29 from `divided_multiplier`."""

MAX_SHIFT = 30
"""Largest shift of (2), for real multipliers below 2^30."""

MIN_SHIFT = -31
"""Smallest shift of (2); smaller real multipliers are flushed to zero."""


def quantize_multiplier(real: float, step: int = 1) -> tuple[int, int]:
    """Returns (multiplier, shift) of (2) for a real multiplier in [0, 2^30).

    frexp gives real = frac · 2^shift with frac in [1/2, 1); the multiplier is round(frac · 2^31), half up. If it rounds
    up to 2^31, the carry goes into the shift. Below 2^-32 the result is (0, 0). This is TFLite's and TVM's
    decomposition; for step 1 the relative error is at most 2^-31.

    Args:
        real: The real multiplier.
        step: A power of two; the multiplier is rounded to a multiple of it, for contracts with narrower multipliers.

    Raises:
        NumericsError: The real multiplier is negative, not finite, or at least 2^30.
    """
    if not 0.0 <= real < math.inf:  # false for NaN too
        raise NumericsError("a requantization multiplier must be a finite number ≥ 0", got=str(real))
    fraction, shift = math.frexp(real)
    multiplier = step * math.floor(fraction * ((1 << MULTIPLIER_BITS) // step) + 0.5)
    if multiplier == 1 << MULTIPLIER_BITS:
        multiplier, shift = multiplier >> 1, shift + 1
    if shift < MIN_SHIFT or multiplier == 0:
        return 0, 0
    if shift > MAX_SHIFT:
        raise NumericsError(
            "a requantization multiplier must be below 2^30",
            got=str(real),
            remedy="the scales of input and output are too far apart; profile on representative data",
        )
    return multiplier, shift


def divided_multiplier(multiplier: int, shift: int, count: int) -> tuple[int, int]:
    """Returns (multiplier, shift) of (2) for M / count as TFLite's means compute it, by a truncated integer division.

    The multiplier is first shifted left by the bit length of `count` less 1, so that the quotient keeps its precision:
    it lies in [2^29, 2^31) or is 0. If the shift would be below `MIN_SHIFT`, the result is (0, 0).

    Args:
        multiplier: The multiplier of M.
        shift: The shift of M.
        count: The number of elements in the mean.
    """
    bits = count.bit_length() - 1
    return ((multiplier << bits) // count, shift - bits) if shift - bits >= MIN_SHIFT else (0, 0)


def fixed_point_rows(weights: npt.ArrayLike, bits: int) -> npt.NDArray[np.int32]:
    """Rounds rows of weights to multiples of 2^−bits (half to even) such that each row's sum is rounded likewise.

    The difference between the rounded sum of a row and the sum of its rounded weights is added to the weight with the
    largest magnitude.

    Args:
        weights: The weights, [rows, columns], below 2^15 in magnitude.
        bits: The number of fractional bits, at most 15.

    Returns:
        The weights times 2^bits, int32, [rows, columns].
    """
    array = np.asarray(weights, np.float64)
    scaled = array * (1 << bits)
    rows = np.rint(scaled).astype(np.int64)
    if rows.shape[1]:
        missing = np.rint(scaled.sum(axis=1)).astype(np.int64) - rows.sum(axis=1)
        rows[np.arange(len(rows)), np.abs(array).argmax(axis=1)] += missing
    return rows.astype(np.int32)


def quantize_multipliers(reals: npt.ArrayLike, step: int = 1) -> tuple[Int64s, Int64s]:
    """Applies `quantize_multiplier` to each element; returns (multipliers, shifts) of the same shape."""
    array = np.asarray(reals, np.float64)
    pairs = [quantize_multiplier(float(real), step) for real in array.reshape(-1)]
    both = np.array(pairs, np.int64).reshape(*array.shape, 2)
    return both[..., 0], both[..., 1]


def float_multiplier(real: float) -> tuple[int, int]:
    """Returns (multiplier, shift) of exactly float32(real), for the contracts `float_even` and `float_sum`.

    A float32 has a 24-bit significand, so the multiplier is a multiple of 2^7.
    """
    with np.errstate(over="ignore"):
        return quantize_multiplier(float(np.float32(real)))


# Products and their rounding. All arithmetic is on int64.


@dataclass(frozen=True)
class Contract:
    """A way to round a · M, where a is an accumulator and M a multiplier and a shift as in (2).

    compute     (a, multiplier, shift), int64 arrays of one shape → int64 array
    sums        whether the contract rounds a · M + C for a given float32 C, instead of a · M
    limit       the largest |a| for which no step overflows int64, at any multiplier and shift
    step        each multiplier is a multiple of this; 2^30 admits powers of two only
    meaning     the equation, for reports
    max_shift   the largest shift that the contract takes
    wide        the contract that replaces this one for accumulators that 32 bits may not hold, if there is one
    """

    compute: Callable[[Int64s, Int64s, Int64s], Int64s]
    limit: int
    step: int
    meaning: str
    sums: bool = False
    max_shift: int = MAX_SHIFT
    wide: str | None = None


WIDE_LIMIT = (1 << 47) - 1
"""The largest |a| of contracts for 64-bit accumulators: 48 bits, which hold 2^16 products of 16 by 16 bits."""

CONTRACTS: Mapping[str, Contract] = {
    "single": Contract(single, 3 << 30, 1, "(a·q + 2^(30−s)) >> (31−s): one rounding, half up", wide="single64"),
    "double": Contract(
        double, 1 << 31, 1, "a·2^max(s,0)·q / 2^31 half up, then / 2^max(−s,0) half away: TFLite's reference"
    ),
    "upup": Contract(upup, 1 << 31, 1, "the two steps of `double`, both half up: TFLite's optimized kernels"),
    "updown": Contract(updown, 1 << 31, 1, "the first step of `double`, then rounded down: TFLite's sums of bytes"),
    "float_even": Contract(
        float_even, 1 << 32, 1 << 7, "rint(float32(a)·float32(M)), half to even: ONNX Runtime and XNNPACK"
    ),
    "float_sum": Contract(
        float_sum,
        1 << 32,
        1 << 7,
        "rint(float32(float32(a)·float32(M)) + C), sum in float32: ONNX Runtime's QLinearMul, XNNPACK's means",
        sums=True,
    ),
    "shift": Contract(
        single, 3 << 30, 1 << 30, "a·2^(s−1), one rounding, half up: scales that are powers of two", wide="single64"
    ),
    "single64": Contract(
        single64,
        WIDE_LIMIT,
        1,
        "`single` on 64-bit sums, no bit of the multiplier lost",
        max_shift=15,
    ),
    "away": Contract(
        away,
        3 << 30,
        1,
        "a·q / 2^(31−s), one rounding, half away from zero: the fully connected layers of LiteRT's reference",
        wide="away64",
    ),
    "away64": Contract(
        away64,
        WIDE_LIMIT,
        1,
        "`away` on 64-bit sums, no bit of the multiplier lost: LiteRT's fully connected layers of int16",
        max_shift=15,
    ),
    "reduced16": Contract(
        reduced16,
        WIDE_LIMIT,
        1,
        "(a·r + 2^(14−s)) >> (15−s), r = min(q / 2^16 half up, 2^15 − 1): LiteRT's other sums of int16 by int8",
        max_shift=7,
    ),
    "away16": Contract(
        away,
        3 << 30,
        1 << 16,
        "a·(q / 2^16) / 2^(15−s), one rounding, half away from zero: NVDLA, multipliers of 16 bits",
    ),
}
"""The contracts by name; in their equations a is the accumulator, q the multiplier and s the shift of (2).

The limits follow from int64. For `single`, 3·2^30 · (2^31 − 1) + 2^61 < 2^63. The two-step contracts take an int32.
For `float_even`, 2^32 · 2^24 · 2^6 = 2^62. For `single64` and `away64`, 2^31 · 2^31 + 2^47 < 2^63, and the shift right
is at least 16 bits. For `reduced16`, 2^47 · 2^15; runtimes define it up to a shift of 7.
"""


def requantize(
    acc: Array, multiplier: npt.ArrayLike, shift: npt.ArrayLike, contract: str = "single", *, constant: float = 0.0
) -> Int64s:
    """Returns acc · M, rounded to integers by a contract; the caller adds the zero point and clamps.

    Args:
        acc: The accumulators, integers of any shape.
        multiplier: As in (2); a scalar or an array that broadcasts, such as one entry per channel of the last axis.
        shift: As in (2), likewise.
        contract: A name in `CONTRACTS`.
        constant: For a contract with `sums`, the float32 C that is added before rounding.

    Returns:
        int64, the shape of acc and multiplier broadcast together.

    Raises:
        NumericsError: An accumulator is beyond the contract's limit, or a multiplier or shift is outside (2).
    """
    rule = CONTRACTS[contract]
    m, s = np.broadcast_arrays(np.asarray(multiplier, np.int64), np.asarray(shift, np.int64))
    within = (m == 0) | ((m >= LEAST_MULTIPLIER) & (m <= MOST_MULTIPLIER))
    fits = within & (m % rule.step == 0) & (s >= MIN_SHIFT) & (s <= rule.max_shift)
    if not fits.all():
        where = int(np.argmin(fits.reshape(-1)))
        raise NumericsError(
            f"contract {contract} needs multipliers 0 or in [2^29, 2^31) that are multiples of {rule.step}, "
            f"and shifts in [{MIN_SHIFT}, {rule.max_shift}]",
            got=f"multiplier {m.reshape(-1)[where]}, shift {s.reshape(-1)[where]}",
        )
    a, m, s = np.broadcast_arrays(np.asarray(acc, np.int64), m, s)
    if a.size and (a.max() > rule.limit or a.min() < -rule.limit):
        raise NumericsError(f"contract {contract} needs accumulators within ±{rule.limit}", got=str(np.abs(a).max()))
    return float_sum(a, m, s, constant) if rule.sums else rule.compute(a, m, s)


def float_addition(lhs: Array, rhs: Array, ratios: tuple[float, float], constant: float) -> Int64s:
    """Returns rint(f32(lhs · r_l + f32(rhs · r_r + c))), two fused multiply-adds, half to even; any shapes, int64.

    lhs and rhs are integers below 2^16; r_l, r_r and c are float32. Each multiply-add is computed in float64 and
    rounded to float32. The product is exact in float64, and so is the sum unless the last bits of its terms are more
    than 2^13 apart.

    Args:
        lhs: The left operand.
        rhs: The right operand.
        ratios: (r_l, r_r), the factors of the operands.
        constant: c, the added constant.
    """
    inner = (rhs.astype(np.float64) * ratios[1] + constant).astype(np.float32)
    outer = (lhs.astype(np.float64) * ratios[0] + inner.astype(np.float64)).astype(np.float32)
    return np.rint(outer.astype(np.float64)).astype(np.int64)
