"""Tensors as VTA has them in external memory: vectors of 16 channels.

A tensor [images, rows, columns, channels] of int8 lies as [images, blocks, rows, columns, 16], where a block is 16
channels; lanes behind the last channel mean nothing. So a load of the device brings a window of a block, with its
padding.
"""

from qmlir.backends.hardware.blocks import blocks as blocks_of
from qmlir.backends.hardware.blocks import from_blocks, to_blocks
from qmlir.numerics import Array

LANES = 16
"""Channels of a vector."""


def blocks(channels: int) -> int:
    """The blocks into which channels fall."""
    return blocks_of(channels, LANES)


def vectors_of(shape: tuple[int, ...]) -> int:
    """The vectors of a tensor of a shape [images, rows, columns, channels]."""
    images, rows, columns, channels = shape
    return images * rows * columns * blocks(channels)


def to_vectors(tensor: Array, fill: int = 0) -> Array:
    """Returns a tensor [images, rows, columns, channels] as [images, blocks, rows, columns, 16] of its type."""
    return to_blocks(tensor, LANES, fill)


def from_vectors(vectors: Array, shape: tuple[int, ...]) -> Array:
    """Returns the tensor [images, rows, columns, channels] of vectors, an array of as many elements."""
    return from_blocks(vectors, shape, LANES)
