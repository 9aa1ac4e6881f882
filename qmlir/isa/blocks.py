"""The bytes that commands touch, as data types; which bytes a command touches, its users derive for themselves.

The compiler's derivation is devices/model/footprints.py, the simulator's is backends/npu/accesses.py.
"""

from dataclasses import dataclass

from qmlir.errors import QmlirError
from qmlir.isa.encoding import Place


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
