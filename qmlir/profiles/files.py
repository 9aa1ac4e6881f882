"""Reads and writes profiles: qmlir's own YAML, exact to the bit, and Glow's."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import numpy as np
import yaml

from qmlir.errors import FileError
from qmlir.ir.reading import ReadingNotes
from qmlir.numerics import Float64s, Int64s
from qmlir.numerics.histograms import SQUARE_UNIT, VALUE_UNIT, Moments
from qmlir.profiles.tensor_profile import BINS, ProfileData, TensorProfile, exact, grid, structure_of
from qmlir.running.files import replacing, write_whole
from qmlir.running.yaml_files import Dumper, Key, YamlFile, number_of, read_yaml

# ---------------------------------------------------------------------------------------------------------------
# Reads and writes Glow's `profile.yaml`.
#
# Such a file has three documents: the tools' version, the hash of the graph, and a list of tensors by
# `<node>:<result>`, each with its range and a histogram of equal bins over the range. qmlir's bins lie on an absolute
# grid, so both directions redistribute the counts in proportion to the overlap of bins; the total count stays the same.
# Glow's file has neither shapes nor moments. Its names are C identifiers; they match a tensor's name made into an
# identifier (`glow_name`).


GLOW_REMEDY = "write one with Glow's -dump-profile, or with `qmlir profile --format glow`"


def glow_name(name: str) -> str:
    """Returns a tensor's name as Glow writes it: a C identifier, followed by the result number of its node, 0."""
    legal = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return (legal if legal and not legal[0].isdigit() else f"A{legal}") + ":0"


def is_glow(file: YamlFile) -> bool:
    """Whether a file looks like a profile that Glow wrote."""
    return "GlowToolsVersion" in file.fields


def load_glow(file: YamlFile) -> ProfileData:
    """Returns the profile of a Glow file, with its histograms on qmlir's grid.

    Raises:
        FileError: The file does not have the form that Glow writes.
    """
    listed = file.documents[2] if len(file.documents) == 3 else None
    if not isinstance(listed, list):
        got = f"{len(file.documents)} documents"
        raise FileError(
            file.path, "must be version, hash and list of tensors, as Glow writes", got=got, remedy=GLOW_REMEDY
        )
    tensors: dict[str, TensorProfile] = {}
    for index, entry in enumerate(cast(list[Any], listed)):
        try:
            name, tensor = _tensor_of_glow(entry)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            got = f"entry {index} of it with {' '.join(str(error).split())}"
            raise FileError(file.path, "must be a whole profile of Glow's", got=got, remedy=GLOW_REMEDY) from None
        tensors[name] = tensor
    return ProfileData(structure_of({n: None for n in tensors}), 1, BINS, tensors)


def _tensor_of_glow(entry: Mapping[str, Any]) -> tuple[str, TensorProfile]:
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
    found.samples, found.extremes = 1, (exact(lo), exact(hi))
    return name, found


def save_glow(profile: ProfileData, path: Path, bins: int = BINS) -> None:
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


# ---------------------------------------------------------------------------------------------------------------
# qmlir's own format
#
#     format: qmlir-profile-1
#     structure: c67cfddd65ff4851
#     samples: 1
#     bins: 8
#     preprocess: scale=0.00392157          # how pictures became inputs, and `dtype` the type of raw files; if given
#     tensors:
#       r:
#         shape: [4]                        # without the batch dimension
#         key: 5f1c0a2b9d3e4f60             # hash of how it is computed
#         count: 4
#         range: [0.0, 6.0]
#         histogram: {exponent: 0, first: 0, counts: 2 1 0 0 0 0 1}           # bins of 2^0 from 0·2^0
#         moments: {sum: 15p-1, squares: 149p-2}                              # 15·2^-1, 149·2^-2
#         extremes: {samples: 1, sums: [0p0, 3p1]}                            # sums over samples of minima and maxima
#         channels: [{count: …, range: …, histogram: …, …}, …]                # with per-channel only
#
# A tensor in a file written by hand needs a range only; everything else that the file leaves out counts as unknown.


FORMAT = "qmlir-profile-1"
REMEDY = "write one with `qmlir profile`"


class MalformedProfile(Exception):
    """Raised for an invalid entry: the keys that lead to it, and what is wrong with it."""

    def __init__(self, got: str, *keys: Key):
        super().__init__(got)
        self.got, self.keys = got, keys


# ---------------------------------------------------------------------------------------------------------------
# Writing


def save_profile(profile: ProfileData, path: Path) -> None:
    """Writes a profile as YAML; the file appears whole or not at all."""
    data = {
        "format": FORMAT,
        "structure": profile.structure,
        "samples": profile.samples,
        "bins": profile.bins,
        **{name: text for name, text in asdict(profile.notes).items() if text},
        "tensors": {name: _entry(tensor) for name, tensor in profile.tensors.items()},
    }
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        yaml.dump(data, file, Dumper, sort_keys=False, default_flow_style=None, width=120)


