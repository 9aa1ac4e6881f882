"""Simulates the commands that only move data: transfers, fills, and weights on their way to the array."""

import numpy as np

from qmlir.backends.npu.accesses import arranged_shape
from qmlir.backends.npu.machine import Operands
from qmlir.isa.commands import Arrange, Fill, Move, Unpack
from qmlir.numerics import Int64s


def move(command: Move, operands: Operands) -> None:
    """Executes a transfer."""
    operands.memories.write(operands.accesses.writes["target"], operands.bytes("source"))


def fill(command: Fill, operands: Operands) -> None:
    """Executes a fill: writes one byte value to a whole block."""
    block = operands.accesses.writes["target"]
    operands.memories.write(block, np.full((1, block.planes, block.rows, block.size), command.value, np.uint8))


def unpack(command: Unpack, operands: Operands) -> None:
    """Executes the unpacking of weights to bytes."""
    operands.put("target", operands.weights("source", command.bits, command.count), 8)


def arrange(command: Arrange, operands: Operands) -> None:
    """Executes the copy of a matrix to tiles of weights, one tile after the other."""
    matrix = operands.numbers("source", command.bits)[:, 0]
    if command.transposed:
        matrix = matrix.transpose(0, 2, 1)
    (outputs, terms), (n, k) = arranged_shape(command), operands.device.layout.tile
    tiles: list[Int64s] = []
    for output in range(0, outputs, n):
        for term in range(0, terms, k):
            tile = np.zeros((len(matrix), n, k), np.int64)
            part = matrix[:, output : output + n, term : term + k]
            tile[:, : part.shape[1], : part.shape[2]] = part
            tiles.append(tile)
    operands.put("target", np.stack(tiles, axis=1), command.bits)
