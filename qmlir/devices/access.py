"""Checks which queue may execute a command, and which memories the command may name there.

The rules come from the engines and memory roles of the device file. The commands of a queue read and write the
memories inside the device. A command may name a memory outside the device in two cases only: its queue has `load` or
`store` among its fused steps, or no transfer could bring the bytes inside (or take them out).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from qmlir.devices.description import Device, Memory, Queue
from qmlir.devices.footprints import Fault
from qmlir.devices.schema import Role
from qmlir.isa.commands import (
    Arithmetic,
    Convolve,
    ConvolveDepthwise,
    Init,
    Move,
    Pool,
    Post,
    Reduce,
    SetContext,
    Window,
)
from qmlir.isa.encoding import Command, Place

NUMBERS: Sequence[Role] = ("ifm", "ofm", "acc")
"""Roles of the memories that the commands after a contraction may use.

They work on sums, on results, and on other layers' results.
"""

WINDOW: Mapping[str, Sequence[Role]] = {"data": ("ifm",), "weights": ("weights",), "bias": ("bias",), "sums": ("acc",)}

ROLES: Mapping[type[Command], Mapping[str, Sequence[Role]]] = {
    Convolve: WINDOW,
    ConvolveDepthwise: WINDOW,
    Post: {"source": NUMBERS, "target": NUMBERS},
    Arithmetic: {"lhs": NUMBERS, "rhs": NUMBERS, "target": NUMBERS},
    Pool: {"source": NUMBERS, "target": NUMBERS},
    Reduce: {"source": NUMBERS, "sums": ("acc",)},
    SetContext: {"table": ("scales", "lut", "bias")},
}
"""Command → for each of its operands, the roles of which the operand's memory must hold one."""

WRITTEN = ("sums", "target")
"""Names of the operands that commands write; commands read all other operands."""

STEPS: Mapping[type[Command], Literal["post", "pool"]] = {
    Post: "post",
    Arithmetic: "post",
    Pool: "pool",
    Reduce: "pool",
}
"""Command → the step that an array must have fused to execute it; a vector engine executes all of them."""


def require_access(command: Command, device: Device) -> None:
    """Raises Fault unless the command's queue can execute the command and the command names allowed memories."""
    queue = device.queue[command.queue]
    if isinstance(command, Move):
        _require_transfer(command, queue, device)
        return
    step = STEPS.get(type(command))
    if isinstance(command, Window) and queue.engine != "array":
        raise Fault("must be for a queue with an array", got=f"queue {queue.id}, engine {queue.engine}")
    if step is not None and not queue.executes(step):
        raise Fault(
            f"must be for a vector engine, or an array with {step} fused", got=f"queue {queue.id}, {queue.engine}"
        )
    for name, place, roles in _places(command):
        if place.memory >= len(device.memory):
            raise Fault("must name a memory of the device", got=f"memory {place.memory} of {len(device.memory)}")
        memory = device.memory[place.memory]
        if not set(roles) & set(memory.holds):
            raise Fault(f"{name} must be in a memory that holds {' or '.join(roles)}", got=memory.id)
        if memory.external and transfers(device, queue, memory, roles, name in WRITTEN):
            way = "be taken out" if name in WRITTEN else "be brought in"
            raise Fault(f"{name} must {way} by a transfer", got=f"a place in {memory.id}, outside the device")


def transfers(device: Device, queue: Queue, memory: Memory, roles: Sequence[Role], written: bool) -> bool:
    """Whether DMA queues move bytes of the given roles between an external memory and the memories inside the device.

    Returns False if the queue itself has the fused step `load` (for reads) or `store` (for writes).

    Args:
        device: The device.
        queue: The queue of the command that uses the bytes.
        memory: The external memory.
        roles: Roles of the bytes.
        written: Whether the command writes the bytes; otherwise it reads them.
    """
    if ("store" if written else "load") in queue.fused:
        return False
    inside = {m.id for m in device.memory if not m.external and set(roles) & set(m.holds)}
    ways = [(q.target, q.source) if written else (q.source, q.target) for q in device.queue if q.engine == "dma"]
    return any(memory.id in outer and inside & set(inner) for outer, inner in ways)


def _places(command: Command) -> Iterator[tuple[str, Place, Sequence[Role]]]:
    """Yields each operand that a command touches: its name, its address, and the roles its memory may hold."""
    for name, roles in ROLES.get(type(command), {}).items():
        if name != "bias" or (isinstance(command, Window) and command.init is Init.BIAS):
            yield name, getattr(command, name), roles


def _require_transfer(command: Move, queue: Queue, device: Device) -> None:
    known = device.memory
    for place, allowed in ((command.source, queue.source), (command.target, queue.target)):
        if place.memory >= len(known) or known[place.memory].id not in allowed:
            raise Fault(f"queue {queue.id} must move data between its memories", got=f"memory {place.memory}")
    loops = 1 + (command.rows > 1) + (command.planes > 1)
    if loops > queue.dims:
        raise Fault(f"a transfer of queue {queue.id} must have at most {queue.dims} loops", got=str(loops))
