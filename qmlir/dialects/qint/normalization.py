"""Integer softmax, log-softmax and L2 normalization: division by a sum along an axis, or by the root of a sum."""

import abc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, StringAttr, TensorType, i32, i64
from xdsl.ir import Attribute
from xdsl.irdl import ParsePropInAttrDict, irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.qint.requantize import ZERO, NarrowingOp, QIntOp, int32, largest_difference, width_of
from qmlir.ir.interfaces import Array, Shape, element_of, shape_of
from qmlir.ir.weights import WeightsAttr
from qmlir.numerics.elementary.gemmlowp import (
    half_away,
    inverse_root,
    leading_zeros,
    logarithm,
    product,
    reciprocal_of_sum,
)
from qmlir.numerics.elementary.lanes import Lanes, N
from qmlir.numerics.tables import KNOTS, between_knots

FRACTION = 12
"""Number of fraction bits of the property `unit` of `SoftmaxOp`."""

SUM_BITS = 12
"""Number of integer bits of the sum by which Newton's method divides; its terms lose as many fraction bits."""


@dataclass(frozen=True)
class Division:
    """The division of an exponential by the sum of the exponentials along its axis; see `SoftmaxOp`."""

    name: str
    unit: int

    def term(self, e: N) -> N:
        """The i64 term that an i64 exponential contributes to the sum."""
        return (e + (1 << SUM_BITS - 1)) >> SUM_BITS if self.name == "newton" else e

    def shares(self, total: N, knot: Callable[[N], N]) -> tuple[N, N]:
        """The two i64 values that `share` needs from a sum; `knot` reads an entry (breakpoint) of `inverse` as i64."""
        if self.name == "exact":
            return total << FRACTION, total
        if self.name == "newton":
            return reciprocal_of_sum(total, SUM_BITS)
        zeros = leading_zeros(total)
        above = ((total << zeros - 1) + (1 << 13) >> 14) - (1 << 16)  # the sum is 1 + x, with x in steps of 2^-16
        place = above.minimum((1 << 16) - 1)
        return between_knots(place, knot), 31 - zeros

    def share(self, e: N, first: N, second: N) -> N:
        """An exponential divided by the sum, i64 in steps of the result, before the zero point and the clamp."""
        if self.name == "exact":
            return (e * (2 * self.unit) + first).quotient(first << 1)
        if self.name == "interpolated":
            return e * first + (first.same(1) << second - 1) >> second
        bits = (self.unit >> FRACTION).bit_length() - 1
        return half_away(product(first, e), second + (31 - bits))


class AlongAxisOp(QIntOp, abc.ABC):
    """An operation that combines the elements along an axis.

    (S2) the axis lies within the rank and is not empty
    """

    x = operand_def(TensorType)
    axis = prop_def(IntegerAttr.constr(i64))

    def split(self) -> tuple[int, int, int]:
        """The operand's shape as (before, along, behind) the axis."""
        shape, axis = shape_of(self.x), self.axis.value.data
        return prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])

    def infer_shapes(self) -> Sequence[Shape]:
        shape, axis = shape_of(self.x), self.axis.value.data
        if not 0 <= axis < len(shape) or shape[axis] == 0:  # S2
            raise VerifyException(f"'{self.name}' needs an axis of {list(shape)} with elements, got {axis}")
        return [shape]

    def rows(self, x: Array) -> Array:
        """The operand's elements as i64, [before, along, behind]."""
        return x.astype(np.int64).reshape(self.split())


class ExponentialsOp(AlongAxisOp, abc.ABC):
    """An operation that reads a table of exponentials at the difference of the maximum along the axis and each element.

    (S1) x has 8 or 16 bits; the i32 table has an entry for each difference; no entry is negative, the first is not 0
    """

    table = prop_def(WeightsAttr)

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


