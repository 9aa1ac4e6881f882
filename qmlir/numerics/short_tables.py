"""Short forms of long tables: the same entries from fewer bytes. numpy only.

A function of 16 bits has 65,536 results, more than the flash of a microcontroller has room for. A short form computes
each entry from a few words, and adds what it is short of: a number of no, 1, 2 or 4 bits for each entry. That a short
form gives every entry is not derived but computed, when it is made; so the results do not depend on which form a
processor reads.

A form is an array of 32-bit words: those that the entry is computed from, then what the entries are short of, the first
in the lowest bits of a word.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol, TypeAlias

import numpy as np

from qmlir.numerics import Array
from qmlir.numerics.elementary.lanes import I32, I64, Lanes, N

Word: TypeAlias = Callable[[N], N]
"""A reader of the words of a form: the word at an index, as i32."""

WORD_BITS = 5
"""The logarithm of the bits of a word."""

SHORTFALLS = (None, 0, 1, 2)
"""The logarithm of the bits that say what an entry is short of; None for no bits."""


class ShortForm(Protocol):
    """How an entry is computed from the words of a form; operations with equal forms share a kernel."""

    def entry(self, place: N, word: Word[N]) -> N:
        """The entry of the table at a place from 0 on, as i32."""
        ...


def shortfall(place: N, first: int, level: int, word: Word[N]) -> N:
    """What the computed entry at a place is short of, a number of 2^level bits; they begin at the word `first`."""
    at = place << level
    return word((at >> WORD_BITS) + first).logical_shift(at & (1 << WORD_BITS) - 1) & (1 << (1 << level)) - 1


# ---------------------------------------------------------------------------------------------------------------
# Tables of words of 16 bits: lines.
#
# The places are cut into pieces, and a piece into as many segments as it takes to lie on lines, a power of two.

PIECE_BITS = 10
"""The logarithm of the places of a piece."""

FRACTION = 14
"""Fraction bits of the lines' ends and slopes: the numbers of 16 bits along a line then fit 32."""

LENGTH_BITS = 4
"""Bits of a piece's word that hold the logarithm of its segments' places; the others hold its first segment."""


@dataclass(frozen=True)
class Lines:
    """entry = floor(end + slope · f) + what it is short of, where f is the place in its segment.

    Words: a word for each piece, the ends and slopes of the segments, what the entries are short of.

    pieces      the number of pieces
    segments    the number of segments
    level       one of `SHORTFALLS`
    """

    pieces: int
    segments: int
    level: int | None

    def computed(self, place: N, word: Word[N]) -> N:
        """What the lines give at a place."""
        piece = word(place >> PIECE_BITS)
        length = piece & (1 << LENGTH_BITS) - 1
        segment = (piece >> LENGTH_BITS) + ((place & (1 << PIECE_BITS) - 1) >> length)
        along = place & (place.same(1) << length) - 1
        at = (segment << 1) + self.pieces
        return word(at) + word(at + 1) * along >> FRACTION

    def entry(self, place: N, word: Word[N]) -> N:
        """The entry at a place, as i32."""
        place = place.to(I32)
        computed = self.computed(place, word)
        if self.level is None:
            return computed
        return computed + shortfall(place, self.pieces + 2 * self.segments, self.level, word)


def on_lines(table: Array) -> tuple[Lines, Array] | None:
    """A table of numbers of 16 bits as lines, with what makes it shortest.

    Args:
        table: The entries, integers [n] with n ≤ 2^16.

    Returns:
        The form and its words, int32; None if an entry does not fit 16 bits.
    """
    if table.min() < -(1 << 15) or table.max() >= 1 << 15:
        return None
    size = 1 << PIECE_BITS
    padded = np.append(table.astype(np.int64), np.full(-len(table) % size, int(table[-1]), np.int64))
    forms = [_with_lines(padded, level) for level in SHORTFALLS]
    return min(forms, key=lambda form: form[1].nbytes)


