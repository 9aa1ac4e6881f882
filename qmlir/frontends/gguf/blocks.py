"""The types of a GGUF file's tensors: plain floats, and blocks of few bits, each with its scales.

All blocks are read as w = scale · q + offset (numerics/affine.py): integers q, and one scale and offset for each group
of neighbours. A block of the types with K in their name holds several groups, whose scales are the block's f16 times
an integer of 6 or 8 bits; this product is exact in f32.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from qmlir.numerics import Array
from qmlir.numerics.affine import Affine, affine


@dataclass(frozen=True)
class Groups:
    """The blocks of a tensor, taken apart; the first dimension counts blocks.

    stored   the integers of the blocks, in int8 or uint8, a row a block
    scales   f32, the scale of each group
    offsets  f32, the offset of each group; None if all are 0
    """

    stored: Array
    scales: Array
    offsets: Array | None = None


@dataclass(frozen=True)
class Kind:
    """The type of a tensor.

    name    what GGUF calls it
    values  the values of a block
    bytes   the bytes of a block
    apart   takes blocks apart, given as bytes [blocks, bytes]; None for floats
    bits    the bits of a stored integer
    least   the least stored integer
    group   the values of a group
    """

    name: str
    values: int
    bytes: int
    apart: Callable[[Array], Groups] | None = None
    bits: int = 32
    least: int = 0
    group: int = 1

    def read(self, data: memoryview, shape: tuple[int, ...]) -> tuple[Array, Affine | None]:
        """Returns the floats of a tensor, f32, and the levels that they follow; no levels for plain floats.

        Args:
            data: The bytes of the tensor.
            shape: Its dimensions; the last is a whole number of blocks.
        """
        if self.apart is None:
            return _frozen(FLOATS[self.name](data).reshape(shape)), None
        parts = self.apart(np.frombuffer(data, np.uint8).reshape(-1, self.bytes))
        rows, terms = int(np.prod(shape[:-1])), shape[-1]
        stored, scales = parts.stored.reshape(rows, terms), _frozen(parts.scales.reshape(rows, terms // self.group))
        offsets = None if parts.offsets is None else _frozen(parts.offsets.reshape(scales.shape))
        weights = _frozen(affine(stored, scales, offsets, self.group).reshape(shape))
        none = np.zeros((0, scales.shape[1]), np.float32)
        return weights, Affine(self.bits, self.least, self.group, scales, none if offsets is None else offsets)


def _frozen(array: Array) -> Array:
    """Returns the array, read-only with all that it views, so that a constant takes it without a copy."""
    view: object = array
    while isinstance(view, np.ndarray):
        view.flags.writeable = False
        view = view.base
    return array


def _bfloats(data: memoryview) -> Array:
    return (np.frombuffer(data, "<u2").astype(np.uint32) << 16).view(np.float32)


FLOATS: Mapping[str, Callable[[memoryview], Array]] = {
    "F32": lambda data: np.frombuffer(data, "<f4"),
    "F16": lambda data: np.frombuffer(data, "<f2").astype(np.float32),
    "BF16": _bfloats,
}
"""The types without blocks, by name."""

# ---------------------------------------------------------------------------------------------------------------
# Blocks of 32: an f16 scale, perhaps an f16 offset, perhaps the highest bits of the integers, and the integers.


def _halves(block: Array, count: int) -> list[Array]:
    """The first f16 numbers of blocks, each f32 [blocks, 1]."""
    numbers = np.ascontiguousarray(block[:, : 2 * count]).view("<f2").astype(np.float32)
    return [numbers[:, i : i + 1] for i in range(count)]


def _nibbles(packed: Array) -> Array:
    """The integers of bytes: the low four bits of all bytes, then the high four."""
    return np.concatenate([packed & 15, packed >> 4], axis=-1)


def _fifth(block: Array) -> Array:
    """The bits of four bytes, from the lowest on, as the fifth bits of 32 integers."""
    return np.unpackbits(block, axis=-1, bitorder="little") << np.uint8(4)


def _signed(stored: Array, zero: int) -> Array:
    return stored.view(np.int8) - np.int8(zero)


def _q4_0(block: Array) -> Groups:
    return Groups(_signed(_nibbles(block[:, 2:]), 8), *_halves(block, 1))


def _q4_1(block: Array) -> Groups:
    return Groups(_nibbles(block[:, 4:]), *_halves(block, 2))


def _q5_0(block: Array) -> Groups:
    return Groups(_signed(_nibbles(block[:, 6:]) | _fifth(block[:, 2:6]), 16), *_halves(block, 1))


def _q5_1(block: Array) -> Groups:
    return Groups(_nibbles(block[:, 8:]) | _fifth(block[:, 4:8]), *_halves(block, 2))


def _q8_0(block: Array) -> Groups:
    return Groups(block[:, 2:].view(np.int8), *_halves(block, 1))


# ---------------------------------------------------------------------------------------------------------------
# Blocks of 256, whose groups have integers as scales.


def _six_bits(packed: Array) -> tuple[Array, Array]:
    """The scales and the offsets of eight groups, 6 bits each in 12 bytes.

    The first four of both have a byte each. The others have their low bits in the last four bytes, and the two high
    bits in the bytes of the first four.
    """
    scales, offsets, low = packed[:, :4], packed[:, 4:8], packed[:, 8:]
    late_scales = low & 15 | scales >> 6 << 4
    late_offsets = low >> 4 | offsets >> 6 << 4
    return np.concatenate([scales & 63, late_scales], axis=1), np.concatenate([offsets & 63, late_offsets], axis=1)


def _two_level(block: Array, stored: Array) -> Groups:
    """Blocks with f16 factors of their groups' scales and offsets; offsets are subtracted."""
    (scale, offset), (scales, offsets) = _halves(block, 2), _six_bits(block[:, 4:16])
    return Groups(stored, scale * scales, -(offset * offsets))


