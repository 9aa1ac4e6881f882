"""exp, log, and functions built from them: powers, hyperbolic functions, sigmoid, softplus, erf."""

import math
from collections.abc import Callable

from qmlir.numerics.elementary.lanes import F64, I32, I64, N

# ---------------------------------------------------------------------------------------------------------------
# exp, sigmoid and tanh use neither comparisons nor `choose`, so vector kernels can use them; the other functions are
# for arrays and for scalar kernels.


EXPONENT_BIAS, FRACTION_BITS = 1023, 52
ONE_BITS = EXPONENT_BIAS << FRACTION_BITS
FRACTION_MASK = (1 << FRACTION_BITS) - 1

LOG2_E = float.fromhex("0x1.71547652b82fep+0")

LN2_HIGH = float.fromhex("0x1.62e42fee00000p-1")
"""The leading 33 bits of ln 2: n · LN2_HIGH is exact for |n| < 2^20."""

LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
"""ln 2 − LN2_HIGH."""

EXP_LOWEST, EXP_HIGHEST = -708.0, 709.0
"""The range to which `exp` clamps its argument, so that 2^n and the result stay normal numbers."""

EXP_COEFFICIENTS: tuple[float, ...] = tuple(1.0 / math.factorial(k) for k in range(13, -1, -1))
"""Taylor coefficients of exp(r), |r| ≤ ln 2 / 2, highest power first: 1/13!, …, 1/2!, 1, 1; truncation < 2^-57."""


def horner(coefficients: tuple[float, ...], x: N) -> N:
    """Evaluates a polynomial by Horner's scheme, highest power first; products and sums are rounded separately."""
    total = x.same(coefficients[0])
    for coefficient in coefficients[1:]:
        total = total * x + coefficient
    return total


def horner_by_four(coefficients: tuple[float, ...], x: N) -> N:
    """Evaluates a polynomial as four polynomials in x⁴, side by side: a processor need not wait for each result.

    (q0 + x·q1) + x²·(q2 + x·q3), where q_j has each fourth coefficient, from that of x^j on; highest power first.
    """
    square = x * x
    fourth = square * square
    parts = [coefficients[(len(coefficients) - 1 - j) % 4 :: 4] for j in range(4)]
    totals = [x.same(part[0]) for part in parts]
    for i in range(1, max(map(len, parts))):
        totals = [t * fourth + p[i] if i < len(p) else t for t, p in zip(totals, parts, strict=True)]
    return (totals[0] + x * totals[1]) + square * (totals[2] + x * totals[3])


def exp(x: N) -> N:
    """e^x in float64, within 1.2 ulp for x in [−708, 709], clamped to that range beyond; NaN stays NaN.

    c = x > −708 ? x : −708;  c = c < 709 ? c : 709
    n = rint(c · LOG2_E)                                half to even
    r = (c − n · LN2_HIGH) − n · LN2_LOW
    p = EXP_COEFFICIENTS[0];  p = p · r + k             for each further coefficient k
    y = p · 2^n                                         2^n is the float64 with exponent bits n + 1023
    result = x == x ? y : x
    """
    return _exp(x, horner)


def exp_by_four(x: N) -> N:
    """e^x as `exp` computes it, but with its polynomial by `horner_by_four`: faster, within 2.5 ulp."""
    return _exp(x, horner_by_four)


def _exp(x: N, polynomial: Callable[[tuple[float, ...], N], N]) -> N:
    c = x.maximum_number(EXP_LOWEST).minimum_number(EXP_HIGHEST)  # NaN becomes EXP_LOWEST here and NaN at the end
    n = (c * LOG2_E).round_even()
    r = (c - n * LN2_HIGH) - n * LN2_LOW
    p = polynomial(EXP_COEFFICIENTS, r)
    power = ((n.to(I32).to(I64) + EXPONENT_BIAS) << FRACTION_BITS).bits(F64)
    return (p * power).maximum(x.minimum(-1.0))  # p · 2^n > 0, so this maximum only matters for a NaN


def exp_unbounded(x: N) -> N:
    """e^x as the square of e^(x/2), within 3.5 ulp; 0 and ∞ beyond float64's range."""
    half = exp(x * 0.5)
    return half * half


