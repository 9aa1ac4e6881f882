"""Blocks and footprints: the bytes of a memory that a command reads or writes."""

from dataclasses import dataclass

from qmlir.errors import QmlirError
from qmlir.isa.encoding import Place

WIDTHS = (8, 16, 32, 64)
"""Widths of stored integers, in bits."""


class Fault(QmlirError):
    """Raised when a device cannot execute a command, or a command touches bytes that it must not touch."""


@dataclass(frozen=True)
class Block:
    """A strided block of planes · rows · size bytes in one memory; row_pitch and plane_pitch are in bytes."""

    place: Place
    size: int
    rows: int = 1
    planes: int = 1
    row_pitch: int = 0
    plane_pitch: int = 0

    @property
    def empty(self) -> bool:
        """Whether the block has no bytes."""
        return not (self.size and self.rows and self.planes)

    @property
    def bytes(self) -> int:
        """How many bytes the block has; the gaps between rows and planes do not count."""
        return self.size * self.rows * self.planes

    @property
    def end(self) -> int:
        """The address behind the block's last byte."""
        return self.place.address + (self.planes - 1) * self.plane_pitch + (self.rows - 1) * self.row_pitch + self.size


@dataclass(frozen=True)
class Footprint:
    """The blocks that a command reads and writes."""

    reads: tuple[Block, ...] = ()
    writes: tuple[Block, ...] = ()


def width(bits: int, allowed: tuple[int, ...] = WIDTHS) -> int:
    """The size of an integer in bytes.

    Raises:
        Fault: `allowed` does not contain this number of bits.
    """
    if bits not in allowed:
        raise Fault(f"integers must have {', '.join(map(str, allowed))} bits", got=str(bits))
    return bits // 8


def image(place: Place, shape: tuple[int, int, int], pitches: tuple[int, int], bits: int) -> Block:
    """The block of a tensor [rows, columns, channels]: each row of the tensor is a plane, each pixel a row of bytes.

    Args:
        place: Memory and address of the first element.
        shape: Rows, columns and channels.
        pitches: Bytes from one row to the next, and from one pixel to the next.
        bits: Width of an element.

    Raises:
        Fault: The tensor has no elements.
    """
    rows, columns, channels = shape
    if not (rows and columns and channels):
        raise Fault("a tensor must have elements", got=f"{rows} rows, {columns} columns, {channels} channels")
    return Block(place, channels * width(bits), columns, rows, pitches[1], pitches[0])
