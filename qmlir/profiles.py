"""A profile: the ranges and histograms of a network's tensors over calibration data.

Streaming and of constant memory. Histogram bins lie on an absolute grid: width 2^k, edges at multiples of it, k the
least with at most `bins` bins over [min, max]. When the range grows, neighbouring bins merge pairwise, exactly; so
the histogram depends neither on the order of the samples nor on how they were split, and merging is exact.

A profile is keyed by tensor name and shape without the batch dimension, and knows the structure it was taken from;
schema, precision and batch size do not enter.
"""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
import numpy.typing as npt
import yaml

from qmlir.errors import FileError, OptionError, ProfileError
from qmlir.files import replacing

FORMAT = "qmlir-profile-1"
BINS = 2000


@dataclass
class TensorProfile:
    """What was seen of one tensor.

    shape     its shape without the batch dimension
    count     how many elements were seen
    lo, hi    the smallest and the largest
    exponent  k: bins are 2^k wide
    first     index of the first bin: it covers [first·2^k, (first+1)·2^k)
    counts    elements in each bin, int64
    """

    shape: tuple[int, ...]
    count: int = 0
    lo: float = math.inf
    hi: float = -math.inf
    exponent: int = 0
    first: int = 0
    counts: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    def update(self, values: npt.NDArray[Any], bins: int = BINS) -> None:
        """Adds finite values."""
        flat = values.astype(np.float64, copy=False).reshape(-1)
        if flat.size == 0:
            return
        self._cover(float(flat.min()), float(flat.max()), bins)
        self.count += flat.size
        index = np.floor(np.ldexp(flat, -self.exponent)).astype(np.int64) - self.first
        self.counts += np.bincount(index, minlength=len(self.counts))

    def merge(self, other: "TensorProfile", bins: int = BINS) -> None:
        """Adds what another profile of the same tensor has seen."""
        if other.count == 0:
            return
        self._cover(other.lo, other.hi, bins)
        self.count += other.count
        self._add(other.first, other.exponent, other.counts)

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


