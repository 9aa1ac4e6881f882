"""gemmlowp's fixed-point functions: fractions as integers on i64, for arrays and for kernels (lanes.py).

A number in Q(n) has a sign, n integer bits and 31 − n fractional bits: 1 is stored as 2^(31 − n). Functions with a
parameter `bits` also compute on numbers of 16 bits, which have `bits` = 15 instead of 31 bits beside the sign.
"""

from qmlir.numerics.elementary.lanes import N

ONE = (1 << 31) - 1
"""The largest number in Q(0), which stands for 1."""

LOGARITHM_BITS = 26
"""The number of fraction bits of logarithms of sums."""

ROOT_OF_HALF = 1518500250
"""√½ in Q(0)."""


WORD, HALF_WORD = 31, 15
"""The bits beside the sign of numbers of 32 bits and of 16 bits."""


def product(a: N, b: N | int, bits: int = WORD) -> N:
    """Returns a · b / 2^bits, rounded half up: the product of a Q(m) and a Q(n) in Q(m + n)."""
    return (a * b + (1 << bits - 1)) >> bits


def fraction(value: int, bits: int) -> int:
    """Returns a constant of 32 bits as one of `bits` bits beside the sign, rounded half away from zero."""
    dropped = WORD - bits
    magnitude = abs(value) + ((1 << dropped) >> 1) >> dropped
    return magnitude if value >= 0 else -magnitude


def half_away(x: N, bits: N | int) -> N:
    """Returns x · 2^−bits, rounded half away from zero, for bits ≥ 0."""
    mask = (x.same(1) << bits) - 1
    rest, threshold = x & mask, mask.logical_shift(1) - (x >> 63)
    return (x >> bits) + (threshold - rest).logical_shift(63)


def half_away_by_processor(x: N, bits: N) -> N:
    """Returns `half_away` of a 32-bit x as compiled code computes it, with shifts by `bits` modulo 32, of any sign.

    C++ leaves shifts by 32 and more undefined; x86-64 and AArch64 processors shift modulo 32. If bit 5 of `bits` is
    set, the mask of the dropped bits is −1, and the result for x ≥ 0 is the shifted x plus 1.
    """
    near = bits & 31
    return (bits & 32).equals(0).choose(half_away(x, near), (x >> near) + ((x >> 63) + 1))


def saturated(x: N, bits: int = WORD) -> N:
    """Returns x saturated to a sign and `bits` bits."""
    return x.maximum(-(1 << bits)).minimum((1 << bits) - 1)


def leading_zeros(x: N) -> N:
    """Returns the number of leading zeros in 32 bits, for x in [1, 2^32)."""
    zeros, shifted = x.same(0), x
    for bits in (16, 8, 4, 2, 1):
        none = shifted.logical_shift(32 - bits).equals(0)
        zeros = none.choose(zeros + bits, zeros)
        shifted = none.choose(shifted << bits, shifted)
    return zeros


def _twice_the_reciprocal(x: N, bits: int) -> N:
    """Returns 2 / (1 + x) in Q(2) for an x of Q(0) in [0, 1), by three steps of Newton's method on half the divisor."""
    half_divisor = (x + (1 << bits)) >> 1
    y = product(half_divisor, fraction(-1010580540, bits), bits) + fraction(1515870810, bits)  # 48/17 − 32/17 · d
    for _ in range(3):
        rest = (1 << bits - 2) - product(half_divisor, y, bits)
        y = y + saturated(product(y, rest, bits) << 2, bits)
    return y


def reciprocal_of_one_plus(x: N, bits: int = WORD) -> N:
    """Returns 1 / (1 + x) in Q(0) for an x of Q(0) in [0, 1)."""
    return saturated(_twice_the_reciprocal(x, bits) << 1, bits)


def reciprocal_of_sum(total: N, integer_bits: int) -> tuple[N, N]:
    """Returns (r, b) with 1 / total = r · 2^−b, r in Q(0), for a total ≥ 1 in Q(`integer_bits`)."""
    zeros = leading_zeros(total)
    fraction = (total << zeros) - (1 << 31)
    return reciprocal_of_one_plus(fraction), integer_bits - zeros


