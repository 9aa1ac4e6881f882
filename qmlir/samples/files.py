"""Reads the samples in a file or a folder as inputs of a network.

A path is one file or a folder of files, in the order of their names:

    .npy, .npz, FILE.npz:ARRAY   arrays of one sample each, or of several samples along the first axis
    .bin, .raw                   samples end to end, in the input's shape, of its dtype or the dtype given
    .png, .jpg, …                one sample each

A folder may hold a folder of files for each class instead.

Dimensions of 1 may be missing from an array or added to it (often the batch dimension); all other dimensions must
have the input's order. For a network whose first dimension is bound to a batch of n, n elements along the first axis
of an array are a sample. Integers become floats if the network takes floats. All files are checked before the first is
used.
"""

from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import accumulate, groupby, pairwise
from pathlib import Path
from typing import Any, overload

import numpy as np

from qmlir.errors import FileError, InputError, OptionError
from qmlir.ir.reading import ReadingNotes
from qmlir.ir.signature import Signature, TensorSpec
from qmlir.numerics import Array, native
from qmlir.numerics.halves import is_float
from qmlir.samples.arrays import ARRAYS, array_headers, read_rows
from qmlir.samples.pictures import PICTURES, Preprocessing

RAW = (".bin", ".raw")


@dataclass(frozen=True)
class Reading:
    """How to read files that do not describe their own contents.

    dtype          the dtype of raw files; None for the input's dtype
    preprocessing  how pictures become inputs; None if the user did not say
    """

    dtype: np.dtype[Any] | None = None
    preprocessing: Preprocessing | None = None


class Samples:
    """The samples in a file or a folder for a network's inputs: `len`, and iteration over dicts of arrays by name.

    path     the file or the folder
    files    the file of each sample that it holds
    notes    how the files are read, in words, which `qmlir.quantize` keeps in the module
    chosen   the numbers of the samples to use, among all that the path holds, in order of use
    """

    def __init__(self, path: Path, signature: Signature, limit: int | None = None, reading: Reading | None = None):
        """Checks the files and counts their samples.

        Args:
            path: A file of one of the suffixes in `ARRAYS`, `RAW` and `PICTURES`; a folder of files of one kind; or a
                folder of such folders, one for each class.
            signature: The network's signature.
            limit: The most samples to use; None for all.
            reading: How raw files and pictures are read.

        Raises:
            FileError: A file cannot be read, lacks an input, or holds no sample.
            InputError: An array does not fit its input.
        """
        self.path, self.notes = path, ReadingNotes()
        self._parts = [_part(file, signature, reading or Reading()) for file in files_of(path)]
        self._ends = list(accumulate(map(len, self._parts)))
        count = self._ends[-1] if self._ends else 0
        if count == 0:
            raise FileError(path, "must hold at least one sample", got="none")
        self.files = _FileOfEach([part.path for part in self._parts], self._ends)
        self.chosen: Sequence[int] = range(count if limit is None else min(count, limit))

    def __len__(self) -> int:
        return len(self.chosen)

    def __iter__(self) -> Iterator[Mapping[str, Array]]:
        for first, numbers in self._runs():
            yield from self._parts[bisect(self._ends, first + numbers[0])].take(numbers)

    def _runs(self) -> Iterator[tuple[int, Sequence[int]]]:
        """Yields the chosen samples by file: the number of the file's first sample, and numbers within the file."""
        starts = [0, *self._ends]
        if isinstance(self.chosen, range) and self.chosen.step == 1:  # a file may hold a billion samples
            for start, end in pairwise(starts):
                if numbers := range(max(self.chosen.start, start) - start, min(self.chosen.stop, end) - start):
                    yield start, numbers
            return
        for place, group in groupby(self.chosen, key=lambda number: bisect(self._ends, number)):
            yield starts[place], [number - starts[place] for number in group]

    def first(self, count: int | None) -> "Samples":
        """Returns the first of the samples, at most `count`; None for all."""
        return self if count is None else self.of(self.chosen[:count])

    def of(self, chosen: Sequence[int]) -> "Samples":
        """Returns other samples of the same path, by their numbers among all that it holds."""
        others = copy(self)
        others.chosen = chosen
        return others

    def others(self) -> list[int]:
        """Returns the numbers of the samples that the path holds beside the chosen ones."""
        chosen = {*self.chosen}
        return [number for number in range(len(self.files)) if number not in chosen]

    def split(self, count: int) -> "tuple[Samples, Samples]":
        """Returns `count` of the samples, drawn at random with a fixed seed, and the rest in their order.

        Data are often ordered by class, so the first samples would not do. Those drawn come in random order, unless
        that would read files of several samples again and again.
        """
        order: list[int] = np.random.default_rng(0).permutation(len(self)).tolist()
        drawn = [self.chosen[i] for i in order[:count]]
        rest = [self.chosen[i] for i in sorted(order[count:])]
        scattered = len(self._parts) == 1 or all(len(part) == 1 for part in self._parts)
        return self.of(drawn if scattered else sorted(drawn)), self.of(rest)


