"""Sums of float32 values and of their squares, exact: the same in whatever order and parts the values come.

Every float32 is a multiple of 2^-149 and its square of 2^-298, so a sum of them is an integer of Python in that unit.
A block of numbers is added up in slices of its bits, as float64: a slice holds multiples of one power of two, 36 bits
wide, of which 2^16 add up in 53 bits without rounding. Two or three slices hold all bits of common tensors.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

Float64s = npt.NDArray[np.float64]

VALUE_UNIT = -149
"""Sums of values are in units of 2^-149, float32's smallest number."""

SQUARE_UNIT = 2 * VALUE_UNIT
"""Sums of squares are in units of 2^-298."""

BLOCK = 1 << 15
"""The rows of a block: half of what adds up exactly, and small enough for the processor's cache."""

SLICE_BITS = 35
"""A slice's numbers are below 2^36 in their unit, whichever way they round."""


@dataclass
class Moments:
    """Exact sums, one of each or one for each channel.

    values   Σ x in units of 2^-149
    squares  Σ x² in units of 2^-298
    """

    values: list[int]
    squares: list[int]

    @classmethod
    def zero(cls, channels: int = 1) -> "Moments":
        """Nothing added up yet."""
        return cls([0] * channels, [0] * channels)

    def update(self, block: Float64s) -> None:
        """Adds float32 values held as float64.

        Args:
            block: Shape [rows] for one sum, or [rows, channels]; at most `BLOCK` rows.
        """
        self.values = _added(self.values, exact_sums(block, VALUE_UNIT))
        self.squares = _added(self.squares, exact_sums(block * block, SQUARE_UNIT))

    def merge(self, other: "Moments") -> None:
        """Adds other sums of as many channels."""
        self.values = _added(self.values, other.values)
        self.squares = _added(self.squares, other.squares)

    def mean(self, count: int) -> list[float]:
        """Σ x / count, rounded once."""
        return [float(Fraction(v, count) * Fraction(2) ** VALUE_UNIT) for v in self.values]

    def variance(self, count: int) -> list[float]:
        """Σ x² / count − mean², of the exact sums, rounded once."""
        unit = Fraction(2) ** SQUARE_UNIT
        pairs = zip(self.values, self.squares, strict=True)
        return [float((Fraction(s, count) - Fraction(v, count) ** 2) * unit) for v, s in pairs]


def exact_sums(block: Float64s, unit: int) -> list[int]:
    """The sums over the first axis, as integers in units of 2^unit.

    Args:
        block: Finite multiples of 2^unit below 2^256, at most 2^16 rows.
        unit: A binary exponent.
    """
    found = [0] * (1 if block.ndim == 1 else block.shape[1])
    rest: Any = block
    top = float(np.abs(block).max(initial=0.0))
    exponent = math.frexp(top)[1]
    while top and rest.any():
        # Adding and subtracting this constant rounds to multiples of 2^(exponent − SLICE_BITS).
        rounder = math.ldexp(1.5, exponent - SLICE_BITS + 52)
        head = (rest + rounder) - rounder
        rest = rest - head
        sums = np.atleast_1d(head.sum(axis=0)).tolist()
        found = _added(found, [int(math.ldexp(s, -unit)) for s in sums])
        exponent -= SLICE_BITS + 1
    return found


def _added(one: list[int], other: list[int]) -> list[int]:
    return [a + b for a, b in zip(one, other, strict=True)]
