"""Inverse square roots of 62 bits, against Python's own integers."""

from math import isqrt

import numpy as np
import pytest

from qmlir.numerics.elementary.lanes import Lanes
from qmlir.numerics.elementary.roots import inverse_root

POWERS = [1 << k for k in range(62)]
ENDS = sorted({n for p in POWERS for n in (p - 1, p, p + 1, 3 * p // 2) if 1 <= n < 1 << 62} | {(1 << 62) - 1})


def within(numbers: list[int]) -> bool:
    """Whether each (r, b) has 31 bits, and differs from 1/√x by at most 2^−29 of it: squares of both are compared."""
    roots, bits = (each.array.tolist() for each in inverse_root(Lanes(np.array(numbers))))
    for x, r, b in zip(numbers, roots, bits, strict=True):
        assert (1 << 30) - 2 <= r < 1 << 31
        assert 0 <= b <= 30
        scaled = isqrt((r * r * x << 200) >> 2 * (31 + b))  # r · 2^(−31 − b) · √x, in steps of 2^−100
        assert abs(scaled - (1 << 100)) <= 1 << 71
    return True


@pytest.mark.parametrize("seed", range(3))
def test_numbers_of_all_sizes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    assert within([int(2.0**each) for each in rng.uniform(0, 61.9, 20_000)])
    assert within(rng.integers(1 << 60, 1 << 62, 20_000).tolist())


def test_ends_of_the_range_and_small_numbers() -> None:
    assert within(ENDS)
    assert within(list(range(1, 20_000)))
