"""Reads a GGUF file of version 2 or 3: a header, metadata by key, and tensors by name.

The file is mapped into memory, and a tensor's bytes are read when it is asked for. Counts and lengths are compared with
the rest of the file before anything is made of them, so a damaged file is refused at once. Lists of texts, which are
tokenizers' tables, are passed over.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np

from qmlir.errors import FileError
from qmlir.frontends.foreign import give_back, map_bytes
from qmlir.frontends.function import LARGEST
from qmlir.frontends.gguf.blocks import KINDS, OTHERS, Kind
from qmlir.numerics import Array
from qmlir.numerics.affine import Affine

MAGIC = b"GGUF"

Value = int | float | bool | str | Array | None
"""The value of a metadata key; None for a list of texts."""

COPIED = 1 << 16
"""The most bytes of floats that are copied, rather than those of the mapped file: a page that is read there brings as
many pages around it into memory."""

AGAIN_REMEDY = "download or write the file again"

_NUMBERS = {
    0: "<u1",
    1: "<i1",
    2: "<u2",
    3: "<i2",
    4: "<u4",
    5: "<i4",
    6: "<f4",
    7: "<u1",
    10: "<u8",
    11: "<i8",
    12: "<f8",
}
"""Types of metadata that are numbers, by their number in a file, as numpy writes them."""

_TRUTH, _TEXT, _LIST = 7, 8, 9

_LEAST_PAIR, _LEAST_TENSOR = 13, 32
"""The fewest bytes of a metadata key with its value, and of a tensor's entry."""

_MOST_DIMENSIONS = 4

_ALIGNMENT = "general.alignment"


@dataclass(frozen=True)
class Entry:
    """A tensor of a file.

    kind   its type
    shape  its dimensions, the last of which are neighbours in memory
    start  the place of its first byte in the file
    """

    kind: Kind
    shape: tuple[int, ...]
    start: int

    @property
    def bytes(self) -> int:
        """The bytes that it takes."""
        return prod(self.shape) // self.kind.values * self.kind.bytes


@dataclass(frozen=True)
class File:
    """A decoded file.

    name      its name in errors
    metadata  the values of its keys
    tensors   its tensors by name
    data      its bytes, which are mapped
    state     its place on disk, its size, and when it was written, by which a change is noticed
    """

    name: str
    metadata: Mapping[str, Value]
    tensors: Mapping[str, Entry]
    data: memoryview
    state: tuple[int, ...] = ()

    def read(self, name: str) -> tuple[Array, Affine | None]:
        """Returns the floats of a tensor, f32 and read-only, and the levels that they follow, if they are of blocks."""
        entry = self.tensors[name]
        floats, levels = entry.kind.read(self.data[entry.start : entry.start + entry.bytes], entry.shape)
        if entry.kind.name == "F32":
            if entry.bytes > COPIED:
                return floats, levels  # those of the file
            floats = floats.copy()
            floats.flags.writeable = False
        give_back(self.data)
        return floats, levels

    def read_again(self, name: str) -> Array:
        """Returns the floats of a tensor that was read before.

        Raises:
            FileError: Somebody has written to the file since. A file that was removed, or replaced, is there still.
        """
        now = _state(Path(self.name))
        if now != self.state and now[:2] == self.state[:2]:
            need, remedy = "must stay as it is while a network of it is in use", "load the network again"
            raise FileError(self.name, need, got="other bytes than when it was loaded", remedy=remedy)
        return self.read(name)[0]


def _state(path: Path) -> tuple[int, ...]:
    """The place of a file on disk, its size, and when it was written; nothing if it is not there."""
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def read_file(path: Path) -> File:
    """Reads the header of a file.

    Raises:
        FileError: The file cannot be read, is no GGUF file, is damaged, or has a tensor of a type that qmlir lacks.
    """
    data = map_bytes(path, "a GGUF file")
    at = _Cursor(data, str(path))
    if bytes(data[:4]) != MAGIC:
        raise FileError(path, "must be a GGUF file", got="other bytes at its start", remedy="check the path")
    at.place = 4
    version = at.number("<u4")
    if version not in (2, 3):
        swapped = int(version).to_bytes(4, "big")[0] in (2, 3) and version > 0xFFFF
        got = "big-endian numbers" if swapped else f"version {version}"
        raise FileError(
            path, "must be a GGUF file of version 2 or 3 with little-endian numbers", got=got,
            remedy="convert the model again by the newest release of its converter",
        )  # fmt: skip
    tensors, pairs = at.count(_LEAST_TENSOR, "tensors"), at.count(_LEAST_PAIR, "metadata keys")
    metadata = dict[str, Value]()
    for _ in range(pairs):
        key = at.text("a metadata key")
        at.require(key not in metadata, "must have different metadata keys", f'"{key}" twice')
        metadata[key] = at.value(key)
    found = [_entry(at) for _ in range(tensors)]
    return File(str(path), metadata, _placed(at, found, metadata.get(_ALIGNMENT, 32)), data, _state(path))


