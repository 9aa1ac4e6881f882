r"""The side file: a .safetensors file next to a module, which holds the module's large weights.

The format is a length, a JSON header and raw bytes:

    {"conv1.weight": {"dtype": "F32", "shape": [8, 25], "data_offsets": [0, 800]}}

Arrays of int8 whose values need 2 to 7 bits, and arrays of types of 2 and 4 bits, are stored packed: as bytes of a
stream of bits, the first bits of a byte being its lowest, value after value, in two's complement. The header says so:

    {"__metadata__": {"bits of conv1.weight": "4"}, "conv1.weight": {"dtype": "U8", "shape": [100], …}}

Floats whose constant states affine levels (numerics/affine.py) are stored as integers, packed if they have fewer than
8 bits. The header says the bits, the least integer, the floats of a block, and the arrays of scales and offsets:

    {"__metadata__": {"affine fc1.weight": "[4, 0, 32, \"fc1.weight.scales\", \"\"]"}, "fc1.weight": {"dtype": "U8", …}}

Side files are memory-mapped, so parsing a module with 100 MB of weights reads a header of a few kilobytes. They are
written array by array, so writing needs no memory besides the arrays. The safetensors package would copy the arrays in
both directions.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import prod
from pathlib import Path
from typing import Any, cast

import ml_dtypes
import numpy as np

from qmlir.errors import FileError
from qmlir.ir.types import bits_dtype, is_numpys_own
from qmlir.numerics import Array
from qmlir.numerics.affine import SCALES, Affine, affine
from qmlir.numerics.packing import BYTE, few_bits, pack, packed_bytes, unpack
from qmlir.running.files import OutsideError, inside, note_file

_SAFETENSORS = {
    "BOOL": "?",
    **{f"F{8 * n}": f"<f{n}" for n in (2, 4, 8)},
    **{f"I{8 * n}": f"<i{n}" for n in (1, 2, 4, 8)},
    **{f"U{8 * n}": f"<u{n}" for n in (1, 2, 4, 8)},
}
"""safetensors dtype names of the types that numpy has → numpy dtypes, little-endian."""

_NAMES = {np.dtype(dtype): name for name, dtype in _SAFETENSORS.items()}

_METADATA = "__metadata__"
"""The header's key of texts about the file."""

_BITS = "bits of "
"""The start of the metadata's keys that say how many bits a value of an array has."""

_AFFINE = "affine "
"""The start of the metadata's keys that say which integers stand for the floats of an array."""

_NARROW = {np.dtype(getattr(ml_dtypes, f"{sign}int{bits}")): bits for bits in (2, 4) for sign in ("", "u")}
"""Types of fewer than 8 bits → their bits."""

_FEWEST_PACKED = 65
"""The fewest values that are packed."""

_ALIGNMENT = 8
"""The alignment in bytes of the arrays' start in the file: the size of the largest element."""


@dataclass(frozen=True)
class AffineArray:
    """Floats that are stored as integers: which, and where their scales and offsets are.

    stored           the integers, int8 or uint8
    levels           what they stand for
    scales, offsets  the keys of the levels' arrays; empty without offsets
    """

    stored: Array
    levels: Affine
    scales: str
    offsets: str

    @property
    def described(self) -> str:
        """The text about it in the header of a side file."""
        levels = self.levels
        return json.dumps([levels.bits, levels.least, levels.size, self.scales, self.offsets])


def write_side_file(arrays: Mapping[str, Array | AffineArray], path: Path) -> None:
    """Writes arrays as a safetensors file; elements of types that numpy lacks are written as unsigned integers.

    The arrays with the largest elements come first, so that each array is aligned to the size of its elements.
    """
    affine = {key: array for key, array in arrays.items() if isinstance(array, AffineArray)}
    plain = {key: array for key, array in arrays.items() if not isinstance(array, AffineArray)}
    stored = {k: a if is_numpys_own(a.dtype) else a.view(bits_dtype(a.dtype)) for k, a in plain.items()}
    few = {key: bits for key, array in plain.items() if (bits := _bits_needed(array)) < BYTE}
    stored |= {key: pack(stored[key], bits) for key, bits in few.items()}
    stored |= {key: pack(each.stored, each.levels.bits) for key, each in affine.items()}
    ordered = sorted(stored.items(), key=lambda item: -item[1].itemsize)
    ends = list(accumulate((array.nbytes for _, array in ordered), initial=0))
    notes = {_BITS + key: str(bits) for key, bits in few.items()}
    notes |= {_AFFINE + key: each.described for key, each in affine.items()}
    header: dict[str, Any] = {_METADATA: notes} if notes else {}
    header |= {
        key: {"dtype": _NAMES[array.dtype.newbyteorder("<")], "shape": array.shape, "data_offsets": place}
        for (key, array), place in zip(ordered, pairwise(ends), strict=True)
    }
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, array in ordered:
            file.write(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).data)


