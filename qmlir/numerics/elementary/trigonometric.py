"""sin, cos, tan and their inverses, and the exact remainder."""

import math

from qmlir.numerics.elementary.exponential import EXPONENT_BIAS, FRACTION_BITS, FRACTION_MASK, horner
from qmlir.numerics.elementary.lanes import F64, I32, I64, N

# ---------------------------------------------------------------------------------------------------------------
# sin, cos, tan and their inverses, for arrays and for scalar kernels.
#
# The argument of sin, cos and tan is first reduced to r in [−π/4, π/4] and a quadrant. Below 1024, multiples of π/2 are
# subtracted in three parts. Above, the reduction is integer arithmetic on the bits of 1/(2π), exact for every f32.


TWO_OVER_PI = 2 / math.pi

HALF_PI: tuple[float, float, float] = (
    float.fromhex("0x1.921fb54400000p+0"),
    float.fromhex("0x1.0b4611a600000p-34"),
    float.fromhex("0x1.3198a2e037073p-69"),
)
"""π/2 as a sum of three parts, the first two of 33 bits or fewer: n times each of these is exact for |n| < 2^20."""

NEAR = 1024.0

INVERSE_TWO_PI: tuple[int, ...] = (
    0x00000000, 0x28BE60DB, 0x9391054A, 0x7F09D5F4, 0x7D4D3770, 0x36D8A566, 0x4F10E410, 0x7F9458EA,
)  # fmt: skip
"""The bits of 1/(2π) in 32-bit words: a word for the integer part, then the fraction."""

SIN_COEFFICIENTS: tuple[float, ...] = tuple((-1.0) ** k / math.factorial(2 * k + 1) for k in range(8, 0, -1))
"""Taylor coefficients of (sin(r)/r − 1)/r² in r², highest power first, for |r| ≤ π/4; truncation error < 2^-60."""

COS_COEFFICIENTS: tuple[float, ...] = tuple((-1.0) ** k / math.factorial(2 * k) for k in range(8, 0, -1))
"""Taylor coefficients of (cos(r) − 1)/r² in r², highest power first."""

_WORD = 0xFFFFFFFF


def _near(a: N) -> tuple[N, N]:
    """Returns (r, quadrant) for 0 ≤ a ≤ NEAR."""
    n = (a * TWO_OVER_PI).round_even()
    first, second, third = HALF_PI
    return ((a - n * first) - n * second) - n * third, n.to(I32).to(I64)


def _far(a: N) -> tuple[N, N]:
    """Returns (r, quadrant) for an a ≥ NEAR with 24 significant bits, as an f32 has.

    With a = m · 2^e and m of 24 bits, the fraction of a/(2π) is the fraction of m times the bits of 1/(2π) from bit e
    on.
    """
    bits = a.bits(I64)
    m = ((bits & FRACTION_MASK) | (1 << FRACTION_BITS)) >> (FRACTION_BITS - 23)
    place = (bits >> FRACTION_BITS) - (EXPONENT_BIAS + 23 - 32)
    first, shift = place >> 5, place & 31
    words = [_word(first, j, place) for j in range(4)]
    high, middle, low = (
        ((words[j] << 32) | words[j + 1]).logical_shift(32 - shift) & _WORD for j in range(3)
    )  # the three words from bit `place` on
    carried = m * middle + (m * low >> 32)
    fraction = ((m * high + carried.logical_shift(32)) << 32) | (carried & _WORD)  # of a turn, in units of 2^-64
    quadrant = (fraction + (1 << 61)).logical_shift(62)
    return (fraction - (quadrant << 62)).to(F64) * (math.pi * 2.0**-63), quadrant


def _word(first: N, j: int, like: N) -> N:
    """Returns INVERSE_TWO_PI[first + j] for first from 0 to 4."""
    word = like.same(INVERSE_TWO_PI[4 + j])
    for k in range(4):
        word = first.equals(k).choose(INVERSE_TWO_PI[k + j], word)
    return word


def _sine_and_cosine(a: N) -> tuple[N, N, N]:
    """Returns sin r, cos r and the quadrant for a ≥ 0; NaN for ∞ and NaN."""
    near, far = _near(a.minimum_number(NEAR)), _far(a)
    is_near = a.less(NEAR)
    r = is_near.choose(near[0], far[0]) + a * 0.0  # ∞ · 0 is NaN
    t = r * r
    sine = r + r * (t * horner(SIN_COEFFICIENTS, t))
    cosine = 1.0 + t * horner(COS_COEFFICIENTS, t)
    return sine, cosine, is_near.choose(near[1], far[1])


def _turned(x: N, turned: N) -> N:
    """Returns −x if bit 1 of the integer `turned` is set, else x."""
    return (turned & 2).equals(0).choose(x, x.negative())


def sin(x: N) -> N:
    """The sine, with a relative error < 2^-30 for every f32, and < 2^-48 except near multiples of π."""
    sine, cosine, quadrant = _sine_and_cosine(x.magnitude())
    y = _turned((quadrant & 1).equals(0).choose(sine, cosine), quadrant)
    return x.less(0.0).choose(y.negative(), x.equals(0.0).choose(x, y))


def cos(x: N) -> N:
    """The cosine, as accurate as `sin`."""
    sine, cosine, quadrant = _sine_and_cosine(x.magnitude())
    return _turned((quadrant & 1).equals(0).choose(cosine, sine), quadrant + 1)


def tan(x: N) -> N:
    """The tangent, as accurate as `sin`."""
    sine, cosine, quadrant = _sine_and_cosine(x.magnitude())
    even = (quadrant & 1).equals(0)
    y = even.choose(sine, cosine.negative()) / even.choose(cosine, sine)
    return x.less(0.0).choose(y.negative(), x.equals(0.0).choose(x, y))


ATAN_COEFFICIENTS: tuple[float, ...] = tuple((-1.0) ** k / (2 * k + 1) for k in range(12, 0, -1))
"""Taylor coefficients of (atan(t)/t − 1)/t² in t², highest power first, for t ≤ tan(π/16); truncation error < 2^-60."""


def atan(x: N) -> N:
    """The arc tangent, relative error < 2^-48.

    An argument above 1 is replaced by its reciprocal, whose angle is the complement. The angle is then halved twice:
    tan(α/2) = t / (1 + √(1 + t²)).
    """
    a = x.magnitude()
    steep = a.same(1.0).less(a)
    t = steep.choose(1.0 / a, a)
    for _ in range(2):
        t = t / (1.0 + (1.0 + t * t).square_root())
    square = t * t
    y = 4.0 * (t + t * (square * horner(ATAN_COEFFICIENTS, square)))
    return steep.choose(math.pi / 2 - y, y).with_sign_of(x)


def asin(x: N) -> N:
    """The arc sine, relative error < 2^-47; NaN beyond ±1."""
    return atan(x / ((1.0 - x) * (1.0 + x)).square_root())


def acos(x: N) -> N:
    """The arc cosine, relative error < 2^-47; NaN beyond ±1."""
    return 2.0 * atan(((1.0 - x) / (1.0 + x)).square_root())


# ---------------------------------------------------------------------------------------------------------------
# The exact remainder of two f32, for arrays and for scalar kernels.


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
