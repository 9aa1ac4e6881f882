"""The factors between scales that a device applies: a product with an integer multiplier, shifted to the right.

A multiplier of all bits needs the longest shifts. A smaller factor than the longest shift allows has a multiplier of
fewer bits, which costs precision: m · 2^(−shift), where m has at least `precision` significant bits. Where all factors
of a layer share a shift, those that are smaller than the largest one have fewer bits likewise.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from qmlir.numerics import fixed_point
from qmlir.numerics.contracts import MULTIPLIER_BITS


def shift_add(small: int, large: int) -> tuple[int, int | None, int] | None:
    """Shifts k and j and a sign s for which large = small · 2^k + s · 2^j; no j where that term is 0; None without any.

    >>> shift_add(3, 7), shift_add(3, 12), shift_add(64, 127), shift_add(0, 1), shift_add(37, 100)
    ((0, 2, 1), (2, None, 1), (1, 0, -1), (0, 0, 1), None)
    """
    for left in range((large // max(small, 1)).bit_length() + 1):
        rest = large - (small << left)
        if not rest:
            return left, None, 1
        if abs(rest) & abs(rest) - 1 == 0:
            return left, abs(rest).bit_length() - 1, 1 if rest > 0 else -1
    return None


@cache
def _shift_adds(most: int) -> list[tuple[int, int]]:
    """All pairs up to `most` of which the larger one is a `shift_add` of the other, the least first."""
    pairs = ((small, large) for large in range(1, most + 1) for small in range(large + 1))
    return [pair for pair in pairs if shift_add(*pair) is not None]


@dataclass(frozen=True)
class Factors:
    """The factors that a device applies.

    bits         bits of a multiplier, without its sign
    precision    significant bits that a multiplier has at least; a factor is applied with an error of at most
                 2^−precision of it
    least_shift  shortest shift to the right
    most_shift   longest shift to the right
    shared       the significant bits that a multiplier keeps at least where all multipliers of a layer share a shift;
                 None if each has a shift of its own
    own          bits, without the sign, of each operand's own multiplier in a sum, beside a multiplier that both share;
                 None if they share none
    shift_adds   whether the larger of these own multipliers is a `shift_add` of the other one
    """

    bits: int
    precision: int
    least_shift: int
    most_shift: int
    shared: int | None = None
    own: int | None = None
    shift_adds: bool = False

    @property
    def least(self) -> float:
        """The smallest factor, at least the smallest that has a multiplier and a shift (fixed_point.py)."""
        return 2.0 ** max(self.precision - 1 - self.most_shift, fixed_point.MIN_SHIFT - 1)

    @property
    def most(self) -> float:
        """The largest factor, below the first that has no multiplier and shift."""
        largest = (1 << self.bits) - 1
        return largest * 2.0 ** min(-self.least_shift, fixed_point.MAX_SHIFT - self.bits)

    @property
    def spread(self) -> float:
        """By how much the largest factor of a layer may exceed the smallest; infinity if their shifts differ."""
        return math.inf if self.shared is None else 2.0 ** (self.bits - self.shared)

    def multipliers(self, reals: Sequence[float], step: int = 1) -> list[tuple[int, int]]:
        """Returns the multiplier and the shift of each factor of a layer.

        A factor that is more than `spread` below the largest one has all bits; no device with a shared shift computes
        the layer.

        Args:
            reals: The factors.
            step: A power of two of which the contract asks multiples.
        """
        found = [self.multiplier(real, step) for real in reals]
        if self.shared is None or not any(reals):
            return found
        largest = max(reals)
        (_, most), last = self.multiplier(largest, step), self._dropped(largest, step)
        for n, real in enumerate(reals):
            dropped = last + most - found[n][1]
            if 0.0 < real < largest and last < dropped <= MULTIPLIER_BITS - self.shared:
                found[n] = fixed_point.quantize_multiplier(real, 1 << dropped)
        return found

    def of_sum(self, lhs: float, rhs: float) -> tuple[tuple[int, int], int]:
        """Returns the multipliers of two operands and the shift of their sum, where each has one of `own` bits.

        The multipliers of `own` bits give the ratio of the factors, the one that both share gives their magnitude: it
        has a bit less than others, for the half that is added before the shift.

        Args:
            lhs: The factor of the first operand.
            rhs: The factor of the second; one of the two is above 0.
        """
        assert self.own is not None
        small, large = self._nearest(min(lhs, rhs) / max(lhs, rhs), (1 << self.own) - 1)
        common = max(lhs, rhs) / large
        shift = max(1, self.bits - 1 - math.frexp(common)[1])
        factor = min(round(math.ldexp(common, shift)), (1 << self.bits - 1) - 1)
        first, second = (large, small) if lhs >= rhs else (small, large)
        return (first * factor, second * factor), shift

    def _nearest(self, ratio: float, most: int) -> tuple[int, int]:
        """Returns integers up to `most` whose quotient is nearest to a ratio of at most 1."""
        if self.shift_adds:
            return min(_shift_adds(most), key=lambda pair: abs(ratio - pair[0] / pair[1]))
        high = np.arange(1, most + 1)
        low = np.rint(ratio * high)
        best = int(np.argmin(abs(ratio - low / high)))
        return int(low[best]), int(high[best])

    def multiplier(self, real: float, step: int = 1) -> tuple[int, int]:
        """Returns (multiplier, shift) of `fixed_point.quantize_multiplier`, with as many bits as the shifts allow.

        A factor below `least` has all bits; no device with these shifts computes it.

        Args:
            real: The factor.
            step: A power of two of which the contract asks multiples.
        """
        return fixed_point.quantize_multiplier(real, 1 << self._dropped(real, step))

    def _dropped(self, real: float, step: int) -> int:
        """How many of 31 bits a factor's multiplier does not have."""
        narrow = max(MULTIPLIER_BITS - self.bits, step.bit_length() - 1)
        _, shift = fixed_point.quantize_multiplier(real, 1 << narrow)
        beyond = MULTIPLIER_BITS - narrow - shift - self.most_shift
        return narrow if beyond <= 0 or MULTIPLIER_BITS - narrow - beyond < self.precision else narrow + beyond
