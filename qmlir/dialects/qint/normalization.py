"""Integer softmax, log-softmax and L2 normalization: division by a sum along an axis, or by the root of a sum."""

import abc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, StringAttr, TensorType, i32, i64
from xdsl.ir import Attribute
from xdsl.irdl import ParsePropInAttrDict, irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.qint.requantize import ZERO, Narrow, NarrowingOp, QIntOp, int32, largest_difference, width_of
from qmlir.ir.interfaces import Array, Shape, element_of, shape_of
from qmlir.ir.samples import Axes, kept_axis
from qmlir.ir.weights import WeightsAttr
from qmlir.numerics.elementary.division import divided, reciprocal
from qmlir.numerics.elementary.gemmlowp import (
    LOGARITHM_BITS,
    half_away,
    inverse_root,
    leading_zeros,
    logarithm,
    product,
    reciprocal_of_sum,
)
from qmlir.numerics.elementary.lanes import I32, I64, Lanes, N
from qmlir.numerics.tables import BREAKPOINTS, between_breakpoints

FRACTION = 12
"""Number of fraction bits of the property `unit` of `SoftmaxOp`."""

SUM_BITS = 12
"""Number of integer bits of the sum by which Newton's method divides; its terms lose as many fraction bits."""


class AxisFormula(abc.ABC):
    """The arithmetic along an axis: sums of terms, numbers computed once from the sums, and each element from these.

    Readers map an integer index to the entry of a table. All methods take and return i64, except `element`, which
    returns the result's type. Formulas are frozen dataclasses: operations with equal formulas share a kernel.

    zero_point   subtracted from the elements; None if the elements are subtracted from the maximum along the axis
    """

    SUMS: ClassVar[int] = 1
    """The number of sums."""

    zero_point: int | None

    @property
    def largest(self) -> int | None:
        """The largest magnitude of a difference if `terms` and `element` take vectors of differences, in i32."""
        return None

    @property
    def reuses_entries(self) -> bool:
        """Whether `element` takes vectors, and reads nothing but the entry that `term` has read for its element."""
        return False

    def difference(self, x: N, most: N) -> N:
        """The number that an element is computed from; `most` is the maximum, or any number if it is not needed."""
        return most.to(I64) - x.to(I64) if self.zero_point is None else x.to(I64) - self.zero_point

    @abc.abstractmethod
    def terms(self, d: N, *tables: Callable[[N], N]) -> tuple[N, ...]:
        """What a difference contributes to each sum."""

    @abc.abstractmethod
    def shared(self, totals: Sequence[N], *tables: Callable[[N], N]) -> tuple[N, ...]:
        """The numbers that `element` needs from the sums."""

    @abc.abstractmethod
    def element(self, d: N, shared: Sequence[N], *tables: Callable[[N], N]) -> N:
        """The result for a difference."""


class AlongAxisOp(QIntOp, abc.ABC):
    """An operation that combines the elements along an axis.

    (S2) the axis lies within the rank and is not empty
    """

    x = operand_def(TensorType)
    axis = prop_def(IntegerAttr.constr(i64))

    @abc.abstractmethod
    def formula(self) -> AxisFormula:
        """The operation's arithmetic."""

    def tables(self) -> Sequence[Array]:
        """The tables that the formula reads."""
        return ()

    def split(self) -> tuple[int, int, int]:
        """The operand's shape as (before, along, behind) the axis."""
        shape, axis = shape_of(self.x), self.axis.value.data
        return prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])

    def sample_axis(self, axes: Axes) -> int:
        return kept_axis(axes, [self.axis.value.data])

    def infer_shapes(self) -> Sequence[Shape]:
        shape, axis = shape_of(self.x), self.axis.value.data
        if not 0 <= axis < len(shape) or shape[axis] == 0:  # S2
            raise VerifyException(f"'{self.name}' needs an axis of {list(shape)} with elements, got {axis}")
        return [shape]

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        def reader(table: Array) -> Callable[[Lanes], Lanes]:
            return lambda place: Lanes(table[place.array])

        formula, tables, x = self.formula(), [reader(table) for table in self.tables()], inputs[0].reshape(self.split())
        d = formula.difference(Lanes(x), Lanes(x.max(axis=1, keepdims=True)))
        totals = [Lanes(term.array.sum(axis=1, keepdims=True, dtype=np.int64)) for term in formula.terms(d, *tables)]
        y = formula.element(d, formula.shared(totals, *tables), *tables)
        return (y.array.reshape(inputs[0].shape),)


class ExponentialsOp(AlongAxisOp, abc.ABC):
    """An operation that reads a table of exponentials at the difference of the maximum along the axis and each element.

    (S1) x has 8 or 16 bits; the i32 table has an entry for each difference; no entry is negative, the first is not 0
    """

    table = prop_def(WeightsAttr)

    def tables(self) -> Sequence[Array]:
        return [self.table.array]

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


def newton_term(e: N) -> N:
    """The term of an exponential in the sum by which Newton's method divides."""
    return (e + (1 << SUM_BITS - 1)) >> SUM_BITS


