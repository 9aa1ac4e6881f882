"""Which bytes each command reads and writes, and which queues may execute it: as isa/commands.py and the device say."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from qmlir.devices.description import Device, Memory, Queue
from qmlir.devices.schema import Role
from qmlir.errors import QmlirError
from qmlir.isa.commands import (
    Arithmetic,
    Convolve,
    ConvolveDepthwise,
    Fill,
    Host,
    Init,
    Move,
    Operation,
    Pool,
    Post,
    Reduce,
    SetContext,
    Step,
    Window,
)
from qmlir.isa.encoding import Command, Place
from qmlir.numerics.contracts import NUMBERED

# ---------------------------------------------------------------------------------------------------------------
# Which bytes each command reads and writes, as isa/commands.py defines the command.


# ---------------------------------------------------------------------------------------------------------------
# Blocks and footprints: the bytes of a memory that a command reads or writes.


WIDTHS = (8, 16, 32, 64)
"""Widths of stored integers, in bits."""


class Fault(QmlirError):
    """Raised when a device cannot execute a command, or a command touches bytes that it must not touch."""


@dataclass(frozen=True)
class Block:
    """A strided block of planes · rows · size bytes in one memory; row_pitch and plane_pitch are in bytes."""

    place: Place
    size: int
    rows: int = 1
    planes: int = 1
    row_pitch: int = 0
    plane_pitch: int = 0

    @property
    def empty(self) -> bool:
        """Whether the block has no bytes."""
        return not (self.size and self.rows and self.planes)

    @property
    def bytes(self) -> int:
        """How many bytes the block has; the gaps between rows and planes do not count."""
        return self.size * self.rows * self.planes

    @property
    def end(self) -> int:
        """The address behind the block's last byte."""
        return self.place.address + (self.planes - 1) * self.plane_pitch + (self.rows - 1) * self.row_pitch + self.size


@dataclass(frozen=True)
class Footprint:
    """The blocks that a command reads and writes."""

    reads: tuple[Block, ...] = ()
    writes: tuple[Block, ...] = ()


def width(bits: int, allowed: tuple[int, ...] = WIDTHS) -> int:
    """The size of an integer in bytes.

    Raises:
        Fault: `allowed` does not contain this number of bits.
    """
    if bits not in allowed:
        raise Fault(f"integers must have {', '.join(map(str, allowed))} bits", got=str(bits))
    return bits // 8


