"""A profile: the ranges, histograms and moments of a network's tensors over calibration data.

Streaming and of constant memory. Histogram bins lie on an absolute grid: width 2^k, edges at multiples of it, k the
least with at most `bins` bins over [min, max]. When the range grows, neighbouring bins merge pairwise, exactly; so
the histogram depends neither on the order of the samples nor on how they were split. Sums are exact (moments.py), so
merging profiles gives what one run over all samples gives, to the bit.

A profile is keyed by tensor name and by a hash of how the tensor is computed, without the batch dimension; schema,
precision and batch size do not enter. Its file is the business of profile_files.py.
"""

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from qmlir.errors import OptionError, ProfileError
from qmlir.files import path_of
from qmlir.moments import BLOCK, VALUE_UNIT, Moments

BINS = 2000

CHANNEL_BINS = 128
"""The most bins of a channel's histogram: a network has thousands of channels."""

Float64s = npt.NDArray[np.float64]


@dataclass
class TensorProfile:
    """What was seen of one tensor.

    shape     its shape without the batch dimension; None where the file it comes from does not say
    key       hash of how the tensor is computed; empty where nobody knows
    count     how many elements were seen
    lo, hi    the smallest and the largest
    exponent  k: bins are 2^k wide
    first     index of the first bin: it covers [first·2^k, (first+1)·2^k)
    counts    elements in each bin, int64
    moments   exact sums of its values; None where they are not known
    extremes  exact sums of each sample's minimum and maximum, in units of 2^-149
    samples   how many samples those are of
    channels  what was seen of each channel, along the last axis; None if not asked for
    """

    shape: tuple[int, ...] | None
    key: str = ""
    count: int = 0
    lo: float = math.inf
    hi: float = -math.inf
    exponent: int = 0
    first: int = 0
    counts: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    moments: Moments | None = field(default_factory=Moments)
    extremes: tuple[int, int] = (0, 0)
    samples: int = 0
    channels: "list[TensorProfile] | None" = None

    def update(self, values: npt.NDArray[Any], bins: int = BINS, tally: "Tally | None" = None) -> None:
        """Adds the finite values of one sample; `tally` is a faster way to count them than numpy's, if any."""
        if values.size == 0:
            return
        lo, hi = float(values.min()), float(values.max())
        self._cover(lo, hi, bins)
        self.count += values.size
        self.samples += 1
        self.extremes = (self.extremes[0] + _exact(lo), self.extremes[1] + _exact(hi))
        flat = np.ascontiguousarray(values).reshape(-1)
        fast = tally if tally is not None and flat.dtype == np.float32 else tally_in_blocks
        moments = fast(flat, self.exponent, self.first, self.counts)
        if self.moments is not None:
            self.moments.merge(moments)
        if self.channels is not None:
            columns = np.ascontiguousarray(flat.reshape(-1, len(self.channels)).T)
            for channel, column in zip(self.channels, columns, strict=True):
                channel.update(column, CHANNEL_BINS, tally)

    def merge(self, other: "TensorProfile", bins: int = BINS) -> None:
        """Adds what another profile of the same tensor has seen."""
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
        """The mean of each sample's minimum, and of its maximum: a moving average that no order enters."""
        unit = Fraction(2) ** VALUE_UNIT / max(self.samples, 1)
        lo, hi = (float(e * unit) for e in self.extremes)
        return lo, hi

    @property
    def is_dead(self) -> bool:
        """Whether the tensor never changed: all its elements on all samples were one value."""
        return self.count > 0 and self.lo == self.hi

    def dead_channels(self) -> list[int]:
        """The channels that never changed; none where channels were not asked for."""
        return [i for i, channel in enumerate(self.channels or ()) if channel.is_dead]

    def _cover(self, lo: float, hi: float, bins: int) -> None:
        """Widens range and bins so that [lo, hi] is covered too."""
        # Adding 0.0 makes -0.0 its equal 0.0, of which min would return whichever came first.
        self.lo, self.hi = min(self.lo, lo) + 0.0, max(self.hi, hi) + 0.0
        exponent, first, last = grid(self.lo, self.hi, bins)
        if (exponent, first, last - first + 1) == (self.exponent, self.first, len(self.counts)):
            return
        before = (self.first, self.exponent, self.counts)
        self.exponent, self.first, self.counts = exponent, first, np.zeros(last - first + 1, np.int64)
        self._add(*before)

    def _add(self, first: int, exponent: int, counts: npt.NDArray[np.int64]) -> None:
        """Adds the counts of finer bins: bin i of width 2^k lies in bin i >> d of width 2^(k+d)."""
        if counts.any():
            index = (np.arange(len(counts)) + first) >> (self.exponent - exponent)
            np.add.at(self.counts, index - self.first, counts)


Tally = Callable[[npt.NDArray[Any], int, int, npt.NDArray[np.int64]], Moments]
"""Adds values to a histogram: (values, exponent, first, counts changed in place) → their exact moments."""


def tally_in_blocks(values: npt.NDArray[Any], exponent: int, first: int, counts: npt.NDArray[np.int64]) -> Moments:
    """Adds values to a histogram, in numpy.

    Args:
        values: Finite, of one dimension.
        exponent: k: bins are 2^k wide.
        first: The index of the first bin.
        counts: Of each bin, changed in place; the bins cover all values.

    Returns:
        The exact moments of the values.
    """
    moments = Moments()
    for block in _blocks(values, BLOCK):
        moments.update(block)
        index = np.floor(block * math.ldexp(1.0, -exponent)) - first
        counts += np.bincount(index.astype(np.intp), minlength=len(counts))
    return moments


def _blocks(values: npt.NDArray[Any], rows: int) -> Iterator[Float64s]:
    """Some rows at a time, as float64."""
    return (values[start : start + rows].astype(np.float64) for start in range(0, len(values), rows))


