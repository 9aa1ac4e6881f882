"""Quotients by one divisor, against Python's own integers."""

import numpy as np
import pytest

from qmlir.numerics.elementary.division import divided, reciprocal
from qmlir.numerics.elementary.lanes import Lanes


def pairs(rng: np.random.Generator, count: int) -> tuple[list[int], list[int]]:
    """Dividends and divisors of all sizes; half of the dividends are within 1 of a multiple of the divisor."""
    dividends, divisors = list[int](), list[int]()
    while len(dividends) < count:
        d = int(rng.integers(1 << 10, 1 << int(rng.integers(11, 63))))
        q = int(rng.integers(0, 1 << int(rng.integers(1, 21))))
        n = q * d + (int(rng.integers(-1, 2)) if rng.random() < 0.5 else int(rng.integers(0, d)))
        if 0 <= n < 1 << 62 and n // d < 1 << 20:
            dividends.append(n)
            divisors.append(d)
    return dividends, divisors


def quotients(n: list[int], d: list[int]) -> list[int]:
    divisor = Lanes(np.array(d))
    return divided(Lanes(np.array(n)), divisor, *reciprocal(divisor)).array.tolist()


@pytest.mark.parametrize("seed", range(5))
def test_quotients(seed: int) -> None:
    n, d = pairs(np.random.default_rng(seed), 20_000)
    assert quotients(n, d) == [a // b for a, b in zip(n, d, strict=True)]


def test_ends_of_the_range() -> None:
    divisors = [1 << 10, (1 << 10) + 1, (1 << 30) - 1, 1 << 30, (1 << 31) - 1, 1 << 31, (1 << 42) - 1, 1 << 42, 1 << 61]
    divisors += [(1 << 62) - 1, 3 << 40, (1 << 31) + 1]
    ends = [(q * d + rest, d) for d in divisors for q in (0, 1, 2, (1 << 20) - 1) for rest in (0, 1, d - 1)]
    n, d = zip(*[(n, d) for n, d in ends if n < 1 << 62], strict=True)
    assert quotients(list(n), list(d)) == [a // b for a, b in zip(n, d, strict=True)]