@dataclass(frozen=True)
class Softmax(AxisFormula):
    """The formula of `SoftmaxOp`: each exponential divided by the sum of the exponentials."""

    division: str
    unit: int
    narrow: Narrow
    zero_point: int | None = None

    @property
    def reuses_entries(self) -> bool:
        return self.division == "exact"

    def terms(self, d: N, *tables: Callable[[N], N]) -> tuple[N, ...]:
        e = tables[0](d).to(I64)
        return (newton_term(e) if self.division == "newton" else e,)

    def shared(self, totals: Sequence[N], *tables: Callable[[N], N]) -> tuple[N, ...]:
        (total,) = totals
        if self.division == "exact":
            return total << FRACTION, *reciprocal(total << FRACTION + 1)
        if self.division == "newton":
            return reciprocal_of_sum(total, SUM_BITS)
        zeros = leading_zeros(total)
        above = ((total << zeros - 1) + (1 << 13) >> 14) - (1 << 16)  # the sum is 1 + x, with x in steps of 2^-16
        place = above.minimum((1 << 16) - 1)
        return between_breakpoints(place, lambda at: tables[1](at).to(I64)), 31 - zeros

    def element(self, d: N, shared: Sequence[N], *tables: Callable[[N], N]) -> N:
        e = tables[0](d).to(I64)
        if self.division == "exact":
            first, *parts = shared
            return self.narrow(divided(e * (2 * self.unit) + first, first << 1, *parts))
        first, second = shared
        if self.division == "interpolated":
            return self.narrow(e * first + (first.same(1) << second - 1) >> second)
        bits = (self.unit >> FRACTION).bit_length() - 1
        return self.narrow(half_away(product(first, e), second + (31 - bits)))


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

    def formula(self) -> Softmax:
        return Softmax(self.division.data, self.unit.value.data, self.narrowing())

    def tables(self) -> Sequence[Array]:
        return [self.table.array, *([] if self.inverse is None else [self.inverse.array])]

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
        if inverse != (("int16", BREAKPOINTS) if division == "interpolated" else None):  # S5
            raise VerifyException(
                f"'{self.name}' needs {BREAKPOINTS} entries of i16 where it interpolates, and only there"
            )
        largest = int(self.table.array.max())
        terms = {"exact": largest << FRACTION + 1, "newton": (largest >> SUM_BITS) + 1, "interpolated": largest}
        total = self.split()[1] * terms[division]
        if total >= 1 << (62 if division == "exact" else 31):  # S4
            raise VerifyException(f"'{self.name}' has too many elements along axis {self.axis.value.data}: {total}")
        if division == "exact" and 2 * largest * unit > 1 << 62:  # S4
            raise VerifyException(f"'{self.name}' has exponentials up to {largest}, too large for a unit of {unit}")


@dataclass(frozen=True)
class LogSoftmax(AxisFormula):
    """The formula of `LogSoftmaxOp`: the logarithm of the sum, taken off each difference.

    The sum is below 2^62, in steps of 2^(`integer_bits` − 31); its logarithm is in steps of 2^−`fraction`.
    """

    integer_bits: int
    fraction: int
    zero_point: int | None = None

    def terms(self, d: N, *tables: Callable[[N], N]) -> tuple[N, ...]:
        return (tables[0](d).to(I64),)

    def shared(self, totals: Sequence[N], *tables: Callable[[N], N]) -> tuple[N, ...]:
        (total,) = totals
        beyond = total >> 31
        extra = beyond.equals(0).choose(0, 32 - leading_zeros(beyond))
        exact = logarithm(total >> extra, extra + self.integer_bits)
        dropped = LOGARITHM_BITS - self.fraction
        return (exact + (1 << dropped - 1) >> dropped if dropped else exact,)

    def element(self, d: N, shared: Sequence[N], *tables: Callable[[N], N]) -> N:
        return (tables[1](d).to(I64) - shared[0]).maximum(-(1 << 31)).to(I32)


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

    def formula(self) -> LogSoftmax:
        return LogSoftmax(self.integer_bits.value.data, self.fraction.value.data)

    def tables(self) -> Sequence[Array]:
        return [self.table.array, self.differences.array]

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
class L2Normalization(AxisFormula):
    """The formula of `L2NormalizationOp`: each element divided by the root of the sum of squares."""

    contract: str
    multiplier: int
    shift: int
    left: int
    narrow: Narrow
    zero_point: int | None

    def terms(self, d: N, *tables: Callable[[N], N]) -> tuple[N, ...]:
        return (d * d,)

    def shared(self, totals: Sequence[N], *tables: Callable[[N], N]) -> tuple[N, ...]:
        root, bits = inverse_root(totals[0].maximum(1))
        if self.contract == "double":
            return root, bits - (self.shift - 1)
        return product(root, self.multiplier), bits + (31 - self.shift)

    def element(self, d: N, shared: Sequence[N], *tables: Callable[[N], N]) -> N:
        factor, bits = shared
        if self.contract == "double":
            behind = bits + self.left
            scaled = product((d << self.left) << behind.negative().maximum(0), factor)
            return self.narrow(half_away(scaled, behind.maximum(0)))
        return self.narrow(d * factor + (factor.same(1) << bits - 1) >> bits)


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

    def formula(self) -> L2Normalization:
        multiplier, shift, left = (v.value.data for v in (self.multiplier, self.shift, self.left))
        zero_point = self.input_zero_point.value.data
        return L2Normalization(self.contract.data, multiplier, shift, left, self.narrowing(), zero_point)

    def verify_(self) -> None:
        super().verify_()
        root = self.formula()
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