def _q4_k(block: Array) -> Groups:
    return _two_level(block, _nibbles(block[:, 16:].reshape(-1, 4, 32)).reshape(-1, 256))


def _q5_k(block: Array) -> Groups:
    low = _nibbles(block[:, 48:].reshape(-1, 4, 32)).reshape(-1, 8, 32)
    high = block[:, None, 16:48] >> np.arange(8, dtype=np.uint8)[:, None] & 1  # bit j for group j
    return _two_level(block, (low | high << 4).reshape(-1, 256))


def _q6_k(block: Array) -> Groups:
    low = _nibbles(block[:, :128].reshape(-1, 2, 64))  # each half: 128 integers' low bits
    high = block[:, 128:192].reshape(-1, 2, 1, 32) >> np.arange(0, 8, 2, dtype=np.uint8)[:, None] & 3
    stored = low.reshape(-1, 2, 4, 32) | high << 4
    scale = np.ascontiguousarray(block[:, 208:]).view("<f2").astype(np.float32)
    return Groups(_signed(stored.reshape(-1, 256), 32), scale * block[:, 192:208].view(np.int8))


KINDS: Mapping[int, Kind] = {
    0: Kind("F32", 1, 4),
    1: Kind("F16", 1, 2),
    2: Kind("Q4_0", 32, 18, _q4_0, 4, -8, 32),
    3: Kind("Q4_1", 32, 20, _q4_1, 4, 0, 32),
    6: Kind("Q5_0", 32, 22, _q5_0, 5, -16, 32),
    7: Kind("Q5_1", 32, 24, _q5_1, 5, 0, 32),
    8: Kind("Q8_0", 32, 34, _q8_0, 8, -128, 32),
    12: Kind("Q4_K", 256, 144, _q4_k, 4, 0, 32),
    13: Kind("Q5_K", 256, 176, _q5_k, 5, 0, 32),
    14: Kind("Q6_K", 256, 210, _q6_k, 6, -32, 16),
    30: Kind("BF16", 1, 2),
}
"""The types of tensors that qmlir reads, by their number in a file."""

OTHERS: Mapping[int, str] = {
    10: "Q2_K", 11: "Q3_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 20: "IQ4_NL", 21: "IQ3_S",
    22: "IQ2_S", 23: "IQ4_XS", 29: "IQ1_M", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4",
}  # fmt: skip
"""The names of other types, for messages."""
