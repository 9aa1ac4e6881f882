"""Exact sums, against rational arithmetic."""

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st

from qmlir.numerics.histograms import BLOCK, SQUARE_UNIT, VALUE_UNIT, Moments

finite = st.floats(width=32, allow_nan=False, allow_infinity=False)


def exact(values: npt.NDArray[Any], power: int, unit: int) -> int:
    total = sum((Fraction(float(v)) ** power for v in values), Fraction()) / Fraction(2) ** unit
    assert total.denominator == 1
    return int(total)


@given(st.lists(finite, max_size=40))
def test_sums_are_exact(listed: list[float]) -> None:
    values = np.array(listed, np.float32).astype(np.float64)
    moments = Moments()
    moments.update(values)
    assert moments.values == exact(values, 1, VALUE_UNIT)
    assert moments.squares == exact(values, 2, SQUARE_UNIT)


def test_a_full_block_of_numbers_of_all_magnitudes() -> None:
    """Where a sum in float64 would round: as many rows as a block has, with bits over all of float32's range."""
    rng = np.random.default_rng(0)
    values = np.ldexp(rng.uniform(1, 2, BLOCK), rng.integers(-126, 127, BLOCK)).astype(np.float32)
    values[::7] = np.nextafter(values.max(), np.float32(0))
    values = values.astype(np.float64)
    moments = Moments()
    moments.update(values)
    assert moments.values == exact(values, 1, VALUE_UNIT)
    assert moments.squares == exact(values, 2, SQUARE_UNIT)


def test_mean_and_variance() -> None:
    values = np.array([1.0, 2.0, 4.0, 5.0])
    moments = Moments()
    moments.update(values)
    assert moments.mean(4) == 3.0
    assert moments.variance(4) == values.var()
