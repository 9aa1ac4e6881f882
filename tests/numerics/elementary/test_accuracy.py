"""Each elementary function rounded to f32 against long double: the nearest f32 or its neighbour; and at special values.

What the library is measured by: numpy's long double, whose own error is far below a float64's last bit.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from qmlir.numerics.elementary import exponential, trigonometric
from qmlir.numerics.elementary.lanes import Lanes

Array = npt.NDArray[Any]
Function = Callable[[Lanes], Lanes]

LONG = np.longdouble

long_double = pytest.mark.skipif(np.finfo(LONG).nmant < 63, reason="long double is no wider than float64")


def each(function: Callable[[float], float]) -> Callable[[Array], Array]:
    """A function of Python's math, whose error is below a float64's last bit."""
    return lambda x: np.array([function(float(v)) for v in x], LONG)


FUNCTIONS: dict[str, tuple[Function, Callable[[Array], Array], float, float]] = {
    "exp": (exponential.exp_unbounded, np.exp, -105.0, 90.0),
    "expm1": (exponential.expm1, np.expm1, -90.0, 90.0),
    "log": (exponential.log, np.log, 0.0, 4.0),
    "log1p": (exponential.log1p, np.log1p, -1.0, 60.0),
    "softplus": (exponential.softplus, lambda x: np.logaddexp(x, LONG(0)), -100.0, 90.0),
    "sigmoid": (exponential.sigmoid, lambda x: 1 / (1 + np.exp(-x)), -100.0, 90.0),
    "tanh": (exponential.tanh, np.tanh, -20.0, 20.0),
    "sinh": (exponential.sinh, np.sinh, -89.0, 89.0),
    "cosh": (exponential.cosh, np.cosh, -89.0, 89.0),
    "asinh": (exponential.asinh, np.arcsinh, -50.0, 50.0),
    "acosh": (exponential.acosh, np.arccosh, 1.0, 50.0),
    "atanh": (exponential.atanh, np.arctanh, -1.0, 1.0),
    "sin": (trigonometric.sin, np.sin, -1200.0, 1200.0),
    "cos": (trigonometric.cos, np.cos, -1200.0, 1200.0),
    "tan": (trigonometric.tan, np.tan, -1200.0, 1200.0),
    "atan": (trigonometric.atan, np.arctan, -50.0, 50.0),
    "asin": (trigonometric.asin, np.arcsin, -1.0, 1.0),
    "acos": (trigonometric.acos, np.arccos, -1.0, 1.0),
    "erf": (exponential.erf, each(math.erf), -5.0, 5.0),
    "erfc": (exponential.erfc, each(math.erfc), -5.0, 11.0),
}
"""Name → (ours, what it is measured by, the range of arguments)."""

WIDE = ("log", "asinh", "sin", "cos", "tan", "atan")
"""Functions of every finite f32, negative ones apart for log."""


def arguments(low: float, high: float, count: int = 40_000) -> Array:
    """f32 values as f64: all over a range, and ever nearer to 0."""
    rng = np.random.default_rng(3)
    small = np.ldexp(rng.uniform(-1, 1, count), rng.integers(-130, 4, count))
    return np.concatenate([rng.uniform(low, high, count), np.clip(small, low, high)]).astype(np.float32).astype("f8")


def every(count: int = 100_000) -> Array:
    """f32 values of every exponent as f64."""
    bits = np.random.default_rng(4).integers(0, 1 << 32, count, np.uint32)
    x = bits.view(np.float32)
    return x[np.isfinite(x)].astype(np.float64)


def distance(got: Array, want: Array) -> float:
    """The most that an f32 is off the true value, in places of the last bit of the nearest f32."""
    with np.errstate(all="ignore"):
        single = got.astype(np.float32)
        assert np.array_equal(np.isnan(single), np.isnan(want))
        nearest = want.astype(np.float32)
        assert np.array_equal(np.isinf(single), np.isinf(nearest))
        finite = np.isfinite(nearest)
        off = np.abs(single[finite].astype(LONG) - want[finite]) / np.spacing(np.abs(nearest[finite])).astype(LONG)
    return float(off.max())


@long_double
@pytest.mark.parametrize("name", FUNCTIONS)
def test_rounded_to_f32(name: str) -> None:
    function, truth, low, high = FUNCTIONS[name]
    x = arguments(low, high)
    with np.errstate(all="ignore"):
        assert distance(function(Lanes(x)).array, truth(x.astype(LONG))) < 0.501


@long_double
def test_erf_of_f32() -> None:
    """The polynomial for f32: at special values too, and around 4, from where on it is 1."""
    x = np.concatenate([arguments(-5.0, 5.0), every(), SPECIAL, np.linspace(3.8, 4.2, 2000)]).astype(np.float32)
    got = exponential.erf_single(Lanes(x)).array
    assert distance(got, each(math.erf)(x)) < 0.5001
    assert np.array_equal(np.signbit(got), np.signbit(x))


@long_double
@pytest.mark.parametrize("name", WIDE)
def test_every_exponent(name: str) -> None:
    function, truth, *_ = FUNCTIONS[name]
    x = np.abs(every()) if name == "log" else every()
    with np.errstate(all="ignore"):
        assert distance(function(Lanes(x)).array, truth(x.astype(LONG))) < 0.501


@long_double
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_beside_multiples_of_a_quarter_turn(name: str) -> None:
    """Where reducing the argument loses most."""
    function, truth, *_ = FUNCTIONS[name]
    x = (np.arange(1, 100_000) * (math.pi / 2)).astype(np.float32).astype(np.float64)
    assert distance(function(Lanes(x)).array, truth(x.astype(LONG))) < 0.501


@long_double
def test_power() -> None:
    rng = np.random.default_rng(5)
    x, y = arguments(0.0, 9.0)[:60_000], rng.uniform(-30, 30, 60_000).astype(np.float32).astype(np.float64)
    with np.errstate(all="ignore"):
        assert distance(exponential.power(Lanes(x), Lanes(y)).array, x.astype(LONG) ** y.astype(LONG)) < 0.501


def test_whole_powers_of_whole_numbers_are_exact() -> None:
    x, y = np.meshgrid(np.arange(-20.0, 21.0), np.arange(0.0, 9.0))
    np.testing.assert_array_equal(exponential.power(Lanes(x), Lanes(y)).array, x**y)


SPECIAL = np.array([0.0, -0.0, 1, -1, 0.5, -0.5, 2, -2, 3, -3, np.inf, -np.inf, np.nan])


def test_power_at_special_values() -> None:
    """As C's: signs of zeros and infinities too."""
    x, y = (v.reshape(-1) for v in np.meshgrid(SPECIAL, SPECIAL))
    with np.errstate(all="ignore"):
        want = x**y
    got = exponential.power(Lanes(x), Lanes(y)).array
    np.testing.assert_allclose(got, want, rtol=1e-12)
    assert np.array_equal(np.signbit(got) & ~np.isnan(want), np.signbit(want) & ~np.isnan(want))


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n not in ("erf", "erfc", "sigmoid", "softplus")])
def test_special_values(name: str) -> None:
    function, truth, *_ = FUNCTIONS[name]
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(function(Lanes(SPECIAL)).array, truth(SPECIAL), rtol=1e-12, atol=1e-300)


def test_remainder_is_exact() -> None:
    a, b = every(), every()[::-1]
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(trigonometric.float_remainder(Lanes(a), Lanes(b)).array, np.fmod(a, b))
    x, y = (v.reshape(-1) for v in np.meshgrid(SPECIAL, SPECIAL))
    rest = trigonometric.float_remainder(Lanes(x), Lanes(y))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(rest.array, np.fmod(x, y))
        np.testing.assert_array_equal(trigonometric.floored_remainder(rest, Lanes(y)).array, np.mod(x, y))


def test_integers_divide_as_documented() -> None:
    a = np.array([7, -7, 7, -7, -128, -128, 5, 0], np.int8)
    b = np.array([2, 2, -2, -2, -1, 0, 0, 3], np.int8)
    assert Lanes(a).quotient(Lanes(b)).array.tolist() == [3, -3, -3, 3, -128, 0, 0, 0]
    assert Lanes(a).remainder(Lanes(b)).array.tolist() == [1, -1, 1, -1, 0, 0, 0, 0]
    assert Lanes(a).quotient(Lanes(b), unsigned=True).array.view(np.uint8).tolist() == [3, 124, 0, 0, 0, 0, 0, 0]
