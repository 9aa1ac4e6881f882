"""Reads the arrays of .npy and .npz files, and writes .npz files."""

import lzma
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np

from qmlir.errors import FileError, near_misses
from qmlir.numerics import Array
from qmlir.numerics.halves import HALVES
from qmlir.running.files import replacing

ARRAYS = (".npy", ".npz")

MAPPED = 1 << 20
"""Size in bytes above which an .npy file is memory-mapped instead of read."""

BROKEN = (
    *(ValueError, EOFError, KeyError, TypeError, SyntaxError, OverflowError, RuntimeError),
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, tokenize.TokenError, struct.error),
)
"""Exceptions of numpy, which reads headers as Python, and of zipfile for a broken or an encrypted file."""

NEED = "must be an .npy or .npz file of plain arrays"

LONGEST_HEADER = 1 << 16
"""The most bytes of an array's header."""

MOST_PACKED = 1 << 30
"""The most bytes of a packed array that is read whole; other arrays take as much room in their file as in memory."""


@contextmanager
def _reading(path: Path) -> Generator[None]:
    """Turns what numpy and zipfile raise for a broken file within the block into errors about the file.

    Raises:
        FileError: The file is no file of arrays, or cannot be read.
    """
    try:
        if path.exists() and not path.is_file():  # reading a pipe would wait for a writer
            raise FileError(path, NEED, got="a folder" if path.is_dir() else "a device or a pipe")
        yield
    except OSError as error:
        raise FileError(path, NEED, got=error) from None
    except BROKEN:
        raise FileError(path, NEED, got="something else, or a part of one") from None


def array_headers(path: Path) -> dict[str, Array]:
    """Returns the arrays of `read_arrays` without their numbers: same shapes and dtypes, but no memory."""
    file, wanted = _named(path)
    with _reading(file):
        if file.suffix != ".npz":
            with file.open("rb") as stream:
                return {file.stem: _described(stream, file.stat().st_size).empty}
        with zipfile.ZipFile(file) as archive:
            return {name: _header(archive, name).empty for name in _names(archive, wanted)}


def only_array(path: Path) -> dict[str, Array]:
    """Returns the only array of a file by its name, without its numbers.

    Raises:
        FileError: The file is no file of arrays, or holds none or several.
    """
    if len(headers := array_headers(path)) != 1:
        raise FileError(path, "must hold one array", got=f"{len(headers)}", remedy=f"name one: {path}:ARRAY")
    return headers


def _named(path: Path) -> tuple[Path, list[str] | None]:
    """Returns a file and the names of the arrays that a path asks for: `FILE.npz:ARRAY` is one; None for all.

    Raises:
        FileError: The file has no array of that name.
    """
    file, _, name = str(path).rpartition(":")
    if not file or path.exists():
        return path, None
    if name not in (held := array_headers(Path(file))):
        raise FileError(file, f'must hold an array "{name}"', remedy=near_misses(name, held))
    return Path(file), [name]


def _names(archive: zipfile.ZipFile, wanted: Collection[str] | None) -> list[str]:
    """Returns the names of the arrays of an .npz file, or those that are wanted."""
    names = (n.removesuffix(".npy") for n in archive.namelist() if n.endswith(".npy"))
    return [name for name in names if wanted is None or name in wanted]


@dataclass(frozen=True)
class _Described:
    """What an array's header says.

    shape         the array's shape
    dtype         the elements' type
    by_column     whether the elements lie in the order of Fortran
    start         the bytes of the header
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    by_column: bool
    start: int

    @property
    def bytes(self) -> int:
        """The bytes of the elements."""
        return prod(self.shape) * self.dtype.itemsize

    @property
    def empty(self) -> Array:
        """An array of the shape and the type that takes no memory."""
        return np.broadcast_to(np.zeros((), self.dtype), self.shape)


def _header(archive: zipfile.ZipFile, name: str) -> _Described:
    with archive.open(f"{name}.npy") as file:
        return _described(file, archive.getinfo(f"{name}.npy").file_size)


def _described(file: IO[bytes], size: int) -> _Described:
    """Reads an array's header; ValueError if it is not one, or says more than a file of `size` bytes holds."""
    head = BytesIO(file.read(LONGEST_HEADER))  # numpy would read a header as long as the file says
    version = np.lib.format.read_magic(head)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    try:
        shape, by_column, dtype = read(head)
    except MemoryError:  # from Python's parser, for a header with thousands of brackets
        raise ValueError("nested") from None
    found = _Described(shape, dtype, by_column, head.tell())
    if dtype.hasobject or min(shape, default=0) < 0 or found.bytes > size - found.start:
        raise ValueError("objects, or a part of the array")
    return found


