"""exp and its kin against long double, and the documented sequence of operations by hand."""

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest

from qmlir.numerics.elementary import exponential
from qmlir.numerics.elementary.lanes import Lanes

Float64s = npt.NDArray[np.float64]

ULP = 1.2


def exp(x: Float64s) -> Float64s:
    return exponential.exp(Lanes(x)).array


def sigmoid(x: Float64s) -> Float64s:
    return exponential.sigmoid(Lanes(x)).array


def tanh(x: Float64s) -> Float64s:
    return exponential.tanh(Lanes(x)).array


def ulps(got: Float64s, want: npt.NDArray[np.floating]) -> float:
    return float(np.max(np.abs(got - want) / np.spacing(want.astype(np.float64))))


def samples(low: float, high: float, n: int = 100_000) -> Float64s:
    rng = np.random.default_rng(2)
    small = np.ldexp(rng.uniform(-1, 1, n // 4), rng.integers(-60, 0, n // 4))
    return np.concatenate([rng.uniform(low, high, n), np.clip(small, low, high), np.arange(np.ceil(low), high)])


long_double = pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="long double is no wider than float64")


@long_double
def test_exp() -> None:
    x = samples(-708.0, 709.0)
    assert ulps(exp(x), np.exp(x.astype(np.longdouble))) < ULP
    x = samples(-20.0, 0.0)
    assert ulps(exp(x), np.exp(x.astype(np.longdouble))) < ULP


@long_double
def test_exp_by_four() -> None:
    x = samples(-708.0, 709.0)
    assert ulps(exponential.exp_by_four(Lanes(x)).array, np.exp(x.astype(np.longdouble))) < 2.5


def test_four_polynomials_are_one() -> None:
    """Of each length, the last ones shorter than the others."""
    for count in range(4, 12):
        coefficients = tuple(float(k) for k in range(1, count + 1))
        got = exponential.horner_by_four(coefficients, Lanes(np.array([3.0])))
        assert got.array[0] == exponential.horner(coefficients, Lanes(np.array([3.0]))).array[0]


@long_double
def test_sigmoid() -> None:
    x = samples(-700.0, 700.0)
    assert ulps(sigmoid(x), 1 / (1 + np.exp(-x.astype(np.longdouble)))) < 2.5


@long_double
def test_tanh() -> None:
    x = np.concatenate([samples(-20.0, 20.0), samples(-0.05, 0.05), np.ldexp(1.0, np.arange(-1000, 0))])
    x = x[x != 0]
    want = np.tanh(x.astype(np.longdouble))
    assert float(np.max(np.abs((tanh(x) - want) / want))) < 2.0**-46


def test_special_values() -> None:
    x = np.array([0.0, np.inf, -np.inf, np.nan, 1e300, -1e300])
    e = exp(x)
    assert e[0] == 1.0
    assert e[1] == e[4] == exp(np.array(709.0))
    assert e[2] == e[5] == exp(np.array(-708.0))
    assert (e[1] > 8e307, 0 < e[2] < 1e-307, np.isnan(e[3])) == (True, True, True)
    with np.errstate(over="ignore", under="ignore"):
        assert (e.astype(np.float32)[[1, 2]] == np.array([np.inf, 0], np.float32)).all()
    t = tanh(x)
    assert t[[0, 1, 2, 4, 5]].tolist() == [0.0, 1.0, -1.0, 1.0, -1.0]
    assert np.isnan(t[3])
    s = sigmoid(x)
    assert s[[0, 1, 4]].tolist() == [0.5, 1.0, 1.0]
    assert 0 < s[2] < 1e-307
    assert np.isnan(s[3])


def test_exp_by_hand() -> None:
    """The documented sequence of operations, one scalar at a time: what the CPU's code computes."""
    for x in (-708.0, -87.3, -0.1, 0.0, 1e-9, 0.34, 5.5, 88.7, 709.0):
        n = float(round(Fraction(x * exponential.LOG2_E)))
        r = (x - n * exponential.LN2_HIGH) - n * exponential.LN2_LOW
        p = exponential.EXP_COEFFICIENTS[0]
        for coefficient in exponential.EXP_COEFFICIENTS[1:]:
            p = p * r
            p = p + coefficient
        assert float(exp(np.array(x))) == p * math.ldexp(1.0, int(n))


def test_constants() -> None:
    """n · LN2_HIGH is exact, and the two parts make ln 2 to more than a float64's precision."""
    high = Fraction(exponential.LN2_HIGH)
    assert high.numerator.bit_length() <= 33
    ln2 = Fraction("0.693147180559945309417232121458176568075500134360255254120680009")
    assert abs(high + Fraction(exponential.LN2_LOW) - ln2) < Fraction(1, 2**86)
    assert len(exponential.EXP_COEFFICIENTS) == 14
