"""Weights as files of language models store them: integers of few bits, with a scale and an offset for each block.

    w = scale · q + offset,   each operation rounded to f32

A block is `size` neighbours along the last axis of [O, K]. The constant holds the floats; `Affine` states the integers,
the scales and the offsets exactly, so that whoever stores the weights in few bits loses nothing.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from qmlir.numerics import Array
from qmlir.numerics.levels import Levels


def affine(stored: Array, scales: Array, offsets: Array | None, size: int) -> Array:
    """The floats, f32 [O, K], of integers [O, K] with f32 scales and offsets [O, K / size]; no offsets are zeros."""
    blocks = stored.reshape(len(stored), -1, size).astype(np.float32)
    blocks *= scales[..., None]
    if offsets is not None:
        blocks += offsets[..., None]
    return blocks.reshape(stored.shape)


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

    bits     bits of a stored integer, 2 to 8
    least    the least of these integers: 0, or −2^(bits − 1)
    size     weights of a block
    scales   f32 [O, K / size]
    offsets  f32 of the same shape; without rows if all offsets are 0
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
        if scales.ndim != 2 or offsets.shape not in (scales.shape, (0, scales.shape[1])):
            return "scales of affine levels have two dimensions, and offsets the same or no rows"
        return "" if scales.dtype == offsets.dtype == np.float32 else "scales and offsets of affine levels are f32"

    def stored(self, weights: Array) -> Array | None:
        """The integers of floats [O, K], in int8 or uint8; None if the floats are not what the levels state."""
        outputs, terms = weights.shape
        if (outputs, terms) != (len(self.scales), self.scales.shape[1] * self.size):
            return None
        offsets = self.offsets if len(self.offsets) else None
        blocks = weights.reshape(outputs, -1, self.size).astype(np.float64)
        if offsets is not None:
            blocks -= offsets[..., None]
        with np.errstate(divide="ignore", invalid="ignore"):
            blocks /= self.scales[..., None]
        most = self.least + (1 << self.bits) - 1
        integers = np.clip(np.rint(np.nan_to_num(blocks)), self.least, most)
        found = integers.reshape(weights.shape).astype(np.int8 if self.least else np.uint8)
        return found if np.array_equal(affine(found, self.scales, offsets, self.size), weights) else None
