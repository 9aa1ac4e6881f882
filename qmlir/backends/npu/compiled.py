"""A program run by the model in C, which computes the same bytes as the simulator in Python, faster.

What does not depend on the data is checked before: races and bounds (races.py), results that would overwrite operands
(accesses.py), and here the bytes that are read before anything has written them. The model finds what depends on the
data and says so by a number; which command it was, and why, the simulator in Python says, which then runs the program
again.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from qmlir.backends.npu.accesses import Accesses
from qmlir.backends.npu.c_model.library import Library, LoadedDevice
from qmlir.backends.npu.c_model.status import Status
from qmlir.backends.npu.machine import Memories
from qmlir.isa.blocks import Block
from qmlir.isa.commands import encode
from qmlir.isa.encoding import Command


class Compiled:
    """The commands of a program, as the words that the model reads."""

    def __init__(self, commands: Sequence[Command]):
        """Encodes commands.

        Raises:
            StreamError: A number does not fit its bits.
        """
        self._words = np.array(encode(commands), np.uint32)
        self._begins, at = [0], 0
        for _ in commands:
            at += int(self._words[at]) >> 8 & 0xFF
            self._begins.append(at)

    def run(self, library: Library, devices: Iterable[LoadedDevice], begin: int, end: int) -> Status:
        """Executes commands number begin to end − 1, on one device after the other.

        Returns:
            The first status that is a fault; `DONE` if all commands were executed.
        """
        first, behind = self._begins[begin], self._begins[end]
        answers = (library.run(device, self._words, first, behind) for device in devices)
        return next((status for status in answers if status is not Status.DONE), Status.DONE)


def require_written(operands: Iterable[Accesses], memories: Memories, ports: Sequence[Iterable[Block]]) -> None:
    """Follows which bytes commands write; nothing is executed.

    Args:
        operands: The operands of each command.
        memories: Memories that know which bytes are there before the first command.
        ports: For each command, blocks that are read when it is done.

    Raises:
        Fault: Bytes are read that nothing has written before, or a read-only memory is written.
    """
    for touched, read in zip(operands, ports, strict=True):
        for block in touched.reads.values():
            memories.require_written(block)
        for block in touched.writes.values():
            memories.require_writable(block)
            memories.note_written(block)
        for block in read:
            memories.require_written(block)
