"""The exact remainder of two f32, for arrays and for scalar kernels."""

import math

from qmlir.numerics.elementary.lanes import N

STEP = 28
"""Bits of the quotient found in each step: their product with the 24 bits of an f32 is exact in f64."""

STEPS = 10
"""The number of steps: two f32, subnormal ones included, are at most 277 powers of two apart."""


def float_remainder(a: N, b: N) -> N:
    """Returns the remainder of two f32, given as f64, for a quotient rounded toward zero; it has the sign of a.

    The result is NaN for a divisor of 0 and for a dividend of ∞. The function is a long division with digits of 28
    bits: each product and each difference is exact, and a digit that is off by 1 is corrected.
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
    """Turns a result of `float_remainder` into the remainder of a quotient rounded down, with the divisor's sign."""
    moved = (rest.less(0.0) ^ b.less(0.0)).choose(rest + b, rest)
    return rest.equals(0.0).choose(rest.with_sign_of(b), moved)
