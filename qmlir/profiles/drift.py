"""How far the tensors of one profile have moved from those of another: their ranges, and how their values spread.

Histograms of all profiles lie on one absolute grid, so that bins of two profiles become equal by merging neighbours,
exactly. Tensors are compared by name; a tensor that has another name in the other profile is found by how it is
computed, if no other tensor is computed in the same way.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from qmlir.display import Shown, Table, counted
from qmlir.numerics import Int64s
from qmlir.profiles.profile import Profile
from qmlir.profiles.tensor_profile import TensorProfile


@dataclass(frozen=True)
class Moved:
    """What became of a tensor from one profile to another.

    tensor       the tensor's name in the second profile
    before       its name in the first profile
    lo, hi       its least and its greatest value in the second profile
    before_lo    its least value in the first profile
    before_hi    its greatest value in the first profile
    outside      the share of the second profile's values beyond the first one's range, from 0 to 1, by bins
    shift        how far the mean moved, in standard deviations of the first profile; None if a profile has no sums
    distance     the greatest difference between the cumulative distributions (Kolmogorov and Smirnov), from 0 to 1;
                 None if a profile has no histogram
    """

    tensor: str
    before: str
    lo: float
    hi: float
    before_lo: float
    before_hi: float
    outside: float | None
    shift: float | None
    distance: float | None

    @property
    def change(self) -> float:
        """How far an end of the range moved, as a share of the first profile's range."""
        moved = max(abs(self.lo - self.before_lo), abs(self.hi - self.before_hi))
        span = self.before_hi - self.before_lo
        return moved / span if span else math.inf if moved else 0.0

    def as_dict(self) -> dict[str, Any]:
        """The fields, and the change of the range."""
        return {**asdict(self), "change": self.change}


@dataclass(repr=False)
class Drift(Shown):
    """The tensors of two profiles, those that moved farthest first, and those that only one of them has.

    tensors  the tensors of both
    gone     names of tensors that only the first profile has
    new      names of tensors that only the second profile has
    """

    tensors: list[Moved]
    gone: list[str]
    new: list[str]

    def table(self) -> Table:
        rows = [row_of(each) for each in self.tensors]
        others = f"; {len(self.gone)} no longer there, {len(self.new)} new" if self.gone or self.new else ""
        return Table(f"drift of {counted(len(rows), 'tensor')}{others}", HEADINGS, rows)

    def as_dict(self) -> dict[str, Any]:
        """The drift as plain data."""
        return {"tensors": [each.as_dict() for each in self.tensors], "gone": self.gone, "new": self.new}


HEADINGS = ("tensor", "range before", "range", "range moved", "outside", "mean moved", "distance")
"""The columns of a table of tensors."""


def row_of(moved: Moved) -> tuple[str, ...]:
    """Returns the cells of a tensor's row."""
    name = moved.tensor if moved.tensor == moved.before else f"{moved.tensor} (was {moved.before})"
    return (
        name,
        f"{moved.before_lo:.4g} … {moved.before_hi:.4g}",
        f"{moved.lo:.4g} … {moved.hi:.4g}",
        _percent(moved.change),
        _percent(moved.outside),
        "–" if moved.shift is None else f"{moved.shift:.2f} σ",
        "–" if moved.distance is None else f"{moved.distance:.3f}",
    )


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %" if math.isfinite(share) else "∞"


def profile_drift(before: "Profile | str | Path", after: "Profile | str | Path") -> Drift:
    """Returns how far the tensors of a profile have moved from those of another profile of the same network.

    Args:
        before: A profile, or its path: of the data that the network was quantized on, say.
        after: Another one: of the data that it meets.

    Raises:
        FileError: A file is no profile.

    >>> import qmlir
    >>> drift = qmlir.profile_drift(qmlir.profile("digits.onnx", samples[:4]), qmlir.profile("digits.onnx", samples))
    >>> drift.tensors[0].distance < 0.2
    True
    """
    first, second = (each if isinstance(each, Profile) else Profile.load(each) for each in (before, after))
    pairs = dict(_pairs(first, second))
    tensors = [_moved(name, there, first.tensors[there], second.tensors[name]) for name, there in pairs.items()]
    found = {*pairs.values()}
    return Drift(
        sorted(tensors, key=lambda each: (-(each.distance or 0.0), -each.change)),
        [name for name in first.tensors if name not in found],
        [name for name in second.tensors if name not in pairs],
    )


def _pairs(first: Profile, second: Profile) -> Iterator[tuple[str, str]]:
    """Yields the tensors of the second profile that saw a value, each with its name in the first profile."""
    left, right = (_only(profile, other) for profile, other in ((first, second), (second, first)))
    for name, tensor in second.tensors.items():
        there = name if name in first.tensors else left.get(tensor.key) if tensor.key in right else None
        if there is not None and tensor.count and first.tensors[there].count:
            yield name, there


def _only(profile: Profile, other: Profile) -> Mapping[str, str]:
    """The tensors that another profile has not by name, by how they are computed; without those that share it."""
    named: dict[str, list[str]] = {}
    for name, tensor in profile.tensors.items():
        if tensor.key and name not in other.tensors:
            named.setdefault(tensor.key, []).append(name)
    return {key: names[0] for key, names in named.items() if len(names) == 1}


def _moved(name: str, there: str, first: TensorProfile, second: TensorProfile) -> Moved:
    outside = distance = None
    if len(first.counts) and len(second.counts):
        before, after = _on_one_grid(first, second)
        distance = float(np.abs(np.cumsum(before) / before.sum() - np.cumsum(after) / after.sum()).max())
        seen = np.flatnonzero(before)
        outside = 1.0 - float(after[seen[0] : seen[-1] + 1].sum() / after.sum())
    return Moved(name, there, second.lo, second.hi, first.lo, first.hi, outside, _shift(first, second), distance)


def _on_one_grid(first: TensorProfile, second: TensorProfile) -> tuple[Int64s, Int64s]:
    """Returns the counts of two histograms over the same bins, which are as wide as those of the coarser histogram."""
    exponent = max(first.exponent, second.exponent)
    places = [(np.arange(len(p.counts)) + p.first) >> (exponent - p.exponent) for p in (first, second)]
    bins = np.unique(np.concatenate(places))  # bins that are empty in both histograms are left out
    found = [np.zeros(len(bins), np.int64) for _ in range(2)]
    for counts, place, profile in zip(found, places, (first, second), strict=True):
        np.add.at(counts, np.searchsorted(bins, place), profile.counts)
    return found[0], found[1]


def _shift(first: TensorProfile, second: TensorProfile) -> float | None:
    """How far the mean moved, in standard deviations of the first profile."""
    if first.moments is None or second.moments is None or not first.moments.squares:
        return None
    deviation = math.sqrt(max(first.moments.variance(first.count), 0.0))
    moved = second.moments.mean(second.count) - first.moments.mean(first.count)
    return moved / deviation if deviation else None