@irdl_op_definition
class SoftmaxOp(ExponentialsOp, NarrowingOp):
    """y = clamp(zero_point + e · unit / Σ e, min, max) along `axis`, e = table[m − x], m the maximum along the axis.

    The table holds exp(−d·s) for each difference d of two elements, in steps of 2^−30 or 2^−31. `unit` is the real
    number 1 in steps of the result, with `FRACTION` fraction bits. `division` selects the arithmetic:

        exact         floor((2·e·unit + S') / 2S') with S' = Σ e · 2^FRACTION: rounded once, half up
        newton        as in gemmlowp: S = Σ half_up(e · 2^−12); 1/S by three steps of Newton's method on 31 bits; the
                      product of 1/S and e is rounded, and rounded again, half away from zero, when it loses its last
                      bits
        interpolated  as in TFLite's 16-bit kernel: S = Σ e is written as 2^(k−15) · (1 + x); 1 / (1 + x) is
                      interpolated between the breakpoints in `inverse`, half up, and multiplied by e · 2^−k, half up

    (R1) min ≤ max, and both fit the result's element type
    (S1) x has 8 or 16 bits; the i32 table has an entry for each difference; no entry is negative, the first is not 0
    (S2) the axis lies within the rank and is not empty
    (S3) the division is one of the three; `unit` is in [1, 2^19] for exact, a power of two in [1, 2^16] for newton, and
         2^15 for interpolated
    (S4) for exact, 2·S' is below 2^62 and 2·e·unit at most 2^62; for the others, S is below 2^31
    (S5) `inverse` is present if and only if the division is interpolated; its 513 i16 entries are 1 / (1 + x) in steps
         of 2^−15, for x in steps of 2^−9
    """

    name = "qint.softmax"
    unit = prop_def(IntegerAttr.constr(i64))
    division = prop_def(StringAttr)
    inverse = opt_prop_def(WeightsAttr)

    assembly_format = "$x `,` $table attr-dict `:` type($x) `->` type($y)"

    def division_by_sum(self) -> "Division":
        """The arithmetic that follows the table lookup."""
        return Division(self.division.data, self.unit.value.data)

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        x, division = self.rows(inputs[0]), self.division_by_sum()
        e = self.table.array.astype(np.int64)[x.max(axis=1, keepdims=True) - x]
        total = division.term(Lanes(e)).array.sum(axis=1, keepdims=True)

        def knot(place: Lanes) -> Lanes:
            assert self.inverse is not None
            return Lanes(self.inverse.array.astype(np.int64)[place.array])

        y = division.share(Lanes(e), *division.shares(Lanes(total), knot))
        return (self.narrowing()(y).array.reshape(inputs[0].shape),)

    def verify_(self) -> None:
        super().verify_()
        unit, division = self.unit.value.data, self.division.data
        fits = {
            "exact": 1 << FRACTION <= unit <= 1 << 19 + FRACTION,
            "newton": 1 << FRACTION <= unit <= 1 << 16 + FRACTION and unit & unit - 1 == 0,
            "interpolated": unit == 1 << 15 + FRACTION,
        }
        if not fits.get(division, False):  # S3
            raise VerifyException(
                f"'{self.name}' divides {', '.join(fits)} with a unit in [1, 2^19], for newton a power of two up to "
                f"2^16, for interpolated 2^15, got {division} and {unit} · 2^-{FRACTION}"
            )
        inverse = None if self.inverse is None else (self.inverse.array.dtype.name, *self.inverse.array.shape)
        if inverse != (("int16", KNOTS) if division == "interpolated" else None):  # S5
            raise VerifyException(f"'{self.name}' needs {KNOTS} entries of i16 where it interpolates, and only there")
        largest = int(self.table.array.max())
        terms = {"exact": largest << FRACTION + 1, "newton": (largest >> SUM_BITS) + 1, "interpolated": largest}
        total = self.split()[1] * terms[division]
        if total >= 1 << (62 if division == "exact" else 31):  # S4
            raise VerifyException(f"'{self.name}' has too many elements along axis {self.axis.value.data}: {total}")
        if division == "exact" and 2 * largest * unit > 1 << 62:  # S4
            raise VerifyException(f"'{self.name}' has exponentials up to {largest}, too large for a unit of {unit}")


