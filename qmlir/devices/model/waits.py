"""How commands wait for each other: which waits are needed, and their forms, tokens and descriptors."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from qmlir.devices.description.device import Device
from qmlir.isa.blocks import Block, Fault, Footprint
from qmlir.isa.encoding import Command
from qmlir.numerics import Int64s

# ---------------------------------------------------------------------------------------------------------------
# Finds the commands that a command has to wait for: earlier commands that touched the same bytes.
#
# Bytes are tracked in granules, the alignment units of each memory. For each granule and each queue, `Hazards` keeps
# the last command of that queue that read the granule and the last that wrote it. A queue works in order, so waiting
# for its last conflicting command means waiting for all its conflicting commands.


Counts = npt.NDArray[np.int32]
"""For each queue, a number of its commands."""

Granules = slice | Int64s


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
        granules = [-(-memory.addressable // memory.align) for memory in device.memory]
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
        if block.place.address < 0 or block.end > memory.addressable:
            got = f"bytes {block.place.address} to {block.end} of {memory.id}, which has {memory.addressable}"
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


# ---------------------------------------------------------------------------------------------------------------
# Waits as tokens, for devices whose queues only see the tokens that their neighbours push.
#
# Between two neighbouring queues there are two FIFOs of tokens, one in each direction. A command pops a token before it
# starts, or pushes a token when it is done. Tokens carry no name: the first token pushed is the first token popped.
# Waits between neighbours have the same order: the waits of one queue for another name later and later commands, and
# each named command pushes one token. A wait for a queue that is not a neighbour becomes a token once
# token_forwarding.py forwards it.


@dataclass(frozen=True)
class Tokens:
    """The tokens that a command pops before it starts and pushes when it is done, as numbers of queues."""

    pops: tuple[int, ...] = ()
    pushes: tuple[int, ...] = ()


def tokens(commands: Sequence[Command], device: Device) -> list[Tokens]:
    """The tokens of each command; empty tokens if the device does not synchronise by tokens.

    Args:
        commands: Commands that wait for earlier commands.
        device: The device.
    """
    if device.sync.kind != "tokens":
        return [Tokens()] * len(commands)
    popped: dict[tuple[int, int], int] = {}
    places: list[list[int]] = [[] for _ in device.queue]
    pops, pushes = ([list[int]() for _ in commands] for _ in range(2))
    for number, command in enumerate(commands):
        for queue, finished in command.waits:
            edge = queue, command.queue
            if queue != command.queue and finished > popped.get(edge, 0):
                popped[edge] = finished
                pops[number].append(queue)
                pushes[places[queue][finished - 1]].append(command.queue)
        places[command.queue].append(number)
    return [Tokens(tuple(taken), tuple(given)) for taken, given in zip(pops, pushes, strict=True)]


# ---------------------------------------------------------------------------------------------------------------
# Waits as links between descriptors, for devices that start a command when its counter reaches zero.
#
# Each command has a descriptor with a counter and a list of consumers. The counter says how many commands this command
# waits for; each consumer is a command whose counter this command decrements when it is done. If a queue waits
# for the same queue twice, the second wait names a later command. A command therefore has at most one consumer on each
# queue, and its descriptor needs one field for each queue.


@dataclass(frozen=True)
class Descriptor:
    """How many commands a command waits for, and the numbers in the program of the commands that wait for it."""

    count: int = 0
    consumers: tuple[int, ...] = ()


def descriptors(commands: Sequence[Command], device: Device) -> list[Descriptor]:
    """The descriptor of each command, in program order.

    Args:
        commands: Commands that wait for earlier commands.
        device: The device.
    """
    places: list[list[int]] = [[] for _ in device.queue]
    waited: dict[tuple[int, int], int] = {}
    counts, consumers = [0] * len(commands), [list[int]() for _ in commands]
    for number, command in enumerate(commands):
        for queue, finished in command.waits:
            if finished > waited.get((queue, command.queue), 0):
                waited[queue, command.queue] = finished
                counts[number] += 1
                consumers[places[queue][finished - 1]].append(number)
        places[command.queue].append(number)
    return [Descriptor(count, tuple(links)) for count, links in zip(counts, consumers, strict=True)]
