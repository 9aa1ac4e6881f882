"""Bytes of a memory that a command reads or writes."""

from dataclasses import dataclass

from qmlir.errors import QmlirError
from qmlir.isa.encoding import Place

WIDTHS = (8, 16, 32, 64)
"""Integers have so many bits."""


class Fault(QmlirError):
    """What a device stops at: a command that it cannot execute, or that touches what it must not."""


@dataclass(frozen=True)
class Block:
    """planes · rows · size bytes of a memory, each plane and row after its own pitch in bytes."""

    place: Place
    size: int
    rows: int = 1
    planes: int = 1
    row_pitch: int = 0
    plane_pitch: int = 0

    @property
    def empty(self) -> bool:
        """Whether it has no bytes."""
        return not (self.size and self.rows and self.planes)

    @property
    def bytes(self) -> int:
        """How many bytes it has."""
        return self.size * self.rows * self.planes

    @property
    def end(self) -> int:
        """The address behind its last byte."""
        return self.place.address + (self.planes - 1) * self.plane_pitch + (self.rows - 1) * self.row_pitch + self.size


@dataclass(frozen=True)
class Footprint:
    """The blocks that a command reads and writes."""

    reads: tuple[Block, ...] = ()
    writes: tuple[Block, ...] = ()


def width(bits: int, allowed: tuple[int, ...] = WIDTHS) -> int:
    """Bytes of an integer.

    Raises:
        Fault: There are no integers of so many bits.
    """
    if bits not in allowed:
        raise Fault(f"integers must have {', '.join(map(str, allowed))} bits", got=str(bits))
    return bits // 8


def image(place: Place, shape: tuple[int, int, int], pitches: tuple[int, int], bits: int) -> Block:
    """A tensor [rows, columns, channels]: a plane for each row, a row for each pixel; `pitches` in that order.

    Raises:
        Fault: It has no elements.
    """
    rows, columns, channels = shape
    if not (rows and columns and channels):
        raise Fault("a tensor must have elements", got=f"{rows} rows, {columns} columns, {channels} channels")
    return Block(place, channels * width(bits), columns, rows, pitches[1], pitches[0])
