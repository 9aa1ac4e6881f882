"""How many bytes of each memory are in use over time.

A byte is in use from the beginning of the command that writes it to the end of the last command that reads what was
written, or until the next command begins to write it, as a sum that is added to. Inputs and constants are in use from
the start, outputs to the end. Bytes that nobody reads are never in use. No byte counts twice, so that a memory never
has more bytes in use than it has.

The commands are gone through backwards, with what the rest of the program does with each byte.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from qmlir.backends.npu.machine import strided
from qmlir.backends.npu.stream import Program
from qmlir.devices import Device
from qmlir.devices.model.timeline import Interval
from qmlir.isa.blocks import Block, Footprint

Usage = Sequence[tuple[int, int]]
"""Pairs of a cycle and the number of bytes in use from that cycle on; no two have the same cycle."""


def occupancy(
    program: Program, device: Device, touched: Sequence[Footprint], times: Sequence[Interval]
) -> Mapping[str, Usage]:
    """How many bytes of each memory are in use over time, by the memory's name.

    Args:
        program: The program.
        device: The device.
        touched: The footprint of each command.
        times: When each command is busy.
    """
    later = _Later(device, program, touched)
    for port in program.outputs:
        later.read(port.block)
    changes = [Counter[int]() for _ in device.memory]
    for number in reversed(range(len(touched))):
        # A command reads before it writes; backwards, its writes come first.
        for block in touched[number].writes:
            changes[block.place.memory][times[number].start] += later.write(block, number)
        for block in touched[number].reads:
            for writer, count in later.read(block):
                end = times[number].end if writer < 0 else min(times[number].end, times[writer].start)
                changes[block.place.memory][end] -= count
    return {memory.id: _running(later.count(number), changes[number]) for number, memory in enumerate(device.memory)}


def _running(begin: int, changes: Mapping[int, int]) -> Usage:
    """The running sum of changes by cycle, from a number on."""
    found = [(0, begin)]
    for cycle in sorted(changes):
        if changes[cycle]:
            found.append((cycle, found[-1][1] + changes[cycle]))
    return found[1:] if len(found) > 1 and found[1][0] == 0 else found


class _Later:
    """What the rest of a program does with each byte; only bytes that the program touches are kept.

    reads    whether the byte is read before it is written
    writer   the number of the first command that writes it; -1 for none
    """

    def __init__(self, device: Device, program: Program, touched: Iterable[Footprint]):
        ends = [0] * len(device.memory)
        blocks = [port.block for port in (*program.inputs, *program.outputs)]
        for block in (*blocks, *(block for own in touched for block in (*own.reads, *own.writes))):
            if not block.empty:
                ends[block.place.memory] = max(ends[block.place.memory], block.end)
        self.reads = [np.zeros((1, end), np.bool_) for end in ends]
        self.writer = [np.full((1, end), -1, np.int32) for end in ends]

    def read(self, block: Block) -> list[tuple[int, int]]:
        """Notes that a block is read; returns how many of its bytes had no reader, by the command that writes them."""
        reads, writer = self._views(block)
        new = writer[~reads]
        reads[...] = True
        if not new.size:
            return []
        if new.min() == new.max():  # nothing has to be sorted
            return [(int(new[0]), int(new.size))]
        return [(int(which), int(count)) for which, count in zip(*np.unique(new, return_counts=True), strict=True)]

    def write(self, block: Block, number: int) -> int:
        """Notes that a command writes a block; returns how many of its bytes have a reader."""
        reads, writer = self._views(block)
        count = int(np.count_nonzero(reads))
        reads[...] = False
        writer[...] = number
        return count

    def count(self, memory: int) -> int:
        """How many bytes of a memory are read before they are written."""
        return int(np.count_nonzero(self.reads[memory]))

    def _views(self, block: Block) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int32]]:
        """The bytes of a block, each once; a pitch of 0 repeats a row or a plane."""
        rows = 1 if block.row_pitch == 0 else block.rows
        planes = 1 if block.plane_pitch == 0 else block.planes
        once = Block(block.place, block.size, rows, planes, block.row_pitch, block.plane_pitch)
        return strided(self.reads[block.place.memory], once)[0], strided(self.writer[block.place.memory], once)[0]
