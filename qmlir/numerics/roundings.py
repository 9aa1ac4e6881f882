"""Roundings of a · multiplier · 2^(shift − 31): a function for each way in which runtimes round it, on int64.

The contract of each function (fixed_point.py) states which accumulators, multipliers and shifts it takes without
overflow.
"""

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]

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
