"""The integers that weights may be rounded to: even multiples of a step, or the entries of a codebook."""

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from qmlir.numerics import Array, codebooks


class Levels(Protocol):
    """What numbers [g, m, k] are rounded to; the levels of one number may differ from those of another."""

    def nearest(self, real: Array) -> Array:
        """The nearest level of each number, [g, m, k] float64."""
        ...

    def nearest_at(self, real: Array, column: int) -> Array:
        """The nearest level of each number of a column, [g, m] float64."""
        ...

    def in_order(self, order: Array) -> "Levels":
        """The levels of numbers whose columns are put in another order, [g, k], for each g."""
        ...


@dataclass(frozen=True)
class Even:
    """Integers within limits, or multiples by these integers.

    limits  the least and the greatest integer
    steps   positive integers, [g, m, k]: each number is a multiple of its own; None for ones
    """

    limits: tuple[int, int]
    steps: Array | None = None

    def nearest(self, real: Array) -> Array:
        return self._rounded(real, self.steps)

    def nearest_at(self, real: Array, column: int) -> Array:
        return self._rounded(real, None if self.steps is None else self.steps[:, :, column])

    def in_order(self, order: Array) -> "Even":
        return self if self.steps is None else replace(self, steps=np.take_along_axis(self.steps, order[:, None], 2))

    def _rounded(self, real: Array, steps: Array | None) -> Array:
        if steps is None:
            return np.clip(np.rint(real), *self.limits)
        return np.clip(np.rint(real / steps), *self.limits) * steps


@dataclass(frozen=True)
class Entries:
    """The entries of a table, integers in ascending order."""

    table: Array

    def nearest(self, real: Array) -> Array:
        return codebooks.nearest(real, self.table).astype(np.float64)

    def nearest_at(self, real: Array, column: int) -> Array:
        return self.nearest(real)

    def in_order(self, order: Array) -> "Entries":
        return self
