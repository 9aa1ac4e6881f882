"""Arithmetic that the units of NVDLA have in common: shifts that round, saturation, bits with a sign."""

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def signed(value: int, bits: int) -> int:
    """Returns the lowest bits of a value as a number with a sign.

    >>> signed(0xFFFE, 16)
    -2
    """
    value &= (1 << bits) - 1
    return value - (value >> bits - 1 << bits)


def wrapped(x: Ints, bits: int) -> Ints:
    """Returns the lowest bits of each number, with their sign."""
    half = 1 << bits - 1
    return (x + half & (1 << bits) - 1) - half


def saturated(x: Ints, bits: int) -> Ints:
    """Returns the numbers within what `bits` with a sign can hold."""
    return x.clip(-(1 << bits - 1), (1 << bits - 1) - 1)


def rounded(x: Ints, shift: int) -> Ints:
    """Returns x / 2^shift, halves away from zero; the numbers have fewer than 62 bits, the shift is 0 to 63.

    >>> rounded(np.array([5, -5, 6, -7]), 1)
    array([ 3, -3,  3, -4])
    """
    if shift == 0:
        return x
    # Past 61 bits nothing is left of the numbers that units shift, and their sum with a half would not fit.
    return (x + (1 << shift - 1) - (x < 0)) >> shift if shift < 62 else np.zeros_like(x)
