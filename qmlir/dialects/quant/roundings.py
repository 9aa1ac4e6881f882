"""a · multiplier · 2^(shift − 31), rounded in each of the ways that runtimes do: one function for each, on int64.

What each takes without an overflow is said by its contract (numerics.py).
"""

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]

MULTIPLIER_BITS = 31


def half_up(value: Int64s, bits: Int64s | int) -> Int64s:
    """value · 2^-bits rounded half up (toward +∞), for bits ≥ 0."""
    # Adding half before the shift; for bits = 0 the half is 0.
    half = np.left_shift(np.int64(1), bits) >> 1
    return (value + half) >> bits


def half_away(value: Int64s, bits: Int64s) -> Int64s:
    """value · 2^-bits rounded half away from zero, for bits ≥ 0: gemmlowp's RoundingDivideByPOT."""
    mask = np.left_shift(np.int64(1), bits) - 1
    return (value >> bits) + ((value & mask) > (mask >> 1) + (value < 0)).astype(np.int64)


def half_even(value: Int64s, bits: Int64s) -> Int64s:
    """value · 2^-bits rounded half to even, for bits in [0, 62]."""
    floor = value >> bits
    twice_rest = (value - (floor << bits)) << 1
    one = np.left_shift(np.int64(1), bits)
    # One more where the rest is above half, or is half (never for bits = 0) and the floor is odd.
    return floor + ((twice_rest > one) | ((twice_rest == one) & (floor & 1 == 1))).astype(np.int64)


def left(a: Int64s, shift: Int64s) -> Int64s:
    """a · 2^max(shift, 0), saturated to int32 as the two-step contracts need it.

    Exact first: |a| ≤ 2^31 and shift ≤ 30 stay within int64. The saturation is ours: TFLite leaves it undefined. It
    cannot be seen after a clamp to 29 bits or fewer, as M ≥ 2^(shift − 2).
    """
    return np.clip(a << np.maximum(shift, 0), -(1 << 31), (1 << 31) - 1)


def single(a: Int64s, multiplier: Int64s, shift: Int64s) -> Int64s:
    """One rounding, half up."""
    return half_up(a * multiplier, MULTIPLIER_BITS - shift)


def double(a: Int64s, multiplier: Int64s, shift: Int64s) -> Int64s:
    """Two roundings: half up to the high half of the product, then half away from zero."""
    # gemmlowp's high multiplication rounds half up, also below zero; only its division rounds half away.
    return half_away(half_up(left(a, shift) * multiplier, MULTIPLIER_BITS), np.maximum(-shift, 0))


def away(a: Int64s, multiplier: Int64s, shift: Int64s) -> Int64s:
    """One rounding, half away from zero."""
    return half_away(a * multiplier, MULTIPLIER_BITS - shift)


def upup(a: Int64s, multiplier: Int64s, shift: Int64s) -> Int64s:
    """Two roundings, half up."""
    return half_up(half_up(left(a, shift) * multiplier, MULTIPLIER_BITS), np.maximum(-shift, 0))


def updown(a: Int64s, multiplier: Int64s, shift: Int64s) -> Int64s:
    """Half up to the high half of the product, then down."""
    return half_up(left(a, shift) * multiplier, MULTIPLIER_BITS) >> np.maximum(-shift, 0)


def bit_length(value: Int64s) -> Int64s:
    """Bits of each value ≥ 0: 0 for 0, 1 for 1, 2 for 2 and 3, …"""
    # The exponent of the value as float64; without the bit below the first, rounding cannot carry into the next one.
    return np.frexp((value & ~(value >> 1)).astype(np.float64))[1].astype(np.int64)


def to_significand(value: Int64s) -> Int64s:
    """Each value rounded to 24 significant bits, half to even: its float32, as an integer."""
    dropped = np.maximum(bit_length(np.abs(value)) - 24, 0)
    return half_even(value, dropped) << dropped


def float_even(a: Int64s, multiplier: Int64s, shift: Int64s) -> Int64s:
    """rint(float32(a) · float32(M)), half to even."""
    # M = (multiplier / 2^7) · 2^(shift − 24): significands of 24 bits, whose product of 48 is exact.
    product = to_significand(to_significand(a) * (multiplier >> 7))
    exponent = shift - 24
    return half_even(product << np.maximum(exponent, 0), np.maximum(-exponent, 0))


def float_sum(a: Int64s, multiplier: Int64s, shift: Int64s, constant: float = 0.0) -> Int64s:
    """rint(float32(float32(a) · float32(M)) + constant), the sum in float32."""
    # Products of two 24-bit significands are exact in float64, and sums of two float32 have bits enough to round twice.
    factor = np.ldexp(multiplier.astype(np.float64), shift - MULTIPLIER_BITS)
    product = (to_significand(a).astype(np.float64) * factor).astype(np.float32)
    total = (product.astype(np.float64) + constant).astype(np.float32)
    return np.rint(total).astype(np.int64)


def single64(a: Int64s, multiplier: Int64s, shift: Int64s) -> Int64s:
    """`single` of accumulators of 48 bits."""
    # a = high · 2^16 + low: the product's low 16 bits only matter by what they carry, after half was added to them.
    bits = MULTIPLIER_BITS - shift
    high, low = a >> 16, a & 0xFFFF
    half = np.left_shift(np.int64(1), bits - 1)
    return (high * multiplier + (low * multiplier + half >> 16)) >> (bits - 16)


def away64(a: Int64s, multiplier: Int64s, shift: Int64s) -> Int64s:
    """`away` of accumulators of 48 bits."""
    # Half up of the magnitude is half away of the number.
    return np.where(a < 0, -1, 1) * single64(np.abs(a), multiplier, shift)


def reduced16(a: Int64s, multiplier: Int64s, shift: Int64s) -> Int64s:
    """One rounding, half up, by a multiplier of which 16 bits are left."""
    reduced = np.minimum(multiplier + (1 << 15) >> 16, (1 << 15) - 1)
    return half_up(a * reduced, 15 - shift)
