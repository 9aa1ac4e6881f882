"""Reads and writes Glow's `profile.yaml`.

Such a file has three documents: the tools' version, the hash of the graph, and a list of tensors by `<node>:<result>`,
each with its range and a histogram of equal bins over the range. qmlir's bins lie on an absolute grid, so both
directions redistribute the counts in proportion to the overlap of bins; the total count stays the same. Glow's file
has neither shapes nor moments. Its names are C identifiers; they match a tensor's name made into an identifier
(`glow_name`).
"""

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from qmlir.errors import FileError
from qmlir.files.whole import write_whole
from qmlir.files.yaml import YamlFile
from qmlir.profiles.profile import BINS, Profile, TensorProfile, grid, structure_of

Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]

REMEDY = "write one with Glow's -dump-profile, or with `qmlir profile --format glow`"


def glow_name(name: str) -> str:
    """Returns a tensor's name as Glow writes it: a C identifier, followed by the result number of its node, 0."""
    legal = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return (legal if legal and not legal[0].isdigit() else f"A{legal}") + ":0"


def is_glow(file: YamlFile) -> bool:
    """Whether a file looks like a profile that Glow wrote."""
    return "GlowToolsVersion" in file.fields


def load_glow(file: YamlFile) -> Profile:
    """Returns the profile of a Glow file, with its histograms on qmlir's grid.

    Raises:
        FileError: The file does not have the form that Glow writes.
    """
    listed = file.documents[2] if len(file.documents) == 3 else None
    if not isinstance(listed, list):
        got = f"{len(file.documents)} documents"
        raise FileError(file.path, "must be version, hash and list of tensors, as Glow writes", got=got, remedy=REMEDY)
    tensors: dict[str, TensorProfile] = {}
    for index, entry in enumerate(cast(list[Any], listed)):
        try:
            name, tensor = _tensor_of(entry)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            got = f"entry {index} of it with {' '.join(str(error).split())}"
            raise FileError(file.path, "must be a whole profile of Glow's", got=got, remedy=REMEDY) from None
        tensors[name] = tensor
    return Profile(structure_of({n: None for n in tensors}), 1, BINS, tensors)


def _tensor_of(entry: Mapping[str, Any]) -> tuple[str, TensorProfile]:
    name, lo, hi = str(entry["NodeOutputName"]), float(entry["Min"]), float(entry["Max"])
    if not -math.inf < lo <= hi < math.inf:
        raise ValueError(f"Min {lo} and Max {hi}")
    heights = np.array(entry["Histogram"], np.float64)
    if heights.ndim != 1 or not np.isfinite(heights).all() or heights.min(initial=0) < 0:
        raise ValueError("a Histogram that is no list of counts")
    exponent, first, last = grid(lo, hi, BINS)
    edges = np.ldexp(np.arange(first, last + 2, dtype=np.float64), exponent)
    counts = redistributed(np.linspace(lo, hi, len(heights) + 1), heights, edges)
    total = int(counts.sum())
    if not total:  # a tensor without a histogram still has its range
        counts = np.zeros(0, np.int64)
    count = max(total, 1)
    found = TensorProfile(None, "", count, lo, hi, exponent, first, counts, None)
    found.samples, found.extremes = 1, tuple[int, int](int(math.ldexp(b, 149)) for b in (lo, hi))
    return name, found


def save_glow(profile: Profile, path: Path, bins: int = BINS) -> None:
    """Writes a profile in the form that Glow's tools read.

    Args:
        profile: A profile.
        path: The file.
        bins: The number of bins of each histogram.
    """
    lines = ["---", "GlowToolsVersion: ''", "...", "---", f"GraphPreLowerHash: 0x{profile.structure.upper()}", "..."]
    lines += ["---"]
    for name, tensor in profile.tensors.items():
        if not tensor.count:
            continue
        edges = np.ldexp(
            np.arange(tensor.first, tensor.first + len(tensor.counts) + 1, dtype=np.float64), tensor.exponent
        )
        edges = np.clip(edges, tensor.lo, tensor.hi)
        heights = redistributed(edges, tensor.counts.astype(np.float64), np.linspace(tensor.lo, tensor.hi, bins + 1))
        lines += [
            f"- NodeOutputName:  '{glow_name(name)}'",
            f"  Min:             {_decimal(tensor.lo)}",
            f"  Max:             {_decimal(tensor.hi)}",
            f"  Histogram:       [ {', '.join(map(str, heights.tolist()))} ]",
        ]
    write_whole(path, "\n".join([*lines, "...", ""]))


def _decimal(value: float) -> str:
    """Returns all digits of a number without an exponent, as Glow reads numbers."""
    digits = f"{np.float32(value):.126f}".rstrip("0")
    return digits + "0" if digits.endswith(".") else digits


def redistributed(edges: Float64s, heights: Float64s, wanted: Float64s) -> Int64s:
    """Moves the counts of a histogram to other bins; the results are whole numbers with the same sum.

    The count of an old bin is spread evenly over its width.

    Args:
        edges: The edges of the old bins, ascending; only the first and the last bin may have no width.
        heights: The counts of the old bins.
        wanted: The edges of the new bins, ascending, which cover the old bins.
    """
    if not len(heights):
        return np.zeros(len(wanted) - 1, np.int64)
    wide = np.diff(edges) > 0
    if not wide.any():  # one value
        inside = min(max(int((wanted <= edges[0]).sum()) - 1, 0), len(wanted) - 2)
        found = np.zeros(len(wanted) - 1, np.int64)
        found[inside] = int(heights.sum())
        return found
    begin, end = int(wide.argmax()), len(wide) - int(wide[::-1].argmax())
    below = np.concatenate([[0.0], np.cumsum(heights[begin:end])])
    found = np.diff(np.rint(np.interp(wanted, edges[begin : end + 1], below))).astype(np.int64)
    found[0] += int(heights[:begin].sum())
    found[-1] += int(heights[end:].sum())
    return found