EXPM1_SMALL = 0.5
EXPM1_COEFFICIENTS: tuple[float, ...] = tuple(1.0 / math.factorial(k) for k in range(15, 1, -1))
"""Taylor coefficients of (exp(x) − 1 − x) / x², highest power first, for |x| < 1/2; truncation error < 2^-60."""


def expm1(x: N) -> N:
    """e^x − 1, within 4 ulp, for small x too."""
    series = x + x * x * horner(EXPM1_COEFFICIENTS, x)
    return x.magnitude().less(EXPM1_SMALL).choose(series, exp_unbounded(x) - 1.0)


def sigmoid(x: N) -> N:
    """The logistic function 1 / (1 + exp(0 − x)), within 2.5 ulp, for tiny results too; NaN stays NaN."""
    return 1.0 / (1.0 + exp(0.0 - x))


TANH_SMALL = 2.0**-12
"""The square of the argument below which `tanh` uses its series, because e − 1 would lose the leading bits."""

TANH_COEFFICIENTS: tuple[float, ...] = (62 / 2835, -17 / 315, 2 / 15, -1 / 3)
"""Taylor coefficients of (tanh(x)/x − 1) / t in t = x², highest power first."""


def tanh(x: N) -> N:
    """The hyperbolic tangent in float64, relative error below 2^-46; NaN stays NaN.

    t = x · x
    s = TANH_COEFFICIENTS[0];  s = s · t + k            for each further coefficient k
    small = x · (s · t) + x
    e = exp(2 · x)
    result = t < 2^-12 ? small : (e − 1) / (e + 1)
    """
    t = x * x
    small = x * (horner(TANH_COEFFICIENTS, t) * t) + x
    e = exp(2.0 * x)
    ratio = (e - 1.0) / (e + 1.0)
    # t is not negative, so its bits compare as its value; a NaN's are large or negative, and both branches are NaN.
    is_small = (t.bits(I64) - t.same(TANH_SMALL).bits(I64)) >> 63
    return ((small.bits(I64) & is_small) | (ratio.bits(I64) & (is_small ^ -1))).bits(F64)


LOG_COEFFICIENTS: tuple[float, ...] = tuple(2.0 / (2 * k + 1) for k in range(12, 0, -1))
"""Coefficients 2/25, …, 2/5, 2/3 of log((1 + s)/(1 − s)) = 2·s + s·t·(2/3 + 2/5·t + …); highest power first.

t = s² < 0.0295; truncation error < 2^-60.
"""

SMALLEST_NORMAL = 2.0**-1022
SUBNORMAL_SHIFT = 54


def log(x: N) -> N:
    """The natural logarithm, within 2 ulp; −∞ for 0, NaN for negative numbers.

    x = 2^n · m, m in (√½, √2];  s = (m − 1)/(m + 1);  t = s²
    result = n · LN2_HIGH + (2·s + (s·t·P(t) + n · LN2_LOW))
    """
    subnormal = x.less(SMALLEST_NORMAL)
    scaled = subnormal.choose(x * 2.0**SUBNORMAL_SHIFT, x)
    bits = scaled.bits(I64)
    exponent = (bits >> FRACTION_BITS) - EXPONENT_BIAS
    m = ((bits & FRACTION_MASK) | ONE_BITS).bits(F64)
    upper = m.same(math.sqrt(2)).less(m)
    m = upper.choose(m * 0.5, m)
    n = exponent.to(I32).to(F64) + upper.to(I32).to(F64)
    n = subnormal.choose(n - float(SUBNORMAL_SHIFT), n)
    s = (m - 1.0) / (m + 1.0)
    t = s * s
    y = n * LN2_HIGH + (2.0 * s + (s * (t * horner(LOG_COEFFICIENTS, t)) + n * LN2_LOW))
    y = x.less(math.inf).choose(y, x)  # ∞ and NaN
    return x.less_equal(0.0).choose(x.equals(0.0).choose(-math.inf, y.same(math.nan) + y), y)


def log1p(x: N) -> N:
    """log(1 + x), within 4 ulp, for small x too."""
    u = 1.0 + x
    lost = (x - (u - 1.0)) / u  # NaN for x = −1 and x = ∞, where u is exact
    y = log(u)
    return lost.is_nan().choose(y, y + lost)


