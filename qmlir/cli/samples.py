"""Samples on disk: `.npy` and `.npz` files as inputs of a network.

An array whose shape is the input's is one sample; otherwise its first axis counts samples, and each is reshaped to
the input's shape where it has as many elements (a batch dimension of 1 is often left out). Integers become f32.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from qmlir.errors import FileError, InputError
from qmlir.signature import Signature, TensorSpec

Array = npt.NDArray[Any]


class Samples:
    """The samples of a file for a network's inputs: `len`, and iteration over dicts of arrays by input name."""

    def __init__(self, path: Path, signature: Signature, limit: int | None = None):
        """Opens the file.

        Args:
            path: An .npy file, or an .npz file with an array for each input, or with one array where there is one input.
            signature: The network's.
            limit: Use at most this many samples.

        Raises:
            FileError: The file cannot be read, or lacks an input.
            InputError: An array does not fit its input.
        """
        found = _read(path)
        inputs = signature.inputs
        if len(inputs) == 1 and inputs[0].name not in found:
            candidates = [k for k, a in found.items() if _count(a, inputs[0]) is not None]
            if len(candidates) == 1:
                found = {inputs[0].name: found[candidates[0]]}
        self._arrays: list[tuple[TensorSpec, Array]] = []
        for spec in inputs:
            if spec.name not in found:
                raise FileError(path, f'must hold an array for input "{spec.name}" {spec}', got=_listed(found))
            if _count(found[spec.name], spec) is None:
                raise InputError(
                    spec.name,
                    f"needs samples of {spec}",
                    got=f"an array {found[spec.name].dtype.name}{list(found[spec.name].shape)} in {path}",
                    remedy="bring each sample to the input's shape and layout before saving",
                )
            self._arrays.append((spec, found[spec.name]))
        counts = {_count(array, spec) or 0 for spec, array in self._arrays}
        if len(counts) > 1:
            raise FileError(path, "must hold as many samples for each input", got=f"{sorted(counts)}")
        (self._length,) = counts
        if limit is not None:
            self._length = min(self._length, limit)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Mapping[str, Array]]:
        for i in range(self._length):
            yield {
                spec.name: (array if array.shape == spec.shape else array[i].reshape(spec.shape)).astype(spec.dtype)
                for spec, array in self._arrays
            }


def _read(path: Path) -> dict[str, Array]:
    try:
        loaded: Any = np.load(path, allow_pickle=False)
    except OSError as error:
        raise FileError(path, "must be a readable .npy or .npz file", got=error.strerror or str(error)) from None
    except (ValueError, EOFError):
        raise FileError(path, "must be an .npy or .npz file of plain arrays", got="something else") from None
    if isinstance(loaded, np.ndarray):
        return {path.stem: loaded}
    return {name: loaded[name] for name in loaded.files}


def _count(array: Array, spec: TensorSpec) -> int | None:
    """How many samples of an input an array holds; None if it does not fit."""
    if array.dtype.kind not in "fiub":
        return None
    if array.shape == spec.shape:
        return 1
    elements = int(np.prod(spec.shape, dtype=np.int64))
    if array.ndim >= 1 and int(np.prod(array.shape[1:], dtype=np.int64)) == elements:
        return len(array)
    return None


def _listed(found: Mapping[str, Array]) -> str:
    return ", ".join(f'"{k}" {a.dtype.name}{list(a.shape)}' for k, a in found.items()) or "no arrays"
