"""The remainder of two floats, exact, for scalars."""

import math

from qmlir.dialects.elementary.lanes import N

STEP = 28
"""Bits of the quotient found at a time: times the 24 bits of an f32 they are exact in f64."""

STEPS = 10
"""Two f32 are at most 277 powers of two apart, the subnormal ones among them."""


def float_remainder(a: N, b: N) -> N:
    """What a division of two f32, given as f64, leaves when its quotient is rounded toward zero; a's sign.

    NaN for a divisor of 0 and a dividend of ∞. Long division with digits of 28 bits: each product and each difference
    is exact, and a digit that is one too large or too small is put right.
    """
    rest, divisor = a.magnitude(), b.magnitude()
    finite = divisor.minimum_number(2.0**128)
    for step in range(STEPS - 1, -1, -1):
        place = finite * 2.0 ** (STEP * step)
        rest = rest - (rest / place).floor() * place
        rest = rest.less(0.0).choose(rest + place, rest)
        rest = place.less_equal(rest).choose(rest - place, rest)
    rest = a.magnitude().less(divisor).choose(a.magnitude(), rest)
    unreal = divisor.equals(0.0) | a.magnitude().equals(math.inf) | divisor.is_nan() | a.is_nan()
    return unreal.choose(math.nan, rest).with_sign_of(a)


def floored_remainder(rest: N, b: N) -> N:
    """The remainder with the divisor's sign: that of a quotient rounded down."""
    moved = (rest.less(0.0) ^ b.less(0.0)).choose(rest + b, rest)
    return rest.equals(0.0).choose(rest.with_sign_of(b), moved)