def _entry(tensor: TensorProfile) -> dict[str, Any]:
    shape = None if tensor.shape is None else list(tensor.shape)
    entry = {"shape": shape, "key": tensor.key, **_seen(tensor)}
    if tensor.channels is not None:
        entry["channels"] = [_seen(channel) for channel in tensor.channels]
    return entry


def _seen(tensor: TensorProfile) -> dict[str, Any]:
    """Returns the recorded statistics of a tensor, or of one of its channels, as plain data."""
    entry: dict[str, Any] = {
        "count": tensor.count,
        "range": [tensor.lo, tensor.hi] if tensor.count else None,
    }
    if len(tensor.counts) or not tensor.count:  # a range may be known without a histogram
        entry["histogram"] = {
            "exponent": tensor.exponent,
            "first": tensor.first,
            # One text for all counts: with a number for each count, YAML takes twenty times as long, both ways.
            "counts": " ".join(map(str, tensor.counts.tolist())),
        }
    if tensor.moments is not None:
        moments = tensor.moments
        sums = _scaled(moments.values, VALUE_UNIT), _scaled(moments.squares, SQUARE_UNIT)
        entry["moments"] = dict(zip(("sum", "squares"), sums, strict=True))
    entry["extremes"] = {"samples": tensor.samples, "sums": [_scaled(e, VALUE_UNIT) for e in tensor.extremes]}
    return entry


def _scaled(value: int, unit: int) -> str:
    """Returns `mpe` for value · 2^unit = m · 2^e with m odd or zero."""
    if value == 0:
        return "0p0"
    zeros = (value & -value).bit_length() - 1
    return f"{value >> zeros}p{unit + zeros}"


# ---------------------------------------------------------------------------------------------------------------
# Reading


def load_profile(path: Path) -> ProfileData:
    """Reads a profile in qmlir's or in Glow's format.

    Raises:
        FileError: The file cannot be read, is not a profile, or contradicts itself; with line and column.
    """
    file = read_yaml(path, "a profile", remedy=REMEDY)
    if is_glow(file):
        return load_glow(file)
    if file.fields.get("format") != FORMAT:
        raise FileError(path, f'must be a profile with "format: {FORMAT}"', got="another file", remedy=REMEDY)
    try:
        return _profile_of(file.fields)
    except MalformedProfile as error:
        got = f"a broken entry ({error.got})"
        raise FileError(file.place(*error.keys), "must be a whole profile", got=got, remedy=REMEDY) from None


def _profile_of(fields: Mapping[str, Any]) -> ProfileData:
    entries = fields.get("tensors")
    if not isinstance(entries, dict):
        raise MalformedProfile("no tensors")
    tensors: dict[str, TensorProfile] = {}
    for name, entry in cast(dict[Any, Any], entries).items():
        try:
            tensors[str(name)] = _tensor_of(entry)
        except MalformedProfile as error:
            raise MalformedProfile(f'tensor "{name}": {error.got}', "tensors", name, *error.keys) from None
    structure = structure_of({n: t.shape for n, t in tensors.items()})
    if fields.get("structure", structure) != structure:
        raise MalformedProfile("its tensors are not those that were observed", "structure")
    bins = _integer(fields, "bins", BINS)
    notes = ReadingNotes(*(_text(fields, key) for key in ("preprocess", "dtype")))
    return ProfileData(structure, _integer(fields, "samples", 1), bins, tensors, notes)


def _text(fields: Mapping[str, Any], key: str) -> str:
    """Returns a text of the file, empty if it is missing."""
    text = fields.get(key, "")
    if not isinstance(text, str):
        raise MalformedProfile(f"{key} is a text", key)
    return text


def _tensor_of(entry: Any) -> TensorProfile:
    """Returns a tensor's profile; raises `MalformedProfile` if the entry is not as `save_profile` writes it."""
    if not isinstance(entry, dict):
        raise MalformedProfile("no entry of a tensor")
    fields = cast(dict[str, Any], entry)
    found = TensorProfile(_shape_of(fields), str(fields.get("key", "")))
    _read_range(found, fields)
    _read_histogram(found, fields)
    found.moments = _moments_of(fields)
    _read_extremes(found, fields)
    if (channels := fields.get("channels")) is not None:
        found.channels = _channels_of(channels, found)
    return found


def _shape_of(fields: Mapping[str, Any]) -> tuple[int, ...] | None:
    shape = fields.get("shape")
    if shape is None:
        return None
    if not isinstance(shape, list) or not all(isinstance(n, int) and n >= 0 for n in cast(list[Any], shape)):
        raise MalformedProfile("a shape is a list of sizes", "shape")
    return tuple(cast(list[int], shape))


