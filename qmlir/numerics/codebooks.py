"""Codebooks: weights of few bits that are entries of a table, in place of integers at even distances.

A layer has a table T of 2^b integers and each channel a scale S:

    w ≈ S · T[p],   p a place of b bits,  |T[p]| ≤ 63, or 127 if b is 5 or 6

The real weights of trained layers are many near 0 and few near the ends, so a table that is dense where weights are
many leaves less error than even distances do. Entries are integers of 8 bits, so a sum of products is an integer, and
has one scale for each channel, as if the weights had 8 bits. What is stored are the places and, for each layer, the
table.

The table and the scales with the least square error are sought in turn. For given scales, the table is Lloyd's: each
entry becomes the mean of the weights that are nearest to it ("Least squares quantization in PCM", 1982). For a given
table, each channel takes the best of some scales around its own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from qmlir.numerics import Array, Float64s
from qmlir.numerics.levels import Arrange, Choices, Entries, Levels, Shape
from qmlir.numerics.packing import few_bits, packed_bytes
from qmlir.numerics.schemas import power_of_two_above

LARGEST = {2: 63, 3: 63, 4: 63, 5: 127, 6: 127}
"""The bits of a place → the largest magnitude of an entry.

Up to 63, two products with unsigned bytes fit 16 bits, which processors without dot products multiply fastest. Rounding
32 entries to so few integers would cost a third of a decibel, and 64 entries a whole one.
"""

ROUNDS = 6
"""How often the table and the scales are sought in turn; further rounds gain less than a hundredth of a decibel."""

MOVES = 8
"""How often each entry moves to the mean of its weights in a round."""

FACTORS = (0.65, 0.75, 0.85, 0.93, 1.0, 1.08, 1.17, 1.3)
"""What a channel's scale is multiplied by in a round."""

OCTAVES = (0.5, 1.0, 2.0)
"""What a channel's scale is multiplied by in a round, if scales are powers of two."""

AT_ONCE = 1 << 20
"""About how many weights are rounded at a time, by which memory stays small for large layers."""


def fitted(
    rows: Array, bits: int, importance: Array | None = None, *, powers_of_two: bool = False, zero: bool = False
) -> tuple[Float64s, Array]:
    """The scales and the table with a small square error of weights.

    Args:
        rows: The weights, finite, [O, K]; a scale for each row.
        bits: The bits of a place.
        importance: What the square of a weight's error counts, [O, K], not negative; by default all count alike.
        powers_of_two: Whether scales are powers of two.
        zero: Whether 0 is an entry, as kernels that fill their steps with zeros need it.

    Returns:
        The scales [O], positive and exact in float32; and the table, int8 [2^bits], ascending. Entries that no weight
        needs are equal to others.
    """
    rows, counts = rows.astype(np.float64), np.ones(rows.shape) if importance is None else importance
    most = np.abs(rows).max(axis=1, initial=0.0)
    most = np.where(most > 0, most, most.max(initial=0.0) or 1.0)
    largest = LARGEST[bits]
    scales = _as_scales(most / largest, powers_of_two)
    table = _start(rows / scales[:, None], counts * scales[:, None] ** 2, bits)
    factors = OCTAVES if powers_of_two else FACTORS
    for _ in range(ROUNDS):
        table = _moved(table, rows / scales[:, None], counts * scales[:, None] ** 2)
        if zero:
            table[np.argmin(np.abs(table))] = 0.0
        scales = _best_scales(rows, counts, scales, table, factors)
    if not powers_of_two:  # the largest entry takes the largest integer, so that rounding entries costs least
        top = np.abs(table).max() / largest
        scales, table = scales * (top or 1.0), table / (top or 1.0)
    entries = np.clip(np.rint(table), -largest, largest).astype(np.int8)
    return _as_scales(scales, powers_of_two), np.sort(entries)


def _as_scales(scales: Array, powers_of_two: bool) -> Float64s:
    """Positive scales that float32 holds exactly."""
    scales = np.maximum(scales, np.finfo(np.float32).tiny)
    if powers_of_two:
        return np.array([power_of_two_above(float(scale)) for scale in scales])
    return scales.astype(np.float32).astype(np.float64)