LOGARITHM_BITS = 26
"""The greatest `fraction` of `LogSoftmaxOp`, and the number of fraction bits of its logarithms."""


@irdl_op_definition
class LogSoftmaxOp(ExponentialsOp):
    """y = max(differences[m − x] − ln Σ table[m − x], −2^31) along `axis`, i32 in steps of 2^−`fraction`.

    m is the maximum along the axis. For each difference d of two elements, `differences` holds −d·s in steps of the
    result, and `table` holds the term of e^(−d·s) in the sum, in steps of 2^(`integer_bits` − 31). The sum is exact.
    Its logarithm is computed as in gemmlowp, from the leading 31 bits of the sum, within 2^−24, and then rounded half
    up to steps of the result. A result with fewer fraction bits reaches further down.

    (S1) x has 8 or 16 bits; the i32 table has an entry for each difference; no entry is negative, the first is not 0
    (S2) the axis lies within the rank and is not empty
    (S4) every sum along the axis fits 62 bits
    (S6) `differences` has as many i32 entries as the table, and no entry is positive
    (S7) `integer_bits` is in [1, 30], and the first entry of the table is at least 1, to within a step
    (S9) `fraction` is in [0, 26]
    """

    name = "qint.log_softmax"
    differences = prop_def(WeightsAttr)
    integer_bits = prop_def(IntegerAttr.constr(i32))
    fraction = prop_def(IntegerAttr.constr(i32), default_value=int32(LOGARITHM_BITS))
    y = result_def(TensorType)

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$x `,` $table `,` $differences attr-dict `:` type($x) `->` type($y)"

    def infer_elements(self) -> Sequence[Attribute | None]:
        return [i32]

    def log_of_sum(self) -> "LogOfSum":
        """The function that computes the logarithm of a sum."""
        return LogOfSum(self.integer_bits.value.data, self.fraction.value.data)

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        x = self.rows(inputs[0])
        d = x.max(axis=1, keepdims=True) - x
        total = self.table.array.astype(np.int64)[d].sum(axis=1, keepdims=True)
        y = logarithm_of_share(Lanes(self.differences.array.astype(np.int64)[d]), self.log_of_sum()(Lanes(total)))
        return (y.array.astype(np.int32).reshape(inputs[0].shape),)

    def verify_(self) -> None:
        super().verify_()
        table, differences, bits = self.table.array, self.differences.array, self.integer_bits.value.data
        if differences.dtype != np.int32 or differences.shape != table.shape or differences.max() > 0:  # S6
            raise VerifyException(
                f"'{self.name}' needs {table.size} differences of i32, none positive, got {self.differences.type}"
            )
        if not 1 <= bits <= 30 or table[0] < (1 << 31 - bits) - 1:  # S7
            raise VerifyException(
                f"'{self.name}' needs a table that begins with 1 in steps of 2^({bits} - 31), got {table[0]}"
            )
        if self.split()[1] * int(table.max()) >= 1 << 62:  # S4
            raise VerifyException(f"'{self.name}' has too many elements along axis {self.axis.value.data}")
        if not 0 <= self.fraction.value.data <= LOGARITHM_BITS:  # S9
            raise VerifyException(
                f"'{self.name}' has 0 to {LOGARITHM_BITS} bits behind the point, got {self.fraction.value.data}"
            )


@dataclass(frozen=True)
class LogOfSum:
    """ln of an i64 sum below 2^62 in steps of 2^(`integer_bits` − 31); the result is in steps of 2^−`fraction`."""

    integer_bits: int
    fraction: int

    def __call__(self, total: N) -> N:
        beyond = total >> 31
        extra = beyond.equals(0).choose(0, 32 - leading_zeros(beyond))
        exact = logarithm(total >> extra, extra + self.integer_bits)
        dropped = LOGARITHM_BITS - self.fraction
        return exact + (1 << dropped - 1) >> dropped if dropped else exact


def logarithm_of_share(difference: N, log_total: N) -> N:
    """difference − log_total, saturated below at −2^31."""
    return (difference - log_total).maximum(-(1 << 31))


