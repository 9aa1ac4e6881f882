"""Checks whether a program is safe to run while its queues overlap; nothing is executed.

The waits determine which commands a command knows to be finished when it starts: the commands before it on its queue,
the commands that it waits for, and whatever those commands knew. If the hardware compares addresses, the command also
knows that earlier users of its addresses are finished. A race is a command that touches bytes which an earlier command,
not known to be finished, may still be reading or writing. The check also finds commands that a queue cannot execute,
memories that a queue cannot reach, blocks beyond a memory, numbers out of range, and waits for later commands.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from qmlir.backends.npu.accesses import Accesses, accesses, require_access, require_apart
from qmlir.backends.npu.runs import runs_of
from qmlir.backends.npu.stream import Program, disassemble
from qmlir.devices import Device
from qmlir.devices.description.device import Memory
from qmlir.devices.model.waits import tokens
from qmlir.isa.blocks import Block, Fault
from qmlir.isa.commands import Host, SetContext, waits_for_all
from qmlir.isa.encoding import Command
from qmlir.isa.limits import MOST_BYTES
from qmlir.numerics import Int64s

Counts = npt.NDArray[np.int32]


def checked(program: Program, device: Device) -> list[Accesses]:
    """The operands of each command of a program.

    Raises:
        Fault: A command races with another, or cannot be executed; the error names the command.
    """
    for port in (*program.inputs, *program.outputs, *(named.port for named in program.tensors)):
        require_inside(port.block, device)
    for segment in program.segments:
        require_inside(segment.block, device)
    routines = [routine.footprint for routine in program.routines]
    contexts: dict[int, SetContext] = {}
    compared = device.sync.compared([memory.id for memory in device.memory])
    order = _Order(device)
    touches = [_Touches(memory, n in compared, len(device.queue)) for n, memory in enumerate(device.memory)]
    found: list[Accesses] = []
    for number, command in enumerate(program.commands):
        try:
            known = order.issue(command)
            require_access(command, device)
            touched = accesses(command, device, contexts, routines)
            for block in touched.blocks:
                require_inside(block, device)
                if block.bytes > MOST_BYTES and not isinstance(command, Host):
                    raise Fault(f"must touch at most {MOST_BYTES} bytes at once", got=str(block.bytes))
            if not isinstance(command, Host):  # a routine reads all its inputs before it gives results
                require_apart(command, touched)
            _touch(command, touched, known, order, touches)
        except Fault as fault:
            raise located(fault, number, command, device) from None
        if isinstance(command, SetContext):
            contexts[command.ctx] = command
        found.append(touched)
    for number, fault in beyond_tokens(program.commands, device):
        raise located(fault, number, program.commands[number], device)
    return found


def located(fault: Fault, number: int, command: Command, device: Device) -> Fault:
    """The fault with the number and text of the command at which the device stops."""
    known = command.queue < len(device.queue)
    text = disassemble([command], device).strip() if known else type(command).__name__
    return Fault(fault.need, where=f"command {number}, {text}", got=fault.got, remedy=fault.remedy)


def require_inside(block: Block, device: Device) -> None:
    """Raises Fault unless a block lies within a memory of the device."""
    if block.place.memory >= len(device.memory):
        raise Fault("must name a memory of the device", got=f"memory {block.place.memory} of {len(device.memory)}")
    memory = device.memory[block.place.memory]
    if block.bytes > memory.addressable:
        raise Fault(
            "must touch no more bytes than a memory has",
            got=f"{block.planes} · {block.rows} · {block.size} bytes of {memory.id}, which has {memory.addressable:#x}",
        )
    if not block.empty and block.end > memory.addressable:
        got = f"bytes {block.place.address:#x} to {block.end:#x} of {memory.id}, which has {memory.addressable:#x}"
        raise Fault("must stay within a memory", got=got)


class _Order:
    """For each command, the commands that it knows to be finished when it starts, as a count for each queue."""

    def __init__(self, device: Device):
        self.device = device
        self.issued = np.zeros(len(device.queue), np.int32)
        self.known: list[list[Counts]] = [[] for _ in device.queue]
        self.numbers: list[list[int]] = [[] for _ in device.queue]
        self._count = 0

    def issue(self, command: Command) -> Counts:
        """Adds the next command of the program; returns the counts of the commands that it knows to be finished."""
        if command.queue >= len(self.issued):
            raise Fault("must be for a queue of the device", got=f"queue {command.queue} of {len(self.issued)}")
        if len(command.waits) > self.device.sync.max_waits:
            raise Fault(f"must wait for at most {self.device.sync.max_waits} queues", got=str(len(command.waits)))
        mine = self.known[command.queue]
        known = mine[-1].copy() if mine else np.zeros_like(self.issued)
        known[command.queue] = self.issued[command.queue]
        for wait in command.waits:
            if wait.queue >= len(self.issued) or wait.finished > self.issued[wait.queue]:
                raise Fault("must wait for an earlier command", got=f"one for {wait.finished} of queue {wait.queue}")
            if wait.finished:
                np.maximum(known, self.known[wait.queue][wait.finished - 1], out=known)
                known[wait.queue] = max(known[wait.queue], wait.finished)
        if waits_for_all(command):
            if self.device.sync.kind == "tokens":
                self.require_finished(self.issued, known, "as all before it")
            known = self.issued.copy()
        mine.append(known)
        self.numbers[command.queue].append(self._count)
        self.issued[command.queue] += 1
        self._count += 1
        return known

    def learn(self, counts: Counts, known: Counts) -> None:
        """Records in `known` that these counts of commands are finished, with everything that those commands knew."""
        for queue in np.flatnonzero(counts > known).tolist():
            np.maximum(known, self.known[queue][int(counts[queue]) - 1], out=known)
            known[queue] = max(known[queue], counts[queue])

    def require_finished(self, counts: Counts, known: Counts, why: str = "which touches the same bytes") -> None:
        """Raises Fault unless the given counts of commands are known to be finished."""
        late = counts > known
        if late.any():
            queue = int(late.argmax())
            other, name = self.numbers[queue][int(counts[queue]) - 1], self.device.queue[queue].id
            raise Fault(
                f"must wait for command {other}, number {counts[queue]} of queue {name}, {why}",
                got=f"a wait for {known[queue]} of it",
            )


class _Touches:
    """The last commands that touched each granule of a memory, a granule being `align` bytes.

    compared   whether the hardware delays a command until others are done with the same addresses
    readers    for each queue and granule, the number of the queue's last command that read it, from 1
    writers    the same for writes
    """

    def __init__(self, memory: Memory, compared: bool, queues: int):
        self._align, self.compared = memory.align, compared
        granules = -(-memory.addressable // memory.align)
        self.readers, self.writers = (np.zeros((queues, granules), np.int32) for _ in range(2))

    def granules(self, block: Block) -> slice | Int64s:
        """The granules that a block touches."""
        runs = runs_of(block)
        if len(runs) == 1:
            return slice(runs[0, 0] // self._align, (runs[0, 1] - 1) // self._align + 1)
        first, last = runs[:, 0] // self._align, (runs[:, 1] - 1) // self._align
        every = first[:, None] + np.arange(int((last - first).max()) + 1)
        return every[every <= last[:, None]]


def _touch(command: Command, touched: Accesses, known: Counts, order: _Order, touches: Sequence[_Touches]) -> None:
    """Records the granules that a command touches; raises Fault if the command races with an earlier command."""
    number = int(order.issued[command.queue])
    reads, writes = (
        [(touches[b.place.memory], touches[b.place.memory].granules(b)) for b in blocks if not b.empty]
        for blocks in (touched.reads.values(), touched.writes.values())
    )
    before = [(memory, memory.writers[:, granules].max(axis=1)) for memory, granules in (*reads, *writes)]
    before += [(memory, memory.readers[:, granules].max(axis=1)) for memory, granules in writes]
    for memory, counts in before:
        if memory.compared:
            order.learn(counts, known)
    for _, counts in before:
        order.require_finished(counts, known)
    for memory, granules in reads:
        memory.readers[command.queue, granules] = number
    for memory, granules in writes:
        memory.writers[command.queue, granules] = number


# ---------------------------------------------------------------------------------------------------------------
# Checks that a program respects the token FIFOs of a device; nothing is executed.
#
# Tokens pass between neighbouring queues only. In program order, a FIFO never holds more tokens than it has room for,
# so that program order is a valid schedule.


def beyond_tokens(commands: Sequence[Command], device: Device) -> Iterator[tuple[int, Fault]]:
    """Yields the numbers of the commands whose waits the device cannot express as tokens, and why.

    Args:
        commands: Commands that wait for earlier commands.
        device: The device; without tokens, every program passes.
    """
    if device.sync.kind != "tokens":
        return
    names = [queue.id for queue in device.queue]
    neighbours = device.sync.neighbours(names)
    held: Counter[tuple[int, int]] = Counter()
    for number, (command, own) in enumerate(zip(commands, tokens(commands, device), strict=True)):
        for queue in own.pops:
            held[queue, command.queue] -= 1
            if queue not in neighbours[command.queue]:
                others = ", ".join(names[other] for other in sorted(neighbours[command.queue]))
                need = f"queue {names[command.queue]} must wait for neighbours, {others}"
                yield number, Fault(need, got=f"a wait for {names[queue]}")
        for queue in own.pushes:
            held[command.queue, queue] += 1
            if held[command.queue, queue] > device.sync.tokens:
                between = f"from {names[command.queue]} to {names[queue]}"
                need = f"at most {device.sync.tokens} tokens must be on the way {between}"
                yield number, Fault(need, got=str(held[command.queue, queue]))
