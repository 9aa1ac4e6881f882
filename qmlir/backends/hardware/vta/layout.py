"""Tensors as VTA has them in external memory: vectors of 16 channels.

A tensor [1, rows, columns, channels] of int8 lies as [blocks, rows, columns, 16], where a block is 16 channels; lanes
behind the last channel mean nothing. So a load of the device brings a window of a block, with its padding.
"""

import numpy as np

from qmlir.numerics import Array

LANES = 16
"""Channels of a vector."""


def blocks(channels: int) -> int:
    """The blocks into which channels fall."""
    return -(-channels // LANES)


def to_vectors(tensor: Array) -> Array:
    """Returns a tensor [1, rows, columns, channels] as int8 [blocks, rows, columns, 16]."""
    _, rows, columns, channels = tensor.shape
    padded = np.zeros((rows, columns, blocks(channels) * LANES), np.int8)
    padded[:, :, :channels] = tensor[0]
    return np.ascontiguousarray(padded.reshape(rows, columns, -1, LANES).transpose(2, 0, 1, 3))


def from_vectors(vectors: Array, shape: tuple[int, ...]) -> Array:
    """Returns the tensor [1, rows, columns, channels] of vectors, which may be bytes of any shape."""
    _, rows, columns, channels = shape
    held = np.ascontiguousarray(vectors).view(np.int8).reshape(blocks(channels), rows, columns, LANES)
    return np.ascontiguousarray(held.transpose(1, 2, 0, 3).reshape(1, rows, columns, -1)[..., :channels])