def quotient(x: N, y: N, multiplier: int, shift: int, *, wraps: bool = False) -> N:
    """Returns x / y · M for 32-bit integers and M = multiplier · 2^(shift − 31).

    1 / y is computed by three steps of Newton's method. x is shifted left as far as 32 bits allow. Its product with
    1 / y is rounded half up, and so is the product of that with the multiplier. The remaining shift rounds half away
    from zero. For y = 0 the result is ±2^31 with the sign of x, or 0 if x = 0.

    With `wraps`, the last shift is modulo 32 as a processor's (`half_away_by_processor`): results whose magnitude is
    below a half may then be wrong.
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
    """Returns (r, b) with 1 / √x = r · 2^(−31 − b), b ≥ 0, for an x in [1, 2^31).

    The function takes five steps of Newton's method from the start 1, on x · 4^n in [1/2, 2), Q(3).
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
"""Pairs of k and exp(−2^k) in Q(0): the factors by which `exponential` multiplies for each set bit of its argument."""


MOST_NEGATIVE = 32
"""The magnitude from which on e^x of a negative x is 0, where Q(n) has such numbers."""


def exponential(x: N, integer_bits: int, bits: int = WORD) -> N:
    """Returns e^x in Q(0) for x ≤ 0 in Q(`integer_bits`).

    The result is a polynomial on [−1/4, 0), multiplied by e^(−2^k) for each bit k of the remaining argument.
    """
    behind = bits - integer_bits
    quarter = 1 << behind - 2
    rest = (x & (quarter - 1)) - quarter
    y = _near_zero(saturated(rest << integer_bits, bits), bits)
    whole = rest - x
    for k, factor in BARREL:
        if k < integer_bits:
            there = (whole >> behind + k) & 1
            y = there.equals(1).choose(product(y, fraction(factor, bits), bits), y)
    if 1 << integer_bits > MOST_NEGATIVE:
        y = x.less(-(MOST_NEGATIVE << behind)).choose(0, y)
    return x.equals(0).choose((1 << bits) - 1, y)


def _near_zero(x: N, bits: int) -> N:
    """Returns e^x for x in [−1/4, 0), Q(0): e^(−1/8) times the series of e^(x + 1/8) up to the fourth power."""
    z = x + (1 << bits - 3)
    square = product(z, z, bits)
    cube, fourth = product(square, z, bits), product(square, square, bits)
    third = fraction(715827883, bits)
    series = half_away(product(half_away(fourth, 2) + cube, third, bits) + square, 1)
    at_eighth = fraction(1895147668, bits)
    return saturated(product(z + series, at_eighth, bits) + at_eighth, bits)


def logistic(x: N, integer_bits: int, bits: int = WORD) -> N:
    """Returns 1 / (1 + e^−x) in Q(0) for an x in Q(`integer_bits`)."""
    positive = reciprocal_of_one_plus(exponential(_not_above_zero(x), integer_bits, bits), bits)
    y = x.less(0).choose((1 << bits) - 1 - positive, positive)
    return x.equals(0).choose(1 << bits - 1, y)


def hyperbolic_tangent(x: N, integer_bits: int, bits: int = WORD) -> N:
    """Returns tanh x in Q(0) for an x in Q(`integer_bits`), from e^(−2·|x|): x in Q(`integer_bits` + 1) is 2·x."""
    e = exponential(_not_above_zero(x), integer_bits + 1, bits)
    magnitude = saturated(_twice_the_reciprocal(e, bits) - (1 << bits - 2) << 2, bits)
    return x.equals(0).choose(0, x.less(0).choose(magnitude.negative(), magnitude))


def _not_above_zero(x: N) -> N:
    """Returns −|x|."""
    return x.minimum(x.negative())


def logarithm(x: N, integer_bits: N | int) -> N:
    """Returns ln x in Q(5) for an x ≥ 1 in Q(`integer_bits`), as e · ln 2 + ln(r · 2^(1/4)) with r in [√½, 1].

    r is the lesser of x · 2^n and x · 2^n · √½; e is accordingly an integer plus or minus a quarter. The second
    logarithm is a quotient of polynomials in r − 2^(−1/4). The exponent e is computed in Q(6).
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