def grid(lo: float, hi: float, bins: int) -> tuple[int, int, int]:
    """(k, first, last): the least k for which bins of width 2^k, first to last, cover [lo, hi] with at most `bins`.

    A wider range never gets a smaller k. Bins are not finer than 2^-32 of the largest magnitude or so, so that a
    single value has a bin, and indices are exact.
    """
    span = max(hi - lo, abs(lo) * 2.0**-20, abs(hi) * 2.0**-20, 2.0**-100)
    exponent = math.frexp(span / bins)[1] - 2
    while True:
        first, last = math.floor(math.ldexp(lo, -exponent)), math.floor(math.ldexp(hi, -exponent))
        if last - first + 1 <= bins:
            return exponent, first, last
        exponent += 1


def _exact(value: float) -> int:
    """A float32 in units of 2^-149."""
    return int(math.ldexp(value, -VALUE_UNIT))


@dataclass
class Profile:
    """The profiles of a network's tensors.

    structure  hash of the names and shapes of the observed tensors
    samples    how many samples were seen
    bins       the most bins a histogram may have
    tensors    by name, in program order
    """

    structure: str
    samples: int = 0
    bins: int = BINS
    tensors: dict[str, TensorProfile] = field(default_factory=dict[str, TensorProfile])

    @classmethod
    def empty(
        cls,
        observed: Mapping[str, tuple[int, ...]],
        bins: int = BINS,
        *,
        keys: Mapping[str, str] | None = None,
        per_channel: bool = False,
    ) -> Self:
        """A profile without samples.

        Args:
            observed: Name → shape without the batch dimension, of each tensor to be observed.
            bins: The most bins a histogram may have, 2 or more: one on each side of zero.
            keys: Name → hash of how the tensor is computed.
            per_channel: Whether to learn the same of each channel too.
        """
        if bins < 2:
            raise OptionError("bins", "must be at least 2", got=str(bins))
        tensors = {name: TensorProfile(tuple(shape), (keys or {}).get(name, "")) for name, shape in observed.items()}
        for tensor, shape in zip(tensors.values(), observed.values(), strict=True):
            tensor.channels = [TensorProfile(()) for _ in range(shape[-1])] if per_channel and shape else None
        return cls(structure_of(observed), 0, bins, tensors)

    def update(self, values: Mapping[str, npt.NDArray[Any]], tally: Tally | None = None) -> None:
        """Adds one sample: an array for each observed tensor.

        Args:
            values: The arrays by name.
            tally: A faster way to count them than numpy's, if any; it has to give the same.

        Raises:
            ProfileError: One of them is not finite; the profile stays as it was.
        """
        for name, array in values.items():
            require_finite(name, array, f" on sample {self.samples} (counted from 0)")
        for name, array in values.items():
            self.tensors[name].update(array, self.bins, tally)
        self.samples += 1

    def merge(self, other: Self) -> None:
        """Adds what another profile of the same network has seen; the result does not depend on how data was split.

        Raises:
            ProfileError: It is of another network, or has another number of bins, or other channels.
        """
        if (other.structure, other.bins) != (self.structure, self.bins):
            raise ProfileError(
                "profile to merge",
                f"must be of the same network, with at most {self.bins} bins",
                got=f"one of {len(other.tensors)} tensors with at most {other.bins}",
                remedy="profile each part of the data with the same model and options",
            )
        for name, tensor in other.tensors.items():
            if (tensor.key, tensor.channels is None) != (self.tensors[name].key, self.tensors[name].channels is None):
                what = "is computed in another way" if tensor.key != self.tensors[name].key else "has other channels"
                raise ProfileError(
                    "profile to merge",
                    "must be of the same network, taken with the same options",
                    got=f'one where tensor "{name}" {what}',
                    remedy="profile each part of the data with the same model and options",
                )
        for name, tensor in other.tensors.items():
            self.tensors[name].merge(tensor, self.bins)
        self.samples += other.samples

    def range_of(self, name: str) -> tuple[float, float]:
        """The observed (lowest, highest) value of a tensor."""
        tensor = self.tensors[name]
        return tensor.lo, tensor.hi

    def dead(self) -> dict[str, TensorProfile]:
        """The tensors that never changed, or that have channels which never did."""
        return {name: t for name, t in self.tensors.items() if t.is_dead or t.dead_channels()}

    def save(self, path: str | Path) -> None:
        """Writes the profile as YAML, atomically."""
        from qmlir.profile_files import save_profile

        save_profile(self, path_of(path, "profile"))

    @classmethod
    def load(cls, path: str | Path) -> "Profile":
        """Reads a profile that `save` wrote, or one of Glow's.

        Raises:
            FileError: It cannot be read, is no profile, or contradicts itself; with line and column.
        """
        from qmlir.profile_files import load_profile

        return load_profile(path_of(path, "profile"))


def require_finite(name: str, values: npt.NDArray[Any], where: str = "") -> None:
    """Refuses values of a tensor that are not finite; `where` says on which sample.

    Raises:
        ProfileError: Names the tensor.
    """
    if values.size and not (math.isfinite(values.min()) and math.isfinite(values.max())):
        kind = "NaN" if np.isnan(values).any() else "an infinity"
        raise ProfileError(
            f'tensor "{name}"',
            "must stay finite on calibration data",
            got=f"{kind}{where}",
            remedy="remove that sample, or look at the operation that produces the tensor",
        )


def structure_of(observed: Mapping[str, tuple[int, ...] | None]) -> str:
    """A hash of the names and shapes of observed tensors: the same for the same network at any batch size."""
    lines = (f"{name} {'x'.join(map(str, shape or ()))}" for name, shape in observed.items())
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
