"""Quotients by estimation equal those of Python's integers, up to the ends of their range."""

import numpy as np
import pytest

from qmlir.numerics.elementary.division import moderate_quotient
from qmlir.numerics.elementary.lanes import Lanes


def pairs(rng: np.random.Generator, count: int) -> tuple[list[int], list[int]]:
    """Dividends and divisors of all sizes; half of the dividends are within 1 of a multiple of the divisor."""
    dividends, divisors = list[int](), list[int]()
    while len(dividends) < count:
        d = int(rng.integers(1, 1 << int(rng.integers(1, 63))))
        q = int(rng.integers(0, 1 << int(rng.integers(1, 31))))
        n = q * d + (int(rng.integers(-1, 2)) if rng.random() < 0.5 else int(rng.integers(0, d)))
        if 0 <= n < 1 << 62 and d < 1 << 62 and n // d < 1 << 30:
            dividends.append(n)
            divisors.append(d)
    return dividends, divisors


@pytest.mark.parametrize("seed", range(5))
def test_moderate_quotients(seed: int) -> None:
    n, d = pairs(np.random.default_rng(seed), 20_000)
    found = moderate_quotient(Lanes(np.array(n)), Lanes(np.array(d)))
    assert found.array.tolist() == [a // b for a, b in zip(n, d, strict=True)]


def test_ends_of_the_range() -> None:
    ends = [(0, 1), (0, (1 << 62) - 1), ((1 << 62) - 1, (1 << 62) - 1), ((1 << 62) - 1, 1 << 33), ((1 << 30) - 1, 1)]
    n, d = (np.array(side) for side in zip(*ends, strict=True))
    assert moderate_quotient(Lanes(n), Lanes(d)).array.tolist() == [a // b for a, b in ends]
