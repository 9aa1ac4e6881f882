"""Tensors as VTA has them in external memory: vectors of 16 channels.

A tensor [images, rows, columns, channels] of int8 lies as [images, blocks, rows, columns, 16], where a block is 16
channels; lanes behind the last channel mean nothing. So a load of the device brings a window of a block, with its
padding.
"""

import numpy as np

from qmlir.numerics import Array

LANES = 16
"""Channels of a vector."""


def blocks(channels: int) -> int:
    """The blocks into which channels fall."""
    return -(-channels // LANES)


def vectors_of(shape: tuple[int, ...]) -> int:
    """The vectors of a tensor of a shape [images, rows, columns, channels]."""
    images, rows, columns, channels = shape
    return images * rows * columns * blocks(channels)


def to_vectors(tensor: Array, fill: int = 0) -> Array:
    """Returns a tensor [images, rows, columns, channels] as [images, blocks, rows, columns, 16] of its type."""
    images, rows, columns, channels = tensor.shape
    padded = np.full((images, rows, columns, blocks(channels) * LANES), fill, tensor.dtype)
    padded[..., :channels] = tensor
    split = padded.reshape(images, rows, columns, -1, LANES)
    return np.ascontiguousarray(split.transpose(0, 3, 1, 2, 4))


def from_vectors(vectors: Array, shape: tuple[int, ...]) -> Array:
    """Returns the tensor [images, rows, columns, channels] of vectors, an array of as many elements."""
    images, rows, columns, channels = shape
    held = vectors.reshape(images, blocks(channels), rows, columns, LANES).transpose(0, 2, 3, 1, 4)
    return np.ascontiguousarray(held.reshape(images, rows, columns, -1)[..., :channels])