class _FileOfEach(Sequence[Path]):
    """The file of each sample."""

    def __init__(self, files: Sequence[Path], ends: Sequence[int]):
        """Takes the files that hold samples, and how many samples the files up to each one hold."""
        self._files, self._ends = files, ends

    @overload
    def __getitem__(self, index: int) -> Path: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Path]: ...

    def __getitem__(self, index: int | slice) -> Path | Sequence[Path]:
        chosen = range(len(self))[index]
        if isinstance(chosen, int):
            return self._files[bisect(self._ends, chosen)]
        return [self[number] for number in chosen]

    def __len__(self) -> int:
        return self._ends[-1]


def files_of(path: Path) -> list[Path]:
    """Returns the files of samples at a path: the file itself, or a folder's files in the order of their names.

    A folder of folders holds one for each class: their files follow each other, in the order of the folders' names.
    """
    if not path.suffix and not path.exists():
        raise FileError(path, "must be a file or a folder of samples", got="none of this name", remedy="check the path")
    if not path.is_dir():
        return [path]
    entries = sorted(f for f in path.iterdir() if not f.name.startswith("."))
    if entries and all(f.is_dir() for f in entries):
        entries = [f for folder in entries for f in sorted(folder.iterdir()) if not f.name.startswith(".")]
    files = [f for f in entries if f.is_file()]
    kinds = {next((k for k in (ARRAYS, RAW, PICTURES) if f.suffix.lower() in k), (f.suffix,)): f for f in files}
    unknown = [f.name for k, f in kinds.items() if k not in (ARRAYS, RAW, PICTURES)]
    if unknown or len(kinds) != 1:
        got = unknown[0] if unknown else ", ".join(f.name for f in kinds.values()) or "an empty folder"
        known = ", ".join((*ARRAYS, *RAW, *PICTURES))
        raise FileError(
            path, "must be a folder of samples of one kind", got=got, remedy=f"files that are read: {known}"
        )
    return files


def _part(path: Path, signature: Signature, reading: Reading) -> "_Arrays | _Raw | _Picture":
    suffix = path.suffix.lower()
    if suffix in RAW:
        return _Raw(path, _only_input(path, signature), reading.dtype)
    if suffix in PICTURES:
        return _Picture(path, _only_input(path, signature), reading.preprocessing)
    return _Arrays(path, signature)


def _only_input(path: Path, signature: Signature) -> TensorSpec:
    if len(signature.inputs) != 1:
        got = ", ".join(spec.name for spec in signature.inputs)
        remedy = "write .npz files with an array for each input"
        raise FileError(path, "can be read for a network of one input only", got=got, remedy=remedy)
    return signature.inputs[0]


class _Raw:
    """The samples of a raw file, which lie end to end and have no header."""

    def __init__(self, path: Path, spec: TensorSpec, dtype: np.dtype[Any] | None):
        self.path, self.spec, self.dtype = path, spec, dtype or spec.dtype
        becomes_float = is_float(spec.dtype) and self.dtype.kind in "fiub"
        if not becomes_float and self.dtype != spec.dtype:
            raise OptionError("--dtype", f'must fit input "{spec.name}" {spec}', got=self.dtype.name)
        try:
            size = path.stat().st_size
        except OSError as error:
            raise FileError(path, "must be readable", got=error) from None
        self.bytes = max(int(np.prod(spec.shape)), 1) * self.dtype.itemsize
        self.count, rest = divmod(size, self.bytes)
        if rest or not self.count:
            need = f"must hold samples of {self.bytes} bytes: {self.dtype.name}{list(spec.shape)}"
            raise FileError(path, need, got=f"{size} bytes", remedy="give the stored type as --dtype")

    def __len__(self) -> int:
        return self.count

    def take(self, numbers: Sequence[int]) -> Iterator[Mapping[str, Array]]:
        """Yields the samples with these numbers."""
        with self.path.open("rb") as file:
            for number in numbers:
                file.seek(number * self.bytes)
                array = np.frombuffer(file.read(self.bytes), self.dtype).reshape(self.spec.shape)
                yield {self.spec.name: array.astype(self.spec.dtype)}


