"""Histograms of tensor values, with bins of equal width. numpy only."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Float64s = npt.NDArray[np.float64]

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
        array: npt.NDArray[Any] = np.asarray(counts, np.float64).reshape(-1)
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
