"""Finds the commands that a command has to wait for: earlier commands that touched the same bytes.

Bytes are tracked in granules, the alignment units of each memory. For each granule and each queue, `Hazards` keeps the
last command of that queue that read the granule and the last that wrote it. A queue works in order, so waiting for its
last conflicting command means waiting for all its conflicting commands.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from qmlir.devices.blocks import Block, Fault, Footprint
from qmlir.devices.description import Device

Counts = npt.NDArray[np.int32]
"""For each queue, a number of its commands."""

Granules = slice | npt.NDArray[np.int64]


class Touched(NamedTuple):
    """Granules that a command reads and writes, each with the number of its memory."""

    reads: Sequence[tuple[int, Granules]]
    writes: Sequence[tuple[int, Granules]]

    def within(self, memories: Collection[int]) -> "Touched":
        """The granules that lie in the given memories."""
        return Touched(*([each for each in touched if each[0] in memories] for touched in self))


class Hazards:
    """The granules that the commands so far have touched."""

    def __init__(self, device: Device):
        queues = len(device.queue)
        self._memories = device.memory
        granules = [-(-memory.bytes // memory.align) for memory in device.memory]
        # The operating system commits zeroed pages at the first write: a memory costs only the part that is used.
        self._written = [np.zeros((queues, count), np.int32) for count in granules]
        self._read = [np.zeros((queues, count), np.int32) for count in granules]
        self._none = np.zeros(queues, np.int32)

    def before(self, touched: Touched) -> Counts:
        """How many commands of each queue must be finished before a command that touches these granules starts."""
        needed = self._none.copy()
        for memory, granules in (*touched.reads, *touched.writes):
            np.maximum(needed, self._written[memory][:, granules].max(axis=1), out=needed)
        for memory, granules in touched.writes:
            np.maximum(needed, self._read[memory][:, granules].max(axis=1), out=needed)
        return needed

    def touch(self, touched: Touched, queue: int, count: int) -> None:
        """Records that command number `count` of a queue, counted from 1, touches these granules."""
        for memory, granules in touched.reads:
            self._read[memory][queue, granules] = count
        for memory, granules in touched.writes:
            self._written[memory][queue, granules] = count

    def touched(self, footprint: Footprint) -> Touched:
        """The granules of a footprint.

        Raises:
            Fault: The footprint lies beyond its memory.
        """
        reads, writes = (
            [(block.place.memory, self._granules(block)) for block in blocks if not block.empty]
            for blocks in (footprint.reads, footprint.writes)
        )
        return Touched(reads, writes)

    def _granules(self, block: Block) -> Granules:
        """The granules that a block touches, as a slice or as an array of numbers."""
        memory = self._memories[block.place.memory]
        if block.place.address < 0 or block.end > memory.bytes:
            got = f"bytes {block.place.address} to {block.end} of {memory.id}, which has {memory.bytes}"
            raise Fault("must stay within a memory", got=got)
        align = memory.align
        run, rows, planes = block.size, block.rows, block.planes
        if rows == 1 or 0 <= block.row_pitch - run < align:
            run, rows = (rows - 1) * block.row_pitch + run, 1
            if planes == 1 or 0 <= block.plane_pitch - run < align:
                run, planes = (planes - 1) * block.plane_pitch + run, 1
        if rows == planes == 1:
            return slice(block.place.address // align, (block.place.address + run - 1) // align + 1)
        starts = np.arange(planes)[:, None] * block.plane_pitch + np.arange(rows) * block.row_pitch
        starts = (starts + block.place.address).reshape(-1)
        first, last = starts // align, (starts + run - 1) // align
        every = first[:, None] + np.arange(int((last - first).max()) + 1)
        return np.minimum(every, last[:, None]).reshape(-1)
