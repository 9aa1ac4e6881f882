"""Floats that are integers of few bits, with a scale and an offset for each block.

Files of language models store weights so, and qmlir the scales and zero points of such weights.

    w = scale · q + offset,   each operation rounded to f32

A block is `size` neighbours along the last axis of [O, K]. The constant holds the floats; `Affine` states the integers,
the scales and the offsets exactly, so that whoever stores the floats in few bits loses nothing.
"""

from dataclasses import dataclass
from typing import ClassVar

import ml_dtypes
import numpy as np

from qmlir.numerics import Array
from qmlir.numerics.levels import Levels
from qmlir.numerics.packing import packed_bytes


def affine(stored: Array, scales: Array, offsets: Array | None, size: int) -> Array:
    """The floats, f32 [O, K], of integers [O, K] with scales and offsets [O, K / size] or [1, K / size].

    No offsets are zeros.
    """
    blocks = stored.reshape(len(stored), -1, size).astype(np.float32)
    blocks *= scales.astype(np.float32)[..., None]
    if offsets is not None:
        blocks += offsets[..., None]
    return blocks.reshape(stored.shape)


SCALES = tuple(map(np.dtype, (np.float32, ml_dtypes.bfloat16, ml_dtypes.float8_e8m0fnu)))
"""The types that scales may have."""

FACTORS = (1.0, 0.96, 0.92, 0.88, 0.84, 0.8, 0.75)
"""What a block's scale is multiplied by in the search for the one with the least square error."""

_AT_ONCE = 1 << 22
"""About how many weights are rounded at a time."""


def fitted_blocks(rows: Array, bits: int, size: int) -> tuple[Array, Array]:
    """Rounds weights [O, K] to signed integers of few bits with a scale for each block, with a small square error.

    Returns:
        The integers, int8 [O, K], and the scales, f32 [O, ⌈K / size⌉]. With the first of `FACTORS`, the weight of the
        largest magnitude in a block is the least integer; a scale may be negative.
    """
    step = max(1, _AT_ONCE // max(rows.shape[1], 1))
    parts = [_fitted(rows[at : at + step], bits, size) for at in range(0, len(rows), step)]
    integers, scales = (np.concatenate(a) for a in zip(*parts, strict=True))
    return integers[:, : rows.shape[1]], scales


def _fitted(rows: Array, bits: int, size: int) -> tuple[Array, Array]:
    least = -(1 << bits - 1)
    blocks = np.pad(rows, ((0, 0), (0, -rows.shape[1] % size))).reshape(len(rows), -1, size)
    peak = np.take_along_axis(blocks, np.abs(blocks).argmax(axis=2)[..., None], 2)
    widest, best = np.where(peak == 0, np.float32(1), peak / np.float32(least)), np.full(peak.shape, np.inf)
    integers, scales = np.zeros(blocks.shape, np.int8), widest.copy()
    for factor in FACTORS:
        scale = widest * np.float32(factor)
        found = np.clip(np.rint(blocks / scale), least, -least - 1)
        error = np.square(found * scale - blocks).sum(axis=2, keepdims=True)
        better = error < best
        best = np.where(better, error, best)
        scales = np.where(better, scale, scales)
        integers = np.where(better, found.astype(np.int8), integers)
    return integers.reshape(len(rows), -1), scales[..., 0]


@dataclass(frozen=True)
class Affine(Levels):
    """States about floats that they are integers times the scale of their block, plus its offset.

    Side files hold the integers in place of the floats.

    bits     bits of a stored integer, 2 to 8
    least    the least of these integers: 0, or −2^(bits − 1)
    size     floats of a block
    scales   [O, K / size], or [1, K / size] if all rows share them, of a type of `SCALES`
    offsets  f32, of a shape that scales may have; without rows if all offsets are 0
    """

    OF_FLOATS: ClassVar[bool] = True

    bits: int
    least: int
    size: int
    scales: Array
    offsets: Array

    def need(self) -> str:
        if not 2 <= self.bits <= 8 or self.least not in (0, -(1 << self.bits - 1)) or self.size < 1:
            return (
                f"affine levels are integers of 2 to 8 bits from 0 or half of them below 0 on, in blocks of 1 or more, "
                f"got {self.bits}, {self.least}, {self.size}"
            )
        scales, offsets = self.scales, self.offsets
        if scales.ndim != 2 or offsets.shape not in (scales.shape, *((n, scales.shape[1]) for n in (0, 1))):
            return "scales of affine levels have two dimensions, and offsets the same, one row or none"
        if scales.dtype not in SCALES or offsets.dtype != np.float32:
            return "scales of affine levels are f32, bf16 or f8E8M0FNU, and offsets f32"
        return ""

    def bytes(self, weights: int, width: int) -> int:
        return packed_bytes(weights, self.bits) + self.scales.nbytes + self.offsets.nbytes

    def stored(self, weights: Array) -> Array | None:
        """The integers of floats [O, K], in int8 or uint8; None if the floats are not what the levels state."""
        if weights.ndim != 2 or weights.shape[1] != self.scales.shape[1] * self.size:
            return None
        if any(len(a) not in (1, len(weights)) for a in (self.scales, self.offsets) if len(a)):
            return None
        offsets = self.offsets if len(self.offsets) else None
        blocks = weights.reshape(len(weights), -1, self.size).astype(np.float64)
        if offsets is not None:
            blocks -= offsets[..., None]
        with np.errstate(divide="ignore", invalid="ignore"):
            blocks /= self.scales.astype(np.float64)[..., None]
        most = self.least + (1 << self.bits) - 1
        integers = np.clip(np.rint(np.nan_to_num(blocks)), self.least, most)
        found = integers.reshape(weights.shape).astype(np.int8 if self.least else np.uint8)
        return found if np.array_equal(affine(found, self.scales, offsets, self.size), weights) else None