def _entry(at: "_Cursor") -> tuple[str, Entry]:
    """Reads the entry of a tensor, whose place counts from the end of the header."""
    name = at.text("the name of a tensor")
    rank = at.number("<u4")
    at.require(1 <= rank <= _MOST_DIMENSIONS, f'"{name}" must have 1 to {_MOST_DIMENSIONS} dimensions', str(rank))
    shape = tuple(int(at.number("<u8")) for _ in range(int(rank)))[::-1]
    at.require(min(shape) > 0 and prod(shape) <= LARGEST, f'"{name}" must have a shape that fits a memory', str(shape))
    number = int(at.number("<u4"))
    if (kind := KINDS.get(number)) is None:
        known = ", ".join(k.name for k in KINDS.values())
        called = f" ({OTHERS[number]})" if number in OTHERS else ""
        raise FileError(
            at.file, f'tensor "{name}" must be of a type that qmlir reads: {known}', got=f"type {number}{called}",
            remedy="quantize the model to one of these types",
        )  # fmt: skip
    whole = f'rows of "{name}" must be whole blocks of {kind.values}'
    at.require(shape[-1] % kind.values == 0, whole, f"{shape[-1]} values")
    return name, Entry(kind, shape, int(at.number("<u8")))


def _placed(at: "_Cursor", entries: list[tuple[str, Entry]], alignment: Value) -> dict[str, Entry]:
    """Returns the tensors by name, each at its place in the file."""
    if not isinstance(alignment, int) or alignment < 8 or alignment % 8:
        raise at.error(f"its {_ALIGNMENT} must be a multiple of 8", str(alignment))
    start, found = -(-at.place // alignment) * alignment, dict[str, Entry]()
    for name, entry in entries:
        at.require(name not in found, "must have different tensors", f'"{name}" twice')
        at.require(entry.start % alignment == 0, f'"{name}" must begin at a multiple of {alignment}', str(entry.start))
        end = start + entry.start + entry.bytes
        at.require(end <= len(at.data), f'must hold the {end} bytes up to the end of "{name}"', f"{len(at.data)}")
        found[name] = Entry(entry.kind, entry.shape, start + entry.start)
    return found


@dataclass
class _Cursor:
    """A place in a file, from which its header is read."""

    data: memoryview
    file: str
    place: int = 0

    def error(self, need: str, got: str) -> FileError:
        return FileError(self.file, need, got=got, remedy=AGAIN_REMEDY)

    def require(self, holds: bool, need: str, got: str) -> None:
        """Raises FileError unless something holds."""
        if not holds:
            raise self.error(need, got)

    def take(self, size: int, what: str) -> memoryview:
        """Returns the next bytes; `what` they are, in errors."""
        left = len(self.data) - self.place
        self.require(size <= left, f"must hold {what} at byte {self.place}, {size} bytes", f"{left} more")
        self.place += size
        return self.data[self.place - size : self.place]

    def number(self, dtype: str) -> int | float:
        """Returns the next number."""
        return np.frombuffer(self.take(np.dtype(dtype).itemsize, "a number"), dtype)[0].item()

    def count(self, least: int, what: str) -> int:
        """Returns the next number of things, each of which takes at least so many bytes."""
        number, left = int(self.number("<u8")), len(self.data) - self.place
        self.require(number <= left // least, f"must hold as many {what} as it says", f"{number} in {left} bytes")
        return number

    def text(self, what: str) -> str:
        """Returns the next text; `what` it is, in errors."""
        data = self.take(self.count(1, "bytes of a text"), what)
        try:
            return bytes(data).decode()
        except UnicodeDecodeError:
            raise self.error(f"must have {what} in UTF-8", "other bytes") from None

    def value(self, key: str) -> Value:
        """Returns the next value of metadata, which its type precedes."""
        kind = int(self.number("<u4"))
        if kind == _TEXT:
            return self.text(f'the text of "{key}"')
        if kind == _LIST:
            return self.values(key)
        number = self.number(self.dtype(kind, key))
        return bool(number) if kind == _TRUTH else number

    def dtype(self, kind: int, key: str) -> str:
        """Returns numpy's type of a number of metadata."""
        self.require(kind in _NUMBERS, f'"{key}" must be numbers, texts, or a list of these', f"type {kind}")
        return _NUMBERS[kind]

    def values(self, key: str) -> Array | None:
        """Returns the next list of numbers, or passes over a list of texts."""
        kind = int(self.number("<u4"))
        if kind != _TEXT:
            dtype = np.dtype(self.dtype(kind, key))
            count = self.count(dtype.itemsize, f'numbers of "{key}"')
            return np.frombuffer(self.take(count * dtype.itemsize, f'the numbers of "{key}"'), dtype)
        lengths, end = struct.Struct("<Q").unpack_from, len(self.data)
        for _ in range(self.count(8, f'texts of "{key}"')):
            after = self.place + 8
            self.place = after + lengths(self.data, self.place)[0] if after <= end else end + 1
            self.require(self.place <= end, f'must hold the texts of "{key}"', "an end in between")
        return None