def softplus(x: N) -> N:
    """softplus: log(1 + e^x)."""
    return x.maximum(0.0) + log1p(exp(0.0 - x.magnitude()))


POWER_ERROR = 2.0**-42


def power(x: N, y: N) -> N:
    """x^y as in C: NaN for a negative base unless the exponent is a whole number; relative error < 2^-41.

    If a result is within a relative 2^-42 of a whole number below 2^40, the result is that number, so that whole
    powers of whole numbers are exact.
    """
    result = exp_unbounded(y * log(x.magnitude()))
    nearest = result.minimum_number(2.0**40).round_even()
    result = (result - nearest).magnitude().less(nearest * POWER_ERROR).choose(nearest, result)
    half = y * 0.5
    whole, even = y.floor().equals(y), half.floor().equals(half)
    below = x.less(0.0)
    odd = whole & (even ^ 1)
    signed = (x.bits(I64).less(0) & odd).choose(result.negative(), result)  # includes −0
    unreal = below & (whole ^ 1) & y.magnitude().less(math.inf) & x.magnitude().less(math.inf)
    signed = unreal.choose(math.nan, signed)
    unit = x.equals(1.0) | y.equals(0.0) | (x.equals(-1.0) & y.magnitude().equals(math.inf))
    return unit.choose(1.0, signed)


def sinh(x: N) -> N:
    """The hyperbolic sine (e^x − e^−x) / 2, relative error < 2^-49."""
    a = x.magnitude()
    e = expm1(a)
    small = 0.5 * (e + e / (e + 1.0))
    half = exp(a * 0.5)
    large = (0.5 * half) * half - 0.5 / half / half
    return a.less(1.0).choose(small, large).with_sign_of(x)


def cosh(x: N) -> N:
    """The hyperbolic cosine (e^x + e^−x) / 2, relative error < 2^-50."""
    half = exp(x.magnitude() * 0.5)
    return (0.5 * half) * half + 0.5 / half / half


HUGE = 2.0**28
"""The argument above which 1 is negligible beside its square."""


def asinh(x: N) -> N:
    """The inverse hyperbolic sine log(x + √(x² + 1)), relative error < 2^-49."""
    a = x.magnitude()
    square = a * a
    y = log1p(a + square / (1.0 + (square + 1.0).square_root()))
    return a.less(HUGE).choose(y, log(a) + math.log(2)).with_sign_of(x)


def acosh(x: N) -> N:
    """The inverse hyperbolic cosine log(x + √(x² − 1)), relative error < 2^-49; NaN below 1."""
    t = x - 1.0
    y = log1p(t + (2.0 * t + t * t).square_root())
    y = x.less(HUGE).choose(y, log(x) + math.log(2))
    return x.less(1.0).choose(math.nan, y)


def atanh(x: N) -> N:
    """The inverse hyperbolic tangent log((1 + x)/(1 − x)) / 2, relative error < 2^-49; ±∞ at ±1, NaN beyond."""
    a = x.magnitude()
    return (0.5 * log1p(2.0 * a / (1.0 - a))).with_sign_of(x)


# ---------------------------------------------------------------------------------------------------------------
# The error functions erf and erfc, for arrays and for scalar kernels.


CENTRE = 3.75

ERFC_COEFFICIENTS: tuple[float, ...] = tuple(
    map(
        float.fromhex,
        (
            "-0x1.6884628ace07ap-29", "-0x1.0cb63a80de2c5p-29", "0x1.12b326b5668bfp-25", "0x1.42d2ea1df7aecp-26",
            "-0x1.0ae6bf9452a1fp-22", "-0x1.b4c0937b25a0bp-25", "0x1.d39c1a3875509p-20", "-0x1.06de6954a39b5p-20",
            "-0x1.7fcc159f9a760p-17", "0x1.7799dcd2368cbp-16", "0x1.b13e13fe20445p-15", "-0x1.303ffbfe45e88p-12",
            "0x1.33fb5a5e7ca14p-12", "0x1.cc3a13daa5d95p-10", "-0x1.3f603c7e65d24p-7", "0x1.d0b0037036098p-6",
            "-0x1.e0d0fa6c16f3fp-5", "0x1.7a14188ae18fap-4", "-0x1.bda9309a35871p-4", "0x1.510169d093c18p-4",
            "0x1.d5f294816277ep-9", "-0x1.1f367683f8967p-3", "0x1.3ccda0b5d5dc2p+0",
        ),
    )
)  # fmt: skip
"""Coefficients of (1 + 2·z) · e^(z²) · erfc(z), z ≥ 0, in u = (z − 3.75)/(z + 3.75), highest power first.

They come from Chebyshev interpolation at 80 points in 60 digits, truncated at degree 22; relative error < 2^-52.
"""

