"""Integer local response normalization: division by a power of the sum of squares of neighbouring channels."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, TensorType, i32, i64
from xdsl.irdl import irdl_op_definition, operand_def, prop_def
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.qint.requantize import ZERO, Narrow, NarrowingOp, largest_difference, less_zero_point, width_of
from qmlir.ir.interfaces import Array, Shape, element_of, shape_of
from qmlir.ir.samples import Axes, kept_axis
from qmlir.ir.weights import WeightsAttr
from qmlir.numerics.elementary.gemmlowp import product
from qmlir.numerics.elementary.lanes import I64, Lanes, N
from qmlir.numerics.power_quotients import (
    LEAST_SEGMENTS,
    LEAST_SHIFT,
    MOST_SEGMENTS,
    MOST_SHIFT,
    ONE,
    WIDTHS,
)

OFFSET_BITS = 20
"""The most bits of a place between two breakpoints."""


@dataclass(frozen=True)
class LocalResponse:
    """The formula of `LocalResponseNormalizationOp`: (element, sum of squares, readers of its tables) → result."""

    zero_point: int
    fraction: int
    bias: int
    bits: int
    segment_bits: int
    narrow: Narrow

    def square(self, x: N) -> N:
        """The square of an element's difference from the zero point, i64."""
        d = less_zero_point(x, self.zero_point, I64)
        return d * d

    def __call__(self, x: N, total: N, *tables: Callable[[N], N]) -> N:
        breakpoints, multipliers, shifts = tables
        scaled = total << self.fraction if self.fraction >= 0 else total >> -self.fraction
        w, zeros = (scaled + self.bias).maximum(1), total.same(0)
        for step in (32, 16, 8, 4, 2, 1):
            if step < self.bits:
                room = w.less(1 << self.bits - step)
                w, zeros = room.choose(w << step, w), room.choose(zeros + step, zeros)
        below = self.bits - 1 - self.segment_bits
        offset_bits = min(below, OFFSET_BITS)
        segment = (w >> below) - (1 << self.segment_bits)
        offset = (w >> below - offset_bits) & (1 << offset_bits) - 1
        breakpoint = breakpoints(segment).to(I64)
        rise = breakpoints(segment + 1).to(I64) - breakpoint
        value = breakpoint + (rise * offset + (1 << offset_bits - 1) >> offset_bits)
        factor, shift = product(value, multipliers(zeros).to(I64)), shifts(zeros).to(I64)
        return self.narrow(less_zero_point(x, self.zero_point, I64) * factor + (shift.same(1) << shift - 1) >> shift)


