"""The factors between scales that a device applies: a product with an integer multiplier, shifted to the right.

A multiplier of all bits needs the longest shifts. A smaller factor than the longest shift allows has a multiplier of
fewer bits, which costs precision: m · 2^(−shift), where m has at least `precision` significant bits.
"""

from dataclasses import dataclass

from qmlir.numerics import fixed_point
from qmlir.numerics.contracts import MULTIPLIER_BITS


@dataclass(frozen=True)
class Factors:
    """The factors that a device applies.

    bits         bits of a multiplier, without its sign
    precision    significant bits that a multiplier has at least; a factor is applied with an error of at most
                 2^−precision of it
    least_shift  shortest shift to the right
    most_shift   longest shift to the right
    """

    bits: int
    precision: int
    least_shift: int
    most_shift: int

    @property
    def least(self) -> float:
        """The smallest factor, at least the smallest that has a multiplier and a shift (fixed_point.py)."""
        return 2.0 ** max(self.precision - 1 - self.most_shift, fixed_point.MIN_SHIFT - 1)

    @property
    def most(self) -> float:
        """The largest factor, below the first that has no multiplier and shift."""
        largest = (1 << self.bits) - 1
        return largest * 2.0 ** min(-self.least_shift, fixed_point.MAX_SHIFT - self.bits)

    def multiplier(self, real: float, step: int = 1) -> tuple[int, int]:
        """Returns (multiplier, shift) of `fixed_point.quantize_multiplier`, with as many bits as the shifts allow.

        A factor below `least` has all bits; no device with these shifts computes it.

        Args:
            real: The factor.
            step: A power of two of which the contract asks multiples.
        """
        narrow = max(MULTIPLIER_BITS - self.bits, step.bit_length() - 1)
        multiplier, shift = fixed_point.quantize_multiplier(real, 1 << narrow)
        beyond = MULTIPLIER_BITS - narrow - shift - self.most_shift
        if beyond <= 0 or MULTIPLIER_BITS - narrow - beyond < self.precision:
            return multiplier, shift
        return fixed_point.quantize_multiplier(real, 1 << narrow + beyond)
