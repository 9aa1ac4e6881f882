"""Histograms with bins of equal width, and exact sums of values and of their squares."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from qmlir.numerics import Array, Float64s

# ---------------------------------------------------------------------------------------------------------------
# Histograms of tensor values, with bins of equal width. numpy only.


MOST_BINS = 1 << 12
"""The most bins after a histogram is spread over a wider range, unless twice its own number of bins is more.

The values of a nearly constant tensor lie in very narrow bins. Billions of such bins would be needed to reach zero, or
the values of another tensor.
"""


@dataclass(frozen=True)
class Histogram:
    """Counts of values in bins [lo + i·width, lo + (i+1)·width).

    lo      the start of the first bin
    width   the width of each bin, > 0
    counts  the count of each bin, [bins], float64: whole numbers, 0 or more
    """

    lo: float
    width: float
    counts: Float64s

    @classmethod
    def over(cls, lo: float, hi: float, counts: npt.ArrayLike) -> "Histogram":
        """Builds a histogram from counts in bins that divide [lo, hi] evenly, as Glow's do."""
        array: Array = np.asarray(counts, np.float64).reshape(-1)
        return cls(lo, (hi - lo) / max(len(array), 1), array)

    @classmethod
    def together(cls, histograms: Sequence["Histogram"]) -> "Histogram":
        """Merges histograms into bins as wide as the widest of their bins, or wider if the histograms lie far apart."""
        if len(histograms) == 1:
            return histograms[0]
        lo, hi = min(h.lo for h in histograms), max(h.hi for h in histograms)
        width, most = max(h.width for h in histograms), _most_bins(max(len(h.counts) for h in histograms))
        if hi - lo > width * most:
            width = math.ldexp(width, math.ceil(math.log2((hi - lo) / width / most)))
        edges: Float64s = lo + width * np.arange(math.ceil((hi - lo) / width) + 1, dtype=np.float64)
        counts = np.array([np.diff(h.below(edges)) for h in histograms]).sum(axis=0)
        return cls(lo, width, counts)

    def spread_over(self, lo: float, hi: float) -> "Histogram":
        """Returns the histogram itself, or coarser bins that divide [lo, hi] if too many of its bins would cover it.

        The whole count of a bin goes to the new bin that contains its middle, so counts stay whole numbers.
        """
        most = _most_bins(len(self.counts))
        if (hi - lo) / self.width <= most:
            return self
        width = (hi - lo) / most
        place = np.clip(np.floor((self.centers - lo) / width), 0, most - 1).astype(np.intp)
        return Histogram(lo, width, np.bincount(place, self.counts, most).astype(np.float64))

    @property
    def hi(self) -> float:
        """The end of the last bin."""
        return self.lo + len(self.counts) * self.width

    @property
    def edges(self) -> Float64s:
        """The bounds of the bins, [bins + 1]."""
        return self.lo + self.width * np.arange(len(self.counts) + 1, dtype=np.float64)

    @property
    def centers(self) -> Float64s:
        """The middle of each bin, [bins]."""
        return self.lo + self.width * (np.arange(len(self.counts), dtype=np.float64) + 0.5)

    @property
    def total(self) -> float:
        """The number of values."""
        return float(self.counts.sum())

    def power(self, share: float = 1.0) -> float:
        """Returns the mean square of a share of the values, from the smallest magnitude on; 0 without values."""
        squares = self.centers**2
        order = np.argsort(squares)
        inside = order[np.cumsum(self.counts[order]) <= share * self.total]
        return float((self.counts * squares)[inside].sum() / max(self.counts[inside].sum(), 1))

    def magnitudes(self) -> "Histogram":
        """Returns the histogram of absolute values: negative values are mirrored and spread over the bins they meet."""
        if self.lo >= 0:
            return self
        bins = max(1, int(np.ceil(max(-self.lo, self.hi) / self.width)))
        return Histogram(0.0, self.width, self.folded(bins))

    def folded(self, bins: int) -> Float64s:
        """Returns the counts of absolute values in `bins` bins of this histogram's width that start at zero."""
        edges: Float64s = self.width * np.arange(bins + 1, dtype=np.float64)
        return np.diff(self.below(edges)) + np.diff(-self.below(-edges))

    def below(self, points: Float64s) -> Float64s:
        """Returns the number of values below each point, assuming that values are spread evenly over their bin."""
        return np.interp(points, self.edges, np.concatenate([[0.0], np.cumsum(self.counts)]))

    def point_below(self, count: float) -> float:
        """Returns the point below which `count` values lie."""
        # At a run of empty bins the cumulative count is constant; interp may return either end of the run.
        sums = np.concatenate([[0.0], np.cumsum(self.counts)])
        return float(np.interp(count, sums, self.edges))


def _most_bins(given: int) -> int:
    """Returns the most bins that a histogram of `given` bins may have after it is spread over a wider range."""
    return max(MOST_BINS, 2 * given)


# ---------------------------------------------------------------------------------------------------------------
# Exact sums of float32 values and of their squares: the same for every order and every split of the values.
#
# Every float32 is a multiple of 2^-149 and its square a multiple of 2^-298, so that a sum is a Python integer in that
# unit. A block of numbers is added up in slices of its bits, as float64. A slice holds multiples of one power of two
# and is 36 bits wide; 2^16 such numbers add up in 53 bits without rounding. Two or three slices hold all bits of common
# tensors.


VALUE_UNIT = -149
"""Sums of values are in units of 2^-149, float32's smallest number."""

SQUARE_UNIT = 2 * VALUE_UNIT
"""Sums of squares are in units of 2^-298."""

BLOCK = 1 << 15
"""The numbers of a block: half as many as add up exactly, and few enough for the processor's cache."""

SLICE_BITS = 35
"""A slice's numbers are below 2^36 in their unit, whichever way they round."""


@dataclass
class Moments:
    """Exact sums of values x.

    values   Σ x in units of 2^-149
    squares  Σ x² in units of 2^-298
    """

    values: int = 0
    squares: int = 0

    def update(self, block: Float64s) -> None:
        """Adds float32 values held as float64, at most `BLOCK` of them, shape [n]."""
        self.values += exact_sum(block, VALUE_UNIT)
        self.squares += exact_sum(block * block, SQUARE_UNIT)

    def merge(self, other: "Moments") -> None:
        """Adds the sums of another `Moments`."""
        self.values += other.values
        self.squares += other.squares

    def mean(self, count: int) -> float:
        """Σ x / count, rounded once."""
        return float(Fraction(self.values, count) * Fraction(2) ** VALUE_UNIT)

    def variance(self, count: int) -> float:
        """Σ x² / count − mean², computed from the exact sums and rounded once."""
        unit = Fraction(2) ** SQUARE_UNIT
        return float((Fraction(self.squares, count) - Fraction(self.values, count) ** 2) * unit)


def exact_sum(block: Float64s, unit: int) -> int:
    """Returns the sum of a block as an integer in units of 2^unit.

    Args:
        block: Finite multiples of 2^unit below 2^256, at most 2^16 of them.
        unit: A binary exponent.
    """
    found = 0
    rest: Any = block
    top = float(np.abs(block).max(initial=0.0))
    exponent = math.frexp(top)[1]
    while top and rest.any():
        # Adding and subtracting this constant rounds to multiples of 2^(exponent − SLICE_BITS).
        rounder = math.ldexp(1.5, exponent - SLICE_BITS + 52)
        head = (rest + rounder) - rounder
        rest = rest - head
        found += int(math.ldexp(float(head.sum()), -unit))
        exponent -= SLICE_BITS + 1
    return found
