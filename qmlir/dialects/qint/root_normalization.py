"""Integer layer normalization and root-mean-square normalization: division by the root of a sum of squares."""

import abc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, i32, i64
from xdsl.irdl import irdl_op_definition, prop_def
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.qint.normalization import AlongAxisOp, AxisFormula
from qmlir.dialects.qint.requantize import ZERO, Narrow, NarrowingOp, largest_difference, less_zero_point, width_of
from qmlir.ir.interfaces import Shape, element_of, shape_of
from qmlir.ir.samples import Axes, kept_axis
from qmlir.numerics.elementary.gemmlowp import product
from qmlir.numerics.elementary.lanes import I32, I64, Lanes, N
from qmlir.numerics.elementary.roots import inverse_root
from qmlir.numerics.root_quotients import SUM_BITS

MOST_BEHIND = 32
"""The most bits behind the point of the factor of elements: lower bits change a result by less than 2^−16."""


@dataclass(frozen=True)
class RootNormalization(AxisFormula):
    """The arithmetic of `RootNormalizationOp`, for sums of squares D that subclasses compute.

    zero_point    subtracted from the elements
    most          the largest magnitude of the difference
    least         the least D of a row whose result is not 0 throughout
    """

    zero_point: int | None
    most: int
    least: int
    multiplier: int
    shift: int
    fraction: int
    epsilon: int
    narrow: Narrow

    @property
    def largest(self) -> int:
        return self.most

    def difference(self, x: N, most: N) -> N:
        return less_zero_point(x, self.zero_point or 0)

    def square(self, d: N) -> N:
        """d², in i32 if that holds it."""
        wide = d if self.most**2 < 1 << 31 else d.to(I64)
        return wide * wide

    def radicand(self, total: N) -> N:
        """W for a sum of squares D, i64."""
        scaled = total << self.fraction if self.fraction >= 0 else total >> -self.fraction
        return scaled + self.epsilon

    def factor(self, total: N) -> tuple[N, N]:
        """Returns (f, b) of i64 with f · 2^−b = M / √W for a sum of squares D; f has at most 31 bits."""
        least = self.radicand(total.same(self.least)).maximum(1)
        root, bits = inverse_root(self.radicand(total).maximum(least))
        behind = bits + (31 - self.shift)
        lost = (behind - MOST_BEHIND).maximum(0).minimum(SUM_BITS)
        return product(root, self.multiplier) + ((lost.same(1) << lost) >> 1) >> lost, behind.minimum(MOST_BEHIND)

    def element(self, d: N, shared: Sequence[N], *tables: Callable[[N], N]) -> N:
        factor, offset, behind = shared
        steps = d.to(I32).to(I64) * factor.to(I32).to(I64) + offset
        return self.narrow(steps.logical_shift(behind).to(I32))  # at most 32 bits are dropped, so no sign is lost


@dataclass(frozen=True)
class RMSNormalization(RootNormalization):
    """The formula of `RMSNormOp`."""

    def terms(self, d: N, *tables: Callable[[N], N]) -> tuple[N, ...]:
        return (self.square(d),)

    def shared(self, totals: Sequence[N], *tables: Callable[[N], N]) -> tuple[N, ...]:
        factor, behind = self.factor(totals[0])
        return factor, behind.same(1) << behind - 1, behind


@dataclass(frozen=True)
class LayerNormalization(RootNormalization):
    """The formula of `LayerNormOp`, for rows of `count` elements."""

    SUMS: ClassVar[int] = 2

    count: int

    def terms(self, d: N, *tables: Callable[[N], N]) -> tuple[N, ...]:
        return self.square(d), d

    def shared(self, totals: Sequence[N], *tables: Callable[[N], N]) -> tuple[N, ...]:
        squares, total = totals
        factor, behind = self.factor(squares * self.count - total * total)
        mean = (total * factor).truncated_quotient(total.same(self.count))
        return factor, (behind.same(1) << behind - 1) - mean, behind


