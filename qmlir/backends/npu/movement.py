"""What the commands that only move data do."""

import numpy as np

from qmlir.backends.npu.machine import Footprint, Machine
from qmlir.backends.npu.memories import Block, Fault
from qmlir.isa.commands import Fill, Move


def _move_blocks(command: Move) -> tuple[Block, Block]:
    size, rows, planes = command.size, command.rows, command.planes
    return (
        Block(command.source, size, rows, planes, command.source_row, command.source_plane),
        Block(command.target, size, rows, planes, command.target_row, command.target_plane),
    )


def move_footprint(command: Move, machine: Machine) -> Footprint:
    """What a transfer reads and writes; its queue must reach both memories."""
    source, target = _move_blocks(command)
    queue = machine.device.queue[command.queue]
    for place, allowed in ((command.source, queue.source), (command.target, queue.target)):
        known = machine.device.memory
        if place.memory >= len(known) or known[place.memory].id not in allowed:
            raise Fault(f"queue {queue.id} must move data between its memories", got=f"memory {place.memory}")
    return Footprint((source,), (target,))


def move(command: Move, machine: Machine) -> None:
    """Copies."""
    source, target = _move_blocks(command)
    machine.memories.write(target, machine.memories.read(source))


def _fill_block(command: Fill) -> Block:
    return Block(command.target, command.size, command.rows, command.planes, command.target_row, command.target_plane)


def fill_footprint(command: Fill, machine: Machine) -> Footprint:
    """What a fill writes."""
    if command.value > 255:
        raise Fault("a fill must be with a byte", got=str(command.value))
    return Footprint(writes=(_fill_block(command),))


def fill(command: Fill, machine: Machine) -> None:
    """Fills."""
    block = _fill_block(command)
    machine.memories.write(block, np.full((block.planes, block.rows, block.size), command.value, np.uint8))
