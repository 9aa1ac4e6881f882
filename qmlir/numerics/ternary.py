"""Ternary weights: −m₁, 0 or m₂ in steps of a channel's scale, with two multipliers for each channel.

    w ≈ S · t,   t one of −m₁, 0, m₂,  with m₁ and m₂ from 1 to 63

The negative and the positive weights of a channel have a magnitude of their own ("Trained ternary quantization", 2016).
A weight is stored as 2 bits, and each channel has two bytes beside them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from qmlir.numerics import Array, Float64s
from qmlir.numerics.levels import Arrange, Levels, Shape
from qmlir.numerics.packing import packed_bytes
from qmlir.numerics.schemas import power_of_two_above

LARGEST = 63
"""The largest magnitude of a level: two products with unsigned bytes fit 16 bits."""


@dataclass(frozen=True)
class Signs:
    """Choices of −low, 0 and high for each number, [g, m, k]."""

    low: Array
    high: Array

    def nearest(self, real: Array) -> Array:
        return self._nearest(real, self.low, self.high)

    def nearest_at(self, real: Array, column: int) -> Array:
        return self._nearest(real, self.low[:, :, column], self.high[:, :, column])

    def in_order(self, order: Array) -> "Signs":
        return Signs(*(np.take_along_axis(each, order[:, None], 2) for each in (self.low, self.high)))

    def _nearest(self, real: Array, low: Array, high: Array) -> Array:
        return np.where(real > high / 2, high, np.where(real < -low / 2, -low, 0.0))


@dataclass(frozen=True)
class Ternary(Levels):
    """Minus the first, 0, or plus the second end of a channel.

    bits  bits of a stored integer: 2
    ends  int8 [O, 2], 1 or more
    """

    BITS: ClassVar[range] = range(2, 3)
    LEARNED: ClassVar[bool] = False
    UNKNOWN: ClassVar[str] = "ternary weights, whose levels are not at even distances"
    UNKNOWN_REMEDY: ClassVar[str] = "ask for rounding=auto or rounding=gptq, or weight-levels=even"

    bits: int
    ends: Array

    def need(self) -> str:
        valid = self.bits == 2 and self.ends.dtype == np.int8 and self.ends.shape[1:] == (2,) and (self.ends > 0).all()
        return "" if valid else "ternary weights have 2 bits and ends i8 [O, 2], 1 or more"

    @classmethod
    def fitted(
        cls, rows: Array, bits: int, limits: tuple[int, int], *, size: int, powers_of_two: bool, zero: bool
    ) -> "tuple[Float64s, Callable[[Float64s], Ternary]]":
        ends = np.stack([_magnitude(-rows), _magnitude(rows)], axis=1)
        scales = np.maximum(ends.max(axis=1) / LARGEST, np.finfo(np.float32).tiny).astype(np.float32).astype(np.float64)
        if powers_of_two:
            scales = np.array([power_of_two_above(float(scale)) for scale in scales])

        def levels(scales: Float64s) -> Ternary:
            return Ternary(2, np.clip(np.rint(ends / scales[:, None]), 1, LARGEST).astype(np.int8))

        return scales, levels

    def span(self, limits: tuple[int, int]) -> tuple[int, int]:
        return -LARGEST, LARGEST

    def choices(self, limits: tuple[int, int], shape: Shape, arrange: Arrange = np.asarray) -> Signs:
        last = shape[0] != len(self.ends)  # of a depthwise convolution, channels lie along the last axis
        each = (self.ends[:, i] if last else self.ends[:, i].reshape(-1, *[1] * (len(shape) - 1)) for i in range(2))
        low, high = (arrange(np.broadcast_to(end, shape)).astype(np.float64) for end in each)
        return Signs(low, high)

    @property
    def plain_bits(self) -> int:
        return 7

    def bytes(self, weights: int, width: int) -> int:
        return packed_bytes(weights, 2) + self.ends.size

    def described(self, storage: str, per: str) -> str:
        return f"ternary weights with two magnitudes per {per}"


def _magnitude(rows: Array) -> Float64s:
    """The mean of a row's weights above 0.7 of their own mean, [O]; the largest one of all rows for rows without."""
    positive = np.maximum(rows, 0)
    threshold = 0.7 * positive.sum(axis=1) / np.maximum((positive > 0).sum(axis=1), 1)
    above = np.where(positive > threshold[:, None], positive, 0)
    found = above.sum(axis=1) / np.maximum((above > 0).sum(axis=1), 1)
    return np.where(found > 0, found, found.max() or 1.0)