@dataclass(frozen=True)
class Root:
    """The division of an element by the root of a sum of squares; see `L2NormalizationOp`."""

    contract: str
    multiplier: int
    shift: int
    left: int

    def factor(self, total: N) -> tuple[N, N]:
        """The i64 (multiplier, number of fraction bits of the multiplier) that `share` needs from a sum of squares."""
        root, bits = inverse_root(total.maximum(1))
        if self.contract == "double":
            return root, bits - (self.shift - 1)
        return product(root, self.multiplier), bits + (31 - self.shift)

    def share(self, d: N, factor: N, bits: N) -> N:
        """The quotient for an i64 element minus its zero point, in steps of the result, before zero point and clamp."""
        if self.contract == "double":
            behind = bits + self.left
            scaled = product((d << self.left) << behind.negative().maximum(0), factor)
            return half_away(scaled, behind.maximum(0))
        return d * factor + (factor.same(1) << bits - 1) >> bits


@irdl_op_definition
class L2NormalizationOp(AlongAxisOp, NarrowingOp):
    """y = clamp(zero_point + (x − input_zero_point) · M / √Σ (x − input_zero_point)², min, max) along `axis`.

    M = multiplier · 2^(shift − 31) is the real number 1 in steps of the result. 1/√S is r · 2^−b, where r has 31 bits
    and comes from five steps of Newton's method; a sum of 0 is treated as 1. `contract` selects the rounding:

        single  r · M is rounded to 31 bits; its product with an element is rounded once, half up
        double  M is a power of two; an element is shifted left by `left` bits and multiplied by r · M; the product is
                rounded half up when 31 bits are dropped, and then half away from zero, as in TFLite (left = 0 for
                signed integers, M = 2^left for unsigned integers)

    (R1) min ≤ max, and both fit the result's element type
    (S2) the axis lies within the rank and is not empty
    (S4) every sum of squares along the axis fits 31 bits
    (S8) the contract is `single` or `double`, the multiplier is in [2^30, 2^31) and the shift in [1, 17]; for double
         the multiplier is 2^30; `left` is in [0, 16], and 0 for single
    """

    name = "qint.l2_normalization"
    input_zero_point = prop_def(IntegerAttr.constr(i32), default_value=ZERO)
    multiplier = prop_def(IntegerAttr.constr(i32))
    shift = prop_def(IntegerAttr.constr(i32))
    contract = prop_def(StringAttr)
    left = prop_def(IntegerAttr.constr(i32), default_value=ZERO)

    assembly_format = "$x attr-dict `:` type($x) `->` type($y)"

    def root(self) -> Root:
        """The arithmetic of the division by the root."""
        multiplier, shift, left = (v.value.data for v in (self.multiplier, self.shift, self.left))
        return Root(self.contract.data, multiplier, shift, left)

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        d, root = self.rows(inputs[0]) - self.input_zero_point.value.data, self.root()
        factor, bits = root.factor(Lanes((d * d).sum(axis=1, keepdims=True)))
        return (self.narrowing()(root.share(Lanes(d), factor, bits)).array.reshape(inputs[0].shape),)

    def verify_(self) -> None:
        super().verify_()
        root = self.root()
        single = root.contract == "single" and root.left == 0
        double = root.contract == "double" and root.multiplier == 1 << 30 and 0 <= root.left <= 16
        if not (single or double) or not 1 << 30 <= root.multiplier < 1 << 31 or not 1 <= root.shift <= 17:  # S8
            raise VerifyException(
                f"'{self.name}' rounds single, or double with a power of two, by a multiplier in [2^30, 2^31) and a "
                f"shift in [1, 17], got {root.contract}, {root.multiplier} and {root.shift}, left {root.left}"
            )
        total = self.split()[1] * largest_difference(self.x, self.input_zero_point.value.data) ** 2
        if total >= 1 << 31:  # S4
            raise VerifyException(f"'{self.name}' of {element_of(self.x)} can sum squares to {total}, beyond 31 bits")
