"""The state of the simulated device: memories, queues, FIFOs of tokens."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from qmlir.devices import Device
from qmlir.devices.description import Memory
from qmlir.devices.footprints import Block, Fault, context_of, table_block
from qmlir.devices.waits import tokens
from qmlir.isa.commands import Pool, SetContext, Step, Window
from qmlir.isa.encoding import Command
from qmlir.numerics import Int64s, fixed_point
from qmlir.numerics.contracts import NUMBERED

# ---------------------------------------------------------------------------------------------------------------
# The simulator's memories: their bytes, and which bytes were ever written.
#
# Several samples may be simulated at once. Each sample is a network of its own with its own memories, and the same
# commands change all of them.


Bytes = npt.NDArray[np.uint8]
T = TypeVar("T", np.uint8, np.bool_)


@dataclass
class _Contents:
    """The part of a memory that a program touches.

    data      its bytes, uint8 [networks, size]
    written   which bytes were written, or were there from the start; the same for all networks
    """

    memory: Memory
    size: int
    networks: int
    data: Bytes = field(init=False)
    written: npt.NDArray[np.bool_] = field(init=False)

    def __post_init__(self) -> None:
        self.data, self.written = np.zeros((self.networks, self.size), np.uint8), np.zeros((1, self.size), np.bool_)


class Memories:
    """All memories of a device."""

    def __init__(self, device: Device, touched: Iterable[Block], networks: int = 1):
        """Memories without contents.

        Args:
            device: The device.
            touched: Every block that the program touches; each lies within its memory.
            networks: How many networks run at once.
        """
        ends = [0] * len(device.memory)
        for block in touched:
            if not block.empty:
                ends[block.place.memory] = max(ends[block.place.memory], block.end)
        self.networks = networks
        self._all = [_Contents(memory, end, networks) for memory, end in zip(device.memory, ends, strict=True)]

    def load(self, block: Block, data: bytes, network: int | None = None) -> None:
        """Writes bytes before the first command, for one network or, if `network` is None, for all networks."""
        contents = self._all[block.place.memory]
        chosen = slice(None) if network is None else slice(network, network + 1)
        _strided(contents.data[chosen], block)[...] = np.frombuffer(data, np.uint8)
        _strided(contents.written, block)[...] = True

    def read(self, block: Block) -> Bytes:
        """A copy of a block, uint8 [networks, planes, rows, size].

        Raises:
            Fault: Some bytes of the block were never written.
        """
        contents = self._all[block.place.memory]
        written = _strided(contents.written, block)[0]
        if not written.all():
            plane, row, byte = np.argwhere(~written)[0]
            at = block.place.address + plane * block.plane_pitch + row * block.row_pitch + byte
            raise Fault(
                "must read what was written before", got=f"byte {at:#x} of {contents.memory.id}, which never was"
            )
        return _strided(contents.data, block).copy()

    def write(self, block: Block, data: Bytes) -> None:
        """Writes a block, uint8 [networks, planes, rows, size].

        Raises:
            Fault: The memory is read-only.
        """
        contents = self._all[block.place.memory]
        if contents.memory.read_only:
            raise Fault("must write memory that can be written", got=contents.memory.id)
        _strided(contents.data, block)[...] = data
        _strided(contents.written, block)[...] = True


def _strided(array: npt.NDArray[T], block: Block) -> npt.NDArray[T]:
    """The elements of a block as a view [networks, planes, rows, size]; the block lies within the array."""
    shape = (len(array), block.planes, block.rows, block.size)
    if block.empty:
        return np.zeros(shape, array.dtype)
    strides = (array.strides[0], block.plane_pitch, block.row_pitch, 1)
    return np.lib.stride_tricks.as_strided(array[:, block.place.address :], shape, strides)


# ---------------------------------------------------------------------------------------------------------------
# Gathers the elements that a sliding window covers; a tap is a position (row, column) of the window.


def tap(data: Int64s, command: Window | Pool, i: int, j: int, outside: int = 0) -> Int64s:
    """The elements at tap (i, j) of the window, for each output position.

    Args:
        data: int64 [networks, rows, columns, channels].
        command: The command with the window's strides, dilations and padding.
        i: Row of the tap.
        j: Column of the tap.
        outside: The value of elements outside the data.

    Returns:
        int64 [networks, out_rows, out_columns, channels].
    """
    networks, _, _, channels = data.shape
    taken = np.full((networks, command.out_rows, command.out_columns, channels), outside, np.int64)
    first_row, first_column = i * command.dilation_rows - command.top, j * command.dilation_columns - command.left
    to_rows, from_rows = _inside(first_row, command.stride_rows, command.out_rows, command.rows)
    to_columns, from_columns = _inside(first_column, command.stride_columns, command.out_columns, command.columns)
    taken[:, to_rows, to_columns] = data[:, from_rows, from_columns]
    return taken


def _inside(first: int, stride: int, count: int, size: int) -> tuple[slice, slice]:
    """Selects the positions first, first + stride, … that lie in [0, size).

    Returns:
        The indices of the selected positions, and the positions themselves.
    """
    begin = max(-(first // stride), 0)
    end = max(min((size - 1 - first) // stride + 1, count), begin)
    start = first + begin * stride
    return slice(begin, end), slice(start, start + (end - begin) * stride, stride) if end > begin else slice(0, 0)


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


# ---------------------------------------------------------------------------------------------------------------
# The state that commands act on: memories and contexts, and how integers are read, requantized and written.


@dataclass(frozen=True)
class Machine:
    """The state that commands act on.

    contexts   number of a context → the command that wrote it
    """

    device: Device
    memories: Memories
    contexts: dict[int, SetContext]

    def context(self, command: Command) -> SetContext:
        """The context that a command uses."""
        return context_of(command, self.contexts)

    def numbers(self, block: Block, bits: int) -> Int64s:
        """Reads a block of integers as int64 [networks, planes, rows, count]."""
        raw = self.memories.read(block)
        return np.ascontiguousarray(raw).view(f"<i{bits // 8}").astype(np.int64)

    def put(self, block: Block, values: Int64s, bits: int) -> None:
        """Writes integers [networks, planes, rows, count]; each fits the given number of bits."""
        stored = np.ascontiguousarray(values.astype(f"<i{bits // 8}"))
        self.memories.write(block, stored.view(np.uint8).reshape(-1, block.planes, block.rows, block.size))


def set_context(command: SetContext, machine: Machine) -> None:
    """Writes a context."""
    machine.contexts[command.ctx] = command


def finish(values: Int64s, context: SetContext, machine: Machine) -> Int64s:
    """Applies a context (requantization or table lookup) to integers [networks, rows, columns, channels]."""
    tables = machine.memories.read(table_block(context, values.shape[-1]))
    if (tables == tables[:1]).all():
        return _finished(values, context, tables[0])
    pairs = zip(values, tables, strict=True)
    return np.stack([_finished(network[None], context, table)[0] for network, table in pairs])


def _finished(values: Int64s, context: SetContext, table: Bytes) -> Int64s:
    """Applies a context to integers; `table` holds the bytes of the context's table.

    Raises:
        Fault: A number is out of the table's range, or the contract refuses a multiplier or shift.
    """
    if context.step is Step.LOOKUP:
        entries = table.reshape(-1).view(f"<i{context.bits // 8}").astype(np.int64)
        if values.size and not -128 <= values.min() <= values.max() <= 127:
            raise Fault("a table must be looked up with numbers of 8 bits", got=f"{values.min()} to {values.max()}")
        return entries[values + 128]
    multiplier, shift = table.reshape(-1).view("<i4").astype(np.int64).reshape(-1, 2).T
    contract = NUMBERED[context.contract]
    try:
        rounded = fixed_point.requantize(values - context.input_zero_point, multiplier, shift, contract)
    except fixed_point.NumericsError as error:
        raise Fault(error.need, got=error.got) from None
    return clamped(rounded, context)


def clamped(values: Int64s, context: SetContext) -> Int64s:
    """Adds the zero point of a context and clips to its bounds."""
    return np.clip(values + context.zero_point, context.lower, context.upper)
