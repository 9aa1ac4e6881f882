"""The pass `npu-order`: adds the waits that commands need, and no others.

Enters: commands in a valid serial order, on buffers that have addresses. Leaves: the same commands with waits, and with
a `sync` before a command that would have to wait for more queues than the device supports.

A command has to run after the commands that wrote the bytes it touches, and after the commands that read the bytes it
writes (waits.py). Many of these dependences hold without a wait: a queue works in order, and a command inherits what
the commands it waits for have waited for. If the hardware compares addresses, it enforces dependences on them, too. For
the remaining dependences the pass adds waits, the latest command first, since the latest command has inherited most.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import DictionaryAttr, ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from qmlir.devices import Device
from qmlir.devices.model.footprints import footprint
from qmlir.devices.model.module import Step, device_of, function_of, steps_of
from qmlir.devices.model.waits import Counts, Hazards, Touched
from qmlir.dialects.npu import BufferOp, CallOp, IssueOp
from qmlir.dialects.npu.commands import Numbers, waits_attribute
from qmlir.errors import PipelineError
from qmlir.isa.blocks import Block, Fault, Footprint
from qmlir.isa.commands import SetContext, Sync, waits_for_all
from qmlir.isa.encoding import MOST_WAITS, Command


class NPUOrderPass(ModulePass):
    """Adds to each command the waits that it needs.

    ```mlir
    npu.issue "load" "move" source = %x[0] target = %a[0] …
    npu.issue "store" "move" source = %a[0] target = %y[0] …
    ```
    becomes
    ```mlir
    npu.issue "load" "move" source = %x[0] target = %a[0] …
    npu.issue "store" "move" source = %a[0] target = %y[0] … after "load" 1
    ```
    """

    name = "npu-order"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        device = device_of(op)
        routines = [f.sym_name.data for f in op.body.block.ops if isinstance(f, func.FuncOp)]
        numbers = Numbers([m.id for m in device.memory], [q.id for q in device.queue], routines)
        order = _Order(device, numbers)
        for number, step in enumerate(steps_of(function_of(op, self.name))):
            try:
                order.add(step)
            except Fault as fault:
                raise PipelineError(self.name, f"command {number}: {fault.need}", got=fault.got) from None


class _Order:
    """The commands issued so far, and for each the commands that it knows to be finished when it starts."""

    def __init__(self, device: Device, numbers: Numbers):
        self.device, self.numbers = device, numbers
        self.hazards = Hazards(device)
        self.compared = device.sync.compared([memory.id for memory in device.memory])
        self.contexts: dict[int, SetContext] = {}
        self.issued = np.zeros(len(device.queue), np.int32)
        self.known: list[list[Counts]] = [[] for _ in device.queue]
        self.places: list[list[int]] = [[] for _ in device.queue]
        self.total = 0

    def add(self, step: Step) -> None:
        """Adds the waits of the next command, and puts a `sync` in front of it if it needs that."""
        command = self.numbers.command(step)
        queue = command.queue
        touched = self.hazards.touched(self._footprint(step, command))
        needed = self.hazards.before(touched)
        known = self._held(self._known(queue), touched)
        if _waits_for_all(step):
            known = self.issued.copy()
        elif self.device.sync.kind == "barrier":
            if (needed > known).any():
                self._put_before(step, queue, Sync(queue, (), 0, barrier=1), ())
                known = self.issued.copy()
        else:
            known = self._wait(step, queue, known, needed)
        self._issue(queue, known)
        self.hazards.touch(touched, queue, int(self.issued[queue]))

    def _footprint(self, step: Step, command: Command) -> Footprint:
        if isinstance(step, CallOp):
            return Footprint(*(tuple(map(self._block, buffers)) for buffers in (step.inputs, step.outputs)))
        touched = footprint(command, self.device, self.contexts)
        if isinstance(command, SetContext):
            self.contexts[command.ctx] = command
        return touched

    def _block(self, buffer: SSAValue) -> Block:
        assert isinstance(buffer.owner, BufferOp)
        return Block(self.numbers.place(buffer), buffer.owner.size)

    def _known(self, queue: int) -> Counts:
        """The counts of commands that the next command of a queue knows to be finished without waiting."""
        known = self.known[queue][-1].copy() if self.known[queue] else np.zeros_like(self.issued)
        known[queue] = self.issued[queue]
        return known

    def _wait(self, step: Step, queue: int, known: Counts, needed: Counts) -> Counts:
        """Adds waits for needed commands that are not known to be finished; returns the counts known then."""
        waits: list[tuple[int, int]] = []
        for other in self._latest_first(needed):
            if needed[other] > known[other]:
                waits.append((other, int(needed[other])))
                known = self._learned(known, other, int(needed[other]))
        most = min(self.device.sync.max_waits, MOST_WAITS)
        while len(waits) > most:
            self._put_before(step, queue, Sync(queue, (), 0, barrier=0), waits[:most])
            known[queue] = self.issued[queue]
            waits = waits[most:]
        if waits or step.waits.data:
            step.waits = self._attribute(waits)
        return known

    def _held(self, known: Counts, touched: Touched) -> Counts:
        """The counts known to be finished once the hardware's address comparison lets a command start."""
        if self.compared:
            for queue, count in enumerate(self.hazards.before(touched.within(self.compared)).tolist()):
                if count > known[queue]:
                    known = self._learned(known, queue, count)
        return known

    def _learned(self, known: Counts, queue: int, count: int) -> Counts:
        """The counts known to be finished after waiting for the first `count` commands of a queue."""
        learned = np.maximum(known, self.known[queue][count - 1])
        learned[queue] = max(int(learned[queue]), count)
        return learned

    def _latest_first(self, needed: Counts) -> Iterator[int]:
        """Yields the queues whose commands are needed, the queue with the latest needed command first."""
        counts = [int(count) for count in needed]
        wanted = [(self.places[queue][count - 1], queue) for queue, count in enumerate(counts) if count]
        yield from (queue for _, queue in sorted(wanted, reverse=True))

    def _attribute(self, waits: Sequence[tuple[int, int]]) -> DictionaryAttr:
        return waits_attribute({self.numbers.queues[queue]: count for queue, count in waits})

    def _put_before(self, step: Step, queue: int, sync: Sync, waits: Sequence[tuple[int, int]]) -> None:
        """Issues a `sync` on the queue of a command, in front of it."""
        block = step.parent_block()
        assert block is not None
        op = IssueOp(step.queue.data, sync, [])
        op.waits = self._attribute(waits)
        block.insert_op_before(op, step)
        known = self._known(queue)
        for other, count in waits:
            known = self._learned(known, other, count)
        self._issue(queue, self.issued.copy() if sync.barrier else known)

    def _issue(self, queue: int, known: Counts) -> None:
        self.known[queue].append(known)
        self.places[queue].append(self.total)
        self.issued[queue] += 1
        self.total += 1


def _waits_for_all(step: Step) -> bool:
    """Whether a command waits for all earlier commands, whatever it touches."""
    return isinstance(step, IssueOp) and waits_for_all(step.command.data)