def _bits_needed(array: Array) -> int:
    """Returns the bits of an array's type of 2 or 4, or that its values of int8 need; 8 for other and small arrays."""
    if array.size < _FEWEST_PACKED:
        return 8
    if array.dtype != np.int8:
        return _NARROW.get(array.dtype, 8)
    return few_bits(int(array.min()), int(array.max()))


@dataclass(frozen=True)
class SideFile:
    """The arrays of a side file, memory-mapped, and what the header says of those that are stored as other numbers.

    arrays   key → the array as it is stored
    bits     key → the bits of a value, of packed arrays
    affine   key → bits, the least integer, the floats of a block, and the keys of scales and offsets, of floats
    """

    arrays: Mapping[str, Array]
    bits: Mapping[str, int]
    affine: Mapping[str, tuple[int, int, int, str, str]]

    def array(self, key: str, shape: tuple[int, ...]) -> Array | None:
        """Returns an array of `shape`; None if there is none, or something else where its parts should be."""
        array = self.arrays.get(key)
        if key in self.affine:
            return self._floats(key, shape)
        bits, count = self.bits.get(key, BYTE), prod(shape)
        if array is None or bits == BYTE or array.dtype != np.uint8 or array.shape != (packed_bytes(count, bits),):
            return array
        return unpack(array, bits, count).reshape(shape)

    def _floats(self, key: str, shape: tuple[int, ...]) -> Array | None:
        """The floats that integers, scales and offsets stand for; None if these do not fit `shape`."""
        bits, least, size, *keys = self.affine[key]
        array, count, columns = self.arrays.get(key), prod(shape), shape[-1] // size if shape else 0
        if array is None or array.dtype != np.uint8 or array.shape != (packed_bytes(count, bits),):
            return None
        scales, offsets = (self.arrays.get(each) if each else np.zeros((0, columns), np.float32) for each in keys)
        if scales is None or offsets is None:
            return None
        scales = next((scales.view(t) for t in SCALES if scales.dtype == bits_dtype(t) != np.uint32), scales)
        levels = Affine(bits, least, size, scales, offsets)
        if len(shape) != 2 or levels.need() or shape[1] != columns * size or scales.shape[1] != columns:
            return None
        if len(scales) not in (1, shape[0]) or len(offsets) not in (0, 1, shape[0]):
            return None
        stored = unpack(array, bits, count) if bits < BYTE else array.view(np.int8)
        if not least:  # the stream has the lowest bits, which `unpack` reads in two's complement
            stored = stored.view(np.uint8) & np.uint8((1 << bits) - 1)
        return affine(stored.reshape(shape), scales, offsets if len(offsets) else None, size)


def map_side_file(path: Path) -> SideFile:
    """Maps the arrays of a safetensors file: the file's pages are loaded when they are accessed.

    Tensors of types that numpy lacks are left out.

    Raises:
        FileError: The file does not exist, cannot be read, is not a safetensors file, or is truncated.
    """
    note_file(path)
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if 8 + length >= size or length > _LONGEST_HEADER:
                raise ValueError
            header = file.read(length)
        return _parts(header, np.memmap(path, np.uint8, "r", offset=8 + length))
    except FileNotFoundError:
        raise FileError(
            path, "needs to be there: the module's weights lie in it", remedy="copy it beside the .mlir file"
        ) from None
    except OSError as error:
        raise FileError(path, "must be a readable file", got=error) from None
    except _MALFORMED:
        raise _no_safetensors(path) from None


def read_side_file(data: bytes, path: Path) -> SideFile:
    """Returns the arrays of a safetensors file whose content was read already; `path` is for errors.

    Raises:
        FileError: The content is not that of a safetensors file, or is truncated.
    """
    length = int.from_bytes(data[:8], "little")
    try:
        if not 8 + length < len(data) or length > _LONGEST_HEADER:
            raise ValueError
        return _parts(data[8 : 8 + length], np.frombuffer(data, np.uint8, offset=8 + length))
    except _MALFORMED:
        raise _no_safetensors(path) from None


_LONGEST_HEADER = 1 << 24

_MALFORMED = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)
"""The errors of a header that is not as it should be."""