@dataclass
class Profile:
    """The profiles of a network's tensors.

    structure  hash of the names and shapes of the observed tensors
    samples    how many samples were seen
    tensors    by name, in program order
    """

    structure: str
    samples: int = 0
    bins: int = BINS
    tensors: dict[str, TensorProfile] = field(default_factory=dict[str, TensorProfile])

    @classmethod
    def empty(cls, observed: Mapping[str, tuple[int, ...]], bins: int = BINS) -> Self:
        """A profile without samples.

        Args:
            observed: Name → shape without the batch dimension, of each tensor to be observed.
            bins: The most bins a histogram may have, 2 or more: one on each side of zero.
        """
        if bins < 2:
            raise OptionError("bins", "must be at least 2", got=str(bins))
        tensors = {name: TensorProfile(tuple(shape)) for name, shape in observed.items()}
        return cls(structure_of(observed), 0, bins, tensors)

    def update(self, values: Mapping[str, npt.NDArray[Any]]) -> None:
        """Adds one sample: an array for each observed tensor.

        Raises:
            ProfileError: One of them is not finite; the profile stays as it was.
        """
        for name, array in values.items():
            if not np.isfinite(array).all():
                kind = "NaN" if np.isnan(array).any() else "an infinity"
                raise ProfileError(
                    f'tensor "{name}"',
                    "must stay finite on calibration data",
                    got=f"{kind} on sample {self.samples} (counted from 0)",
                    remedy="remove that sample, or look at the operation that produces the tensor",
                )
        for name, array in values.items():
            self.tensors[name].update(array, self.bins)
        self.samples += 1

    def merge(self, other: Self) -> None:
        """Adds what another profile of the same network has seen; the result does not depend on how data was split.

        Raises:
            ProfileError: It is of another network, or has another number of bins.
        """
        if (other.structure, other.bins) != (self.structure, self.bins):
            raise ProfileError(
                "profile to merge",
                f"must be of the same network, with at most {self.bins} bins",
                got=f"one of {len(other.tensors)} tensors with at most {other.bins}",
                remedy="profile each part of the data with the same model and options",
            )
        for name, tensor in other.tensors.items():
            self.tensors[name].merge(tensor, self.bins)
        self.samples += other.samples

    def range_of(self, name: str) -> tuple[float, float]:
        """The observed (lowest, highest) value of a tensor."""
        tensor = self.tensors[name]
        return tensor.lo, tensor.hi

    def save(self, path: str | Path) -> None:
        """Writes the profile as YAML, atomically."""
        data = {
            "format": FORMAT,
            "structure": self.structure,
            "samples": self.samples,
            "bins": self.bins,
            "tensors": {
                name: {
                    "shape": list(t.shape),
                    "count": t.count,
                    "range": [t.lo, t.hi] if t.count else None,
                    "histogram": {"exponent": t.exponent, "first": t.first, "counts": t.counts.tolist()},
                }
                for name, t in self.tensors.items()
            },
        }
        with replacing(Path(path)) as temporary, temporary.open("w", encoding="utf-8") as file:
            yaml.dump(data, file, _Dumper, sort_keys=False, default_flow_style=None, width=120)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Reads a profile that `save` wrote."""
        path = Path(path)
        remedy = "write one with `qmlir profile`"
        try:
            data: Any = yaml.load(path.read_text(encoding="utf-8"), _Loader)
        except OSError as error:
            got = (error.strerror or str(error)).lower()
            raise FileError(path, "must be a readable profile", got=got, remedy=remedy) from None
        except (yaml.YAMLError, UnicodeDecodeError):
            raise FileError(path, "must be a profile in YAML", got="text that is no YAML", remedy=remedy) from None
        fields = cast(dict[str, Any], data) if isinstance(data, dict) else {}
        if fields.get("format") != FORMAT:
            raise FileError(path, f'must be a profile with "format: {FORMAT}"', got="another file", remedy=remedy)
        try:
            entries = cast(dict[object, Any], fields["tensors"])
            tensors = {str(name): _tensor_of(entry) for name, entry in entries.items()}
            found = cls(str(fields["structure"]), int(fields["samples"]), int(fields["bins"]), tensors)
            if found.structure != structure_of({n: t.shape for n, t in tensors.items()}):
                raise ValueError(f"{len(tensors)} tensors are not those that were observed")
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            got = f"a broken entry ({' '.join(str(error).split())})"
            raise FileError(path, "must be a whole profile", got=got, remedy=remedy) from None
        return found


def _tensor_of(entry: Mapping[str, Any]) -> TensorProfile:
    """A tensor's entry in the YAML; raises one of many errors if it is not as `save` writes it."""
    histogram, bounds = entry["histogram"], entry["range"] or (math.inf, -math.inf)
    lo, hi = (float(b) for b in bounds)
    counts = np.array(histogram["counts"], np.int64)
    shape = tuple(int(n) for n in entry["shape"])
    found = TensorProfile(
        shape, int(entry["count"]), lo, hi, int(histogram["exponent"]), int(histogram["first"]), counts
    )
    if found.count and not -math.inf < lo <= hi < math.inf:
        raise ValueError(f"range [{lo}, {hi}]")
    if counts.ndim != 1 or counts.min(initial=0) < 0 or counts.sum() != found.count:
        raise ValueError("counts that do not add up")
    return found


# The C parser is ten times faster where libyaml is there; both read and write the same text.
_Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def structure_of(observed: Mapping[str, tuple[int, ...]]) -> str:
    """A hash of the names and shapes of observed tensors: the same for the same network at any batch size."""
    text = "\n".join(f"{name} {'x'.join(map(str, shape))}" for name, shape in observed.items())
    return hashlib.sha256(text.encode()).hexdigest()[:16]
