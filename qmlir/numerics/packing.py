"""Signed integers of 2 to 7 bits one behind the other, without gaps between them; the lowest bits of a byte come first.

Side files, the constants of devices, and machine code for processors without vectors hold weights in this order.
"""

import numpy as np

from qmlir.numerics import Array

BYTE = 8
"""The bits of a weight that is not packed."""

AT_ONCE = 1 << 20
"""The integers that are packed at a time, a multiple of 8: each takes a byte for each of its bits meanwhile."""


def few_bits(least: int, greatest: int) -> int:
    """The bits of signed integers within a range: 2 to 7, or 8 if they need as many or more."""
    return next((n for n in range(2, BYTE) if -(1 << n - 1) <= least and greatest < 1 << n - 1), BYTE)


def fit(weights: Array, bits: int) -> bool:
    """Whether all weights are signed integers of so many bits."""
    half = 1 << bits - 1
    return -half <= int(weights.min(initial=0)) and int(weights.max(initial=0)) < half


def packed_bytes(count: int, bits: int) -> int:
    """The size in bytes of integers of some bits each; the last byte may be filled in part."""
    return -(-count * bits // BYTE)


def pack(integers: Array, bits: int) -> Array:
    """Packs the lowest `bits` of each integer, given in any shape.

    Returns:
        uint8, 1-D; the bits behind the last integer are 0.

    >>> pack(np.array([1, -2, 3], np.int8), 4).tolist()
    [225, 3]
    """
    flat, parts = integers.reshape(-1), [np.empty(0, np.uint8)]
    for first in range(0, flat.size, AT_ONCE):
        bytes_ = flat[first : first + AT_ONCE, None].astype(np.uint8)
        parts.append(np.packbits(np.unpackbits(bytes_, axis=1, count=bits, bitorder="little"), bitorder="little"))
    return np.concatenate(parts)


def unpack(stream: Array, bits: int, count: int) -> Array:
    """The first `count` integers of a stream that `pack` made, int8 [count]."""
    integers = np.empty(count, np.int8)
    for first in range(0, count, AT_ONCE):
        part = integers[first : first + AT_ONCE]
        own = np.unpackbits(stream[first * bits // BYTE :], count=part.size * bits, bitorder="little")
        shifted = np.packbits(own.reshape(-1, bits), axis=1, bitorder="little")[:, 0] << np.uint8(BYTE - bits)
        part[:] = shifted.view(np.int8) >> np.int8(BYTE - bits)
    return integers