def _no_safetensors(path: Path) -> FileError:
    got, remedy = "something else or a part of one", "write the module again"
    return FileError(path, "must be a safetensors file", got=got, remedy=remedy)


def _parts(text: bytes, data: Array) -> SideFile:
    """Returns the arrays of a file from its header and the bytes behind it; one of `_MALFORMED` if it is malformed."""
    header = cast(object, json.loads(text))
    if not isinstance(header, dict):
        raise ValueError
    entries = cast(dict[str, dict[str, Any]], header)
    notes = entries.pop(_METADATA, {})
    bits = {key.removeprefix(_BITS): int(text) for key, text in notes.items() if key.startswith(_BITS)}
    if not all(2 <= each <= 7 for each in bits.values()):
        raise ValueError
    affine = {key.removeprefix(_AFFINE): _affine(text) for key, text in notes.items() if key.startswith(_AFFINE)}
    return SideFile({k: _slice_of(data, e) for k, e in entries.items() if e["dtype"] in _SAFETENSORS}, bits, affine)


def _affine(text: str) -> tuple[int, int, int, str, str]:
    """Returns what the header says of floats stored as integers; raises ValueError or TypeError if it is malformed."""
    bits, least, size, scales, offsets = cast("tuple[int, int, int, str, str]", tuple(json.loads(text)))
    if not 2 <= bits <= BYTE or least not in (0, -(1 << bits - 1)) or size < 1:
        raise ValueError
    return int(bits), int(least), int(size), str(scales), str(offsets)


def _slice_of(data: Array, entry: dict[str, Any]) -> Array:
    """Returns the tensor that a header entry describes; raises ValueError or TypeError if the entry is malformed."""
    dtype, shape = np.dtype(_SAFETENSORS[entry["dtype"]]), tuple(int(d) for d in entry["shape"])
    begin, end = entry["data_offsets"]
    if not 0 <= begin <= end <= data.size or end - begin != prod(shape) * dtype.itemsize:
        raise ValueError
    return data[begin:end].view(dtype).reshape(shape)


def _side_file(folder: Path, file: str) -> Path:
    """Returns the path of the side file that a module names.

    Raises:
        FileError: The file lies outside the module's folder, or is no plain file.
    """
    path = folder / file
    try:
        inside(folder, file)
    except OutsideError as error:
        if not path.is_dir() and (path.exists() or str(error) != f'no file "{file}"'):
            need, remedy = "must be a file in the module's folder", "copy it beside the .mlir file and name it there"
            raise FileError(path, need, got=str(error), remedy=remedy) from None
    return path


_mapped: dict[tuple[str, int, int, int], SideFile] = {}
"""The side file that was read last: parsing a module accesses only one."""


def side_array(folder: Path, file: str, key: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    """Returns the array named `key` of a side file, memory-mapped unless it is packed.

    Args:
        folder: The folder of the module.
        file: The side file, as the module names it; it must lie in the module's folder.
        key: The name of the array.
        dtype: The type of its elements.
        shape: Its shape.

    Raises:
        FileError: As for `map_side_file` and `array_in`; or the file lies elsewhere.
    """
    path = _side_file(folder, file)
    note_file(path)
    stat = path.stat() if path.exists() else None
    identity = (str(path.absolute()), *((stat.st_ino, stat.st_mtime_ns, stat.st_size) if stat else (0, 0, 0)))
    mapped = _mapped.get(identity)
    if mapped is None:
        mapped = map_side_file(path)
        _mapped.clear()
        _mapped[identity] = mapped
    return array_in(mapped, path, key, dtype, shape)


def array_in(file: SideFile, path: Path, key: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    """Returns the array named `key` of a side file; `path` is for errors.

    Raises:
        FileError: The file has no array of that name, type and shape.
    """
    array = file.array(key, shape)
    if array is not None and array.dtype == np.int8 and (bits := _NARROW.get(dtype)) is not None:
        array = (array & np.int8((1 << bits) - 1)).view(np.uint8)
    if array is not None and not is_numpys_own(dtype) and array.dtype == bits_dtype(dtype):
        array = array.view(dtype)  # the file stores the bits as unsigned integers
    if array is None or array.dtype != dtype or array.shape != shape:
        raise FileError(
            path,
            f'must hold the tensor "{key}" as {dtype.name} of shape {list(shape)}',
            got="none of that name" if array is None else f"{array.dtype.name} of shape {list(array.shape)}",
            remedy="write the module and its side file again",
        )
    return array
