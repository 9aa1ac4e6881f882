"""Weights of 2 to 7 bits: packed in memory, and unpacked to bytes by the kernels that read them.

Weights are packed chunk by chunk. Where processors have vectors, a chunk is unpacked by a few instructions on whole
vectors. A chunk of n weights consists of pieces: a weight of 7 bits has pieces of 4, 2 and 1 bits, a weight of 6 bits
has pieces of 4 and 2. The pieces of a chunk lie behind each other. A piece of w bits takes n·w/8 bytes, and byte i of
them holds the pieces of 8/w weights, from its lowest bits on:

    byte i of a piece of w bits = Σ_f piece(weight[f · n·w/8 + i]) · 2^(f·w),  0 ≤ f < 8/w

So a field of all bytes is the pieces of neighbouring weights. The pieces are those of the weight plus 2^(bits−1), which
is not negative. Before a chunk of b bits, all chunks take b/8 bytes for each weight.

Processors without vectors unpack weight by weight. Their weights lie in order, one behind the other: weight i takes the
bits from b·i on, the lowest bits of a byte first, and is a field of a word that one instruction extracts.

Weights that are entries of a codebook are stored as their places in its table, which are not negative, and the table
lies before them. Processors that look bytes up in registers keep it there. Others load the entry of each place; for
these the places lie in order, even if the processor has vectors.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from xdsl.dialects.builtin import MemRefType, UnrealizedConversionCastOp, i8, i16, i32
from xdsl.dialects.memref import ReinterpretCastOp
from xdsl.ir import SSAValue

from qmlir.codegen.code import Buffer, Code
from qmlir.codegen.lowering import Array, Kernel, MainLowering
from qmlir.codegen.machine import Capabilities
from qmlir.codegen.value import INDEX, Value
from qmlir.dialects.nn import ConstantOp, ReshapeOp
from qmlir.dialects.qmlir import ConstantBufferOp
from qmlir.dialects.quant.ops import StorageCastOp
from qmlir.ir.levels import levels_of
from qmlir.numerics.codebooks import Codebook
from qmlir.numerics.groups import Groups
from qmlir.numerics.levels import Even, Levels
from qmlir.numerics.packing import BYTE, fit
from qmlir.numerics.packing import pack as pack_in_order

PLAIN = Even(BYTE)
"""The levels of weights that are not packed."""

STEP = 4
"""The most terms of a sum that a step of a kernel multiplies."""

PIECES = (4, 2, 1)
"""The bits of the pieces that a weight may have, from its lowest bits on."""

CHUNK = 64
"""The weights that are unpacked to memory at a time: a register of AVX-512."""

FEW_AT_ONCE = 8
"""The weights that are unpacked to memory at a time by processors without vectors."""

MOST_ENTRIES = 64
"""The most entries of a table before the places of weights."""

ROW = 16
"""The bytes of the least vector of places, and of the least table, of `simd.lookup_bytes`."""


def pieces(bits: int) -> Sequence[tuple[int, int]]:
    """The pieces of a weight of 2 to 7 bits: the bits of each, and how many bits of the weight lie below."""
    widths = [w for w in PIECES if bits & w]
    return list(zip(widths, accumulate(widths, initial=0), strict=False))


def width_in_chunks(bits: int, chunk: int) -> int:
    """The least width, of at least `bits`, of which a chunk's pieces fill whole bytes; 8 if there is none."""
    return next(b for b in range(bits, BYTE + 1) if b == BYTE or all(chunk * w % BYTE == 0 for w, _ in pieces(b)))


def levels_to_pack(tensor: SSAValue, weights: Array, *, groups: bool = False) -> Levels:
    """The levels by which kernels pack a tensor's constant weights; `PLAIN` if they stay bytes.

    These are the levels that the constant states, if the weights are such levels and take fewer bytes. Multipliers of
    groups are for kernels that multiply by them (`groups`), if no step of the kernel spans two groups of terms.
    """
    constant = tensor.owner
    while isinstance(constant, ReshapeOp | ReinterpretCastOp | StorageCastOp | UnrealizedConversionCastOp):
        constant = constant.operands[0].owner
    levels = levels_of(constant) if isinstance(constant, ConstantOp | ConstantBufferOp) else None
    if levels is None or weights.dtype != np.int8:
        return PLAIN
    if isinstance(levels, Groups) and groups and not (weights.shape[-1] % STEP or levels.size % STEP):
        return levels if levels.quotients(weights) is not None else PLAIN
    if isinstance(levels, Codebook) and levels.holds(weights) and levels.bytes(weights.size, BYTE) < weights.size:
        return levels
    return Even(levels.plain_bits) if fit(weights, levels.plain_bits) else PLAIN


