"""What a command may touch: the block that each operand reads or writes, and whether the device allows it.

The simulator derives the operands of a command from isa/commands.py by code of its own, so that it is a witness of the
compiler's footprints (devices/model/footprints.py). Bounds and races are checked on these operands (races.py), and
execution reads and writes memory through them alone (execute.py): a command cannot touch bytes that were not checked.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from qmlir.backends.npu.runs import is_apart, meet
from qmlir.devices import Device
from qmlir.devices.description.device import Memory, Queue
from qmlir.devices.description.schema import Role
from qmlir.isa.blocks import Block, Fault, Footprint
from qmlir.isa.commands import (
    Arithmetic,
    Arrange,
    Convolve,
    ConvolveDepthwise,
    Division,
    Fill,
    Host,
    Init,
    Move,
    Norm,
    Normalize,
    OfRows,
    Operation,
    Pool,
    Post,
    Reduce,
    SetContext,
    Softmax,
    Step,
    Unpack,
    Window,
)
from qmlir.isa.encoding import Command, Place
from qmlir.isa.limits import broken, outputs_of
from qmlir.numerics.contracts import NUMBERED

Contexts = Mapping[int, SetContext]
Blocks = Mapping[str, Block]


@dataclass(frozen=True)
class Accesses:
    """The operands of a command.

    reads    name of an operand, a field of the command or its context → the block that the command reads
    writes   the same for the blocks that it writes
    context  the context that the command uses; None if it uses none
    """

    reads: Blocks = field(default_factory=dict[str, Block])
    writes: Blocks = field(default_factory=dict[str, Block])
    context: SetContext | None = None

    @property
    def blocks(self) -> Sequence[Block]:
        """All blocks of the command."""
        return (*self.reads.values(), *self.writes.values())

    @property
    def footprint(self) -> Footprint:
        """The blocks without their names."""
        return Footprint(tuple(self.reads.values()), tuple(self.writes.values()))


def accesses(command: Command, device: Device, contexts: Contexts, routines: Sequence[Footprint] = ()) -> Accesses:
    """The operands of a command.

    Args:
        command: The command; its queue exists on the device.
        device: The device.
        contexts: Number of a context → the command that wrote it last.
        routines: The footprint of each host routine.

    Raises:
        Fault: A number in the command is out of its range.
    """
    if (found := broken(command)) is not None:
        raise Fault(found[0], got=found[1])
    if isinstance(command, Host):
        return _host(command, routines)
    rule = _RULES.get(type(command))
    return Accesses() if rule is None else rule(command, device, contexts)


def require_apart(command: Command, touched: Accesses) -> None:
    """Raises Fault if a command writes a byte twice, or bytes that it still has to read; its blocks lie in memories.

    An element may take the place of the element that it is computed from, and a sum that of the sum before it.
    """
    for name, written in touched.writes.items():
        if not written.empty and not is_apart(written):
            raise Fault(
                f"must write each byte of its {name} once", got=f"rows that overlap at {written.place.address:#x}"
            )
        for other, read in touched.reads.items():
            in_place = read == written and (other == name or isinstance(command, Move | Post | Arithmetic))
            if not in_place and meet(read, written):
                raise Fault(f"must not write its {name} over its {other}", got=f"both at {read.place.address:#x}")


def accesses_of(commands: Sequence[Command], device: Device, routines: Sequence[Footprint]) -> Iterator[Accesses]:
    """Yields the operands of each command of a program.

    Raises:
        Fault: A number in a command is out of its range.
    """
    contexts: dict[int, SetContext] = {}
    for command in commands:
        yield accesses(command, device, contexts, routines)
        if isinstance(command, SetContext):
            contexts[command.ctx] = command


def _host(command: Host, routines: Sequence[Footprint]) -> Accesses:
    if command.routine >= len(routines):
        raise Fault("must call a routine of the host", got=f"number {command.routine} of {len(routines)}")
    routine = routines[command.routine]
    read, written = (sum(block.bytes for block in blocks) for blocks in (routine.reads, routine.writes))
    if (command.read, command.written) != (read, written):
        raise Fault(
            f"must say that its routine reads {read} bytes and writes {written}",
            got=f"{command.read} and {command.written}",
        )
    reads, writes = ({str(n): block for n, block in enumerate(blocks)} for blocks in (routine.reads, routine.writes))
    return Accesses(reads, writes)


# ---------------------------------------------------------------------------------------------------------------
# Operands, command by command


def _tensor(place: Place, shape: tuple[int, int, int], pitches: tuple[int, int], bits: int) -> Block:
    """The block of a tensor: each row of the tensor is a plane, each pixel a row of bytes.

    Args:
        place: Memory and address of the first element.
        shape: Rows, columns and channels.
        pitches: Bytes from one row to the next, and from one pixel to the next.
        bits: Width of an element.

    Raises:
        Fault: The tensor has no elements.
    """
    rows, columns, channels = shape
    if not (rows and columns and channels):
        raise Fault("a tensor must have elements", got=f"{rows} rows, {columns} columns, {channels} channels")
    return Block(place, channels * bits // 8, columns, rows, pitches[1], pitches[0])


def _used(command: Command, contexts: Contexts) -> SetContext:
    if command.ctx not in contexts:
        raise Fault("must use a context that was written", got=f"context {command.ctx}")
    return contexts[command.ctx]


def _table(context: SetContext, channels: int) -> Block:
    """The table that a context reads for some channels: pairs of 32 bits each, or the 256 entries of a lookup."""
    if context.step is Step.LOOKUP:
        return Block(context.table, 256 * context.bits // 8)
    return Block(context.table, 8 * (channels if context.per_channel else 1))


def _context(command: SetContext, device: Device, contexts: Contexts) -> Accesses:
    if command.contract not in NUMBERED:
        raise Fault(f"a contract must be one of {', '.join(NUMBERED.values())}", got=f"number {command.contract}")
    return Accesses()


def _move(command: Move, device: Device, contexts: Contexts) -> Accesses:
    size, rows, planes = command.size, command.rows, command.planes
    return Accesses(
        {"source": Block(command.source, size, rows, planes, command.source_row, command.source_plane)},
        {"target": Block(command.target, size, rows, planes, command.target_row, command.target_plane)},
    )


def _fill(command: Fill, device: Device, contexts: Contexts) -> Accesses:
    shape = command.size, command.rows, command.planes
    return Accesses({}, {"target": Block(command.target, *shape, command.target_row, command.target_plane)})


def _unpack(command: Unpack, device: Device, contexts: Contexts) -> Accesses:
    if command.bits not in device.queue[command.queue].unpacks:
        raise _unpackable(command, device, command.bits)
    packed = Block(command.source, _held(command.count, command.bits))
    return Accesses({"source": packed}, {"target": Block(command.target, command.count)})


def _held(count: int, bits: int) -> int:
    """The bytes that weights of some bits each fill, the last byte perhaps in part."""
    whole, rest = divmod(count * bits, 8)
    return whole + (rest > 0)


def _unpackable(command: Command, device: Device, bits: int) -> Fault:
    """The fault of a command whose queue does not unpack weights of so many bits."""
    queue = device.queue[command.queue]
    known = f"of {', '.join(map(str, queue.unpacks))} bits" if queue.unpacks else "of no width"
    return Fault(f"queue {queue.id} unpacks weights {known}", got=f"weights of {bits} bits")


def _arrange(command: Arrange, device: Device, contexts: Contexts) -> Accesses:
    if not (queue := device.queue[command.queue]).arranges:
        raise Fault("a matrix must be arranged by a queue that arranges", got=f"queue {queue.id}")
    matrix = Block(command.source, command.columns * command.bits // 8, command.rows, row_pitch=command.pitch)
    count = _tiled(*arranged_shape(command), device)
    return Accesses({"source": matrix}, {"target": Block(command.target, count * command.bits // 8)})


def arranged_shape(command: Arrange) -> tuple[int, int]:
    """The output channels of an arranged matrix, and the terms of each of their sums."""
    return (command.columns, command.rows) if command.transposed else (command.rows, command.columns)


def _window(command: Window, device: Device, contexts: Contexts) -> Accesses:
    outputs = outputs_of(command)
    if isinstance(command, ConvolveDepthwise) and device.array.depthwise is None:
        raise Fault("a depthwise convolution must have a place on the array", got=f"{device.name} without one")
    moved = device.quant.bias.moved_bits
    if command.bias_bits != (moved or command.sum_bits) or not 0 <= command.bias_shift < (32 if moved else 1):
        raise Fault(
            f"a bias must be {device.quant.bias.type}, and moved left by less than 32 bits if that is i8 or i16",
            got=f"{command.bias_bits} bits, moved by {command.bias_shift}",
        )
    shape, pitches = (command.rows, command.columns, command.channels), (command.row_pitch, command.pixel_pitch)
    positions = command.out_rows * command.out_columns
    sums = {"sums": Block(command.sums, positions * outputs * command.sum_bits // 8)}
    initial = {
        Init.ZERO: {},
        Init.BIAS: {"bias": Block(command.bias, outputs * command.bias_bits // 8)},
        Init.ACCUMULATE: sums,
    }
    reads = {
        "data": _tensor(command.data, shape, pitches, command.data_bits),
        "weights": _weights(command, device),
        **initial[command.init],
    }
    return Accesses(reads, sums)


def _weights(command: Window, device: Device) -> Block:
    """The block of a convolution's weights: of bytes, of 16 bits each, or of the bits that its queue unpacks."""
    count, bits = stored_weights(command, device), command.weight_bits
    if bits < 8 and bits not in device.queue[command.queue].unpacks:
        raise _unpackable(command, device, bits)
    return Block(command.weights, _held(count, bits) if bits < 8 else count * bits // 8)


def stored_weights(command: Window, device: Device) -> int:
    """How many weights are stored for a convolution, those that pad tiles included."""
    terms = command.kernel_rows * command.kernel_columns * command.channels
    return _tiled(command.out_channels, terms, device) if isinstance(command, Convolve) else terms


def _tiled(outputs: int, terms: int, device: Device) -> int:
    """How many weights the whole tiles of a matrix hold."""
    n, k = device.layout.tile
    return -(-outputs // n) * n * -(-terms // k) * k


def _post(command: Post, device: Device, contexts: Contexts) -> Accesses:
    context, shape = _used(command, contexts), (command.rows, command.columns, command.channels)
    source = _tensor(command.source, shape, (command.source_row, command.source_pixel), command.source_bits)
    target = _tensor(command.target, shape, (command.target_row, command.target_pixel), context.bits)
    return Accesses({"source": source, "table": _table(context, command.channels)}, {"target": target}, context)


def _arithmetic(command: Arithmetic, device: Device, contexts: Contexts) -> Accesses:
    context, shape = _used(command, contexts), (command.rows, command.columns, command.channels)
    reads = {
        "lhs": _tensor(command.lhs, shape, (command.lhs_row, command.lhs_pixel), command.bits),
        "rhs": _tensor(command.rhs, shape, (command.rhs_row, command.rhs_pixel), command.bits),
    }
    target = _tensor(command.target, shape, (command.target_row, command.target_pixel), context.bits)
    if command.operation is Operation.MUL:
        reads["table"] = _table(context, command.channels)
    return Accesses(reads, {"target": target}, context)


def _pool(command: Pool, device: Device, contexts: Contexts) -> Accesses:
    inside = (command.rows, command.columns, command.channels)
    outside = (command.out_rows, command.out_columns, command.channels)
    source = _tensor(command.source, inside, (command.row_pitch, command.pixel_pitch), command.bits)
    target = _tensor(command.target, outside, (command.target_row, command.target_pixel), command.bits)
    return Accesses({"source": source}, {"target": target})


def _reduce(command: Reduce, device: Device, contexts: Contexts) -> Accesses:
    shape = (command.rows, command.columns, command.channels)
    source = _tensor(command.source, shape, (command.row_pitch, command.pixel_pitch), command.bits)
    sums = {"sums": Block(command.sums, command.channels * 4)}
    return Accesses({"source": source} | (sums if command.init is Init.ACCUMULATE else {}), sums)


def _rows(command: OfRows) -> Accesses:
    """The rows of an operation on rows: each is a run of bytes."""
    data = Block(
        command.source, command.channels * command.source_bits // 8, command.rows, row_pitch=command.source_row
    )
    result = Block(
        command.target, command.channels * command.target_bits // 8, command.rows, row_pitch=command.target_row
    )
    return Accesses({"source": data}, {"target": result})


def _softmax(command: Softmax, device: Device, contexts: Contexts) -> Accesses:
    if device.ops.softmax is None:
        raise Fault("a softmax must have a place on the device", got=f"{device.name} without one")
    rows, tables = _rows(command), {"table": Block(command.table, 4 * command.entries)}
    if command.division is Division.INTERPOLATED:
        tables["inverse"] = Block(command.inverse, 1026)
    return Accesses({**rows.reads, **tables}, rows.writes)


def _normalize(command: Normalize, device: Device, contexts: Contexts) -> Accesses:
    table = device.ops.layer_norm if command.norm is Norm.LAYER else device.ops.rms_norm
    if table is None:
        raise Fault("a normalization must have a place on the device", got=f"{device.name} without one")
    return _rows(command)


_RULES: dict[type[Command], Callable[[Any, Device, Contexts], Accesses]] = {
    SetContext: _context,
    Move: _move,
    Fill: _fill,
    Unpack: _unpack,
    Arrange: _arrange,
    Convolve: _window,
    ConvolveDepthwise: _window,
    Post: _post,
    Arithmetic: _arithmetic,
    Pool: _pool,
    Reduce: _reduce,
    Softmax: _softmax,
    Normalize: _normalize,
}
"""Command → the function that derives its operands; a command that is not listed touches no bytes."""


# ---------------------------------------------------------------------------------------------------------------
# Checks which queue may execute a command, and which memories the command may name there.
#
# The rules come from the engines and memory roles of the device file. The commands of a queue read and write the
# memories inside the device. A command may name a memory outside the device in two cases only: its queue has `load` or
# `store` among its fused steps, or no transfer could bring the bytes inside (or take them out).


NUMBERS: Sequence[Role] = ("ifm", "ofm", "acc")
"""Roles of the memories that the commands after a contraction may use.

They work on sums, on results, and on other layers' results.
"""

WINDOW: Mapping[str, Sequence[Role]] = {"data": ("ifm",), "weights": ("weights",), "bias": ("bias",), "sums": ("acc",)}

TABLES: Sequence[Role] = ("scales", "lut", "bias")
"""Roles of the memories in which tables lie."""

ROLES: Mapping[type[Command], Mapping[str, Sequence[Role]]] = {
    Convolve: WINDOW,
    ConvolveDepthwise: WINDOW,
    Arrange: {"source": NUMBERS, "target": ("weights",)},
    Post: {"source": NUMBERS, "target": NUMBERS},
    Arithmetic: {"lhs": NUMBERS, "rhs": NUMBERS, "target": NUMBERS},
    Pool: {"source": NUMBERS, "target": NUMBERS},
    Reduce: {"source": NUMBERS, "sums": ("acc",)},
    SetContext: {"table": TABLES},
    Softmax: {"source": NUMBERS, "target": NUMBERS, "table": TABLES, "inverse": TABLES},
    Normalize: {"source": NUMBERS, "target": NUMBERS},
}
"""Command → for each of its operands, the roles of which the operand's memory must hold one."""

WRITTEN = ("sums", "target")
"""Names of the operands that commands write; commands read all other operands."""

STEPS: Mapping[type[Command], Literal["post", "pool"]] = {
    Post: "post",
    Arithmetic: "post",
    Pool: "pool",
    Reduce: "pool",
    Softmax: "post",
    Normalize: "post",
}
"""Command → the step that an array must have fused to execute it; a vector engine executes all of them."""


def require_access(command: Command, device: Device) -> None:
    """Raises Fault unless the command's queue can execute the command and the command names allowed memories."""
    queue = device.queue[command.queue]
    if isinstance(command, Move | Unpack) or (isinstance(command, Arrange) and queue.engine == "dma"):
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
        if not _is_unused(name, command):
            yield name, getattr(command, name), roles


def _is_unused(name: str, command: Command) -> bool:
    """Whether a command does not read an operand, whatever its place says."""
    if name == "bias":
        return not isinstance(command, Window) or command.init is not Init.BIAS
    return name == "inverse" and isinstance(command, Softmax) and command.division is not Division.INTERPOLATED


def _require_transfer(command: Move | Unpack | Arrange, queue: Queue, device: Device) -> None:
    known = device.memory
    for place, allowed in ((command.source, queue.source), (command.target, queue.target)):
        if place.memory >= len(known) or known[place.memory].id not in allowed:
            raise Fault(f"queue {queue.id} must move data between its memories", got=f"memory {place.memory}")
    if isinstance(command, Unpack | Arrange):
        if "weights" not in (target := known[command.target.memory]).holds:
            done = "unpacked" if isinstance(command, Unpack) else "arranged"
            raise Fault(f"weights must be {done} to a memory that holds weights", got=target.id)
        return
    loops = 1 + (command.rows > 1) + (command.planes > 1)
    if loops > queue.dims:
        raise Fault(f"a transfer of queue {queue.id} must have at most {queue.dims} loops", got=str(loops))
