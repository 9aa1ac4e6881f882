"""What commands are executed on: memories, contexts, and how numbers are read, finished and written."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from qmlir.backends.npu.memories import Bytes, Memories
from qmlir.device import Device
from qmlir.device.blocks import Block, Fault
from qmlir.device.footprints import context_of, table_block
from qmlir.dialects.quant import numerics
from qmlir.isa.commands import CONTRACTS, SetContext, Step
from qmlir.isa.encoding import Command

Int64s = npt.NDArray[np.int64]


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
        return context_of(command, self.contexts)

    def numbers(self, block: Block, bits: int) -> Int64s:
        """A block of integers, int64 [networks, planes, rows, count]."""
        raw = self.memories.read(block)
        return np.ascontiguousarray(raw).view(f"<i{bits // 8}").astype(np.int64)

    def put(self, block: Block, values: Int64s, bits: int) -> None:
        """Writes integers [networks, planes, rows, count] that fit so many bits."""
        stored = np.ascontiguousarray(values.astype(f"<i{bits // 8}"))
        self.memories.write(block, stored.view(np.uint8).reshape(-1, block.planes, block.rows, block.size))


def set_context(command: SetContext, machine: Machine) -> None:
    """Writes a context."""
    machine.contexts[command.ctx] = command


def finish(values: Int64s, context: SetContext, machine: Machine) -> Int64s:
    """What a context makes of numbers [networks, rows, columns, channels]."""
    tables = machine.memories.read(table_block(context, values.shape[-1]))
    if (tables == tables[:1]).all():
        return _finished(values, context, tables[0])
    pairs = zip(values, tables, strict=True)
    return np.stack([_finished(network[None], context, table)[0] for network, table in pairs])


def _finished(values: Int64s, context: SetContext, table: Bytes) -> Int64s:
    """What a context whose table has these bytes makes of numbers."""
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
