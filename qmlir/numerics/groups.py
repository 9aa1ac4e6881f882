"""Weights with a scale for each group of a sum's terms: integers of few bits times an integer of the group.

A channel has one scale S, and each group of its weights, neighbours along the axis of the sum, an integer multiplier m:

    w ≈ S · m · q,   q an integer of 2 to 6 bits,  m from 1 to M,  |m · q| ≤ 127

m·q is an integer of 8 bits. So a sum of products is an integer, the sum over the groups of m times the group's own sum,
and it has one scale for each channel, as if the weights had 8 bits. What is stored are q and, for each group, m.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from qmlir.numerics import Array, Float64s
from qmlir.numerics.levels import Arrange, Levels, Multiples, Shape
from qmlir.numerics.packing import packed_bytes
from qmlir.numerics.schemas import power_of_two_above

LARGEST = 127
"""The largest magnitude of a multiplier times an integer."""


def largest_multiplier(limits: tuple[int, int]) -> int:
    """The largest multiplier M for integers within `limits`."""
    return LARGEST // max(-limits[0], limits[1])


def spread(multipliers: Array, size: int, terms: int) -> Array:
    """Repeats the multipliers [O,G] of groups of `size` weights for each weight, [O,K]."""
    return np.repeat(multipliers, size, axis=1)[:, :terms]


def finest_scales(rows: Array, limits: tuple[int, int]) -> Float64s:
    """The scale S of each channel, [O], with which the largest multiplier covers the channel's largest weight.

    `rows` are the weights, [O,K]. A channel of zeros takes the largest scale of the others.
    """
    high = np.abs(rows.astype(np.float64)).max(axis=1) / (largest_multiplier(limits) * limits[1])
    high = np.where(high > 0, high, high.max() or 1.0)
    return np.maximum(high, np.finfo(np.float32).tiny).astype(np.float32).astype(np.float64)


def choose_multipliers(rows: Array, scales: Array, size: int, limits: tuple[int, int]) -> Array:
    """The multiplier of each group that leaves the least square error of its weights, rounded to the nearest.

    Args:
        rows: The weights, [O,K].
        scales: S of each channel, [O].
        size: The weights of a group; the last group may have fewer.
        limits: The least and the greatest integer.

    Returns:
        int8, [O, ⌈K / size⌉].
    """
    outputs, terms = rows.shape
    real = np.pad(rows / scales[:, None], ((0, 0), (0, -terms % size))).reshape(outputs, -1, size)
    errors = [
        ((np.clip(np.rint(real / m), *limits) * m - real) ** 2).sum(axis=2)
        for m in range(1, largest_multiplier(limits) + 1)
    ]
    return (np.argmin(errors, axis=0) + 1).astype(np.int8)


@dataclass(frozen=True)
class Groups(Levels):
    """Integers of few bits times the multiplier of their group.

    Row o of the weights, [O, K] in row-major order, has groups of `size` neighbours.

    bits         bits of a stored integer
    size         weights of a group; the last group of a row may have fewer
    multipliers  int8 [O, ⌈K / size⌉], 1 or more
    """

    BITS: ClassVar[range] = range(2, 7)  # they leave room for a multiplier
    UNKNOWN: ClassVar[str] = "groups of weights, whose integers have a multiplier"
    UNKNOWN_REMEDY: ClassVar[str] = "ask for rounding=auto, or granularity=channel"

    bits: int
    size: int
    multipliers: Array

    def need(self) -> str:
        if self.size < 1 or not 2 <= self.bits <= 7:
            return f"groups have 1 weight or more of 2 to 7 bits, got {self.size}, {self.bits}"
        array = self.multipliers
        if array.dtype != np.int8 or array.ndim != 2 or (array < 1).any():
            return "multipliers of groups are i8 of two dimensions, 1 or more"
        return ""

    @classmethod
    def fitted(
        cls, rows: Array, bits: int, limits: tuple[int, int], *, size: int, powers_of_two: bool, zero: bool
    ) -> "tuple[Float64s, Callable[[Float64s], Groups]]":
        scales = finest_scales(rows, limits)
        if powers_of_two:
            scales = np.array([power_of_two_above(float(scale)) for scale in scales])
        return scales, lambda scales: Groups(bits, size, choose_multipliers(rows, scales, size, limits))

    def span(self, limits: tuple[int, int]) -> tuple[int, int]:
        most = largest_multiplier(limits)
        return most * limits[0], most * limits[1]

    def choices(self, limits: tuple[int, int], shape: Shape, arrange: Arrange = np.asarray) -> Multiples:
        least, most = self._limits
        steps = arrange(self._steps(shape)).astype(np.float64)  # padded with 0 where blocks of a sum are filled up
        return Multiples((-most if limits[0] == -limits[1] else least, most), np.maximum(steps, 1.0))

    def bytes(self, weights: int, width: int) -> int:
        return packed_bytes(weights, self.bits) + self.multipliers.size

    def described(self, storage: str, per: str) -> str:
        return f"i{self.bits} weights in groups of {self.size}"

    def quotients(self, weights: Array) -> Array | None:
        """The integers of few bits, in the weights' shape; None if the weights are not what the levels state."""
        outputs, terms = weights.shape[0], int(np.prod(weights.shape[1:]))
        if self.multipliers.shape != (outputs, -(-terms // self.size)):
            return None
        found, rest = np.divmod(weights, self._steps(weights.shape))
        low, high = self._limits
        holds = not rest.any() and low <= int(found.min(initial=0)) and int(found.max(initial=0)) <= high
        return found if holds else None

    def _steps(self, shape: Shape) -> Array:
        """The multiplier of each weight."""
        return spread(self.multipliers, self.size, int(np.prod(shape[1:]))).reshape(shape)

    @property
    def _limits(self) -> tuple[int, int]:
        """The least and the greatest integer of so many bits."""
        half = 1 << self.bits - 1
        return -half, half - 1
