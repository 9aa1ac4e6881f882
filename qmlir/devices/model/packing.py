"""Weights of 2 to 7 bits as the constants of a device hold them: one behind the other, without gaps between them.

The commands that read such weights say where each of them lies (`Unpack` in isa/commands.py).
"""

import numpy as np

from qmlir.numerics import Array

BYTE = 8
"""The bits of a weight that is not packed."""


def fit(weights: Array, bits: int) -> bool:
    """Whether all weights are signed integers of so many bits."""
    half = 1 << bits - 1
    return -half <= int(weights.min(initial=0)) and int(weights.max(initial=0)) < half


def packed_bytes(count: int, bits: int) -> int:
    """The size in bytes of weights of some bits each; the last byte may be filled in part."""
    return -(-count * bits // BYTE)


def pack(weights: Array, bits: int) -> Array:
    """Packs weights that fit `bits` bits each.

    Args:
        weights: int8, of any shape.
        bits: 2 to 7.

    Returns:
        uint8, 1-D; the bits behind the last weight are 0.

    >>> pack(np.array([1, -2, 3], np.int8), 4).tolist()
    [225, 3]
    """
    each = weights.reshape(-1, 1).view(np.uint8) >> np.arange(bits, dtype=np.uint8) & 1
    return np.packbits(each, bitorder="little")
