"""Division by a power of a sum in fixed point: d · M · (bias + unit · D)^−beta, where D is a sum of squares.

The base of the power is `step` · W for an integer W of 31 or 62 bits:

    W = D · 2^fraction + bias / step,   step = unit · 2^−fraction

W is m · 2^n with m in [1, 2). A table holds m^−beta at equidistant breakpoints, and for each n there is a multiplier
with its shift for M · (step · 2^n)^−beta.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt

from qmlir.errors import UnsupportedError
from qmlir.numerics.elementary.exponential import power
from qmlir.numerics.elementary.lanes import Lanes

WIDTHS = (31, 62)
"""The bits that W may have."""

BETA_LIMIT = 8.0
"""Limit on |beta|: breakpoints keep at least 23 of their 31 bits."""

LEAST_SEGMENTS, MOST_SEGMENTS = 4, 12
"""Limits on the number of segments between breakpoints, in bits."""

ONE = 30
"""The bits of the largest breakpoint, and of multipliers."""

LEAST_SHIFT, MOST_SHIFT = 2, 62
"""Limits on the bits that a product of difference and factor loses: beyond them, results are clamped, or 0."""


@dataclass(frozen=True)
class PowerQuotient:
    """The real numbers of a division by a power.

    most      the greatest D
    unit      what D is multiplied by
    bias      what is added; neither is negative, and one of them is positive
    beta      the exponent
    factor    M
    accuracy  the bits of the result
    """

    most: int
    unit: Fraction
    bias: Fraction
    beta: float
    factor: float
    accuracy: int

    def _fraction(self, bits: int) -> int:
        """The fraction bits of a W of `bits` bits; −62 if the bias alone counts."""
        if self.unit == 0:
            return -WIDTHS[-1]
        total = self.most + self.bias / self.unit
        room = bits - math.floor(total).bit_length()
        fits = math.ceil(total * Fraction(2) ** room + Fraction(1, 2)) < 1 << bits
        return max(room if fits else room - 1, -WIDTHS[-1])

    def _bias(self, bits: int) -> int:
        """The bias in steps of a W of `bits` bits."""
        fraction = self._fraction(bits)
        if fraction == -WIDTHS[-1]:
            return 1 << bits - 1
        return math.floor(self.bias / self.unit * Fraction(2) ** fraction + Fraction(1, 2))

    def _is_exact(self, bits: int) -> bool:
        """Whether the rounding of the bias changes no result by more than a small part of a step."""
        fraction = self._fraction(bits)
        return (1 << fraction if fraction >= 0 else 0) + self._bias(bits) >= 1 << self.accuracy + 7

    @cached_property
    def bits(self) -> int:
        """The number of bits of W."""
        return next((bits for bits in WIDTHS if self._is_exact(bits)), WIDTHS[-1])

    @property
    def fraction(self) -> int:
        """The number of bits behind the point of W; negative if a large bias leaves no room for the last bits of D."""
        return self._fraction(self.bits)

    @property
    def rounded_bias(self) -> int:
        """The bias in steps of W, rounded half up."""
        return self._bias(self.bits)

    @property
    def segment_bits(self) -> int:
        """The number of segments between breakpoints, in bits: lines are off by less than 2^−4 of a step."""
        curvature = abs(self.beta * (self.beta + 1)) / 8
        needed = math.ceil((math.log2(curvature) + self.accuracy + 4) / 2) if curvature else 0
        return max(needed, LEAST_SEGMENTS)

    def check(self) -> None:
        """Checks that the power is defined and that the tables are exact enough.

        Raises:
            UnsupportedError: The division has no integer form.
        """
        if self.unit < 0 or self.bias < 0 or self.unit == self.bias == 0:
            raise UnsupportedError("its base may be 0 or negative, and its power has no integer form then")
        if abs(self.beta) > BETA_LIMIT or self.segment_bits > MOST_SEGMENTS:
            raise UnsupportedError(
                f"its exponent {self.beta:g} is beyond {BETA_LIMIT:g}, and its power has no integer form then"
            )
        if self.most >= 1 << WIDTHS[-1] or not self._is_exact(WIDTHS[-1]):
            need = f"its sums of squares reach {self.most:.3g}, which 62 bits do not hold exactly enough"
            raise UnsupportedError(need, code="accumulator")

    def breakpoints(self) -> npt.NDArray[np.int32]:
        """m^−beta for m from 1 to 2, [segments + 1]; the largest is 2^30."""
        m = 1 + np.arange((1 << self.segment_bits) + 1) / (1 << self.segment_bits)
        powers = power(Lanes(m), Lanes(np.array(-self.beta))).array
        return np.rint(powers / powers.max() * (1 << ONE)).astype(np.int32)

    def multipliers(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """(multipliers of 31 bits, shifts) for each number of leading zeros of W, [bits]."""
        step = (
            self.unit * Fraction(2) ** -self.fraction if self.fraction > -WIDTHS[-1] else self.bias / self.rounded_bias
        )
        start = math.log2(self.factor) + max(-self.beta, 0.0)
        made = [_multiplier(start - self.beta * (_log2(step) + self.bits - 1 - zeros)) for zeros in range(self.bits)]
        multipliers, shifts = zip(*made, strict=True)
        return np.array(multipliers, np.int32), np.array(shifts, np.int32)


def _log2(number: Fraction) -> float:
    return math.log2(number.numerator) - math.log2(number.denominator)


def _multiplier(exponent: float) -> Sequence[int]:
    """(multiplier, shift) for 2^exponent: a breakpoint · multiplier · 2^−31 · 2^−shift is the gain of an element."""
    whole = math.floor(exponent)
    multiplier = min(round(2.0 ** (exponent - whole) * (1 << ONE)), (1 << 31) - 1)
    return multiplier, min(max(ONE - 1 - whole, LEAST_SHIFT), MOST_SHIFT)
