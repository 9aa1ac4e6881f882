"""The statistics of one tensor over calibration data: its range, histogram and moments.

They are collected sample by sample in constant memory. Histogram bins lie on an absolute grid: they are 2^k wide, their
edges are multiples of 2^k, and k is the least number that needs at most `bins` bins over [min, max]. When the range
grows, neighbouring bins merge pairwise and exactly. So the histogram depends neither on the order of the samples nor on
how they were split. Sums are exact (histograms.py).
"""

import hashlib
import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from qmlir.errors import ProfileError
from qmlir.ir.reading import ReadingNotes
from qmlir.numerics import Array, Float64s, Int64s
from qmlir.numerics.histograms import BLOCK, VALUE_UNIT, Moments

BINS = 2000

CHANNEL_BINS = 128
"""The most bins of a channel's histogram; it is small because a network has thousands of channels."""


@dataclass
class TensorProfile:
    """The statistics of one tensor over the samples.

    shape     the tensor's shape without the batch dimension; None if the profile's file does not say
    key       hash of how the tensor is computed; empty if unknown
    count     number of elements seen
    lo, hi    the smallest and the largest element
    exponent  k: bins are 2^k wide
    first     index of the first bin, which covers [first·2^k, (first+1)·2^k)
    counts    number of elements in each bin, int64
    moments   exact sums of the values; None if unknown
    extremes  exact sums over samples of each sample's minimum and of its maximum, in units of 2^-149
    samples   number of samples in `extremes`
    channels  the statistics of each channel along the last axis; None if not asked for
    """

    shape: tuple[int, ...] | None
    key: str = ""
    count: int = 0
    lo: float = math.inf
    hi: float = -math.inf
    exponent: int = 0
    first: int = 0
    counts: Int64s = field(default_factory=lambda: np.zeros(0, np.int64))
    moments: Moments | None = field(default_factory=Moments)
    extremes: tuple[int, int] = (0, 0)
    samples: int = 0
    channels: "list[TensorProfile] | None" = None

    def update(self, values: Array, bins: int = BINS, counter: "Counter | None" = None) -> None:
        """Adds the finite values of one sample; `counter` is a faster way to count them than numpy's, if any."""
        if values.size:
            fast = counter_of(values, counter)
            flat = np.ascontiguousarray(values).reshape(-1)
            extent = fast.extent(flat)
            assert extent is not None, "the values must be finite"
            self.add(flat, [extent], bins, fast)

    def add(self, flat: Array, extents: "Sequence[tuple[float, float]]", bins: int, counter: "Counter") -> None:
        """Adds the values of samples, [n], contiguous, whose smallest and largest values are known."""
        lows, highs = zip(*extents, strict=True)
        self._cover(min(lows), max(highs), bins)
        self.count += flat.size
        self.samples += len(extents)
        self.extremes = (self.extremes[0] + sum(map(exact, lows)), self.extremes[1] + sum(map(exact, highs)))
        moments = counter.tally(flat, self.exponent, self.first, self.counts)
        if self.moments is not None:
            self.moments.merge(moments)
        if self.channels is not None:
            columns = np.ascontiguousarray(flat.reshape(-1, len(self.channels)).T)
            for channel, column in zip(self.channels, columns, strict=True):
                channel.update(column, CHANNEL_BINS, counter)

    def merge(self, other: "TensorProfile", bins: int = BINS) -> None:
        """Adds the statistics of another profile of the same tensor."""
        if other.count == 0:
            return
        self._cover(other.lo, other.hi, bins)
        self.count += other.count
        self.samples += other.samples
        self.extremes = (self.extremes[0] + other.extremes[0], self.extremes[1] + other.extremes[1])
        self._add(other.first, other.exponent, other.counts)
        if self.moments is None or other.moments is None:
            self.moments = None
        else:
            self.moments.merge(other.moments)
        for channel, more in zip(self.channels or (), other.channels or (), strict=True):
            channel.merge(more, CHANNEL_BINS)

    @property
    def average_range(self) -> tuple[float, float]:
        """The mean of the samples' minima and of their maxima: a moving average independent of the order."""
        unit = Fraction(2) ** VALUE_UNIT / max(self.samples, 1)
        lo, hi = (float(e * unit) for e in self.extremes)
        return lo, hi

    @property
    def is_dead(self) -> bool:
        """Whether the tensor never changes: all its elements on all samples have one value."""
        return self.count > 0 and self.lo == self.hi

    def dead_channels(self) -> list[int]:
        """The channels that never change; empty if the profile has no channels."""
        return [i for i, channel in enumerate(self.channels or ()) if channel.is_dead]

    def _cover(self, lo: float, hi: float, bins: int) -> None:
        """Widens the range and the bins so that they also cover [lo, hi]."""
        # Adding 0.0 turns -0.0 into 0.0; the two are equal, and min would return whichever comes first.
        self.lo, self.hi = min(self.lo, lo) + 0.0, max(self.hi, hi) + 0.0
        exponent, first, last = grid(self.lo, self.hi, bins)
        if (exponent, first, last - first + 1) == (self.exponent, self.first, len(self.counts)):
            return
        before = (self.first, self.exponent, self.counts)
        self.exponent, self.first, self.counts = exponent, first, np.zeros(last - first + 1, np.int64)
        self._add(*before)

    def _add(self, first: int, exponent: int, counts: Int64s) -> None:
        """Adds the counts of finer bins: bin i of width 2^k lies in bin i >> d of width 2^(k+d)."""
        if counts.any():
            index = (np.arange(len(counts)) + first) >> (self.exponent - exponent)
            np.add.at(self.counts, index - self.first, counts)


