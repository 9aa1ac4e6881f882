"""Reads the arrays of .npy and .npz files, and writes .npz files."""

import lzma
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Collection, Mapping
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np

from qmlir.errors import FileError, near_misses
from qmlir.files import replacing
from qmlir.numerics import Array
from qmlir.numerics.halves import HALVES

ARRAYS = (".npy", ".npz")

MAPPED = 1 << 20
"""Size in bytes above which an .npy file is memory-mapped instead of read."""

BROKEN = (
    *(ValueError, EOFError, KeyError, TypeError, SyntaxError, OverflowError, NotImplementedError, RecursionError),
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, tokenize.TokenError, struct.error),
)
"""Exceptions of numpy, which reads headers as Python, and of zipfile for a broken file."""

NEED = "must be an .npy or .npz file of plain arrays"


def array_headers(path: Path) -> dict[str, Array]:
    """Returns the arrays of `read_arrays` without their numbers: same shapes and dtypes, but no memory."""
    if path.suffix != ".npz":
        return read_arrays(path)
    try:
        with zipfile.ZipFile(path) as archive:
            return {n.removesuffix(".npy"): _header(archive, n) for n in archive.namelist() if n.endswith(".npy")}
    except OSError as error:
        raise FileError(path, NEED, got=error) from None
    except BROKEN:
        raise FileError(path, NEED, got="something else, or a part of one") from None


def _header(archive: zipfile.ZipFile, name: str) -> Array:
    with archive.open(name) as file:
        return _described(file, archive.getinfo(name).file_size)


def _described(file: IO[bytes], size: int) -> Array:
    """Returns an array of the shape in an .npy file's header, without memory; ValueError if `size` is too small."""
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    try:
        shape, _, dtype = read(file)
    except MemoryError:  # from Python's parser, for a header with thousands of brackets
        raise ValueError("nested") from None
    if dtype.hasobject or prod(shape) * dtype.itemsize > size - file.tell():
        raise ValueError("objects, or a part of the array")
    return np.broadcast_to(np.zeros((), dtype), shape)


def read_arrays(path: Path, wanted: Collection[str] | None = None) -> dict[str, Array]:
    """Reads the arrays of an .npz file by name, or the array of an .npy file under the file's name.

    A large .npy file is memory-mapped.

    Args:
        path: The file; `FILE.npz:ARRAY` is one array of such a file.
        wanted: The names of the arrays to read; None for all.

    Raises:
        FileError: The file is neither an .npy nor an .npz file, or is truncated.
    """
    file, _, name = str(path).rpartition(":")
    if file and not path.exists():
        if name not in (held := array_headers(Path(file))):
            raise FileError(file, f'must hold an array "{name}"', remedy=near_misses(name, held))
        return read_arrays(Path(file), [name])
    try:
        if path.suffix == ".npy" and path.stat().st_size > MAPPED:
            return {path.stem: np.load(path, mmap_mode="r", allow_pickle=False)}
        with path.open("rb") as file:
            if path.suffix == ".npy":
                _described(file, path.stat().st_size)
                file.seek(0)
            else:
                array_headers(path)
            loaded: Any = np.load(file, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                return {path.stem: loaded}
            return {str(name): loaded[name] for name in loaded.files if wanted is None or name in wanted}
    except OSError as error:
        raise FileError(path, NEED, got=error) from None
    except BROKEN:
        raise FileError(path, NEED, got="something else, or a part of one") from None


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Writes an .npz file; `numpy.savez` cannot write an array called "file".

    bfloat16, which such files cannot hold, becomes float32, which holds its numbers.
    """
    with replacing(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                written = array.astype(np.float32) if array.dtype == HALVES["bfloat16"].dtype else array
                np.lib.format.write_array(file, written, allow_pickle=False)
