"""Choices of everything that is drawn at random from a numpy generator."""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

T = TypeVar("T")


class Chance:
    """Who draws with a generator of random numbers."""

    rng: np.random.Generator

    def chance(self, probability: float) -> bool:
        """True as often as the probability says."""
        return bool(self.rng.random() < probability)

    def integer(self, low: int, high: int) -> int:
        """An integer from `low` to `high`, both included."""
        return int(self.rng.integers(low, high + 1)) if high > low else low

    def choice(self, options: Sequence[T]) -> T:
        """One of the options."""
        return options[int(self.rng.integers(len(options)))]
