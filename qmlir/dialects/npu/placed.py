"""Translates placed buffers and ordered commands to the instruction set, which has numbers instead of names."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import SSAValue

from qmlir.dialects.npu.commands import BufferOp, CallOp, IssueOp, places
from qmlir.errors import PipelineError
from qmlir.errors.near_misses import near_misses
from qmlir.isa.commands import Host
from qmlir.isa.encoding import WORD, Command, Place, Wait


@dataclass(frozen=True)
class Numbers:
    """Numbers the names of a device and a module: the number of a name is its index in the sequence here.

    memories   the ids of the device's memories
    queues     the ids of the device's queues
    routines   the names of the module's functions that the host runs
    """

    memories: Sequence[str]
    queues: Sequence[str]
    routines: Sequence[str]

    def place(self, buffer: SSAValue) -> Place:
        """The memory and the address of a buffer.

        Raises:
            PipelineError: The buffer has no address yet.
        """
        owner = buffer.owner
        assert isinstance(owner, BufferOp)
        if owner.address is None:
            raise PipelineError(owner.name, "must have an address", got="none", remedy="run npu-place first")
        return Place(_number(self.memories, owner.memory.data, "memory"), owner.address.value.data)

    def command(self, step: IssueOp | CallOp) -> Command:
        """The ISA command of an operation, with its queue, waits and addresses.

        Raises:
            PipelineError: The operation names an unknown queue, memory or function, or a buffer without an address.
        """
        queue = _number(self.queues, step.queue.data, "queue")
        waits = tuple(
            Wait(_number(self.queues, name, "queue"), count.value.data)
            for name, count in step.waits.data.items()
            if isinstance(count, IntegerAttr)
        )
        if isinstance(step, CallOp):
            read, written = (sum(_size(buffer) for buffer in buffers) for buffers in (step.inputs, step.outputs))
            routine = _number(self.routines, step.routine.string_value(), "routine")
            constants, work = step.constants.value.data, min(step.work.value.data, WORD - 1)
            return Host(queue, waits, 0, routine, read, written, constants, work)
        command = step.command.data
        placed = {name: self._moved(place, step.buffers) for name, place in places(command)}
        return replace(command, queue=queue, waits=waits, **placed)

    def _moved(self, place: Place, buffers: Sequence[SSAValue]) -> Place:
        memory, address = self.place(buffers[place.memory])
        return Place(memory, address + place.address)


def _size(buffer: SSAValue) -> int:
    assert isinstance(buffer.owner, BufferOp)
    return buffer.owner.size


def _number(names: Sequence[str], name: str, what: str) -> int:
    if name not in names:
        raise PipelineError("npu", f"must name a {what} that there is", got=name, remedy=near_misses(name, names))
    return names.index(name)
