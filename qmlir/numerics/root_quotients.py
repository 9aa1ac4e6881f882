"""Division by the root of a sum in fixed point: the integers that stand for the real numbers of d · M / √(D + ε).

d and D are computed from stored integers. The root is that of an integer of 62 bits:

    W = D · 2^fraction + epsilon,   M · 2^(fraction / 2) = multiplier · 2^(shift − 31)

`fraction` is as large as W has room for, so that ε loses little when it is rounded.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from qmlir.errors import UnsupportedError

SUM_BITS = 62
"""Limit on W, in bits."""

LEAST_BITS = 15
"""W has at least so many bits if D > 0: the rounding of ε then changes a result of 16 bits by less than half a step."""

GAIN_BITS = 24
"""Limit on M / √(D + ε) for D > 0, in bits: it has at least five bits behind the point of its 31."""

RESULT_BITS = 30
"""Limit on all quotients, in bits: they fit 32 bits before they are clamped."""


@dataclass(frozen=True)
class RootQuotient:
    """The real numbers of a division by a root.

    most      the greatest D
    least     the least D that is not 0
    epsilon   ε, in the unit of D
    factor    M
    reach     the greatest |d| / √D
    """

    most: int
    least: int
    epsilon: Fraction
    factor: float
    reach: float

    @cached_property
    def fraction(self) -> int:
        """The number of bits behind the point of W; negative if a large ε leaves no room for the last bits of D."""
        room = SUM_BITS - math.floor(self.most + self.epsilon).bit_length()
        return room if self._greatest(room) < 1 << SUM_BITS else room - 1

    def _greatest(self, fraction: int) -> int:
        """The greatest W with this number of bits behind the point, rounded up."""
        return math.ceil((self.most + self.epsilon) * Fraction(2) ** fraction + Fraction(1, 2))

    @property
    def rounded_epsilon(self) -> int:
        """ε in steps of W, rounded half up."""
        return math.floor(self.epsilon * Fraction(2) ** self.fraction + Fraction(1, 2))

    def multiplier(self) -> tuple[int, int]:
        """(multiplier, shift) of M; the multiplier has 31 bits."""
        whole, odd = divmod(self.fraction, 2)
        significand, exponent = math.frexp(self.factor * math.sqrt(2) if odd else self.factor)
        multiplier = math.floor(significand * (1 << 31) + 0.5)
        carry = multiplier >> 31
        return multiplier >> carry, exponent + whole + carry

    def check(self, result: str) -> None:
        """Checks that W fits, and that neither the factors of elements nor their quotients grow too large.

        Args:
            result: What errors call the result's scale.

        Raises:
            UnsupportedError: The division has no integer form.
        """
        least = self.least * Fraction(2) ** self.fraction + self.rounded_epsilon
        if self.most >= 1 << SUM_BITS or self.fraction < -SUM_BITS or least < 1 << LEAST_BITS:
            need = f"its sums of squares reach {self.most:.3g} and its epsilon {float(self.epsilon):.3g} in their steps"
            raise UnsupportedError(f"{need}, which {SUM_BITS} bits do not hold exactly enough", code="accumulator")
        gain = Fraction(self.factor) ** 2 / (self.least + self.epsilon)
        if gain > 1 << 2 * GAIN_BITS or self.factor * self.reach >= 1 << RESULT_BITS:
            raise UnsupportedError(f"{result} is too small for the quotients that it can have", code="factor")