@dataclass(frozen=True)
class Counter:
    """A way to find the range of values and to count them; all of them have the same results.

    extent  [n] contiguous → the smallest and the largest value, None if some value is not finite
    tally   adds values to a histogram: (values, exponent, first, counts changed in place) → their exact moments
    """

    extent: Callable[[Array], tuple[float, float] | None]
    tally: Callable[[Array, int, int, Int64s], Moments]


def extent_in_numpy(values: Array) -> tuple[float, float] | None:
    """Returns the smallest and the largest of the values; None if some value is not finite."""
    lo, hi = float(values.min()), float(values.max())
    return (lo, hi) if math.isfinite(lo) and math.isfinite(hi) else None


def extents_of(values: Array, counter: Counter | None) -> list[tuple[float, float]]:
    """Returns the smallest and the largest value of each row, of which NaN or infinity are part if a row has some."""
    if len(values) == 1:
        return [counter_of(values, counter).extent(values[0]) or (math.nan, math.nan)]
    return list(zip(values.min(axis=1).tolist(), values.max(axis=1).tolist(), strict=True))


def tally_in_blocks(values: Array, exponent: int, first: int, counts: Int64s) -> Moments:
    """Adds values to a histogram, in numpy.

    Args:
        values: Finite values, of one dimension.
        exponent: k: bins are 2^k wide.
        first: The index of the first bin.
        counts: The count of each bin, changed in place; the bins cover all values.

    Returns:
        The exact moments of the values.
    """
    moments = Moments()
    for block in _blocks(values, BLOCK):
        moments.update(block)
        index = np.floor(block * math.ldexp(1.0, -exponent)) - first
        counts += np.bincount(index.astype(np.intp), minlength=len(counts))
    return moments


IN_NUMPY = Counter(extent_in_numpy, tally_in_blocks)


_counter: ContextVar[Counter | None] = ContextVar("counter", default=None)


@contextmanager
def counted_by(counter: Counter) -> Generator[None]:
    """While the context lasts, many values are counted by `counter` where callers give none."""
    before = _counter.set(counter)
    try:
        yield
    finally:
        _counter.reset(before)


MANY = 1 << 14
"""The values from which a counter's code may be compiled, and called."""


def counter_of(values: Array, counter: Counter | None) -> Counter:
    """The way to count values: the given one, or that of the context, is for float32 only."""
    if counter is None and values.size >= MANY:
        counter = _counter.get()
    return counter if counter is not None and values.dtype == np.float32 else IN_NUMPY


def _blocks(values: Array, rows: int) -> Iterator[Float64s]:
    """Yields blocks of at most `rows` values, as float64."""
    return (values[start : start + rows].astype(np.float64) for start in range(0, len(values), rows))


def grid(lo: float, hi: float, bins: int) -> tuple[int, int, int]:
    """Returns (k, first, last): the least k whose bins of width 2^k, first to last, cover [lo, hi] with at most `bins`.

    A wider range never gets a smaller k. Bins are not finer than about 2^-32 of the largest magnitude, so that a range
    of a single value has a bin, and indices are exact.
    """
    span = max(hi - lo, abs(lo) * 2.0**-20, abs(hi) * 2.0**-20, 2.0**-100)
    exponent = math.frexp(span / bins)[1] - 2
    while True:
        first, last = math.floor(math.ldexp(lo, -exponent)), math.floor(math.ldexp(hi, -exponent))
        if last - first + 1 <= bins:
            return exponent, first, last
        exponent += 1


def exact(value: float) -> int:
    """Returns a float32 value in units of 2^-149."""
    return int(math.ldexp(value, -VALUE_UNIT))


def require_finite(name: str, values: Array, where: str = "") -> None:
    """Checks that the values of a tensor are finite; `where` names the sample in the error.

    Raises:
        ProfileError: A value is NaN or infinite; the error names the tensor.
    """
    if values.size and extent_in_numpy(values) is None:
        raise not_finite(name, values, where)


def not_finite(name: str, values: Array, where: str = "") -> ProfileError:
    """The error for a tensor with values that are not finite; `where` names the sample."""
    kind = "NaN" if np.isnan(values).any() else "an infinity"
    return ProfileError(
        f'tensor "{name}"',
        "must stay finite on calibration data",
        got=f"{kind}{where}",
        remedy="remove that sample, or look at the operation that produces the tensor",
    )


def structure_of(observed: Mapping[str, tuple[int, ...] | None]) -> str:
    """Returns a hash of the names and shapes of observed tensors, which is the same for any batch size."""
    lines = (f"{name} {'x'.join(map(str, shape or ()))}" for name, shape in observed.items())
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


@dataclass(repr=False)
class ProfileData:
    """What a profile's file holds.

    structure  hash of the names and shapes of the observed tensors
    samples    number of samples seen
    bins       the most bins a histogram may have
    tensors    profiles by tensor name, in program order
    notes      how the samples were read from files, for commands that read more of them
    """

    structure: str
    samples: int = 0
    bins: int = BINS
    tensors: dict[str, TensorProfile] = field(default_factory=dict[str, TensorProfile])
    notes: ReadingNotes = ReadingNotes()
