"""Simulates the commands that only move data."""

import numpy as np

from qmlir.backends.npu.machine import Machine
from qmlir.devices.footprints import fill_block, move_blocks
from qmlir.isa.commands import Fill, Move


def move(command: Move, machine: Machine) -> None:
    """Executes a transfer."""
    source, target = move_blocks(command)
    machine.memories.write(target, machine.memories.read(source))


def fill(command: Fill, machine: Machine) -> None:
    """Executes a fill: writes one byte value to a whole block."""
    block = fill_block(command)
    machine.memories.write(block, np.full((1, block.planes, block.rows, block.size), command.value, np.uint8))
