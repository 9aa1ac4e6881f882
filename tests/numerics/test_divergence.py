"""The search for the least divergence, which computes few windows of many, against computing all of them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from qmlir.numerics.divergence import LEVELS, divergences, least_divergence
from tests.conftest import crossed

Array = npt.NDArray[Any]

DISTRIBUTIONS: dict[str, Callable[[np.random.Generator, int], Array]] = {
    "normal": lambda random, n: random.standard_normal(n),
    "rectified": lambda random, n: np.maximum(random.standard_normal(n), 0),
    "laplace": lambda random, n: random.laplace(size=n),
    "cauchy": lambda random, n: random.standard_cauchy(n),
    "two outliers": lambda random, n: np.concatenate([random.standard_normal(n) / 100, [9.0, -8.0]]),
    "few values": lambda random, n: random.integers(-20, 20, n).astype(float),
    "three values": lambda random, n: random.choice([0.0, 0.04, 3.0], 2 + n // 10_000),
}


def windows(random: np.random.Generator, counts: Array, levels: int) -> tuple[Array, Array]:
    """Some windows around the middle and some elsewhere, all of which hold something."""
    bins, least = len(counts), np.arange((len(counts) - levels) // 2 + 1)
    starts = np.concatenate([least, random.integers(0, bins - levels, 100)])
    stops = np.concatenate([bins - 1 - least, [random.integers(s + levels - 1, bins) for s in starts[len(least) :]]])
    held = np.concatenate([[0], np.cumsum(counts, dtype=np.float64)])
    filled = held[stops + 1] > held[starts]
    return starts[filled], stops[filled]


@crossed({"name": DISTRIBUTIONS, "levels": [LEVELS, 2 * LEVELS + 1], "spread_tails": [False, True]})
def test_the_search_finds_what_trying_all_finds(name: str, levels: int, spread_tails: bool) -> None:
    random = np.random.default_rng(len(name))
    for count in (30, 3_000, 300_000):
        counts = np.histogram(DISTRIBUTIONS[name](random, count), int(random.integers(900, 2500)))[0].astype(np.float32)
        starts, stops = windows(random, counts, levels)
        every = divergences(counts, starts, stops, levels, spread_tails=spread_tails)
        assert least_divergence(counts, starts, stops, levels, spread_tails=spread_tails) == every.argmin()
