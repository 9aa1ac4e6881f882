"""Integers divided by what their neighbours along an axis add up to."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, StringAttr, TensorType, i64
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.elementary.fixed_point import half_away, leading_zeros, product, reciprocal_of_sum
from qmlir.dialects.elementary.lanes import Lanes, N
from qmlir.dialects.interfaces import Array, Shape, element_of, shape_of
from qmlir.dialects.qint.base import width_of
from qmlir.dialects.qint.requantize import NarrowingOp
from qmlir.dialects.quant.tables import KNOTS, SEGMENT_BITS
from qmlir.dialects.weights import WeightsAttr

FRACTION = 12
"""Bits behind the point of `unit`."""

SUM_BITS = 12
"""Bits before the point of a sum that Newton's method divides by; its terms lose as many behind it."""


@dataclass(frozen=True)
class Division:
    """How an exponential is divided by the sum of those along its axis; see `SoftmaxOp`."""

    name: str
    unit: int

    def term(self, e: N) -> N:
        """What an exponential, i64, adds to the sum."""
        return (e + (1 << SUM_BITS - 1)) >> SUM_BITS if self.name == "newton" else e

    def shares(self, total: N, knot: Callable[[N], N]) -> tuple[N, N]:
        """What `share` takes of a sum, i64; `knot` reads an entry of `inverse`, i64."""
        if self.name == "exact":
            return total << FRACTION, total
        if self.name == "newton":
            return reciprocal_of_sum(total, SUM_BITS)
        zeros = leading_zeros(total)
        above = ((total << zeros - 1) + (1 << 13) >> 14) - (1 << 16)  # the sum as 1 + x, x in steps of 2^-16
        place = above.minimum((1 << 16) - 1)
        first = knot(place >> SEGMENT_BITS)
        rise = knot((place >> SEGMENT_BITS) + 1) - first
        inside = place & (1 << SEGMENT_BITS) - 1
        return first + (rise * inside + (1 << SEGMENT_BITS - 1) >> SEGMENT_BITS), 31 - zeros

    def share(self, e: N, first: N, second: N) -> N:
        """An exponential's part of the sum in steps of the result, i64, without zero point and clamp."""
        if self.name == "exact":
            return (e * (2 * self.unit) + first).quotient(first << 1)
        if self.name == "interpolated":
            return e * first + (first.same(1) << second - 1) >> second
        bits = (self.unit >> FRACTION).bit_length() - 1
        return half_away(product(first, e), second + (31 - bits))


@irdl_op_definition
class SoftmaxOp(NarrowingOp):
    """y = clamp(zero_point + e · unit / Σ e, min, max) along `axis`, e = table[m − x], m the maximum there.

    The table holds exp(−d·s) for each difference d of two elements, in steps of 2^−30 or 2^−31. `unit`, 1 in steps of
    the result, has `FRACTION` bits behind the point. `division` says how it is divided:

        exact         floor((2·e·unit + S') / 2S') with S' = Σ e · 2^FRACTION: rounded once, half up
        newton        as gemmlowp does: S = Σ half_up(e · 2^−12), 1/S by three steps of Newton's method on 31 bits, its
                      product with e rounded, and rounded again, half away, where it loses its last bits
        interpolated  as TFLite does with 16 bits: S = Σ e is 2^(k−15) · (1 + x); 1 / (1 + x), from lines between the
                      knots in `inverse`, half up, times e · 2^−k, half up

    (R1) min ≤ max, and both fit the result's element type
    (S1) x has 8 or 16 bits; the table has an entry, i32, for each difference, none negative and the first not 0
    (S2) the axis lies within the rank and is not empty
    (S3) the division is one of the three; unit is in [1, 2^16], for newton a power of two, for interpolated 2^15
    (S4) no sum along the axis can leave its bits: 2^62 for exact, 2^31 for the others
    (S5) if and only if the division is interpolated, `inverse` is there with 513 entries of i16, of 1 / (1 + x) for x
         in steps of 2^−9, each in steps of 2^−15
    """

    name = "qint.softmax"
    x = operand_def(TensorType)
    axis = prop_def(IntegerAttr.constr(i64))
    table = prop_def(WeightsAttr)
    unit = prop_def(IntegerAttr.constr(i64))
    division = prop_def(StringAttr)
    inverse = opt_prop_def(WeightsAttr)

    assembly_format = "$x `,` $table attr-dict `:` type($x) `->` type($y)"

    def split(self) -> tuple[int, int, int]:
        """The operand's shape as (before, along, behind) the axis."""
        shape, axis = shape_of(self.x), self.axis.value.data
        return prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])

    def infer_shapes(self) -> Sequence[Shape]:
        shape, axis = shape_of(self.x), self.axis.value.data
        if not 0 <= axis < len(shape) or shape[axis] == 0:  # S2
            raise VerifyException(f"'{self.name}' needs an axis of {list(shape)} with elements, got {axis}")
        return [shape]

    def division_by_sum(self) -> "Division":
        """The arithmetic behind the table."""
        return Division(self.division.data, self.unit.value.data)

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        x, division = inputs[0].astype(np.int64).reshape(self.split()), self.division_by_sum()
        e = self.table.array.astype(np.int64)[x.max(axis=1, keepdims=True) - x]
        total = division.term(Lanes(e)).array.sum(axis=1, keepdims=True)

        def knot(place: Lanes) -> Lanes:
            assert self.inverse is not None
            return Lanes(self.inverse.array.astype(np.int64)[place.array])

        y = division.share(Lanes(e), *division.shares(Lanes(total), knot)).array
        return (self.narrow(y).reshape(inputs[0].shape),)

    def verify_(self) -> None:
        if width_of(self.x) not in (8, 16):  # S1
            raise VerifyException(f"'{self.name}' needs integers of 8 or 16 bits, got {element_of(self.x)}")
        table = self.table.array
        if table.dtype != np.int32 or table.shape != (1 << width_of(self.x),) or table.min() < 0 or not table[0]:  # S1
            raise VerifyException(
                f"'{self.name}' needs {1 << width_of(self.x)} entries of i32, none negative and the first not 0, "
                f"got {self.table.type}"
            )
        super().verify_()
        unit, division = self.unit.value.data, self.division.data
        most = 1 << 16 + FRACTION
        fits = {
            "exact": 1 << FRACTION <= unit <= most,
            "newton": 1 << FRACTION <= unit <= most and unit & unit - 1 == 0,
            "interpolated": unit == 1 << 15 + FRACTION,
        }
        if not fits.get(division, False):  # S3
            raise VerifyException(
                f"'{self.name}' divides {', '.join(fits)} with a unit in [1, 2^16], for newton a power of two, "
                f"for interpolated 2^15, got {division} and {unit} · 2^-{FRACTION}"
            )
        inverse = None if self.inverse is None else (self.inverse.array.dtype.name, *self.inverse.array.shape)
        if inverse != (("int16", KNOTS) if division == "interpolated" else None):  # S5
            raise VerifyException(f"'{self.name}' needs {KNOTS} entries of i16 where it interpolates, and only there")
        largest = int(table.max())
        terms = {"exact": largest << FRACTION + 1, "newton": (largest >> SUM_BITS) + 1, "interpolated": largest}
        total = self.split()[1] * terms[division]
        if total >= 1 << (62 if division == "exact" else 31):  # S4
            raise VerifyException(f"'{self.name}' has too many elements along axis {self.axis.value.data}: {total}")
