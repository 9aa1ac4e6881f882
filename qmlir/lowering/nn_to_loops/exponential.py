"""exp, sigmoid and tanh in f64: the operations of dialects/quant/numerics.py in the same order, without branches.

The reference chooses with comparisons; here vectors choose with maxima, minima and masks of the same outcome.
"""

from xdsl.dialects.builtin import f64, i32, i64

from qmlir.dialects.quant.numerics import (
    EXP_COEFFICIENTS,
    EXP_HIGHEST,
    EXP_LOWEST,
    LN2_HIGH,
    LN2_LOW,
    LOG2_E,
    TANH_COEFFICIENTS,
    TANH_SMALL,
)
from qmlir.lowering.value import Value

_EXPONENT_BIAS, _FRACTION_BITS = 1023, 52


def exp(x: Value) -> Value:
    """e^x on f64; see numerics.exp."""
    c = x.maximum_number(EXP_LOWEST).minimum_number(EXP_HIGHEST)  # NaN becomes EXP_LOWEST here and NaN at the end
    n = (c * LOG2_E).round_even()
    r = (c - n * LN2_HIGH) - n * LN2_LOW
    p = _horner(EXP_COEFFICIENTS, r)
    power = ((n.to(i32).to(i64) + _EXPONENT_BIAS) << _FRACTION_BITS).bits(f64)
    return (p * power).maximum(x.minimum(-1.0))  # the product is positive: only a NaN survives beside it


def sigmoid(x: Value) -> Value:
    """1 / (1 + exp(0 − x)) on f64."""
    return 1.0 / (1.0 + exp(0.0 - x))


def tanh(x: Value) -> Value:
    """tanh on f64; see numerics.tanh."""
    t = x * x
    small = x * (_horner(TANH_COEFFICIENTS, t) * t) + x
    e = exp(2.0 * x)
    ratio = (e - 1.0) / (e + 1.0)
    # t is not negative, so its bits compare as its value; a NaN's are large or negative, and both branches are NaN.
    is_small = (t.bits(i64) - t.same(TANH_SMALL).bits(i64)) >> 63
    return ((small.bits(i64) & is_small) | (ratio.bits(i64) & (is_small ^ -1))).bits(f64)


def _horner(coefficients: tuple[float, ...], x: Value) -> Value:
    total = x.same(coefficients[0])
    for coefficient in coefficients[1:]:
        total = total * x + coefficient
    return total
