"""Fractions as integers, the way gemmlowp computes with them: on i64, for arrays and for kernels (lanes.py).

Q(n) is a number with n bits before the point and 31 − n behind it, beside its sign: 1 is 2^(31 − n).
"""

from qmlir.dialects.elementary.lanes import N

ONE = (1 << 31) - 1
"""1 in Q(0), as near as there is."""

ROOT_OF_HALF = 1518500250
"""√½ in Q(0)."""


def product(a: N, b: N | int) -> N:
    """a · b / 2^31, half up: of Q(m) and Q(n) a Q(m + n)."""
    return (a * b + (1 << 30)) >> 31


def half_away(x: N, bits: N | int) -> N:
    """x · 2^−bits, half away from zero, for bits ≥ 0; below zero halves go down."""
    mask = (x.same(1) << bits) - 1
    rest, threshold = x & mask, mask.logical_shift(1) - (x >> 63)
    return (x >> bits) + (threshold - rest).logical_shift(63)


def half_away_by_processor(x: N, bits: N) -> N:
    """`half_away` of 32 bits as compiled code has it, which shifts by `bits` modulo 32, whatever their sign.

    Where the sixth bit of `bits` is set, the mask of the bits that are shifted out is −1. What is left of x is then one
    more for x ≥ 0. C++ leaves shifts by 32 and more open; processors of x86-64 and AArch64 shift so.
    """
    near = bits & 31
    return (bits & 32).equals(0).choose(half_away(x, near), (x >> near) + ((x >> 63) + 1))


def saturated(x: N) -> N:
    """x as 32 bits hold it."""
    return x.maximum(-(1 << 31)).minimum(ONE)


def leading_zeros(x: N) -> N:
    """How many of 32 bits are 0 before the first 1, for x in [1, 2^32)."""
    zeros, shifted = x.same(0), x
    for bits in (16, 8, 4, 2, 1):
        none = shifted.logical_shift(32 - bits).equals(0)
        zeros = none.choose(zeros + bits, zeros)
        shifted = none.choose(shifted << bits, shifted)
    return zeros


def reciprocal_of_one_plus(x: N) -> N:
    """1 / (1 + x) in Q(0) for an x in [0, 1), Q(0): three steps of Newton's method on half the divisor."""
    half_divisor = (x + ONE + 1) >> 1
    y = product(half_divisor, -1010580540) + 1515870810  # 48/17 − 32/17 · d, Q(2)
    for _ in range(3):
        rest = (1 << 29) - product(half_divisor, y)
        y = y + saturated(product(y, rest) << 2)
    return saturated(y << 1)


def reciprocal_of_sum(total: N, integer_bits: int) -> tuple[N, N]:
    """(r, b) with 1 / total = r · 2^−b, r in Q(0), for a total of at least 1 in Q(`integer_bits`)."""
    zeros = leading_zeros(total)
    fraction = (total << zeros) - (1 << 31)
    return reciprocal_of_one_plus(fraction), integer_bits - zeros


def quotient(x: N, y: N, multiplier: int, shift: int, *, wraps: bool = False) -> N:
    """x / y · M for 32-bit integers and M = multiplier · 2^(shift − 31): 1 / y by three steps of Newton's method.

    x is moved left as far as it goes; its product with 1 / y is rounded half up, and so is that one's with the
    multiplier; what is left of the shifts rounds half away from zero. By 0 it is ±2^31 with the sign of x, and 0 of 0.

    With `wraps` the last shift is a processor's: quotients below a half may then be anything, 0 among them.
    """
    dividend = y.less(0).choose(x.negative(), x)
    inverse, bits = reciprocal_of_sum(y.magnitude().maximum(1), 31)
    spare = leading_zeros((dividend ^ (dividend >> 63)) * 2 + 1)
    scaled = product(product(dividend << spare, inverse), multiplier)
    down = spare + bits - shift
    if wraps:
        found = half_away_by_processor(scaled, down)
    else:
        found = half_away(scaled, down.maximum(0).minimum(62)) << down.negative().maximum(0).minimum(31)
    return y.equals(0).choose(x.maximum(-1).minimum(1) << 31, found)


