"""The compiled count of values against numpy's, bit for bit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmlir.backends.cpu.tally import CHUNK, IN_MACHINE_CODE, WIDE, extent, tally
from qmlir.numerics.histograms import Moments
from qmlir.profiles.tensor_profile import (
    MANY,
    Counter,
    TensorProfile,
    counted_by,
    extent_in_numpy,
    grid,
    tally_in_blocks,
)

finite = st.floats(width=32, allow_nan=False, allow_infinity=False)


def same(values: np.ndarray, bins: int) -> None:
    exponent, first, last = grid(float(values.min()), float(values.max()), bins)
    fast, slow = np.zeros((2, last - first + 1), np.int64)
    assert tally(values, exponent, first, fast) == tally_in_blocks(values, exponent, first, slow)
    np.testing.assert_array_equal(fast, slow)


@pytest.mark.slow
@given(st.lists(finite, min_size=1, max_size=50), st.integers(2, 100))
def test_any_values(listed: list[float], bins: int) -> None:
    same(np.array(listed, np.float32), bins)


@pytest.mark.parametrize("size", [1, 1 << 15, 100_003])
def test_many_values(size: int) -> None:
    rng = np.random.default_rng(size)
    same(rng.standard_normal(size).astype(np.float32), 2000)
    same(np.ldexp(rng.uniform(-2, 2, size), rng.integers(-140, 120, size)).astype(np.float32), 7)


@pytest.mark.parametrize("smallest", [2.0**-30, 2.0**-31, 2.0**-84, 2.0**-85, 2.0**-149])
def test_each_number_of_slices_at_its_limits(smallest: float) -> None:
    same(np.array([1 + 2.0**-23, -smallest * (1 + 2.0**-23), 0.0, -0.0, 0.75], np.float32), 100)


def test_chunks_that_need_different_numbers_of_slices() -> None:
    values = np.maximum(np.random.default_rng(0).standard_normal(2 * CHUNK + 3), 0).astype(np.float32)
    values[CHUNK + 5], values[-1] = 2.0**-60, -(2.0**-140)
    same(values, 2000)


@pytest.mark.parametrize("value", [-3.4028235e38, 3.4028235e38, 2.0**-149])
def test_sums_do_not_wrap_around(value: float) -> None:
    same(np.full(CHUNK + 1, value, np.float32), 2)


@given(st.lists(st.floats(width=32), min_size=1, max_size=3 * WIDE))
def test_the_range_of_any_values(listed: list[float]) -> None:
    values = np.array(listed, np.float32)
    assert extent(values) == extent_in_numpy(values)


@pytest.mark.parametrize("size", [1, WIDE - 1, WIDE, WIDE + 1, 2 * WIDE, 5 * WIDE + 7])
def test_the_range_sees_every_place(size: int) -> None:
    for place in range(size):
        values = np.ones(size, np.float32)
        values[place] = 7
        assert extent(values) == (1 if size > 1 else 7, 7)
        values[place] = -7
        assert extent(values) == (-7, 1 if size > 1 else -7)
        for bad in (np.nan, np.inf, -np.inf):
            values[place] = bad
            assert extent(values) is None


def test_no_values() -> None:
    assert tally(np.zeros(0, np.float32), 0, 0, np.zeros(1, np.int64)).values == 0


def test_a_profile_is_the_same_whoever_counts() -> None:
    one, other = TensorProfile((3, 5)), TensorProfile((3, 5))
    for seed in range(5):
        values = np.random.default_rng(seed).standard_normal((1, 3, 5)).astype(np.float32) * 10**seed
        one.update(values.transpose(0, 2, 1), 100, IN_MACHINE_CODE)  # not contiguous
        other.update(values, 100)
    assert (one.moments, one.extremes, one.counts.tolist()) == (other.moments, other.extremes, other.counts.tolist())


def test_values_are_counted_in_the_context_where_they_are_many() -> None:
    """Without a counter of the caller's, and with numpy's numbers."""
    values = np.random.default_rng(8).standard_normal((3, MANY)).astype(np.float32)
    asked: list[int] = []

    def counted(values: np.ndarray, exponent: int, first: int, counts: np.ndarray) -> Moments:
        asked.append(values.size)
        return tally(values, exponent, first, counts)

    want, got = TensorProfile(values.shape[1:]), TensorProfile(values.shape[1:])
    with counted_by(Counter(extent, counted)):
        for row in values:
            got.update(row)
            got.update(row[:9])
    for row in values:
        want.update(row)
        want.update(row[:9])
    assert asked == [MANY] * 3
    assert (got.lo, got.hi, got.exponent, got.first, got.moments) == (
        want.lo, want.hi, want.exponent, want.first, want.moments,
    )  # fmt: skip
    assert (got.counts == want.counts).all()