FARTHEST = 30.0
"""The argument beyond which erfc is below the least float64."""

ERF_SMALL = 0.5

ERF_COEFFICIENTS: tuple[float, ...] = tuple(
    2 / math.sqrt(math.pi) * (-1.0) ** k / (math.factorial(k) * (2 * k + 1)) for k in range(13, -1, -1)
)
"""Taylor coefficients of erf(x)/x in x², highest power first, for |x| < 1/2; truncation error < 2^-60."""


def _upper(z: N) -> N:
    """Returns erfc(z) for z ≥ 0; NaN stays NaN."""
    z = z.minimum(FARTHEST)
    u = (z - CENTRE) / (z + CENTRE)
    return exp(0.0 - z * z) * horner(ERFC_COEFFICIENTS, u) / (1.0 + 2.0 * z)


def erf(x: N) -> N:
    """The error function 2/√π · ∫₀ˣ e^(−t²) dt, relative error < 2^-48."""
    a = x.magnitude()
    large = (1.0 - _upper(a)).with_sign_of(x)
    return a.less(ERF_SMALL).choose(x * horner(ERF_COEFFICIENTS, x * x), large)


def erfc(x: N) -> N:
    """The complementary error function 1 − erf(x), relative error < 2^-42, for tiny results too."""
    y = _upper(x.magnitude())
    return x.less(0.0).choose(2.0 - y, y)


ERF_ONE = 4.0
"""The argument from which on erf, rounded to f32, is 1: 1 − erf(4) < 2^-25."""

ERF_SINGLE_COEFFICIENTS: tuple[float, ...] = tuple(
    map(
        float.fromhex,
        (
            "-0x1.05f49bdbb8563p-21", "0x1.99998a5c917c1p-20", "-0x1.dec9e79008749p-20", "0x1.465d0dbfebee8p-18",
            "-0x1.496a3f26c561ap-16", "0x1.abdee84424152p-15", "-0x1.e8c569456b89bp-14", "0x1.1da9fde26ad63p-12",
            "-0x1.41ca196b97130p-11", "0x1.53603b08b5002p-10", "-0x1.51e21988e9b19p-9", "0x1.3e06b4eb1096bp-8",
            "-0x1.1a033433e4d7dp-7", "0x1.d6372c79e2aaep-7", "-0x1.7034e09819bcep-6", "0x1.0ed5153179f5fp-5",
            "-0x1.76e866301ddf9p-5", "0x1.ea97f3acee70bp-5", "-0x1.3215d8a90e0a3p-4", "0x1.717efc67db63ap-4",
            "-0x1.b92e95c20a09fp-4", "0x1.0dabaf0640271p-3", "-0x1.69a0ccda3d620p-3", "0x1.6a040781a4860p-2",
        ),
    )
)  # fmt: skip
"""Coefficients of erf(x)/x, |x| ≤ 4, in u = x²/8 − 1, highest power first.

They come from Chebyshev interpolation at 80 points in 60 digits, truncated at degree 23; relative error < 2^-43.
"""


def erf_single(x: N) -> N:
    """The error function of an f32: one polynomial in float64, relative error < 2^-43, rounded to f32; NaN stays NaN.

    It uses neither comparisons nor `choose`.
    """
    wide = x.maximum(-ERF_ONE).minimum(ERF_ONE).to(F64)
    return (wide * horner_by_four(ERF_SINGLE_COEFFICIENTS, wide * wide * 0.125 - 1.0)).to(x.dtype)