def read_arrays(path: Path, wanted: Collection[str] | None = None) -> dict[str, Array]:
    """Reads the arrays of an .npz file by name, or the array of an .npy file under the file's name.

    A large .npy file is memory-mapped.

    Args:
        path: The file; `FILE.npz:ARRAY` is one array of such a file.
        wanted: The names of the arrays to read; None for all.

    Raises:
        FileError: The file is neither an .npy nor an .npz file, or is truncated; or a packed array is too large.
    """
    file, named = _named(path)
    with _reading(file):
        if file.suffix != ".npz":
            return {file.stem: _read_npy(file)}
        with zipfile.ZipFile(file) as archive:
            for name in (names := _names(archive, wanted if named is None else named)):
                _require_room(file, archive, name)
            return {name: _read_member(archive, name) for name in names}


def _read_npy(file: Path) -> Array:
    size = file.stat().st_size
    with file.open("rb") as stream:
        _described(stream, size)
    if size > MAPPED:
        return np.load(file, mmap_mode="r", allow_pickle=False)
    loaded: Any = np.load(file, allow_pickle=False)
    return loaded


def _read_member(archive: zipfile.ZipFile, name: str) -> Array:
    with archive.open(f"{name}.npy") as stream:
        loaded: Any = np.lib.format.read_array(stream, allow_pickle=False)
        return loaded


def _require_room(file: Path, archive: zipfile.ZipFile, name: str) -> None:
    """Raises FileError if a packed array is too large to be read whole, ValueError if another one is not all there."""
    needed, entry = _header(archive, name).bytes, archive.getinfo(f"{name}.npy")
    if entry.compress_type == zipfile.ZIP_STORED:
        if needed > entry.compress_size:
            raise ValueError("a part of the array")
    elif needed > MOST_PACKED:
        remedy = "save it without packing it (numpy.savez or numpy.save)"
        got = f"{needed} bytes packed into {entry.compress_size}"
        raise FileError(file, f'the array "{name}" must take at most {MOST_PACKED} bytes', got=got, remedy=remedy)


# ---------------------------------------------------------------------------------------------------------------
# Reads single rows of an array: a packed array of gigabytes is read up to the last row that is wanted, and only the
# wanted rows stay in memory.


def read_rows(path: Path, name: str, count: int, numbers: Sequence[int]) -> Iterator[Array]:
    """Yields rows of an array, flat; the array is `count` rows end to end.

    Args:
        path: The file; `FILE.npz:ARRAY` is one array of such a file.
        name: The array's name, as `array_headers` says it.
        count: The rows of the array.
        numbers: The numbers of the rows to yield, in this order. Rows in another order than the file's are held
            in memory.

    Raises:
        FileError: The file is broken, or has changed since its header was read.
    """
    file, _ = _named(path)
    with _reading(file):
        if file.suffix != ".npz":
            yield from _rows(_read_npy(file), count, numbers)
            return
        with zipfile.ZipFile(file) as archive:
            header = _header(archive, name)
            if header.by_column or not header.bytes:
                _require_room(file, archive, name)
                yield from _rows(_read_member(archive, name), count, numbers)
                return
            with archive.open(f"{name}.npy") as stream:
                stream.read(header.start)
                yield from _streamed(stream, header, count, numbers)


def _rows(array: Array, count: int, numbers: Sequence[int]) -> Iterator[Array]:
    rows = array.reshape(count, -1) if count else array
    for number in numbers:
        yield rows[number]


def _streamed(stream: IO[bytes], header: _Described, count: int, numbers: Sequence[int]) -> Iterator[Array]:
    """Yields rows while the file is read once, from its start to its end."""
    size = header.bytes // count
    ascending = (isinstance(numbers, range) and numbers.step > 0) or list(numbers) == sorted({*numbers})
    if not ascending:
        held = dict(zip(wanted := sorted({*numbers}), _streamed(stream, header, count, wanted), strict=True))
        yield from (held[number] for number in numbers)
        return
    at = 0
    for number in numbers:
        _skip(stream, number * size - at)
        data = stream.read(size)
        if len(data) != size:
            raise ValueError("a part of the array")
        at = (number + 1) * size
        yield np.frombuffer(data, header.dtype)


def _skip(stream: IO[bytes], count: int) -> None:
    """Reads bytes that nobody wants, a few at a time."""
    while count > 0:
        count -= len(stream.read(min(count, 1 << 20))) or count


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Writes an .npz file; `numpy.savez` cannot write an array called "file".

    bfloat16, which such files cannot hold, becomes float32, which holds its numbers.
    """
    with replacing(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                written = array.astype(np.float32) if array.dtype == HALVES["bfloat16"].dtype else array
                np.lib.format.write_array(file, written, allow_pickle=False)
