"""Histograms: how often values of a tensor fell into bins of one width. numpy only."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Float64s = npt.NDArray[np.float64]

MOST_BINS = 1 << 12
"""The most bins in which a histogram is spread over a wider range, unless twice its own are more.

The values of a tensor that hardly varies lie in very narrow bins, of which billions would reach from there to zero, or
to the values of another tensor.
"""


@dataclass(frozen=True)
class Histogram:
    """Counts of values in bins [lo + i·width, lo + (i+1)·width).

    lo      where the first bin begins
    width   of each bin, > 0
    counts  float64, [bins]: whole numbers of 0 or more
    """

    lo: float
    width: float
    counts: Float64s

    @classmethod
    def over(cls, lo: float, hi: float, counts: npt.ArrayLike) -> "Histogram":
        """Bins that divide [lo, hi] evenly, as Glow has them."""
        array: npt.NDArray[Any] = np.asarray(counts, np.float64).reshape(-1)
        return cls(lo, (hi - lo) / max(len(array), 1), array)

    @classmethod
    def together(cls, histograms: Sequence["Histogram"]) -> "Histogram":
        """All values of several histograms, in bins of the widest width among theirs, or wider where they lie apart."""
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
        """The histogram itself, or, where too many of its bins would cover [lo, hi], bins that divide that evenly.

        Each bin goes whole into the one that its middle lies in, so counts stay whole numbers.
        """
        most = _most_bins(len(self.counts))
        if (hi - lo) / self.width <= most:
            return self
        width = (hi - lo) / most
        place = np.clip(np.floor((self.centers - lo) / width), 0, most - 1).astype(np.intp)
        return Histogram(lo, width, np.bincount(place, self.counts, most).astype(np.float64))

    @property
    def hi(self) -> float:
        """Where the last bin ends."""
        return self.lo + len(self.counts) * self.width

    @property
    def edges(self) -> Float64s:
        """Where bins begin and end, [bins + 1]."""
        return self.lo + self.width * np.arange(len(self.counts) + 1, dtype=np.float64)

    @property
    def centers(self) -> Float64s:
        """The middle of each bin."""
        return self.lo + self.width * (np.arange(len(self.counts), dtype=np.float64) + 0.5)

    @property
    def total(self) -> float:
        """How many values there are."""
        return float(self.counts.sum())

    def magnitudes(self) -> "Histogram":
        """The histogram of absolute values: what lies below zero is folded over, spread over the bins it meets."""
        if self.lo >= 0:
            return self
        bins = max(1, int(np.ceil(max(-self.lo, self.hi) / self.width)))
        return Histogram(0.0, self.width, self.folded(bins))

    def folded(self, bins: int) -> Float64s:
        """Counts of absolute values in `bins` bins of this width from zero on."""
        edges: Float64s = self.width * np.arange(bins + 1, dtype=np.float64)
        return np.diff(self.below(edges)) + np.diff(-self.below(-edges))

    def below(self, points: Float64s) -> Float64s:
        """How many values lie below each point, those of a bin spread evenly over it."""
        return np.interp(points, self.edges, np.concatenate([[0.0], np.cumsum(self.counts)]))

    def point_below(self, count: float) -> float:
        """The point below which `count` values lie."""
        # A run of empty bins has one count: its middle would do, its ends are what interp is not sure about.
        sums = np.concatenate([[0.0], np.cumsum(self.counts)])
        return float(np.interp(count, sums, self.edges))


def _most_bins(given: int) -> int:
    """The most bins for what `given` bins hold, spread over a wider range."""
    return max(MOST_BINS, 2 * given)