def image(place: Place, shape: tuple[int, int, int], pitches: tuple[int, int], bits: int) -> Block:
    """The block of a tensor [rows, columns, channels]: each row of the tensor is a plane, each pixel a row of bytes.

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
    return Block(place, channels * width(bits), columns, rows, pitches[1], pitches[0])


# ---------------------------------------------------------------------------------------------------------------
# The footprint of every command: which bytes it reads and writes, as isa/commands.py defines the command.
#
# The simulator checks bounds and races with footprints before it executes. The compiler derives waits from them, and
# the cost model derives how many bytes are moved.


MAX_ELEMENTS = 1 << 24
"""The most elements that a command may work on; a stream that asks for more is damaged."""

MAX_TAPS = 1 << 12
"""The most elements that a window may have."""

MAX_PRODUCTS = 1 << 32
"""The most products that a command may compute."""

MAX_CHANNELS = 1 << 20
"""The most channels of a command; sums over this many channels are exact in float64, whatever the data."""

Contexts = Mapping[int, SetContext]


def footprint(command: Command, device: Device, contexts: Contexts, routines: Sequence[Footprint] = ()) -> Footprint:
    """The bytes that a command reads and writes.

    Args:
        command: The command; its queue exists on the device.
        device: The device.
        contexts: Number of a context → the command that wrote it last.
        routines: The footprint of each host routine.

    Raises:
        Fault: A number in the command is out of its range.
    """
    if isinstance(command, Host):
        return _host(command, routines)
    rule = _RULES.get(type(command))
    return Footprint() if rule is None else rule(command, device, contexts)


def footprints(
    commands: Iterable[Command], device: Device, routines: Sequence[Footprint] = ()
) -> Iterator[tuple[Command, Footprint]]:
    """Yields each command of a program with its footprint.

    Raises:
        Fault: A number in a command is out of its range.
    """
    contexts: dict[int, SetContext] = {}
    for command in commands:
        yield command, footprint(command, device, contexts, routines)
        if isinstance(command, SetContext):
            contexts[command.ctx] = command


def _host(command: Host, routines: Sequence[Footprint]) -> Footprint:
    if command.routine >= len(routines):
        raise Fault("must call a routine of the host", got=f"number {command.routine} of {len(routines)}")
    routine = routines[command.routine]
    read, written = (sum(block.bytes for block in blocks) for blocks in (routine.reads, routine.writes))
    if (command.read, command.written) != (read, written):
        raise Fault(
            f"must say that its routine reads {read} bytes and writes {written}",
            got=f"{command.read} and {command.written}",
        )
    return routine


def context_of(command: Command, contexts: Contexts) -> SetContext:
    """The context that a command uses.

    Raises:
        Fault: No command wrote this context.
    """
    if command.ctx not in contexts:
        raise Fault("must use a context that was written", got=f"context {command.ctx}")
    return contexts[command.ctx]


def _context(command: SetContext, device: Device, contexts: Contexts) -> Footprint:
    width(command.bits)
    if command.contract not in NUMBERED:
        raise Fault(f"a contract must be one of {', '.join(NUMBERED.values())}", got=f"number {command.contract}")
    half = 1 << command.bits - 1
    if not -half <= command.lower <= command.upper < half:
        raise Fault(f"bounds must be in order and fit {command.bits} bits", got=f"[{command.lower}, {command.upper}]")
    return Footprint()


def table_block(context: SetContext, channels: int) -> Block:
    """The bytes of the table that a context reads for a number of channels."""
    if context.step is Step.LOOKUP:
        return Block(context.table, 256 * width(context.bits))
    return Block(context.table, 8 * (channels if context.per_channel else 1))


# ---------------------------------------------------------------------------------------------------------------
# Data movement


def move_blocks(command: Move) -> tuple[Block, Block]:
    """The source and target blocks of a transfer."""
    size, rows, planes = command.size, command.rows, command.planes
    return (
        Block(command.source, size, rows, planes, command.source_row, command.source_plane),
        Block(command.target, size, rows, planes, command.target_row, command.target_plane),
    )


def _move(command: Move, device: Device, contexts: Contexts) -> Footprint:
    source, target = move_blocks(command)
    return Footprint((source,), (target,))


def fill_block(command: Fill) -> Block:
    """The target block of a fill."""
    return Block(command.target, command.size, command.rows, command.planes, command.target_row, command.target_plane)


def _fill(command: Fill, device: Device, contexts: Contexts) -> Footprint:
    if command.value > 255:
        raise Fault("a fill must be with a byte", got=str(command.value))
    return Footprint(writes=(fill_block(command),))


# ---------------------------------------------------------------------------------------------------------------
# Contractions


class WindowBlocks(NamedTuple):
    """The blocks that a convolution touches; the bias is read only if the sums begin with it."""

    data: Block
    weights: Block
    bias: Block
    sums: Block


def outputs(command: Window) -> int:
    """The number of output channels of a convolution."""
    return command.out_channels if isinstance(command, Convolve) else command.channels


def weight_tile(device: Device) -> tuple[int, int]:
    """The block in which weights are stored: output channels by terms of a sum."""
    tile = device.layout.weights
    return (1, 1) if tile is None else (tile.n, tile.k)


def window_blocks(command: Window, device: Device) -> WindowBlocks:
    """The blocks that a convolution touches."""
    shape = (command.rows, command.columns, command.channels)
    sum_bytes = width(command.sum_bits, (32, 64))
    terms = command.kernel_rows * command.kernel_columns * command.channels
    if isinstance(command, Convolve):
        n, k = weight_tile(device)
        weights = -(-command.out_channels // n) * n * -(-terms // k) * k
    else:
        weights = terms
    return WindowBlocks(
        image(command.data, shape, (command.row_pitch, command.pixel_pitch), command.data_bits),
        Block(command.weights, weights * width(command.weight_bits, (8, 16))),
        Block(command.bias, outputs(command) * width(command.bias_bits, (8, 16, 32, 64))),
        Block(command.sums, command.out_rows * command.out_columns * outputs(command) * sum_bytes),
    )


def _window(command: Window, device: Device, contexts: Contexts) -> Footprint:
    width(command.data_bits, (8, 16))
    _check_window(command)
    if not outputs(command):
        raise Fault("a convolution must have output channels", got="none")
    half = 1 << command.data_bits - 1
    if not -half <= command.zero_point < half or command.channels > MAX_CHANNELS:
        raise Fault(
            f"zero points must fit the data, and channels be at most {MAX_CHANNELS}",
            got=f"{command.zero_point} and {command.channels}",
        )
    taps = command.kernel_rows * command.kernel_columns
    products = command.out_rows * command.out_columns * taps * command.channels * outputs(command)
    if products > MAX_PRODUCTS:
        raise Fault(f"a command must compute at most {MAX_PRODUCTS} products", got=str(products))
    if isinstance(command, ConvolveDepthwise) and device.array.depthwise is None:
        raise Fault("a depthwise convolution must have a place on the array", got=f"{device.name} without one")
    moved = device.quant.bias.moved_bits
    if command.bias_bits != (moved or command.sum_bits) or not 0 <= command.bias_shift < (32 if moved else 1):
        raise Fault(
            f"a bias must be {device.quant.bias.type}, and moved left by less than 32 bits if that is i8 or i16",
            got=f"{command.bias_bits} bits, moved by {command.bias_shift}",
        )
    data, weights, bias, sums = window_blocks(command, device)
    initial = {Init.ZERO: (), Init.BIAS: (bias,), Init.ACCUMULATE: (sums,)}[command.init]
    return Footprint((data, weights, *initial), (sums,))


def _check_window(command: Window | Pool) -> None:
    """Raises Fault if a window is larger than any program needs, and the simulator would take too long for it."""
    taps = command.kernel_rows * command.kernel_columns
    if not 1 <= taps <= MAX_TAPS:
        raise Fault(f"a window must have 1 to {MAX_TAPS} elements", got=str(taps))
    if not min(command.stride_rows, command.stride_columns, command.dilation_rows, command.dilation_columns):
        raise Fault("strides and dilations must be at least 1", got="0")
    elements = command.out_rows * command.out_columns * command.channels
    if not elements:
        raise Fault("a window must have places", got=f"{command.out_rows} rows, {command.out_columns} columns")
    if elements > MAX_ELEMENTS or elements * taps > 16 * MAX_ELEMENTS:
        raise Fault(f"a window must meet at most {MAX_ELEMENTS} elements, 16 times", got=f"{elements}, {taps} times")


# ---------------------------------------------------------------------------------------------------------------
# Commands that follow a contraction


def post_blocks(command: Post, context: SetContext) -> tuple[Block, Block]:
    """The source and target blocks of a change of scale or table lookup."""
    shape = (command.rows, command.columns, command.channels)
    return (
        image(command.source, shape, (command.source_row, command.source_pixel), command.source_bits),
        image(command.target, shape, (command.target_row, command.target_pixel), context.bits),
    )


def _post(command: Post, device: Device, contexts: Contexts) -> Footprint:
    context = context_of(command, contexts)
    source, target = post_blocks(command, context)
    return Footprint((source, table_block(context, command.channels)), (target,))


def arithmetic_blocks(command: Arithmetic, context: SetContext) -> tuple[Block, Block, Block]:
    """The left, right and target blocks of an arithmetic command."""
    shape = (command.rows, command.columns, command.channels)
    return (
        image(command.lhs, shape, (command.lhs_row, command.lhs_pixel), command.bits),
        image(command.rhs, shape, (command.rhs_row, command.rhs_pixel), command.bits),
        image(command.target, shape, (command.target_row, command.target_pixel), context.bits),
    )


def _arithmetic(command: Arithmetic, device: Device, contexts: Contexts) -> Footprint:
    width(command.bits, (8, 16))
    if not 1 <= command.shift <= 62:
        raise Fault("a sum must be shifted by 1 to 62 bits", got=str(command.shift))
    context = context_of(command, contexts)
    lhs, rhs, target = arithmetic_blocks(command, context)
    table = (table_block(context, command.channels),) if command.operation is Operation.MUL else ()
    return Footprint((lhs, rhs, *table), (target,))


def pool_blocks(command: Pool) -> tuple[Block, Block]:
    """The source and target blocks of a pool."""
    inside = (command.rows, command.columns, command.channels)
    outside = (command.out_rows, command.out_columns, command.channels)
    return (
        image(command.source, inside, (command.row_pitch, command.pixel_pitch), command.bits),
        image(command.target, outside, (command.target_row, command.target_pixel), command.bits),
    )


def _pool(command: Pool, device: Device, contexts: Contexts) -> Footprint:
    width(command.bits, (8, 16))
    _check_window(command)
    source, target = pool_blocks(command)
    return Footprint((source,), (target,))


def reduce_blocks(command: Reduce) -> tuple[Block, Block]:
    """The source block of a reduction and the block of its sums."""
    shape = (command.rows, command.columns, command.channels)
    source = image(command.source, shape, (command.row_pitch, command.pixel_pitch), command.bits)
    return source, Block(command.sums, command.channels * 4)


def _reduce(command: Reduce, device: Device, contexts: Contexts) -> Footprint:
    width(command.bits, (8, 16))
    source, sums = reduce_blocks(command)
    return Footprint((source, sums) if command.init is Init.ACCUMULATE else (source,), (sums,))


_RULES: dict[type[Command], Callable[[Any, Device, Contexts], Footprint]] = {
    SetContext: _context,
    Move: _move,
    Fill: _fill,
    Convolve: _window,
    ConvolveDepthwise: _window,
    Post: _post,
    Arithmetic: _arithmetic,
    Pool: _pool,
    Reduce: _reduce,
}
"""Command → the function that computes its footprint; a command that is not listed touches no bytes."""


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
