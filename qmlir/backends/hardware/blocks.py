"""Tensors whose channels lie in blocks: VTA has vectors of 16 channels, NVDLA surfaces of 8.

A tensor [images, rows, columns, channels] lies as [images, blocks, rows, columns, lanes], where a block is as many
channels as there are lanes, and the last one is filled up.
"""

import numpy as np

from qmlir.numerics import Array


def blocks(number: int, lanes: int) -> int:
    """The blocks into which a number of channels falls."""
    return -(-number // lanes)


def to_blocks(tensor: Array, lanes: int, fill: int = 0) -> Array:
    """Returns a tensor [images, rows, columns, channels] as [images, blocks, rows, columns, lanes] of its type."""
    images, rows, columns, channels = tensor.shape
    filled = np.full((images, rows, columns, blocks(channels, lanes) * lanes), fill, tensor.dtype)
    filled[..., :channels] = tensor
    return np.ascontiguousarray(filled.reshape(images, rows, columns, -1, lanes).transpose(0, 3, 1, 2, 4))


def from_blocks(held: Array, shape: tuple[int, ...], lanes: int) -> Array:
    """Returns the tensor [images, rows, columns, channels] of blocks, an array of as many elements."""
    images, rows, columns, channels = shape
    split = held.reshape(images, blocks(channels, lanes), rows, columns, lanes).transpose(0, 2, 3, 1, 4)
    return np.ascontiguousarray(split.reshape(images, rows, columns, -1)[..., :channels])
