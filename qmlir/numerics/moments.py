"""Exact sums of float32 values and of their squares: the same for every order and every split of the values.

Every float32 is a multiple of 2^-149 and its square a multiple of 2^-298, so that a sum is a Python integer in that
unit. A block of numbers is added up in slices of its bits, as float64. A slice holds multiples of one power of two and
is 36 bits wide; 2^16 such numbers add up in 53 bits without rounding. Two or three slices hold all bits of common
tensors.
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
"""The numbers of a block: half as many as add up exactly, and few enough for the processor's cache."""

SLICE_BITS = 35
"""A slice's numbers are below 2^36 in their unit, whichever way they round."""


@dataclass
class Moments:
    """Exact sums of values x.

    values   Σ x in units of 2^-149
    squares  Σ x² in units of 2^-298
    """

    values: int = 0
    squares: int = 0

    def update(self, block: Float64s) -> None:
        """Adds float32 values held as float64, at most `BLOCK` of them, shape [n]."""
        self.values += exact_sum(block, VALUE_UNIT)
        self.squares += exact_sum(block * block, SQUARE_UNIT)

    def merge(self, other: "Moments") -> None:
        """Adds the sums of another `Moments`."""
        self.values += other.values
        self.squares += other.squares

    def mean(self, count: int) -> float:
        """Σ x / count, rounded once."""
        return float(Fraction(self.values, count) * Fraction(2) ** VALUE_UNIT)

    def variance(self, count: int) -> float:
        """Σ x² / count − mean², computed from the exact sums and rounded once."""
        unit = Fraction(2) ** SQUARE_UNIT
        return float((Fraction(self.squares, count) - Fraction(self.values, count) ** 2) * unit)


def exact_sum(block: Float64s, unit: int) -> int:
    """Returns the sum of a block as an integer in units of 2^unit.

    Args:
        block: Finite multiples of 2^unit below 2^256, at most 2^16 of them.
        unit: A binary exponent.
    """
    found = 0
    rest: Any = block
    top = float(np.abs(block).max(initial=0.0))
    exponent = math.frexp(top)[1]
    while top and rest.any():
        # Adding and subtracting this constant rounds to multiples of 2^(exponent − SLICE_BITS).
        rounder = math.ldexp(1.5, exponent - SLICE_BITS + 52)
        head = (rest + rounder) - rounder
        rest = rest - head
        found += int(math.ldexp(float(head.sum()), -unit))
        exponent -= SLICE_BITS + 1
    return found
