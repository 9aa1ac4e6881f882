"""The compiled count of values against numpy's, bit for bit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmlir.backends.cpu.tally import tally
from qmlir.profiles.profile import TensorProfile, grid, tally_in_blocks

finite = st.floats(width=32, allow_nan=False, allow_infinity=False)


def same(values: np.ndarray, bins: int) -> None:
    exponent, first, last = grid(float(values.min()), float(values.max()), bins)
    fast, slow = np.zeros((2, last - first + 1), np.int64)
    assert tally(values, exponent, first, fast) == tally_in_blocks(values, exponent, first, slow)
    np.testing.assert_array_equal(fast, slow)


@given(st.lists(finite, min_size=1, max_size=50), st.integers(2, 100))
def test_any_values(listed: list[float], bins: int) -> None:
    same(np.array(listed, np.float32), bins)


@pytest.mark.parametrize("size", [1, 1 << 15, 100_003])
def test_many_values(size: int) -> None:
    rng = np.random.default_rng(size)
    same(rng.standard_normal(size).astype(np.float32), 2000)
    same(np.ldexp(rng.uniform(-2, 2, size), rng.integers(-140, 120, size)).astype(np.float32), 7)


def test_no_values() -> None:
    assert tally(np.zeros(0, np.float32), 0, 0, np.zeros(1, np.int64)).values == 0


def test_a_profile_is_the_same_whoever_counts() -> None:
    one, other = TensorProfile((3, 5)), TensorProfile((3, 5))
    for seed in range(5):
        values = np.random.default_rng(seed).standard_normal((1, 3, 5)).astype(np.float32) * 10**seed
        one.update(values.transpose(0, 2, 1), 100, tally)  # not contiguous
        other.update(values, 100)
    assert (one.moments, one.extremes, one.counts.tolist()) == (other.moments, other.extremes, other.counts.tolist())
