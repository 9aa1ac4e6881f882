"""The compiler's footprints: which bytes each command reads and writes, as isa/commands.py defines the command.

The compiler derives waits from them, and the cost model how many bytes are moved. A footprint that is too small leaves
out a wait. The simulator would find the race: it has footprints of its own (backends/npu/accesses.py), which share no
code with these and are all that it can touch. It also checks that a command's numbers are in range, which is taken for
granted here.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from qmlir.devices.description.device import Device
from qmlir.isa.blocks import Block, Fault, Footprint
from qmlir.isa.commands import (
    Arithmetic,
    Arrange,
    Convolve,
    Division,
    Fill,
    Host,
    Init,
    Move,
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
from qmlir.numerics.packing import packed_bytes
from qmlir.numerics.tables import BREAKPOINTS

Contexts = Mapping[int, SetContext]


def footprints(
    commands: Iterable[Command], device: Device, routines: Sequence[Footprint] = ()
) -> Iterator[tuple[Command, Footprint]]:
    """Yields each command of a program with its footprint.

    Args:
        commands: The commands.
        device: The device.
        routines: The footprint of each host routine.
    """
    contexts: dict[int, SetContext] = {}
    for command in commands:
        yield command, footprint(command, device, contexts, routines)
        if isinstance(command, SetContext):
            contexts[command.ctx] = command


def footprint(command: Command, device: Device, contexts: Contexts, routines: Sequence[Footprint] = ()) -> Footprint:
    """The bytes that a command reads and writes.

    Args:
        command: The command; its queue exists on the device.
        device: The device.
        contexts: Number of a context → the command that wrote it last.
        routines: The footprint of each host routine.

    Raises:
        Fault: The command uses a context that no command wrote.
    """
    match command:
        case Host():
            return routines[command.routine]
        case Move():
            box = command.size, command.rows, command.planes
            source = Block(command.source, *box, command.source_row, command.source_plane)
            return Footprint((source,), (Block(command.target, *box, command.target_row, command.target_plane),))
        case Fill():
            box = command.size, command.rows, command.planes
            return Footprint((), (Block(command.target, *box, command.target_row, command.target_plane),))
        case Unpack():
            packed = Block(command.source, packed_bytes(command.count, command.bits))
            return Footprint((packed,), (Block(command.target, command.count),))
        case Arrange():
            source = Block(command.source, command.columns * command.bits // 8, command.rows, 1, command.pitch)
            count = device.layout.in_tiles(*command.matrix)
            return Footprint((source,), (Block(command.target, count * command.bits // 8),))
        case Window():
            return _of_window(command, device)
        case Post() | Arithmetic():
            return _of_elements(command, contexts)
        case Pool():
            source = _image(command, command.source, command.bits, command.row_pitch, command.pixel_pitch)
            shape = command.out_rows, command.out_columns, command.channels
            return Footprint(
                (source,), (_pixels(command.target, shape, command.bits, command.target_row, command.target_pixel),)
            )
        case Reduce():
            source = _image(command, command.source, command.bits, command.row_pitch, command.pixel_pitch)
            sums = Block(command.sums, 4 * command.channels)
            return Footprint((source, sums) if command.init is Init.ACCUMULATE else (source,), (sums,))
        case OfRows():
            return _of_rows(command)
        case _:
            return Footprint()


def _of_window(command: Window, device: Device) -> Footprint:
    terms = command.kernel_rows * command.kernel_columns * command.channels
    outputs, weights = command.channels, terms
    if isinstance(command, Convolve):
        outputs, weights = command.out_channels, device.layout.in_tiles(command.out_channels, terms)
    data = _image(command, command.data, command.data_bits, command.row_pitch, command.pixel_pitch)
    sums = Block(command.sums, command.out_rows * command.out_columns * outputs * command.sum_bits // 8)
    initial = {
        Init.ZERO: (),
        Init.BIAS: (Block(command.bias, outputs * command.bias_bits // 8),),
        Init.ACCUMULATE: (sums,),
    }
    weighted = Block(command.weights, packed_bytes(weights, command.weight_bits))
    return Footprint((data, weighted, *initial[command.init]), (sums,))


def _of_elements(command: Post | Arithmetic, contexts: Contexts) -> Footprint:
    """The footprint of a command that applies a context to elements, with the context's table if it needs one."""
    context = contexts.get(command.ctx)
    if context is None:
        raise Fault("must use a context that was written", got=f"context {command.ctx}")
    target = _image(command, command.target, context.bits, command.target_row, command.target_pixel)
    entries = command.channels if context.per_channel else 1
    table = Block(context.table, 256 * context.bits // 8 if context.step is Step.LOOKUP else 8 * entries)
    if isinstance(command, Post):
        source = _image(command, command.source, command.source_bits, command.source_row, command.source_pixel)
        return Footprint((source, table), (target,))
    lhs = _image(command, command.lhs, command.bits, command.lhs_row, command.lhs_pixel)
    rhs = _image(command, command.rhs, command.bits, command.rhs_row, command.rhs_pixel)
    return Footprint((lhs, rhs, table) if command.operation is Operation.MUL else (lhs, rhs), (target,))


def _of_rows(command: OfRows) -> Footprint:
    source, target = (
        Block(place, command.channels * bits // 8, command.rows, 1, pitch)
        for place, bits, pitch in (
            (command.source, command.source_bits, command.source_row),
            (command.target, command.target_bits, command.target_row),
        )
    )
    tables: tuple[Block, ...] = ()
    if isinstance(command, Softmax):
        tables = (Block(command.table, 4 * command.entries),)
        if command.division is Division.INTERPOLATED:
            tables += (Block(command.inverse, 2 * BREAKPOINTS),)
    return Footprint((source, *tables), (target,))


def _image(command: Window | Post | Arithmetic | Pool | Reduce, place: Place, bits: int, row: int, pixel: int) -> Block:
    """The block of an operand with the command's rows, columns and channels."""
    return _pixels(place, (command.rows, command.columns, command.channels), bits, row, pixel)


def _pixels(place: Place, shape: tuple[int, int, int], bits: int, row: int, pixel: int) -> Block:
    """The block of a tensor [rows, columns, channels]; `row` and `pixel` are the bytes from one to the next."""
    rows, columns, channels = shape
    return Block(place, channels * bits // 8, columns, rows, pixel, row)
