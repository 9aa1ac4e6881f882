"""Covariances from few samples.

The covariance of k values, estimated from samples that are not many more than k, has off-diagonals that are mostly
noise: what fits them fits the samples. So they are shrunk towards zero by the share of their squares that is noise,

    ρ = Σ_{i≠j} Var(s_ij) / Σ_{i≠j} s_ij²,

which minimises the expected squared error (Ledoit and Wolf 2004; towards the diagonal Schäfer and Strimmer 2005).
Positions of one picture are alike, so Var is taken over whole samples, not over positions.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

RIDGE = 1e-4
"""What is added to variances, as a share of their mean: values that never change stay as good as free."""


@dataclass(frozen=True)
class Moments:
    """Sums over samples of each one's second moments around a centre, of values x [k] and of some y [m] beside them.

    samples  how many
    xx       [g, k, k]
    xy       [g, k, m]
    squares  Σ of the squared off-diagonals of each sample's own xx, [g]
    """

    samples: int
    xx: Array
    xy: Array
    squares: Array

    @classmethod
    def of(cls, pairs: Sequence[tuple[Array, Array]], centre: tuple[Array, Array]) -> "Moments":
        """The moments of samples of positions, each an x [g, p, k] and a y [g, p, m], around centres [g, 1, …]."""
        (groups, positions, terms), outputs = pairs[0][0].shape, pairs[0][1].shape[2]
        xx, xy, squares = np.zeros((groups, terms, terms)), np.zeros((groups, terms, outputs)), np.zeros(groups)
        together = max(1, ROWS // positions)
        for first in range(0, len(pairs), together):
            some = pairs[first : first + together]
            x = np.concatenate([x - centre[0] for x, _ in some], axis=1)
            y = np.concatenate([y - centre[1] for _, y in some], axis=1)
            across = x.swapaxes(1, 2) / positions
            xx += across @ x
            xy += across @ y
            squares += sum(_off_diagonal_squares(own) for own in np.split(x, len(some), axis=1)) / positions**2
        return cls(len(pairs), xx, xy, squares)

    def __add__(self, other: "Moments") -> "Moments":
        sums = self.xx + other.xx, self.xy + other.xy, self.squares + other.squares
        return Moments(self.samples + other.samples, *sums)

    @property
    def mean_xx(self) -> Array:
        """The covariance as the samples have it."""
        return self.xx / self.samples

    @property
    def mean_xy(self) -> Array:
        """The covariance of x and y as the samples have it."""
        return self.xy / self.samples

    def covariance(self) -> Array:
        """The covariance, shrunk, and positive definite."""
        mean = self.mean_xx
        variances = np.diagonal(mean, axis1=1, axis2=2)
        signal = np.einsum("gij,gij->g", mean, mean) - (variances**2).sum(axis=1)
        noise = (self.squares / self.samples - signal) / max(self.samples - 1, 1)
        share = np.clip(noise / np.maximum(signal, np.finfo(np.float64).tiny), 0.0, 1.0)
        if self.samples == 1:
            share = np.ones_like(share)
        found = mean * (1 - share[:, None, None])
        least = RIDGE * variances.mean(axis=1, keepdims=True) + np.finfo(np.float32).tiny
        np.einsum("gii->gi", found)[:] = variances + least
        return found


ROWS = 1024
"""About so many positions enter one product of matrices."""


def mean_of(arrays: Sequence[Array]) -> Array:
    """The mean over all positions of samples [g, p, n], [g, 1, n]."""
    return np.mean([a.mean(axis=1, keepdims=True, dtype=np.float64) for a in arrays], axis=0)


def _off_diagonal_squares(x: Array) -> Array:
    """The sum of squares off the diagonal of xᵀx, [g], of x [g, p, k]: that of xxᵀ is the same, and may be smaller."""
    turned = x.swapaxes(1, 2)
    form = turned @ x if x.shape[1] > x.shape[2] else x @ turned
    return np.einsum("gij,gij->g", form, form) - ((x**2).sum(axis=1) ** 2).sum(axis=1)
