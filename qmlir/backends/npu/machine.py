"""What commands are executed on: memories, contexts, and how numbers are read, finished and written."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from qmlir.backends.npu.memories import Block, Fault, Memories
from qmlir.device import Device
from qmlir.dialects.quant import numerics
from qmlir.isa.commands import CONTRACTS, SetContext, Step
from qmlir.isa.encoding import Command, Place

Int64s = npt.NDArray[np.int64]

MAX_ELEMENTS = 1 << 24
"""A command works on at most so many elements; a stream that asks for more is damaged."""

WIDTHS = (8, 16, 32, 64)


@dataclass(frozen=True)
class Footprint:
    """The blocks that a command reads and writes."""

    reads: tuple[Block, ...] = ()
    writes: tuple[Block, ...] = ()


@dataclass(frozen=True)
class Machine:
    """What commands are executed on.

    contexts   number → the command that wrote it
    """

    device: Device
    memories: Memories
    contexts: dict[int, SetContext]

    def context(self, command: Command) -> SetContext:
        """The context that a command uses."""
        if command.ctx not in self.contexts:
            raise Fault("must use a context that was written", got=f"context {command.ctx}")
        return self.contexts[command.ctx]

    def numbers(self, block: Block, bits: int) -> Int64s:
        """A block of integers, int64 [planes, rows, count]."""
        _require_few(block)
        raw = self.memories.read(block)
        return np.ascontiguousarray(raw).view(f"<i{bits // 8}").astype(np.int64)

    def put(self, block: Block, values: Int64s, bits: int) -> None:
        """Writes integers [planes, rows, count] that fit so many bits."""
        _require_few(block)
        stored = np.ascontiguousarray(values.astype(f"<i{bits // 8}"))
        self.memories.write(block, stored.view(np.uint8).reshape(block.planes, block.rows, block.size))


def _require_few(block: Block) -> None:
    if block.planes * block.rows * block.size > 8 * MAX_ELEMENTS:
        raise Fault(
            f"a command must work on at most {MAX_ELEMENTS} elements",
            got=f"{block.size} bytes in {block.rows} · {block.planes} rows",
        )


def width(bits: int, allowed: tuple[int, ...] = WIDTHS) -> int:
    """Bytes of an integer."""
    if bits not in allowed:
        raise Fault(f"integers must have {', '.join(map(str, allowed))} bits", got=str(bits))
    return bits // 8


def image(place: Place, shape: tuple[int, int, int], pitches: tuple[int, int], bits: int) -> Block:
    """A tensor [rows, columns, channels]: a plane for each row, a row for each pixel."""
    rows, columns, channels = shape
    if not (rows and columns and channels):
        raise Fault("a tensor must have elements", got=f"{rows} rows, {columns} columns, {channels} channels")
    return Block(place, channels * width(bits), columns, rows, pitches[1], pitches[0])


def context_footprint(command: SetContext, machine: Machine) -> Footprint:
    """Nothing is touched; raises Fault if a number is out of its range."""
    width(command.bits)
    if command.contract >= len(CONTRACTS):
        raise Fault(f"a contract must be one of {', '.join(CONTRACTS)}", got=f"number {command.contract}")
    half = 1 << command.bits - 1
    if not -half <= command.lower <= command.upper < half:
        raise Fault(f"bounds must be in order and fit {command.bits} bits", got=f"[{command.lower}, {command.upper}]")
    return Footprint()


def set_context(command: SetContext, machine: Machine) -> None:
    """Writes a context."""
    machine.contexts[command.ctx] = command


def table_block(context: SetContext, channels: int) -> Block:
    """The table that a context reads for so many channels."""
    if context.step is Step.LOOKUP:
        return Block(context.table, 256 * width(context.bits))
    return Block(context.table, 8 * (channels if context.per_channel else 1))


def finish(values: Int64s, context: SetContext, machine: Machine) -> Int64s:
    """What a context makes of numbers [rows, columns, channels]."""
    table = machine.memories.read(table_block(context, values.shape[-1]))
    if context.step is Step.LOOKUP:
        entries = table.reshape(-1).view(f"<i{context.bits // 8}").astype(np.int64)
        if values.size and not -128 <= values.min() <= values.max() <= 127:
            raise Fault("a table must be looked up with numbers of 8 bits", got=f"{values.min()} to {values.max()}")
        return entries[values + 128]
    multiplier, shift = table.reshape(-1).view("<i4").astype(np.int64).reshape(-1, 2).T
    contract = CONTRACTS[context.contract]
    try:
        rounded = numerics.requantize(values - context.input_zero_point, multiplier, shift, contract)
    except numerics.NumericsError as error:
        raise Fault(error.need, got=error.got) from None
    return clamped(rounded, context)


def clamped(values: Int64s, context: SetContext) -> Int64s:
    """The end of a number: zero point and bounds."""
    return np.clip(values + context.zero_point, context.lower, context.upper)
