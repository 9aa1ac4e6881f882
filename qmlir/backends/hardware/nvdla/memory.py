"""The memory that NVDLA reads and writes, and data in it as NVDLA lays it out."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from qmlir.errors import QmlirError

ATOM = 8
"""Channels of an atom, bytes of a transfer, lanes of the array of products."""

_PAGE = 1 << 16


class Memory:
    r"""Bytes by their addresses of 32 bits; where nothing was written they are 0.

    >>> memory = Memory([(0x80000000, b"ab")])
    >>> memory.write(0x80000003, b"d")
    >>> bytes(memory.read(0x80000000, 5))
    b'ab\x00d\x00'
    """

    def __init__(self, segments: Iterable[tuple[int, bytes]] = ()):
        self._pages: dict[int, NDArray[np.uint8]] = {}
        for address, data in segments:
            self.write(address, data)

    def read(self, address: int, size: int) -> NDArray[np.uint8]:
        """Returns a copy of `size` bytes from an address on.

        Raises:
            QmlirError: They do not all have addresses of 32 bits.
        """
        data = np.zeros(size, np.uint8)
        for page, inside, place in _spans(address, size):
            if (held := self._pages.get(page)) is not None:
                data[place] = held[inside]
        return data

    def write(self, address: int, data: bytes | NDArray[np.uint8]) -> None:
        """Writes bytes from an address on.

        Raises:
            QmlirError: They do not all have addresses of 32 bits.
        """
        values = np.frombuffer(data, np.uint8) if isinstance(data, bytes) else data
        for page, inside, place in _spans(address, len(values)):
            self._pages.setdefault(page, np.zeros(_PAGE, np.uint8))[inside] = values[place]


def _spans(address: int, size: int) -> Iterator[tuple[int, slice, slice]]:
    """Yields pages with the bytes of each that belong to a range, and which part of the range they are."""
    if not 0 <= address <= address + size <= 1 << 32:
        raise QmlirError("NVDLA small has addresses of 32 bits", got=f"{size} bytes at {address:#x}")
    first = 0
    while first < size:
        page, offset = divmod(address + first, _PAGE)
        count = min(size - first, _PAGE - offset)
        yield page, slice(offset, offset + count), slice(first, first + count)
        first += count


@dataclass(frozen=True)
class Cube:
    """Data in surfaces of 8 channels, each of them rows of pixels of `8 * width` bytes.

    address           of the first byte
    width, height     pixels of a row, rows of a surface
    channels          of the whole cube; the lanes past the last one are there and belong to no channel
    line, surface     bytes from a row to the next, from a surface to the next
    width             bytes of an element, times the operands that lie side by side for each element
    where             the registers that say all this, for errors
    """

    address: int
    width: int
    height: int
    channels: int
    line: int
    surface: int
    where: str
    element: int = 1

    @property
    def surfaces(self) -> int:
        """Surfaces of 8 channels, the last one perhaps in part."""
        return -(-self.channels // ATOM)

    def read(self, memory: Memory) -> NDArray[np.int8]:
        """Returns the bytes as int8 [surfaces, rows, columns, 8 * element]."""
        data, shape, strides = memory.read(self.address, self._span()), self._shape(), self._strides()
        return as_strided(data.view(np.int8), shape, strides).copy()

    def write(self, memory: Memory, values: NDArray[np.int8]) -> None:
        """Writes int8 [surfaces, rows, columns, 8]; bytes between rows and between surfaces stay as they are.

        Raises:
            QmlirError: Rows or surfaces overlap.
        """
        if (self.height > 1 and self.line < self.width * ATOM) or (
            self.surfaces > 1 and self.surface < (self.height - 1) * self.line + self.width * ATOM
        ):
            got = (
                f"a line stride of {self.line} and a surface stride of {self.surface} for {self.width} x {self.height}"
            )
            raise QmlirError("rows that are written must not overlap", where=self.where, got=got)
        data = memory.read(self.address, self._span())
        as_strided(data.view(np.int8), self._shape(), self._strides())[...] = values
        memory.write(self.address, data)

    def check(self) -> None:
        """Refuses what the bus cannot address.

        Raises:
            QmlirError: The address or a stride that is used is no multiple of 8 bytes.
        """
        used = [("address", self.address), ("line stride", self.line), ("surface stride", self.surface)]
        for name, number in used[: 3 if self.surfaces > 1 else 2 if self.height > 1 else 1]:
            if number % ATOM:
                raise QmlirError(f"the {name} must be a multiple of 8 bytes", where=self.where, got=f"{number:#x}")

    def _shape(self) -> tuple[int, int, int, int]:
        return self.surfaces, self.height, self.width, ATOM * self.element

    def _strides(self) -> tuple[int, int, int, int]:
        return self.surface, self.line, ATOM * self.element, 1

    def _span(self) -> int:
        """Bytes from the first to behind the last one."""
        rows = (self.surfaces - 1) * self.surface + (self.height - 1) * self.line
        return rows + self.width * ATOM * self.element