class RootNormalizationOp(AlongAxisOp, NarrowingOp, abc.ABC):
    """y = clamp(zero_point + d · M / √W, min, max) over the dimensions [axis, end), d and D from integers.

    W = D · 2^fraction + epsilon, M = multiplier · 2^(shift − 31). 1/√W is r · 2^−b, where r has 31 bits and comes from
    four steps of Newton's method. r · M is rounded to 31 bits; its product with an element is rounded once, half up. So
    the result is at most one step from the correctly rounded quotient, clamped.
    """

    end = prop_def(IntegerAttr.constr(i64))
    multiplier = prop_def(IntegerAttr.constr(i32))
    shift = prop_def(IntegerAttr.constr(i32))
    fraction = prop_def(IntegerAttr.constr(i32))
    epsilon = prop_def(IntegerAttr.constr(i64))

    assembly_format = "$x attr-dict `:` type($x) `->` type($y)"

    @abc.abstractmethod
    def formula(self) -> RootNormalization:
        """The operation's arithmetic."""

    @abc.abstractmethod
    def greatest(self) -> int:
        """The greatest D of elements of x's type."""

    @abc.abstractmethod
    def reach(self) -> tuple[int, int]:
        """(a, b) with |d| ≤ √(D · a / b) for each element."""

    def split(self) -> tuple[int, int, int]:
        shape, axis, end = shape_of(self.x), self.axis.value.data, self.end.value.data
        return prod(shape[:axis]), prod(shape[axis:end]), prod(shape[end:])

    def sample_axis(self, axes: Axes) -> int:
        return kept_axis(axes, range(self.axis.value.data, self.end.value.data))

    def infer_shapes(self) -> Sequence[Shape]:
        shape, axis, end = shape_of(self.x), self.axis.value.data, self.end.value.data
        if not 0 <= axis < end <= len(shape) or self.split()[1] == 0:  # S2
            raise VerifyException(f"'{self.name}' needs dimensions of {list(shape)} with elements, got [{axis}, {end})")
        return [shape]

    def arithmetic(self) -> tuple[int, int, int, int]:
        """The multiplier, the shift, the fraction bits and epsilon."""
        multiplier, shift, fraction = (v.value.data for v in (self.multiplier, self.shift, self.fraction))
        return multiplier, shift, fraction, self.epsilon.value.data

    def verify_(self) -> None:
        super().verify_()
        if width_of(self.x) not in (8, 16) or width_of(self.y) not in (8, 16):  # S10
            raise VerifyException(
                f"'{self.name}' needs integers of 8 or 16 bits, got {element_of(self.x)} and {element_of(self.y)}"
            )
        multiplier, shift, fraction, epsilon = self.arithmetic()
        if not 1 << 30 <= multiplier < 1 << 31 or abs(fraction) > SUM_BITS or epsilon < 0 or abs(shift) > SUM_BITS:
            raise VerifyException(  # S11
                f"'{self.name}' needs a multiplier in [2^30, 2^31), a shift and fraction bits in [-{SUM_BITS}, "
                f"{SUM_BITS}] and an epsilon that is not negative, got {multiplier}, {shift}, {fraction} and {epsilon}"
            )
        greatest = self.greatest()
        radicand = (greatest << fraction if fraction >= 0 else greatest >> -fraction) + epsilon
        if greatest >= 1 << SUM_BITS or radicand >= 1 << SUM_BITS:  # S12
            raise VerifyException(f"'{self.name}' takes the root of up to {radicand}, beyond {SUM_BITS} bits")
        formula, (above, below) = self.formula(), self.reach()
        _, behind = formula.factor(Lanes(np.array(formula.least)))
        most = multiplier**2 * above << 2 * max(shift, 0)
        limit = below << 122 + 2 * max(-shift, 0)  # |d| · M / √(D · 2^fraction) < 2^30, squared
        too_far = most << max(-fraction, 0) >= limit << max(fraction, 0)
        if int(behind.array) < 4 or too_far:  # S13
            raise VerifyException(f"'{self.name}' multiplies by {multiplier} · 2^({shift} - 31), which is too large")


@irdl_op_definition
class LayerNormOp(RootNormalizationOp):
    """y = clamp(zero_point + d · M / √W, min, max) over the dimensions [axis, end), with d = x − Σx / n.

    W = D · 2^fraction + epsilon with D = n · Σx² − (Σx)², M = multiplier · 2^(shift − 31), n the number of elements.
    1/√W is r · 2^−b, where r has 31 bits and comes from four steps of Newton's method. The factor f = r · M is rounded
    to 31 bits, of which at most 32 are behind the point. x · f − f · Σx / n, the quotient truncated, is rounded once,
    half up. With the numbers of numerics/root_quotients.py, the result is at most one step from the correctly rounded
    one. Rows of equal elements have the result zero_point.

    (R1) min ≤ max, and both fit the result's element type
    (S2) the dimensions lie within the rank and are not empty
    (S10) x and y have 8 or 16 bits
    (S11) the multiplier is in [2^30, 2^31), `shift` and `fraction` in [−62, 62], and `epsilon` is not negative
    (S12) D and W are below 2^62
    (S13) the factor keeps at least 4 bits behind the point where D is not 0; no quotient reaches 2^30
    """

    name = "qint.layer_norm"

    def formula(self) -> LayerNormalization:
        count, half = self.split()[1], 1 << width_of(self.x) - 1
        return LayerNormalization(0, half, max(count - 1, 1), *self.arithmetic(), self.narrowing(), count)

    def greatest(self) -> int:
        return (self.split()[1] << width_of(self.x) - 1) ** 2

    def reach(self) -> tuple[int, int]:
        count = self.split()[1]
        return max(count - 1, 1), count**2


@irdl_op_definition
class RMSNormOp(RootNormalizationOp):
    """y = clamp(zero_point + d · M / √W, min, max) over the dimensions [axis, end), with d = x − input_zero_point.

    W = D · 2^fraction + epsilon with D = Σd², M = multiplier · 2^(shift − 31). 1/√W is r · 2^−b, where r has 31 bits
    and comes from four steps of Newton's method. The factor f = r · M is rounded to 31 bits, of which at most 32 are
    behind the point. d · f is rounded once, half up. With the numbers of numerics/root_quotients.py, the result is at
    most one step from the correctly rounded one. M = 1 / s_y makes it an L2 normalization.

    (R1) min ≤ max, and both fit the result's element type
    (S2) the dimensions lie within the rank and are not empty
    (S10) x and y have 8 or 16 bits
    (S11) the multiplier is in [2^30, 2^31), `shift` and `fraction` in [−62, 62], and `epsilon` is not negative
    (S12) D and W are below 2^62
    (S13) the factor keeps at least 4 bits behind the point where D is not 0; no quotient reaches 2^30
    """

    name = "qint.rms_norm"
    input_zero_point = prop_def(IntegerAttr.constr(i32), default_value=ZERO)

    def formula(self) -> RMSNormalization:
        point = self.input_zero_point.value.data
        return RMSNormalization(point, largest_difference(self.x, point), 1, *self.arithmetic(), self.narrowing())

    def greatest(self) -> int:
        return self.split()[1] * largest_difference(self.x, self.input_zero_point.value.data) ** 2

    def reach(self) -> tuple[int, int]:
        return 1, 1
