"""Estimates covariances from few samples.

If k values have not many more than k samples, the off-diagonals of their sample covariance are mostly noise: a result
fitted to this noise fits these samples only. So the off-diagonals are shrunk towards zero by the share of their
squares that is noise,

    ρ = Σ_{i≠j} Var(s_ij) / Σ_{i≠j} s_ij²,

which minimises the expected squared error (Ledoit and Wolf 2004; towards the diagonal Schäfer and Strimmer 2005).
Positions of one picture are alike, so Var is taken over whole samples, not over positions.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qmlir.ir.interfaces import Array

RIDGE = 1e-4
"""Added to each variance, as a share of the mean variance: if some values never change, the matrix stays definite."""


@dataclass(frozen=True)
class Moments:
    """Second moments of values x [k], and of x with values y [m], around a centre, summed over samples.

    The moments of a sample are means over its positions. g counts groups.

    samples  number of samples
    xx       moments of x with x, [g, k, k]
    xy       moments of x with y, [g, k, m]
    squares  sum over samples of the squared off-diagonals of the sample's own xx, [g]
    """

    samples: int
    xx: Array
    xy: Array
    squares: Array

    @classmethod
    def of(cls, pairs: Sequence[tuple[Array, Array]], centre: tuple[Array, Array]) -> "Moments":
        """The moments of samples, pairs of x [g, p, k] and y [g, p, m] at p positions, around centres [g, 1, …]."""
        (groups, positions, terms), outputs = pairs[0][0].shape, pairs[0][1].shape[2]
        xx, xy, squares = np.zeros((groups, terms, terms)), np.zeros((groups, terms, outputs)), np.zeros(groups)
        together = max(1, ROWS // positions)
        for first in range(0, len(pairs), together):
            some = pairs[first : first + together]
            x = np.concatenate([x - centre[0] for x, _ in some], axis=1)
            y = np.concatenate([y - centre[1] for _, y in some], axis=1)
            across = x.swapaxes(1, 2) / positions
            xx += across @ x
            if y.any():
                xy += across @ y
            squares += sum(_off_diagonal_squares(own) for own in np.split(x, len(some), axis=1)) / positions**2
        return cls(len(pairs), xx, xy, squares)

    def __add__(self, other: "Moments") -> "Moments":
        sums = self.xx + other.xx, self.xy + other.xy, self.squares + other.squares
        return Moments(self.samples + other.samples, *sums)

    @property
    def mean_xx(self) -> Array:
        """The sample covariance of x, [g, k, k]."""
        return self.xx / self.samples

    @property
    def noise(self) -> Array:
        """The share of the squared off-diagonals that is noise, ρ, [g]; all of them if there is one sample."""
        mean = self.mean_xx
        if self.samples == 1:
            return np.ones(len(mean))
        variances = np.diagonal(mean, axis1=1, axis2=2)
        signal = np.einsum("gij,gij->g", mean, mean) - (variances**2).sum(axis=1)
        noise = (self.squares / self.samples - signal) / (self.samples - 1)
        return np.clip(noise / np.maximum(signal, np.finfo(np.float64).tiny), 0.0, 1.0)

    def covariance(self) -> Array:
        """The covariance of x with shrunk off-diagonals, [g, k, k]; positive definite."""
        mean = self.mean_xx
        variances = np.diagonal(mean, axis1=1, axis2=2)
        found = mean * (1 - self.noise[:, None, None])
        least = RIDGE * variances.mean(axis=1, keepdims=True) + np.finfo(np.float32).tiny
        np.einsum("gii->gi", found)[:] = variances + least
        return found


ROWS = 1024
"""About how many positions enter one matrix product."""


def mean_of(arrays: Sequence[Array]) -> Array:
    """The mean of arrays [g, p, n], one for each sample, over samples and positions: [g, 1, n]."""
    return np.mean([a.mean(axis=1, keepdims=True, dtype=np.float64) for a in arrays], axis=0)


def _off_diagonal_squares(x: Array) -> Array:
    """The sum of the squared off-diagonals of xᵀx, [g], for x [g, p, k].

    xxᵀ has the same sum of squares, and is computed in its place where it is smaller.
    """
    turned = x.swapaxes(1, 2)
    form = turned @ x if x.shape[1] > x.shape[2] else x @ turned
    return np.einsum("gij,gij->g", form, form) - ((x**2).sum(axis=1) ** 2).sum(axis=1)
