"""How NVDLA has tensors, weights and operands in memory, as bytes.

Tensors lie in surfaces of 8 channels, each of which is rows x columns x 8 bytes. Weights lie in groups of 8 kernels; a
group is blocks of 8 channels, a block is rows, columns, kernels, channels. The last surface of a tensor is filled up
with zeros, the last group and the last blocks of weights are as narrow as they are.
"""

from collections.abc import Sequence

import numpy as np

from qmlir.backends.hardware.blocks import blocks, from_blocks, to_blocks
from qmlir.numerics import Array

ATOM = 8
"""Channels of a surface, kernels of a group, and the bytes that addresses and strides are multiples of."""


def atoms(number: int) -> int:
    """Returns how many atoms of 8 hold a number of channels, kernels or bytes."""
    return blocks(number, ATOM)


def cube_bytes(rows: int, columns: int, channels: int) -> int:
    """Returns the bytes of a tensor in surfaces."""
    return rows * columns * atoms(channels) * ATOM


def to_surfaces(image: Array) -> bytes:
    """Returns the bytes of an image [rows, columns, channels] of int8."""
    return to_blocks(image[None].astype(np.int8), ATOM).tobytes()


def from_surfaces(data: bytes, rows: int, columns: int, channels: int) -> Array:
    """Returns the image [rows, columns, channels] of int8 whose bytes these are."""
    return from_blocks(np.frombuffer(data, np.int8), (1, rows, columns, channels), ATOM)[0]


def weight_bytes(weights: Array) -> bytes:
    """Returns the bytes of weights [kernels, rows, columns, channels] of int8, filled up to whole atoms at the end."""
    kernels, _, _, channels = weights.shape
    blocks = [
        weights[first : first + ATOM, :, :, low : low + ATOM].transpose(1, 2, 0, 3).astype(np.int8).tobytes()
        for first in range(0, kernels, ATOM)
        for low in range(0, channels, ATOM)
    ]
    data = b"".join(blocks)
    return data + bytes(-len(data) % ATOM)


def operand_bytes(columns: Sequence[Array]) -> bytes:
    """Returns the bytes of operands of 16 bits: for each channel one number of each column, 8 channels a line."""
    table = np.stack(columns, 1).astype("<i2")
    return table.tobytes() + bytes(-len(table) % ATOM * table.shape[1] * 2)
