"""The errors that the checker states of functions on 31 bits hold for every argument; `make conformance` tries all.

`make test` tries some thousands of evenly spaced arguments. numpy's functions in float64 are the real values: they are
exact to 2^−20 of the steps that count here.
"""

import numpy as np
import pytest

from qmlir.checker.errors import LEAST_ROOT, LOGARITHM, RECIPROCAL, ROOT
from qmlir.numerics import Array
from qmlir.numerics.elementary import gemmlowp
from qmlir.numerics.elementary.lanes import Lanes
from tests.conftest import THOROUGH

SLICES = 16
BLOCK = 1 << 15
STEP = 1 if THOROUGH else 10007
"""How far apart arguments are."""


def _arguments(first: int, end: int, part: int) -> list[Array]:
    """The arguments of a slice of [first, end), in blocks."""
    size = (end - first) // SLICES
    start = first + part * size
    blocks = range(start, start + size, BLOCK * STEP)
    return [np.arange(at, min(at + BLOCK * STEP, start + size), STEP) for at in blocks]


@pytest.mark.parametrize("part", range(SLICES))
def test_reciprocals(part: int) -> None:
    """x and x + 1 have the same half divisor for an even x, so they have the same result."""
    worst = 0.0
    for half in _arguments(0, 1 << 30, part):
        found = gemmlowp.reciprocal_of_one_plus(Lanes(2 * half)).array
        np.testing.assert_array_equal(found[:100], gemmlowp.reciprocal_of_one_plus(Lanes(2 * half[:100] + 1)).array)
        for x in (2 * half, 2 * half + 1):
            worst = max(worst, float(np.abs(found - 2.0**62 / (2.0**31 + x)).max()))
    assert 4 < worst <= RECIPROCAL


@pytest.mark.parametrize("part", range(SLICES))
def test_roots(part: int) -> None:
    """All arguments below 2^29 become one of [2^27, 2^29) by a power of 4; the others lose their last two bits."""
    worst = 0.0
    for x in _arguments(1 << 27, 1 << 29, part):
        root, bits = gemmlowp.inverse_root(Lanes(x))
        assert root.array.min() >= LEAST_ROOT
        worst = max(worst, float(np.abs(root.array * 2.0 ** (-31 - bits.array) * np.sqrt(x) - 1).max()))
    lost = 3 / (1 << 30)  # √(x + 3) / √x for x ≥ 4 · 2^27
    assert worst + lost <= ROOT
    assert part or worst > ROOT / 2  # the start of Newton's method is worst for the least arguments


def test_roots_of_small_and_of_large_numbers() -> None:
    rng = np.random.default_rng(4)
    x = np.concatenate([np.arange(1, 1 << 16), rng.integers(1 << 16, 1 << 31, 1 << 16), [(1 << 31) - 1]])
    root, bits = gemmlowp.inverse_root(Lanes(x))
    assert np.abs(root.array * 2.0 ** (-31 - bits.array) * np.sqrt(x) - 1).max() <= ROOT
    assert root.array.min() >= LEAST_ROOT


MANTISSAS = 2.25
"""The largest error of logarithms of [1, 2), whose multiples of ln 2 are rounded by less than 0.1."""


@pytest.mark.parametrize("part", range(SLICES))
def test_logarithms(part: int) -> None:
    worst = 0.0
    for x in _arguments(1 << 30, 1 << 31, part):
        away = gemmlowp.logarithm(Lanes(x), 1).array - np.log(x * 2.0**-30) * 2.0**26
        worst = max(worst, float(np.abs(away).max()))
    assert 1 < worst <= MANTISSAS


def test_logarithms_of_other_magnitudes() -> None:
    """Another exponent changes the rounding of its product with ln 2 only, which is doubled."""
    exponents = np.arange(-12, 64)[:, None] * (1 << 25) + np.array([1 << 23, 3 << 23])
    away = gemmlowp.product(Lanes(exponents), 1488522236).array - exponents * np.log(2)
    assert 2 * np.abs(away).max() + MANTISSAS + 0.1 <= LOGARITHM


def test_logarithms_where_a_root_rounds_up_to_a_power_of_two() -> None:
    """An x below 2^30 has the result of the x · 2^n above, but for numbers whose product with √½ rounds up to 2^k."""
    for k in range(19, 31):
        edge = round(2**k * np.sqrt(2))
        x = np.array([n for n in range(edge - 2, edge + 3) if 1 << 19 <= n < 1 << 31])
        for bits in (1, 12):
            away = gemmlowp.logarithm(Lanes(x), bits).array - np.log(x * 2.0 ** (bits - 31)) * 2.0**26
            assert np.abs(away).max() <= LOGARITHM