def _with_lines(table: Array, level: int | None) -> tuple[Lines, Array]:
    """The form for entries of whole pieces, with the longest segments that hold."""
    pieces = len(table) >> PIECE_BITS
    length = np.zeros(pieces, np.int64)
    lines: dict[int, Array] = {}
    for bits in range(PIECE_BITS + 1):
        lines[bits], holds = _lines(
            table.reshape(pieces, -1, 1 << bits), 0 if level is None else (1 << (1 << level)) - 1
        )
        length[holds] = bits  # the longest that holds
    first = np.cumsum((1 << PIECE_BITS) >> length) - ((1 << PIECE_BITS) >> length)
    segments = [lines[int(bits)][piece].ravel() for piece, bits in enumerate(length)]
    words = np.concatenate([first << LENGTH_BITS | length, *segments])
    form, words = Lines(pieces, sum(map(len, segments)) // 2, level), words.astype(np.int32)
    if level is None:
        return form, words
    return form, np.append(words, packed_bits(table - form.computed(*_read(words, len(table))).array, level))


def _lines(entries: Array, most_short: int) -> tuple[Array, Array]:
    """The ends and slopes of the segments [pieces, segments, 2], and for which pieces all of them hold.

    Args:
        entries: [pieces, segments, places]
        most_short: How much less than the entry floor(end + slope · f) may be.
    """
    along = np.arange(int(entries.shape[-1]))
    centred = along - (len(along) - 1) / 2
    slopes = np.rint(np.ldexp((entries * centred).sum(-1) / max((centred**2).sum(), 1), FRACTION)).astype(np.int64)
    rest = (entries << FRACTION) - slopes[..., None] * along
    lower, upper = rest.max(-1) - (most_short << FRACTION), rest.min(-1) + (1 << FRACTION) - 1  # both inclusive
    holds = ((lower <= upper) & (np.abs(slopes) < 1 << 31 - 1)).all(-1)
    return np.stack([(lower + upper) // 2, slopes], -1), holds


# ---------------------------------------------------------------------------------------------------------------
# Tables of exponentials: products.

PART_BITS = 8
"""The logarithm of the entries of a factor."""


@dataclass(frozen=True)
class Products:
    """entry = floor(high[place / 2^8] · low[place mod 2^8] · 2^−shift) + what it is short of, 0 or 1.

    Words: the factors, unsigned, `highs` and 2^8 of them; the bits.

    highs    the number of factors of steps of 2^8 places
    shift    how many bits the products lose
    """

    highs: int
    shift: int

    def computed(self, place: N, word: Word[N]) -> N:
        """The product at a place."""
        high, low = (
            word(at).to(I64, unsigned=True) for at in (place >> PART_BITS, (place & (1 << PART_BITS) - 1) + self.highs)
        )
        return (high * low).logical_shift(self.shift).to(I32)

    def entry(self, place: N, word: Word[N]) -> N:
        """The entry at a place, as i32."""
        place = place.to(I32)
        return self.computed(place, word) + shortfall(place, self.highs + (1 << PART_BITS), 0, word)


def as_products(table: Array) -> tuple[Products, Array] | None:
    """A table of exponentials as products, and bits.

    The factors have 32 bits, so that a product is within half a step of exponentials of up to 2^30, and its bit says
    the rest.

    Args:
        table: The entries, integers [n] in [0, 2^31); n is a multiple of 2^8.

    Returns:
        The form and its words, int32; None if the entries are no rounded exponentials c · e^(−r · place).
    """
    entries = table.astype(np.float64)
    if len(table) % (1 << PART_BITS) or entries[0] < 2 or entries.min() < 0:
        return None
    known = entries > 0
    place, weight = np.flatnonzero(known).astype(np.float64), entries[known] ** 2
    logarithm = np.log(entries[known] / entries[0])
    # Least squares of the entries, not of their logarithms; after a first entry alone anything that falls fast enough.
    rate = (weight * place * logarithm).sum() / (weight * place**2).sum() if len(place) > 1 else -(1 << WORD_BITS)
    bits = (int(entries[0]) - 1).bit_length()
    high = entries[0] * np.exp(rate * (1 << PART_BITS) * np.arange(len(table) >> PART_BITS)) * 2.0 ** (32 - bits)
    low = np.exp(rate * np.arange(1 << PART_BITS)) * 2.0**32
    factors = [np.clip(np.rint(part), 0, (1 << 32) - 1).astype(np.uint32) for part in (high, low)]
    form, words = Products(len(high), 64 - bits), np.concatenate(factors).view(np.int32)
    missing = table - form.computed(*_read(words, len(table))).array
    if missing.min() < 0 or missing.max() > 1:
        return None
    return form, np.append(words, packed_bits(missing, 0))


# ---------------------------------------------------------------------------------------------------------------


def packed_bits(numbers: Array, level: int) -> Array:
    """Numbers of 2^level bits in words, the first in the lowest bits of the first; int32, [⌈n · 2^level / 32⌉]."""
    bits = (numbers[:, None] >> np.arange(1 << level) & 1).astype(np.uint8).ravel()
    whole = np.append(bits, np.zeros(-len(bits) % (1 << WORD_BITS), np.uint8))
    return np.packbits(whole, bitorder="little").view("<i4").astype(np.int32)


def _read(words: Array, count: int) -> tuple[Lanes, Callable[[Lanes], Lanes]]:
    return Lanes(np.arange(count, dtype=np.int32)), lambda at: Lanes(words[at.array])


WAYS: Sequence[Callable[[Array], tuple[ShortForm, Array] | None]] = (on_lines, as_products)


def shortened(table: Array) -> tuple[ShortForm, Array] | None:
    """The shortest form of a table.

    Args:
        table: The entries, integers [n].

    Returns:
        The form and its words, int32; None if no form gives these entries from fewer bytes.
    """
    return _shortened(table.dtype.str, table.tobytes())


@lru_cache(maxsize=64)  # the steps of a recurrent network have tables in common
def _shortened(dtype: str, data: bytes) -> tuple[ShortForm, Array] | None:
    table = np.frombuffer(data, dtype)
    found = [form for way in WAYS if (form := way(table)) is not None and form[1].nbytes < table.nbytes]
    if not found:
        return None
    form, words = min(found, key=lambda one: one[1].nbytes)
    assert np.array_equal(form.entry(*_read(words, len(table))).array, table)
    words.flags.writeable = False
    return form, words