def pack_bits(weights: Array, bits: int, chunk: int) -> Array:
    """Packs weights, a whole number of chunks, of signed integers of `bits`.

    Returns:
        int8, 1-D, bits/8 bytes for each weight; the weights as they are if they have 8 bits or more.
    """
    if bits >= BYTE:
        return weights
    offset = (weights.reshape(-1, chunk).astype(np.int16) + (1 << bits - 1)).astype(np.uint8)
    packed: list[Array] = []
    for width, below in pieces(bits):
        fields = (offset >> below & (1 << width) - 1).reshape(len(offset), BYTE // width, -1)
        shifts = np.arange(BYTE // width, dtype=np.uint8)[:, None] * np.uint8(width)
        packed.append(np.bitwise_or.reduce(fields << shifts, axis=1))
    return np.ascontiguousarray(np.concatenate(packed, axis=1)).reshape(-1).astype(np.uint8).view(np.int8)


@dataclass(frozen=True)
class Packing:
    """How a buffer holds weights.

    bits     the bits of a weight, or of its place in a table; 8 for weights that are bytes
    entries  the entries of the table, a byte each, that lies before the places; 0 for weights without one
    word     the bytes of the words that weights in order are unpacked from; 0 for weights in pieces
    """

    bits: int = BYTE
    entries: int = 0
    word: int = 0

    def byte(self, weight: Value) -> Value:
        """The byte of the buffer that holds a weight's first bit; of weights with several pieces, about that byte."""
        return weight * self.bits // BYTE + self.entries

    def opened(self, buffer: Buffer) -> Buffer:
        """The buffer of the weights, as if it held a byte for each; a table in registers is loaded here."""
        return PackedWeights(buffer, self) if self.bits < BYTE else buffer


def pack(weights: Array, levels: Levels, chunk: int, machine: Capabilities) -> tuple[Packing, Array]:
    """Packs weights as places in a codebook, or else as integers of few bits.

    Where a kernel's layout has a 0 that is not among the weights, and the table has none, an entry that no weight needs
    becomes 0; if all are needed, the places take another bit.

    Args:
        weights: The weights as a kernel reads them, 1-D and a whole number of chunks.
        levels: The levels of the weights; for `Groups`, the weights are the integers that are multiplied.
        chunk: The weights of a chunk.
        machine: What the processor that unpacks them can do.

    Returns:
        How they are packed, and the buffer's contents, 1-D. They stay bytes where packed ones would take as many.
    """
    word = 4 if machine.words_anywhere else 1
    if not isinstance(levels, Codebook):
        width = width_in_chunks(levels.bits, chunk)
        if width == BYTE:
            return Packing(), weights
        if machine.vectors:
            return Packing(width), pack_bits(weights, width, chunk)
        return Packing(width, word=word), pack_in_order(weights, width).view(np.int8)
    table, used = levels.table, np.unique(weights)
    entries = table if np.isin(used, table).all() else used
    bits = max(levels.bits, (len(entries) - 1).bit_length())
    table = np.pad(entries, (0, (1 << bits) - len(entries)), "edge")
    width = width_in_chunks(bits, chunk)
    if len(table) > MOST_ENTRIES or weights.size * width // BYTE + len(table) >= weights.size:
        return Packing(), weights
    places = np.searchsorted(table, weights)
    if len(table) <= machine.table:
        packed = pack_bits(places - (1 << width - 1), width, chunk)
        return Packing(width, len(table)), np.concatenate([table, packed])
    return Packing(width, len(table), word), np.concatenate([table, pack_in_order(places, width).view(np.int8)])


class PackedWeights(Buffer):
    """A buffer of packed weights whose chunks are read as if it held a byte for each of them."""

    __slots__ = ("packing", "table")

    def __init__(self, buffer: Buffer, packing: Packing):
        super().__init__(buffer.code, buffer.ssa)
        self.packing = packing
        self.table: Value | None = None
        if packing.entries and not packing.word:
            table = self.load(0, lanes=packing.entries)
            self.table = table.shuffle(table, [i % packing.entries for i in range(max(packing.entries, ROW))])

    def chunk(self, number: Value, lanes: int) -> Value:
        """Loads and unpacks a chunk of `lanes` weights, before which `number` chunks lie."""
        place = number * (lanes * self.packing.bits // BYTE) + self.packing.entries
        if self.packing.word:
            fields = self._fields(place, lanes)
            own = [self.load(field.to(INDEX)) if self.packing.entries else field.to(i8) for field in fields]
            return self.code.zeros(i8, lanes).with_lanes(own)
        whole = self._from_pieces(place, lanes)
        if self.table is None:
            return whole - (1 << self.packing.bits - 1)
        places = whole if lanes % ROW == 0 else whole.shuffle(whole, [i % lanes for i in range(-(-lanes // ROW) * ROW)])
        found = self.code.lookup_bytes(self.table, places)
        return found.lanes_from(0, lanes) if places is not whole else found

    def _fields(self, place: Value, lanes: int) -> list[Value]:
        """The fields of a chunk in order, as i32: signed integers, or places, which are not negative."""
        bits, words, first = self.packing.bits, list[tuple[int, int, Value]](), 0
        while first < lanes * bits:
            size = next(n for n in (4, 2, 1) if n <= self.packing.word and first + n * BYTE <= lanes * bits)
            word = self.load(place + first // BYTE, lanes=size).bits((i8, i16, i32)[size // 2]).lane(0)
            words.append((first, first + size * BYTE, word.to(i32, unsigned=True)))
            first += size * BYTE
        return [self._field_of(words, at, at + bits) for at in range(0, lanes * bits, bits)]

    def _field_of(self, words: Sequence[tuple[int, int, Value]], low: int, high: int) -> Value:
        """Extracts the bits from `low` to `high` of words, which hold them side by side."""
        whole, *others = (
            word.logical_shift(low - first) if low > first else word << first - low if first > low else word
            for first, last, word in words
            if first < high and low < last
        )
        for other in others:
            whole = whole | other
        rest = 32 - (high - low)
        if not self.packing.entries:
            return whole << rest >> rest
        return whole if any(last == high for _, last, _ in words) else whole & (1 << high - low) - 1

    def _from_pieces(self, place: Value, lanes: int) -> Value:
        """The pieces of a chunk, put together; none is negative."""
        whole: Value | None = None
        for width, below in pieces(self.packing.bits):
            count = lanes * width // BYTE
            packed = self.load(place, lanes=count)
            fields: list[Value] = [_field(packed, f, width) for f in range(0, BYTE, width)]
            while len(fields) > 1:
                fields = [
                    one.shuffle(other, range(2 * (one.lanes or 1)))
                    for one, other in zip(fields[::2], fields[1::2], strict=True)
                ]
            piece: Value = fields[0] << below if below else fields[0]
            whole = piece if whole is None else whole | piece
            place = place + count
        assert whole is not None
        return whole


def _field(packed: Value, low: int, width: int) -> Value:
    """The field of `width` bits of each byte, from bit `low` on."""
    shifted = packed.logical_shift(low) if low else packed
    return shifted & (1 << width) - 1 if low + width < BYTE else shifted


@dataclass(frozen=True)
class UnpackedBits(Kernel):
    """y[i] = weight i of the packed ones, chunk by chunk.

    Buffers: packed, y [chunks · chunk].
    """

    packing: Packing
    chunk: int

    @property
    def symbol(self) -> str:
        return "unpacked_bits"

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        packed, y = buffers
        weights = self.packing.opened(packed)
        with code.loop(begin, end, name="chunk") as chunk:
            y.store(weights.chunk(chunk, self.chunk), chunk * self.chunk)


def constant_weights(state: MainLowering, weights: Array, levels: Levels) -> SSAValue:
    """A buffer of weights for kernels that read bytes; weights of fewer bits are unpacked to scratch memory first.

    The buffer of unpacked weights has one dimension, and may have elements behind the last weight.
    """
    if levels == PLAIN:
        return state.constant(weights)
    chunk = CHUNK if state.machine.vectors else FEW_AT_ONCE
    flat = np.pad(weights.reshape(-1), (0, -weights.size % chunk))
    packing, packed = pack(flat, levels, chunk, state.machine)
    if packing.bits == BYTE:
        return state.constant(weights)
    y = state.allocate(MemRefType(i8, flat.shape))
    state.call(UnpackedBits(packing, chunk), [state.constant(packed), y], len(flat) // chunk)
    return y
