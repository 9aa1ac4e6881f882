"""Samples on disk: `.npy` and `.npz` files as inputs of a network, and its outputs.

An array of the input's shape is one sample; otherwise its first axis counts samples. Dimensions of 1 may be left out or
added (a batch dimension often is); all others must stand in the input's order. Integers become floats
where the network takes floats.
"""

import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from qmlir.errors import FileError, InputError
from qmlir.files import replacing
from qmlir.near_misses import near_misses
from qmlir.signature import Signature, TensorSpec

Array = npt.NDArray[Any]


class Samples:
    """The samples of a file for a network's inputs: `len`, and iteration over dicts of arrays by input name."""

    def __init__(self, path: Path, signature: Signature, limit: int | None = None):
        """Opens the file.

        Args:
            path: An .npy file; or an .npz file with an array for each input, or the only array for the only input; or
                `FILE.npz:ARRAY`, one array of a file with several.
            signature: The network's.
            limit: Use at most this many samples.

        Raises:
            FileError: The file cannot be read, lacks an input, or holds no sample.
            InputError: An array does not fit its input.
        """
        found = _named(read_arrays(path), signature)
        self._arrays = [(spec, _fitting(found, spec, path)) for spec in signature.inputs]
        counts = {len(array) for _, array in self._arrays}
        if len(counts) != 1:
            got = ", ".join(f'{len(array)} for "{spec.name}"' for spec, array in self._arrays) or "no input at all"
            raise FileError(path, "must hold as many samples for each input", got=got)
        (count,) = counts
        if count == 0:
            raise FileError(path, "must hold at least one sample", got="none")
        self._length = count if limit is None else min(count, limit)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Mapping[str, Array]]:
        for i in range(self._length):
            yield {spec.name: array[i].reshape(spec.shape).astype(spec.dtype) for spec, array in self._arrays}


def read_arrays(path: Path) -> dict[str, Array]:
    """The arrays of an .npz file by name, or the array of an .npy file under the file's name.

    `FILE.npz:ARRAY` is one array of such a file.

    Raises:
        FileError: It is neither, or a part of one.
    """
    file, _, wanted = str(path).rpartition(":")
    if file and not path.exists():
        arrays = read_arrays(Path(file))
        if wanted not in arrays:
            raise FileError(file, f'must hold an array "{wanted}"', remedy=near_misses(wanted, arrays))
        return {wanted: arrays[wanted]}
    need = "must be an .npy or .npz file of plain arrays"
    try:
        with path.open("rb") as file:
            loaded: Any = np.load(file, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                return {path.stem: loaded}
            return {str(name): loaded[name] for name in loaded.files}
    except OSError as error:
        raise FileError(path, need, got=(error.strerror or str(error)).lower()) from None
    except (ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error):
        raise FileError(path, need, got="something else, or a part of one") from None


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Writes an .npz file; `numpy.savez` could not take an array called "file"."""
    with replacing(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)


def _named(found: Mapping[str, Array], signature: Signature) -> Mapping[str, Array]:
    """The arrays by input name: the only array that fits is that of the only input, whatever it is called."""
    if len(signature.inputs) != 1 or signature.inputs[0].name in found:
        return found
    (spec,) = signature.inputs
    fitting = [array for array in found.values() if _samples(array, spec) is not None]
    alone = list(found.values()) if len(found) == 1 else fitting
    return {spec.name: alone[0]} if len(alone) == 1 else found


def _fitting(found: Mapping[str, Array], spec: TensorSpec, path: Path) -> Array:
    """The samples of an input, the first axis counting them."""
    if spec.name not in found:
        listed = ", ".join(f'"{k}" {a.dtype.name}{list(a.shape)}' for k, a in found.items()) or "no arrays"
        raise FileError(path, f'must hold an array for input "{spec.name}" {spec}', got=listed)
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
    """An array with an axis that counts samples of an input before their own; None if it does not fit."""
    becomes_float = spec.dtype.kind == "f" and array.dtype.kind in "fiub"
    if not becomes_float and array.dtype != spec.dtype:
        return None
    if _essential(array.shape) == _essential(spec.shape):
        return array[None]
    if array.ndim and _essential(array.shape[1:]) == _essential(spec.shape):
        return array
    return None


def _essential(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(n for n in shape if n != 1)