class _Picture:
    """The one sample of a picture."""

    def __init__(self, path: Path, spec: TensorSpec, preprocessing: Preprocessing | None):
        if preprocessing is None:
            remedy = 'give --preprocess, such as "scale=0.00392157" for values from 0 to 1'
            raise FileError(path, "needs to be told how pixels become numbers", remedy=remedy)
        self.path, self.spec, self.preprocessing = path, spec, preprocessing

    def __len__(self) -> int:
        return 1

    def take(self, numbers: Sequence[int]) -> Iterator[Mapping[str, Array]]:
        """Yields the sample."""
        yield {self.spec.name: self.preprocessing.read(self.path, self.spec)}


class _Arrays:
    """The samples of an .npy file, or of an .npz file with an array for each input.

    For a network of one input, the array may have any name.
    """

    def __init__(self, path: Path, signature: Signature):
        self.path, self.signature = path, signature
        headers = array_headers(path)
        self.stored = _stored_names(headers, signature)
        counts = {name: len(array) for name, array in self._fitting(headers).items()}
        if len(set(counts.values())) != 1:
            got = ", ".join(f'{count} for "{name}"' for name, count in counts.items()) or "no input at all"
            raise FileError(path, "must hold as many samples for each input", got=got)
        self.count = next(iter(counts.values()))

    def _fitting(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        found = {**arrays, **{name: arrays[stored] for name, stored in self.stored.items() if stored in arrays}}
        return {spec.name: _fitting(found, spec, self.path) for spec in self.signature.inputs}

    def __len__(self) -> int:
        return self.count

    def take(self, numbers: Sequence[int]) -> Iterator[Mapping[str, Array]]:
        """Yields the samples with these numbers; the file is read once for all of them, up to the last."""
        specs = self.signature.inputs
        rows = [read_rows(self.path, self.stored[spec.name], self.count, numbers) for spec in specs]
        for each in zip(*rows, strict=True):
            yield {s.name: row.reshape(s.shape).astype(s.dtype) for s, row in zip(specs, each, strict=True)}


def _stored_names(found: Mapping[str, Array], signature: Signature) -> dict[str, str]:
    """Returns each input's array name in a file; for a single input, the only fitting array may have any name."""
    if len(signature.inputs) != 1 or signature.inputs[0].name in found:
        return {spec.name: spec.name for spec in signature.inputs}
    (spec,) = signature.inputs
    fitting = [name for name, array in found.items() if _samples(array, spec) is not None]
    alone = list(found) if len(found) == 1 else fitting
    return {spec.name: alone[0]} if len(alone) == 1 else {}


def _fitting(found: Mapping[str, Array], spec: TensorSpec, path: Path) -> Array:
    """Returns the samples of an input along a new or existing first axis; raises an error if they do not fit."""
    if spec.name not in found:
        listed = ", ".join(f'"{k}" {a.dtype.name}{list(a.shape)}' for k, a in found.items()) or "no arrays"
        fitting = next((name for name, a in found.items() if _samples(a, spec) is not None), None)
        remedy = None if fitting is None else f"say which, as in {path.name}:{fitting}"
        raise FileError(path, f'must hold an array for input "{spec.name}" {spec}', got=listed, remedy=remedy)
    array = found[spec.name]
    samples = _samples(array, spec)
    if samples is None:
        raise InputError(
            spec.name,
            f"needs samples of {spec}",
            got=f"an array {array.dtype.name}{list(array.shape)} in {path}",
            remedy="bring each sample to the input's shape, layout and type before saving",
        )
    return samples


def _samples(array: Array, spec: TensorSpec) -> Array | None:
    """Returns an array whose first axis counts samples of an input; None if the array does not fit the input."""
    becomes_float = is_float(spec.dtype) and array.dtype.kind in "fiub"
    if not becomes_float and native(array.dtype) != spec.dtype:
        return None
    if _essential(array.shape) == _essential(spec.shape):
        return array[None]
    if array.ndim and _essential(array.shape[1:]) == _essential(spec.shape):
        return array
    size, *rest = spec.shape or (1,)
    if size > 1 and array.ndim and len(array) % size == 0 and _essential(array.shape[1:]) == _essential(tuple(rest)):
        return array.reshape(len(array) // size, *spec.shape)
    return None


def _essential(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(n for n in shape if n != 1)
