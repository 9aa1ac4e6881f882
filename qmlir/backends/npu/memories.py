"""A device's memories as the simulator sees them: bytes, which of them were ever written, and who touches them.

Commands read and write blocks. A block beyond its memory, a byte read before anybody wrote it, and a block that a
command of another queue may still be reading or writing are faults, found here.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from qmlir.device import Device
from qmlir.device.blocks import Block, Fault
from qmlir.device.description import Memory
from qmlir.isa.encoding import Place

Bytes = npt.NDArray[np.uint8]
Int64s = npt.NDArray[np.int64]
T = TypeVar("T", np.uint8, np.bool_)


@dataclass
class _Contents:
    """One memory.

    data      its bytes
    written   which of them have been written, or were there from the start
    writer    for each granule of `align` bytes the number of the last command that wrote there, −1 for none
    readers   for each queue the same of the last command of that queue that read there
    """

    memory: Memory
    queues: int
    data: Bytes = field(init=False)
    written: npt.NDArray[np.bool_] = field(init=False)
    writer: npt.NDArray[np.int32] = field(init=False)
    readers: npt.NDArray[np.int32] = field(init=False)

    def __post_init__(self) -> None:
        size, granules = self.memory.bytes, -(-self.memory.bytes // self.memory.align)
        self.data, self.written = np.zeros(size, np.uint8), np.zeros(size, np.bool_)
        # One more than the number of a command, so that memory nobody touches is never touched here either.
        self.writer, self.readers = np.zeros(granules, np.int32), np.zeros((self.queues, granules), np.int32)


class Memories:
    """All memories of a device."""

    def __init__(self, device: Device):
        self._all = [_Contents(memory, len(device.queue)) for memory in device.memory]

    def load(self, place: Place, data: bytes) -> None:
        """Puts bytes there before the first command."""
        block = Block(place, len(data))
        self._view(block)[...] = np.frombuffer(data, np.uint8)
        self._mask(block)[...] = True

    def read(self, block: Block) -> Bytes:
        """A copy of a block, uint8 [planes, rows, size]."""
        view = self._view(block)
        if not self._mask(block).all():
            plane, row, byte = np.argwhere(~self._mask(block))[0]
            at = block.place.address + plane * block.plane_pitch + row * block.row_pitch + byte
            raise Fault(
                "must read what was written before", got=f"byte {at:#x} of {self._name(block)}, which never was"
            )
        return view.copy()

    def write(self, block: Block, data: Bytes) -> None:
        """Writes a block, uint8 [planes, rows, size]."""
        if self._all[block.place.memory].memory.read_only:
            raise Fault("must write memory that can be written", got=self._name(block))
        self._view(block)[...] = data
        self._mask(block)[...] = True

    def touch(self, number: int, queue: int, reads: Sequence[Block], writes: Sequence[Block]) -> list[int]:
        """Notes what a command reads and writes; returns the commands that have to be finished before it starts.

        Args:
            number: The command's place in the program, from 0.
            queue: Its queue.
            reads: What it reads.
            writes: What it writes.
        """
        before: set[int] = set()
        for block in reads:
            contents, granules = self._granules(block)
            before.update(np.unique(contents.writer[granules]).tolist())
        for block in writes:
            contents, granules = self._granules(block)
            before.update(np.unique(contents.writer[granules]).tolist())
            before.update(np.unique(contents.readers[:, granules]).tolist())
        for block in reads:
            contents, granules = self._granules(block)
            contents.readers[queue, granules] = number + 1
        for block in writes:
            contents, granules = self._granules(block)
            contents.writer[granules] = number + 1
        return sorted(other - 1 for other in before if other)

    def _granules(self, block: Block) -> tuple[_Contents, Int64s]:
        """The granules that a block touches."""
        self._check(block)
        contents = self._all[block.place.memory]
        if block.empty:
            return contents, np.zeros(0, np.int64)
        planes = np.arange(block.planes, dtype=np.int64)[:, None] * block.plane_pitch
        starts = (block.place.address + planes + np.arange(block.rows, dtype=np.int64) * block.row_pitch).reshape(-1)
        first, last = starts // contents.memory.align, (starts + block.size - 1) // contents.memory.align
        reach = int((last - first).max()) + 1
        every = first[:, None] + np.arange(reach)
        return contents, np.unique(every[every <= last[:, None]])

    def _view(self, block: Block) -> Bytes:
        self._check(block)
        return _strided(self._all[block.place.memory].data, block)

    def _mask(self, block: Block) -> npt.NDArray[np.bool_]:
        return _strided(self._all[block.place.memory].written, block)

    def _check(self, block: Block) -> None:
        if block.place.memory >= len(self._all):
            raise Fault("must name a memory of the device", got=f"memory {block.place.memory} of {len(self._all)}")
        size = self._all[block.place.memory].memory.bytes
        if block.planes * block.rows * block.size > size:
            raise Fault(
                "must touch no more bytes than a memory has",
                got=f"{block.planes} · {block.rows} · {block.size} bytes of {self._name(block)}, which has {size:#x}",
            )
        if not block.empty and block.end > size:
            got = f"bytes {block.place.address:#x} to {block.end:#x} of {self._name(block)}, which has {size:#x}"
            raise Fault("must stay within a memory", got=got)

    def _name(self, block: Block) -> str:
        return self._all[block.place.memory].memory.id


def _strided(array: npt.NDArray[T], block: Block) -> npt.NDArray[T]:
    """The elements of a block as a view [planes, rows, size]; it lies within the array."""
    if block.empty:
        return np.zeros((block.planes, block.rows, block.size), array.dtype)
    return np.lib.stride_tricks.as_strided(
        array[block.place.address :],
        (block.planes, block.rows, block.size),
        (block.plane_pitch, block.row_pitch, 1),
    )
