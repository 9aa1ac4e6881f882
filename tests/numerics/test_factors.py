"""Factors of a layer that share a shift, and of sums whose operands have short multipliers."""

import math

import numpy as np
import pytest

from qmlir.numerics.contracts import MULTIPLIER_BITS
from qmlir.numerics.factors import Factors, shift_add

SHARED = Factors(15, 15, 0, 31, shared=8)
SHORT = Factors(15, 15, 0, 31, own=7)
SHIFT_ADDS = Factors(15, 15, 0, 31, own=7, shift_adds=True)
STEP = 1 << 16


def bits_at_one_shift(pairs: list[tuple[int, int]]) -> int:
    """Bits of the multipliers, sign included, if all are shifted alike."""
    last = min(shift + (m & -m).bit_length() for m, shift in pairs if m)
    return 1 + max(shift + m.bit_length() - last + 1 for m, shift in pairs if m)


@pytest.mark.parametrize("seed", range(50))
def test_factors_that_share_a_shift(seed: int) -> None:
    rng = np.random.default_rng(seed)
    largest = float(2.0 ** rng.uniform(-15, 3))
    if seed % 3 == 0:
        largest = 2.0 ** round(math.log2(largest)) * (1 - 2**-30)  # its multiplier rounds up to the next power of two
    reals = [largest, *(largest * 2.0 ** -rng.uniform(0, 6.9999, 30)).tolist(), largest / SHARED.spread * (1 + 2**-20)]
    pairs = SHARED.multipliers(reals, STEP)
    assert bits_at_one_shift(pairs) <= 16
    for (multiplier, shift), real in zip(pairs, reals, strict=True):
        assert multiplier % STEP == 0
        assert multiplier == 0 or 1 << 30 <= multiplier < 1 << 31
        assert abs(math.ldexp(multiplier, shift - MULTIPLIER_BITS) / real - 1) <= 2**-8


def test_a_factor_that_is_too_small_has_all_bits() -> None:
    """No device with one shift computes it."""
    pairs = SHARED.multipliers([0.7, 0.7 / 300], STEP)
    assert pairs == [SHARED.multiplier(0.7, STEP), SHARED.multiplier(0.7 / 300, STEP)]
    assert bits_at_one_shift(pairs) > 16
    assert SHARED.multipliers([0.7, 0.0], STEP)[1] == (0, 0)


def test_factors_with_shifts_of_their_own() -> None:
    own = Factors(15, 15, 0, 31)
    assert own.spread == math.inf
    assert own.multipliers([0.7, 0.001], STEP) == [own.multiplier(0.7, STEP), own.multiplier(0.001, STEP)]


@pytest.mark.parametrize("seed", range(50))
def test_factors_of_a_sum(seed: int) -> None:
    """Each operand is off by less than half a step of the result, and far less if the factors are not too far apart."""
    rng = np.random.default_rng(seed)
    apart = 4 if seed % 2 else 9
    lhs, rhs = (2.0 ** rng.uniform(-apart, 0, 2)).tolist()
    pair, shift = SHORT.of_sum(lhs, rhs)
    common = math.gcd(*pair)
    assert max(pair) // common < 1 << 7
    assert common < 1 << 14
    for multiplier, real in zip(pair, (lhs, rhs), strict=True):
        assert abs(math.ldexp(multiplier, -shift) - real) * 128 < (1 / 20 if apart == 4 else 1 / 2)
    assert SHORT.of_sum(rhs, lhs) == (pair[::-1], shift)


@pytest.mark.parametrize("seed", range(50))
def test_factors_of_a_sum_that_differ_by_a_shift_and_a_power_of_two(seed: int) -> None:
    """Each operand is off by less than half a step of the result."""
    rng = np.random.default_rng(seed)
    lhs, rhs = (2.0 ** rng.uniform(-6, 0, 2)).tolist()
    pair, shift = SHIFT_ADDS.of_sum(lhs, rhs)
    common = math.gcd(*pair)
    small, large = sorted(multiplier // common for multiplier in pair)
    found = shift_add(small, large)
    assert found is not None
    left, again, sign = found
    assert large == (small << left) + (0 if again is None else sign << again) < 1 << 7
    for multiplier, real in zip(pair, (lhs, rhs), strict=True):
        assert abs(math.ldexp(multiplier, -shift) - real) * 128 < 1 / 2
    assert SHIFT_ADDS.of_sum(rhs, lhs) == (pair[::-1], shift)


def test_sums_of_like_and_of_tiny_operands() -> None:
    assert SHORT.of_sum(1.0, 1.0) == ((1 << 13, 1 << 13), 13)
    (large, small), _ = SHORT.of_sum(0.5, 1e-4)
    assert (large > 0, small) == (True, 0)
    assert SHIFT_ADDS.of_sum(1.0, 1.0) == ((1 << 13, 1 << 13), 13)
    assert SHIFT_ADDS.of_sum(0.5, 1e-4)[0][1] == 0
