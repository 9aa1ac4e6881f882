"""The state that commands act on: memories and contexts, and how integers are read, requantized and written."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from qmlir.backends.npu.memories import Bytes, Memories
from qmlir.devices import Device
from qmlir.devices.blocks import Block, Fault
from qmlir.devices.footprints import context_of, table_block
from qmlir.isa.commands import CONTRACTS, SetContext, Step
from qmlir.isa.encoding import Command
from qmlir.numerics import fixed_point

Int64s = npt.NDArray[np.int64]


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
    contract = CONTRACTS[context.contract]
    try:
        rounded = fixed_point.requantize(values - context.input_zero_point, multiplier, shift, contract)
    except fixed_point.NumericsError as error:
        raise Fault(error.need, got=error.got) from None
    return clamped(rounded, context)


def clamped(values: Int64s, context: SetContext) -> Int64s:
    """Adds the zero point of a context and clips to its bounds."""
    return np.clip(values + context.zero_point, context.lower, context.upper)
