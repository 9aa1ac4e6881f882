"""A profile: the ranges, histograms and moments of a network's tensors over calibration data.

A profile is keyed by tensor name and by a hash of how the tensor is computed, without the batch dimension. Schema,
precision and batch size have no influence on it. Since the statistics of its tensors (tensor_profile.py) depend neither
on the order of the samples nor on how they were split, merged profiles equal, to the bit, the profile of one run over
all samples. files.py reads and writes its file.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np

from qmlir.display import Shown, Table, counted
from qmlir.errors import OptionError, ProfileError
from qmlir.numerics import Array
from qmlir.profiles.tensor_profile import (
    BINS,
    Counter,
    ProfileData,
    TensorProfile,
    counter_of,
    extents_of,
    not_finite,
    structure_of,
)
from qmlir.running.files import path_of


@dataclass(repr=False)
class Profile(ProfileData, Shown):
    """The profiles of a network's tensors.

    >>> import qmlir
    >>> profile = qmlir.profile("digits.onnx", samples)  # samples of shape [1, 1, 8, 8], float32
    >>> profile.tensors["image"].lo, profile.tensors["image"].hi
    (0.0, 1.0)
    >>> profile.save("digits.yaml")
    >>> qmlir.Profile.load("digits.yaml").samples == profile.samples
    True
    """

    @classmethod
    def empty(
        cls,
        observed: Mapping[str, tuple[int, ...]],
        bins: int = BINS,
        *,
        keys: Mapping[str, str] | None = None,
        per_channel: bool = False,
    ) -> Self:
        """Returns a profile without samples.

        Args:
            observed: Name → shape without the batch dimension, for each tensor to observe.
            bins: The most bins a histogram may have, at least 2: one on each side of zero.
            keys: Name → hash of how the tensor is computed.
            per_channel: Whether to profile each channel too.
        """
        if bins < 2:
            raise OptionError("bins", "must be at least 2", got=str(bins))
        tensors = {name: TensorProfile(tuple(shape), (keys or {}).get(name, "")) for name, shape in observed.items()}
        for tensor, shape in zip(tensors.values(), observed.values(), strict=True):
            tensor.channels = [TensorProfile(()) for _ in range(shape[-1])] if per_channel and shape else None
        return cls(structure_of(observed), 0, bins, tensors)

    def table(self) -> Table:
        rows = [
            (name, str(list(t.shape or ())), t.lo, t.hi, *t.average_range, len(t.counts))
            for name, t in self.tensors.items()
            if t.count
        ]
        headings = ("tensor", "shape", "least", "greatest", "mean least", "mean greatest", "bins")
        return Table(
            f"profile of {counted(len(self.tensors), 'tensor')} over {counted(self.samples, 'sample')}", headings, rows
        )

    def update(self, values: Mapping[str, Array], counter: Counter | None = None, *, number: int | None = None) -> None:
        """Adds one sample: an array for each observed tensor.

        Args:
            values: The arrays by tensor name.
            counter: A faster way to count values than numpy's, if any.
            number: What errors call the sample; by default the number of samples before it.

        Raises:
            ProfileError: An array is not finite; the profile stays unchanged.
        """
        self.update_all([values], counter, number=number)

    def update_all(
        self, samples: Sequence[Mapping[str, Array]], counter: Counter | None = None, *, number: int | None = None
    ) -> None:
        """Adds samples, as `update` adds one; small tensors of many samples are counted in less time than one by one.

        Args:
            samples: For each sample an array for each observed tensor.
            counter: A faster way to count values than numpy's, if any.
            number: What errors call the first sample; by default the number of samples before it.

        Raises:
            ProfileError: An array is not finite; the profile stays unchanged.
        """
        if len(samples) > 1 and any(tensor.channels is not None for tensor in self.tensors.values()):
            for place, sample in enumerate(samples):
                self.update(sample, counter, number=None if number is None else number + place)
            return
        flat: dict[str, Array] = {}
        extents: dict[str, list[tuple[float, float]]] = {}
        for name, first in samples[0].items():
            if first.size:
                rows = [np.ascontiguousarray(each[name]).reshape(-1) for each in samples]
                flat[name] = rows[0] if len(rows) == 1 else np.concatenate(rows)
                extents[name] = extents_of(flat[name].reshape(len(samples), -1), counter)
        for place, sample in enumerate(samples):
            for name, found in extents.items():
                if not math.isfinite(sum(found[place])):
                    where = f" on sample {(self.samples if number is None else number) + place} (counted from 0)"
                    raise not_finite(name, sample[name], where)
        for name, array in flat.items():
            self.tensors[name].add(array, extents[name], self.bins, counter_of(array, counter))
        self.samples += len(samples)

    def merge(self, other: Self) -> None:
        """Adds another profile of the same network; the result does not depend on how the data were split.

        Raises:
            ProfileError: The other profile is of another network, or has another number of bins, or other channels.
        """
        if (other.structure, other.bins) != (self.structure, self.bins):
            raise ProfileError(
                "profile to merge",
                f"must be of the same network, with at most {self.bins} bins",
                got=f"one of {counted(len(other.tensors), 'tensor')} with at most {other.bins}",
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
        if self.notes.over(other.notes) != other.notes.over(self.notes):
            raise ProfileError(
                "profile to merge",
                f'must be of samples that were read in the same way: "{self.notes}"',
                got=f'"{other.notes}"',
                remedy="profile each part of the data with the same --preprocess and --dtype",
            )
        for name, tensor in other.tensors.items():
            self.tensors[name].merge(tensor, self.bins)
        self.samples += other.samples
        self.notes = self.notes.over(other.notes)

    def range_of(self, name: str) -> tuple[float, float]:
        """Returns the observed (lowest, highest) value of a tensor."""
        tensor = self.tensors[name]
        return tensor.lo, tensor.hi

    def dead(self) -> dict[str, TensorProfile]:
        """Returns the tensors that never change, or that have channels which never change."""
        return {name: t for name, t in self.tensors.items() if t.is_dead or t.dead_channels()}

    def save(self, path: str | Path) -> None:
        """Writes the profile as YAML; the file appears whole or not at all."""
        from qmlir.profiles.files import save_profile

        save_profile(self, path_of(path, "profile"))

    @classmethod
    def load(cls, path: str | Path) -> "Profile":
        """Reads a profile that `save` or Glow wrote.

        Raises:
            FileError: The file cannot be read, is not a profile, or contradicts itself; with line and column.
        """
        from qmlir.profiles.files import load_profile

        return cls(**vars(load_profile(path_of(path, "profile"))))