def _start(real: Array, counts: Array, bits: int) -> Float64s:
    """A table whose entries are dense where weights are: by the cube root of their density, best for many entries.

    `real` are the weights in units of their scale, and `counts` what the square of an error in these units counts.
    """
    found, edges = np.histogram(real, bins=2048, range=(-LARGEST[bits] - 1, LARGEST[bits] + 1), weights=counts)
    share = np.cumsum(np.cbrt(found))
    share = share / share[-1] if share.size and share[-1] > 0 else np.linspace(0, 1, len(found))
    return np.interp((np.arange(1 << bits) + 0.5) / (1 << bits), share, (edges[1:] + edges[:-1]) / 2)


def _moved(table: Float64s, real: Array, counts: Array) -> Float64s:
    """The table after some moves of each entry to the mean of the weights nearest to it; see `_start`."""
    real, counts = real.reshape(-1), counts.reshape(-1)
    order = np.argsort(real, kind="stable")
    real, counts = real[order], counts[order]
    sums = [np.concatenate([[0.0], np.cumsum(each)]) for each in (counts, counts * real)]
    for _ in range(MOVES):
        ends = np.searchsorted(real, (table[1:] + table[:-1]) / 2)
        ends = np.concatenate([[0], ends, [len(real)]])
        weight, total = (each[ends[1:]] - each[ends[:-1]] for each in sums)
        table = np.sort(np.where(weight > 0, total / np.where(weight > 0, weight, 1.0), table))
    return table


def _best_scales(rows: Array, counts: Array, scales: Float64s, table: Float64s, factors: Sequence[float]) -> Float64s:
    """The best of each channel's scale times factors: the one with the least square error of its weights."""
    chosen = scales.copy()
    together = max(1, AT_ONCE // max(rows.shape[1], 1))
    for first in range(0, len(rows), together):
        own, weight, old = (each[first : first + together] for each in (rows, counts, scales))
        tried = [old * factor for factor in factors]
        nearest = Entries(table).nearest
        errors = [((nearest(own / s[:, None]) * s[:, None] - own) ** 2 * weight).sum(axis=1) for s in tried]
        best = np.argmin(errors, axis=0)
        chosen[first : first + together] = np.array(tried)[best, np.arange(len(own))]
    return chosen


@dataclass(frozen=True)
class Codebook(Levels):
    """The entries of a table, stored as their places in it.

    bits   bits of a place
    table  int8 [2^bits], in ascending order; entries may be equal
    """

    BITS: ClassVar[range] = range(2, 7)  # with 7 bits a table has most integers of 8 bits; even distances serve as well
    LEARNED: ClassVar[bool] = False
    UNKNOWN: ClassVar[str] = "codebook, whose entries are not at even distances"
    UNKNOWN_REMEDY: ClassVar[str] = "ask for rounding=auto or rounding=gptq, or weight-levels=even"

    bits: int
    table: Array

    def need(self) -> str:
        bits, table = self.bits, self.table
        if bits not in self.BITS:
            return f"a codebook has places of 2 to 6 bits, got {bits}"
        if table.dtype != np.int8 or table.shape != (1 << bits,) or (table[1:] < table[:-1]).any():
            return f"a codebook of {bits} bits is i8 [{1 << bits}] in ascending order"
        return ""

    @classmethod
    def fitted(
        cls, rows: Array, bits: int, limits: tuple[int, int], *, size: int, powers_of_two: bool, zero: bool
    ) -> "tuple[Float64s, Callable[[Float64s], Codebook]]":
        scales, table = fitted(rows, bits, powers_of_two=powers_of_two, zero=zero)
        return scales, lambda _: Codebook(bits, table)

    def span(self, limits: tuple[int, int]) -> tuple[int, int]:
        return -LARGEST[self.bits], LARGEST[self.bits]

    def choices(self, limits: tuple[int, int], shape: Shape, arrange: Arrange = np.asarray) -> Entries:
        return Entries(self.table)

    def refitted(self, choices: Choices) -> "Codebook":
        return replace(self, table=choices.table) if isinstance(choices, Entries) else self

    @property
    def plain_bits(self) -> int:
        return few_bits(-LARGEST[self.bits], LARGEST[self.bits])

    def bytes(self, weights: int, width: int) -> int:
        return packed_bytes(weights, self.bits) + self.table.size

    def described(self, storage: str, per: str) -> str:
        return f"weights per {per} from a codebook of {len(self.table)} entries"

    def holds(self, weights: Array) -> bool:
        """Whether all weights are entries."""
        return bool(np.isin(weights, self.table).all())