@irdl_op_definition
class LocalResponseNormalizationOp(NarrowingOp):
    """y = clamp(zero_point + d · M · W^−beta, min, max), with d = x − input_zero_point; the channels are the last axis.

    W = D · 2^fraction + bias, D = Σd² over the channels from `before` before to `after` after the element's own, as far
    as they exist. W has up to `bits` bits, of which z are leading zeros; without these it is m · 2^(bits − 1), with m
    in [1, 2). `breakpoints` holds m^−beta at equidistant m, the largest as 2^30; between two breakpoints lies a line,
    rounded half up. Its value is multiplied by multipliers[z] · 2^−31, rounded half up. The product with d loses
    shifts[z] bits, rounded once, half up. With the numbers of numerics/power_quotients.py, the result is at most one
    step from the correctly rounded one.

    (R1) min ≤ max, and both fit the result's element type
    (P1) x has channels, and 8 or 16 bits; `before` and `after` are not negative
    (P2) W has 31 or 62 bits, and D and W fit them; `fraction` is in [−62, 62], `bias` not negative
    (P3) there are 2^s + 1 breakpoints of i32 with s in [4, 12], all in [0, 2^30]
    (P4) there are `bits` multipliers in [2^30, 2^31) and shifts in [2, 62], all i32
    """

    name = "qint.local_response_normalization"
    x = operand_def(TensorType)
    breakpoints = prop_def(WeightsAttr)
    multipliers = prop_def(WeightsAttr)
    shifts = prop_def(WeightsAttr)
    before = prop_def(IntegerAttr.constr(i64))
    after = prop_def(IntegerAttr.constr(i64))
    bits = prop_def(IntegerAttr.constr(i32))
    fraction = prop_def(IntegerAttr.constr(i32))
    bias = prop_def(IntegerAttr.constr(i64))
    input_zero_point = prop_def(IntegerAttr.constr(i32), default_value=ZERO)

    assembly_format = "$x `,` $breakpoints `,` $multipliers `,` $shifts attr-dict `:` type($x) `->` type($y)"

    def formula(self) -> LocalResponse:
        """The operation's arithmetic."""
        fraction, bias, bits = (v.value.data for v in (self.fraction, self.bias, self.bits))
        segments = (self.breakpoints.array.size - 1).bit_length() - 1
        return LocalResponse(self.input_zero_point.value.data, fraction, bias, bits, segments, self.narrowing())

    def tables(self) -> Sequence[Array]:
        """The tables that the formula reads."""
        return [self.breakpoints.array, self.multipliers.array, self.shifts.array]

    def neighbours(self) -> tuple[int, int]:
        """The numbers of channels before and after its own that the sum of a channel includes."""
        return self.before.value.data, self.after.value.data

    def infer_shapes(self) -> Sequence[Shape]:
        return [shape_of(self.x)]

    def sample_axis(self, axes: Axes) -> int:
        return kept_axis(axes, [len(shape_of(self.x)) - 1])

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        def reader(table: Array) -> Callable[[Lanes], Lanes]:
            return lambda place: Lanes(table[place.array])

        (x,), formula, (before, after) = inputs, self.formula(), self.neighbours()
        channels = x.shape[-1]
        squares = np.pad(formula.square(Lanes(x)).array, [*[(0, 0)] * (x.ndim - 1), (before, after)])
        total = sum(squares[..., at : at + channels] for at in range(before + after + 1))
        return (formula(Lanes(x), Lanes(np.asarray(total)), *map(reader, self.tables())).array,)

    def verify_(self) -> None:
        super().verify_()
        shape, (before, after) = shape_of(self.x), self.neighbours()
        if not shape or width_of(self.x) not in (8, 16) or min(before, after) < 0:  # P1
            raise VerifyException(
                f"'{self.name}' needs channels of 8 or 16 bits and a window around each, got {element_of(self.x)}, "
                f"{list(shape)} and [-{before}, {after}]"
            )
        fraction, bias, bits = (v.value.data for v in (self.fraction, self.bias, self.bits))
        count = min(before + after + 1, shape[-1])
        most = count * largest_difference(self.x, self.input_zero_point.value.data) ** 2
        bound = (most << fraction if fraction >= 0 else most >> -fraction) + bias
        fits = bits in WIDTHS and most < 1 << WIDTHS[-1] and abs(fraction) <= WIDTHS[-1] and bias >= 0
        if not fits or bound >= 1 << bits:  # P2
            raise VerifyException(
                f"'{self.name}' needs sums of at most 31 or 62 bits, got {bits} bits for up to {bound}, "
                f"with {fraction} fraction bits and a bias of {bias}"
            )
        breakpoints, multipliers, shifts = self.tables()
        sizes = [(1 << s) + 1 for s in range(LEAST_SEGMENTS, MOST_SEGMENTS + 1)]
        fits = breakpoints.dtype == np.int32 and breakpoints.ndim == 1 and breakpoints.size in sizes
        if not fits or breakpoints.min() < 0 or breakpoints.max() > 1 << ONE:  # P3
            raise VerifyException(
                f"'{self.name}' needs 2^s + 1 breakpoints of i32 in [0, 2^30], got {self.breakpoints.type}"
            )
        fits = all(table.dtype == np.int32 and table.shape == (bits,) for table in (multipliers, shifts))
        if not fits or multipliers.min() < 1 << ONE or shifts.min() < LEAST_SHIFT or shifts.max() > MOST_SHIFT:  # P4
            raise VerifyException(
                f"'{self.name}' needs {bits} multipliers in [2^30, 2^31) and as many shifts in [2, 62], all i32"
            )