def _read_range(found: TensorProfile, fields: Mapping[str, Any]) -> None:
    bounds = fields.get("range")
    if bounds is None:
        return
    found.count = 1
    found.lo, found.hi = _numbers(bounds, 2, "range")
    if not -math.inf < found.lo <= found.hi < math.inf:
        raise MalformedProfile(f"range [{found.lo}, {found.hi}] is not two finite numbers in order", "range")


def _read_histogram(found: TensorProfile, fields: Mapping[str, Any]) -> None:
    count = _integer(fields, "count", found.count)
    if count and not found.count:
        raise MalformedProfile(f"{count} elements without a range", "count")
    found.count = count
    histogram = fields.get("histogram")
    if histogram is None:
        return
    if not isinstance(histogram, dict):
        raise MalformedProfile("a histogram has exponent, first and counts", "histogram")
    parts = cast(dict[str, Any], histogram)
    found.exponent, found.first = (_integer(parts, key, None, "histogram") for key in ("exponent", "first"))
    counts = parts.get("counts")
    words = cast(list[Any], counts) if isinstance(counts, list) else str(counts).split()
    if not all(re.fullmatch("[0-9]{1,18}", str(n)) for n in words):
        raise MalformedProfile("counts are integers from 0", "histogram", "counts")
    found.counts = np.array([int(n) for n in words], np.int64)
    if found.counts.sum() != found.count:
        raise MalformedProfile("counts that do not add up", "histogram", "counts")
    if found.count:
        width = 2.0**found.exponent
        low, high = found.first * width, (found.first + len(found.counts)) * width
        if not low <= found.lo <= found.hi < high:
            raise MalformedProfile(
                f"a histogram of [{low:g}, {high:g}) for range [{found.lo}, {found.hi}]", "histogram"
            )


def _moments_of(fields: Mapping[str, Any]) -> Moments | None:
    moments = fields.get("moments")
    if not isinstance(moments, dict):
        return None
    parts = cast(dict[str, Any], moments)
    values = _integer_of(parts.get("sum"), VALUE_UNIT, "moments", "sum")
    squares = _integer_of(parts.get("squares"), SQUARE_UNIT, "moments", "squares")
    return Moments(values, squares)


def _read_extremes(found: TensorProfile, fields: Mapping[str, Any]) -> None:
    """Reads the sums of samples' extremes; without them in the file, one sample with the whole range is assumed."""
    extremes = fields.get("extremes")
    if extremes is None:
        if found.count:
            found.samples = 1
            found.extremes = exact(found.lo), exact(found.hi)
        return
    parts = cast(dict[str, Any], extremes) if isinstance(extremes, dict) else {}
    sums = parts.get("sums")
    if not isinstance(sums, list) or len(cast(list[Any], sums)) != 2:
        raise MalformedProfile("extremes are samples and two sums", "extremes")
    found.samples = _integer(parts, "samples", None, "extremes")
    lo, hi = (_integer_of(s, VALUE_UNIT, "extremes", "sums", i) for i, s in enumerate(cast(list[Any], sums)))
    found.extremes = lo, hi


def _channels_of(entries: Any, tensor: TensorProfile) -> list[TensorProfile]:
    size = tensor.shape[-1] if tensor.shape else 0
    listed = cast(list[Any], entries) if isinstance(entries, list) else []
    if len(listed) != size:
        raise MalformedProfile(f"{len(listed)} channels where the shape has {size}", "channels")
    found: list[TensorProfile] = []
    for index, entry in enumerate(listed):
        try:
            found.append(_tensor_of(entry))
        except MalformedProfile as error:
            raise MalformedProfile(f"channel {index}: {error.got}", "channels", index, *error.keys) from None
        found[-1].shape = ()
    return found


def _integer(fields: Mapping[str, Any], key: str, default: int | None, *above: Key) -> int:
    value = fields.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool):
        raise MalformedProfile(f"{key} must be an integer", *above, key)
    return value


def _numbers(values: Any, count: int, *keys: Key) -> Sequence[float]:
    listed: list[Any] = [number_of(v) for v in cast(list[Any], values)] if isinstance(values, list) else []
    if len(listed) != count or not all(isinstance(v, int | float) for v in listed):
        raise MalformedProfile(f"{keys[-1]} must be {count} numbers", *keys)
    return [float(v) for v in listed]


def _integer_of(scaled: Any, unit: int, *keys: Key) -> int:
    """Returns m · 2^e, written `mpe`, in units of 2^unit."""
    match = re.fullmatch(r"(-?\d{1,999})p(-?\d{1,4})", scaled) if isinstance(scaled, str) else None
    significand, exponent = (int(n) for n in match.groups()) if match else (0, unit - 1)
    if match is None or (significand and exponent < unit):
        raise MalformedProfile(f"{keys[-1]} must be m · 2^e, written mpe, with e from {unit}", *keys)
    return significand << (exponent - unit) if significand else 0