def inverse_root(x: N) -> tuple[N, N]:
    """(r, b) with 1 / √x = r · 2^(−31 − b), b ≥ 0, for an x in [1, 2^31): five steps of Newton's method from 1.

    They run on x · 4^n in [1/2, 2), Q(3).
    """
    far = x.same((1 << 29) - 1).less(x)
    near = far.choose(x >> 2, x)
    pairs = ((leading_zeros(near) - 1) >> 1) - 1
    half = half_away((near << (pairs << 1)) >> 1, 1)
    y = x.same(1 << 28)
    for _ in range(5):
        cube = saturated(product(product(y, y), y) << 6)
        y = saturated((product(y, 3 << 27) - product(half, cube)) << 3)
    y, shift = product(y, ROOT_OF_HALF), far.choose(12 - pairs, 11 - pairs)
    above, one = shift.same(0).less(shift), x.equals(1)
    root = above.choose(y, y << shift.negative().maximum(0))
    return one.choose(ONE, root), one.choose(0, shift.maximum(0))


BARREL = ((-2, 1672461947), (-1, 1302514674), (0, 790015084), (1, 290630308), (2, 39332535), (3, 720401), (4, 242))
"""(k, exp(−2^k) in Q(0))."""


def exponential(x: N, integer_bits: int) -> N:
    """e^x in Q(0) for x ≤ 0 in Q(`integer_bits`): a polynomial on the last quarter below 0, times e^(−2^k)."""
    behind = 31 - integer_bits
    quarter = 1 << behind - 2
    rest = (x & (quarter - 1)) - quarter
    y = _near_zero(saturated(rest << integer_bits))
    whole = rest - x
    for k, factor in BARREL:
        if k < integer_bits:
            there = (whole >> behind + k) & 1
            y = there.equals(1).choose(product(y, factor), y)
    return x.equals(0).choose(ONE, y)


def _near_zero(x: N) -> N:
    """e^x for x in [−1/4, 0), Q(0): e^(−1/8) times the series of e^(x + 1/8) up to the fourth power."""
    z = x + (1 << 28)
    square = product(z, z)
    cube, fourth = product(square, z), product(square, square)
    third = 715827883
    series = half_away(product(half_away(fourth, 2) + cube, third) + square, 1)
    at_eighth = 1895147668
    return product(z + series, at_eighth) + at_eighth


def logarithm(x: N, integer_bits: N | int) -> N:
    """ln x in Q(5) for an x of at least 1 in Q(`integer_bits`): e · ln 2 + ln(r · 2^(1/4)), r in [√½, 1].

    r is x · 2^n or x · 2^n · √½, whichever is less, and e accordingly a quarter more or less than an integer. The
    second logarithm is a quotient of polynomials in r − 2^(−1/4). Computed in Q(6).
    """
    behind, quarter = 25, 1 << 23
    zeros, upper = leading_zeros(x), leading_zeros(product(x, ROOT_OF_HALF)) - 1
    lowered = saturated(product(x << zeros - 1, ROOT_OF_HALF) << 1)
    r = lowered.minimum(saturated(x << upper))
    first, second = (integer_bits - zeros) << behind, (integer_bits - upper) << behind
    exponent = (first + quarter).maximum(second - quarter)
    centre = 1805811301  # 2^(−1/4)
    mean, q = (r + (centre + 1)) >> 1, (r - centre) << 1
    square = product(q, q)
    dividend = product(q, r) + product(product(q, square), 117049297)
    divisor = product(mean, q + 1057819769 + product(square, 127690142)) + product(q, 638450708)
    quotient = product(half_away(dividend, 6), reciprocal_of_one_plus(divisor))
    ln2 = 1488522236
    return saturated((product(exponent, ln2) + quotient) << 1)
