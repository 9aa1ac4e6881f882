"""Integer operations on single elements: sums, products, tables."""

import abc
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import BoolAttr, DenseArrayBase, IntegerAttr, StringAttr, TensorType, i8, i16, i32, i64
from xdsl.ir import Attribute
from xdsl.irdl import ParsePropInAttrDict, irdl_op_definition, operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.qint.requantize import (
    ZERO,
    AccumulatingOp,
    ElementwiseOp,
    Narrow,
    NarrowingOp,
    is_float32,
    largest_difference,
    less_zero_point,
    require_contract,
    require_multipliers,
    width_of,
)
from qmlir.ir.interfaces import Array, Shape, broadcast_shape, element_of, shape_of
from qmlir.ir.weights import WeightsAttr
from qmlir.numerics import tables
from qmlir.numerics.contracts import CONTRACTS
from qmlir.numerics.elementary.gemmlowp import quotient
from qmlir.numerics.elementary.lanes import F32, F64, I16, I32, I64, DType, N

# ---------------------------------------------------------------------------------------------------------------
# Elementwise integer sums, products and quotients of two tensors.


class BinaryOp(ElementwiseOp, abc.ABC):
    """An elementwise operation on two tensors.

    (A1) the shapes broadcast
    """

    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)

    def infer_shapes(self) -> Sequence[Shape]:
        return [broadcast_shape(self, shape_of(self.lhs), shape_of(self.rhs))]  # A1


class ZeroPointsOp(BinaryOp, abc.ABC):
    """An elementwise operation on two tensors that subtracts a zero point from each."""

    lhs_zero_point = prop_def(IntegerAttr.constr(i32), default_value=ZERO)
    rhs_zero_point = prop_def(IntegerAttr.constr(i32), default_value=ZERO)

    def zero_points(self) -> tuple[int, int]:
        """The zero points of lhs and rhs."""
        return self.lhs_zero_point.value.data, self.rhs_zero_point.value.data

    def differences(self) -> tuple[int, int]:
        """The largest |x − zero point| for all values x of each operand's type."""
        lhs, rhs = self.zero_points()
        return largest_difference(self.lhs, lhs), largest_difference(self.rhs, rhs)


@dataclass(frozen=True)
class Add:
    """The formula of `AddOp`; the parameters are the two multipliers and the shift.

    wide   a type that holds both operands minus their zero points
    """

    zero_points: tuple[int, int]
    wide: DType
    narrow: Narrow

    def __call__(self, lhs: N, rhs: N, m_lhs: N, m_rhs: N, shift: N) -> N:
        a, b = (less_zero_point(x, z, self.wide).to(I64) for x, z in zip((lhs, rhs), self.zero_points, strict=True))
        half = shift.same(1) << (shift - 1)
        return self.narrow((a * m_lhs.to(I64) + b * m_rhs.to(I64) + half) >> shift)


@irdl_op_definition
class AddOp(ZeroPointsOp, NarrowingOp):
    """y = clamp(zero_point + ((lhs − z_l)·m_l + (rhs − z_r)·m_r + 2^(shift−1)) >> shift, min, max).

    Both scale ratios become integer multipliers over one power of two, so the sum is rounded once, half up:
    m_i = round(s_i / s_y · 2^shift), with `shift` chosen so that the larger multiplier has 30 bits. The computation
    takes place in 64 bits.

    (R1) min ≤ max, and both fit the result's element type
    (A1) the shapes broadcast
    (A2) there are two multipliers with magnitudes below 2^31, and the shift is in [1, 62]
    (A3) no values of the operands' types bring the sum to 2^63
    """

    name = "qint.add"
    multipliers = prop_def(DenseArrayBase.constr(i64))
    shift = prop_def(IntegerAttr.constr(i32))

    assembly_format = "$lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `->` type($y)"

    def formula(self) -> Add:
        return Add(self.zero_points(), I32 if max(self.differences()) < 1 << 31 else I64, self.narrowing())

    def parameters(self) -> Sequence[Array]:
        m_lhs, m_rhs = self.multipliers.get_values()
        return np.array([m_lhs], np.int32), np.array([m_rhs], np.int32), np.array([self.shift.value.data], np.int64)

    def verify_(self) -> None:
        super().verify_()
        multipliers = self.multipliers.get_values()
        small = len(multipliers) == 2 and all(abs(m) < 1 << 31 for m in multipliers)
        if not small or not 1 <= self.shift.value.data <= 62:  # A2
            raise VerifyException(
                f"'{self.name}' needs two multipliers below 2^31 and a shift in [1, 62], "
                f"got {list(multipliers)} and {self.shift.value.data}"
            )
        lhs, rhs = self.differences()
        reach = lhs * abs(multipliers[0]) + rhs * abs(multipliers[1]) + (1 << self.shift.value.data - 1)
        if reach >= 1 << 63:  # A3
            kinds = f"{element_of(self.lhs)} and {element_of(self.rhs)}"
            raise VerifyException(f"'{self.name}' of {kinds} with these multipliers can reach {reach}, beyond 64 bits")


@dataclass(frozen=True)
class RescaledAdd:
    """The formula of `RescaledAddOp`; the parameters are the multipliers of lhs, rhs and the sum, then their shifts.

    contracts   the rounding contracts of D and of C
    """

    zero_points: tuple[int, int]
    left: int
    contracts: tuple[str, str]
    subtract: bool
    narrow: Narrow

    def __call__(self, lhs: N, rhs: N, *factors: N) -> N:
        operand, total = (CONTRACTS[name] for name in self.contracts)
        lhs, rhs = (less_zero_point(x, z, I64) << self.left for x, z in zip((lhs, rhs), self.zero_points, strict=True))
        lhs, rhs = (operand(x, x.same(factors[i]), x.same(factors[i + 3])) for i, x in enumerate((lhs, rhs)))
        both = lhs - rhs if self.subtract else lhs + rhs
        return self.narrow(total(both, both.same(factors[2]), both.same(factors[5])))


@irdl_op_definition
class RescaledAddOp(ZeroPointsOp, NarrowingOp):
    """y = clamp(zero_point + C(D((lhs − z_l)·2^left) + D((rhs − z_r)·2^left)), min, max), as TFLite adds.

    D rescales each operand to a common scale and rounds by `operand_contract`. C rescales the sum to the result's scale
    and rounds by `contract`. Each is a product with a multiplier and a shift (numerics/contracts.py).
    `multipliers` and `shifts` hold the entries of lhs, rhs and the sum, in this order. With `subtract`, the rescaled
    rhs is subtracted instead of added.

    (R1) min ≤ max, and both fit the result's element type
    (R3) the contracts are in `contracts.CONTRACTS` and accept any multiplier; multipliers are 0 or in [2^29, 2^31);
         shifts are in [−31, 30]
    (A1) the shapes broadcast
    (A2) there are three multipliers and three shifts; the shifts of the operands are at most 0
    (A3) `left` is in [0, 30]; |x − zero point| is at most 2^(30 − left) for all values x of the operands' types
    """

    name = "qint.rescaled_add"
    left = prop_def(IntegerAttr.constr(i32))
    multipliers = prop_def(DenseArrayBase.constr(i32))
    shifts = prop_def(DenseArrayBase.constr(i32))
    operand_contract = prop_def(StringAttr)
    contract = prop_def(StringAttr)
    subtract = prop_def(BoolAttr, default_value=BoolAttr.from_bool(False))

    assembly_format = "$lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `->` type($y)"

    def formula(self) -> RescaledAdd:
        contracts = self.operand_contract.data, self.contract.data
        return RescaledAdd(self.zero_points(), self.left.value.data, contracts, bool(self.subtract), self.narrowing())

    def parameters(self) -> Sequence[Array]:
        return [np.array([n], np.int64) for n in (*self.multipliers.get_values(), *self.shifts.get_values())]

    def verify_(self) -> None:
        super().verify_()
        multipliers, shifts = self.multipliers.get_values(), self.shifts.get_values()
        if not len(multipliers) == len(shifts) == 3 or any(shift > 0 for shift in shifts[:2]):  # A2
            raise VerifyException(
                f"'{self.name}' needs three multipliers and three shifts, the first two not above 0, "
                f"got {list(multipliers)} and {list(shifts)}"
            )
        for name, used in ((self.operand_contract.data, slice(2)), (self.contract.data, slice(2, 3))):  # R3
            if require_contract(self, name).step != 1:
                raise VerifyException(f"'{self.name}' needs contracts that take any multiplier, got {name}")
            require_multipliers(self, name, multipliers[used], shifts[used])
        left = self.left.value.data
        reach = max(self.differences())
        if not 0 <= left <= 30 or reach << left > 1 << 30:  # A3
            raise VerifyException(f"'{self.name}' of operands up to {reach} cannot move them left by {left} bits")


@dataclass(frozen=True)
class FloatAdd:
    """The formula of `FloatAddOp`; the parameters are r_l, r_r and c.

    Each multiply-add is computed in float64 and rounded to float32. The product is exact in float64, and so is the sum
    unless the last bits of its terms are more than 2^13 apart.
    """

    offset: int
    narrow: Narrow

    def __call__(self, lhs: N, rhs: N, left: N, right: N, constant: N) -> N:
        a, b = (less_zero_point(x, -self.offset).to(F64) for x in (lhs, rhs))
        inner = (b * right + constant).to(F32).to(F64)
        return self.narrow((a * left + inner).to(F32).round_even())


@irdl_op_definition
class FloatAddOp(BinaryOp, NarrowingOp):
    """y = clamp(zero_point + rint((lhs + offset)·r_l + ((rhs + offset)·r_r + c)), min, max), as onnxruntime adds.

    Each product and its addend are rounded to float32 once, as in a fused multiply-add; rint rounds half to even. The
    float32 numbers r_l, r_r and c are stored as pairs of integers (significand, exponent): `ratios` holds the pairs of
    r_l and r_r, `constant` the pair of c. If the source model stores the operands unsigned, `offset` restores the
    unsigned values.

    (R1) min ≤ max, and both fit the result's element type
    (A1) the shapes broadcast
    (A2) `ratios` has four entries and `constant` two; significands have 24 bits, exponents are in [−256, 104]
    (A3) the operands have at most 16 bits
    """

    name = "qint.float_add"
    ratios = prop_def(DenseArrayBase.constr(i32))
    constant = prop_def(DenseArrayBase.constr(i32))
    offset = prop_def(IntegerAttr.constr(i32), default_value=ZERO)

    assembly_format = "$lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `->` type($y)"

    def formula(self) -> FloatAdd:
        return FloatAdd(self.offset.value.data, self.narrowing())

    def parameters(self) -> Sequence[Array]:
        return [np.array([number]) for number in self.numbers()]

    def numbers(self) -> tuple[float, float, float]:
        """r_l, r_r and c."""
        parts = (*self.ratios.get_values(), *self.constant.get_values())
        left, right, constant = (math.ldexp(*pair) for pair in zip(parts[::2], parts[1::2], strict=True))
        return left, right, constant

    def verify_(self) -> None:
        super().verify_()
        parts = [*self.ratios.get_values(), *self.constant.get_values()]
        floats = all(is_float32(*pair) for pair in zip(parts[::2], parts[1::2], strict=False))
        if len(self.ratios) != 4 or len(self.constant) != 2 or not floats:  # A2
            raise VerifyException(
                f"'{self.name}' needs two ratios and a constant, each a significand of 24 bits and an exponent, "
                f"got {list(self.ratios.get_values())} and {list(self.constant.get_values())}"
            )
        if width_of(self.lhs) > 16 or width_of(self.rhs) > 16:  # A3
            raise VerifyException(f"'{self.name}' adds integers of at most 16 bits, got {element_of(self.lhs)}")


@dataclass(frozen=True)
class Mul:
    """The formula of `MulOp`; `wide` is the type of the product."""

    zero_points: tuple[int, int]
    wide: DType = I32

    def __call__(self, lhs: N, rhs: N) -> N:
        a, b = (less_zero_point(x, z).to(self.wide) for x, z in zip((lhs, rhs), self.zero_points, strict=True))
        return a * b


@irdl_op_definition
class MulOp(ZeroPointsOp, AccumulatingOp):
    """acc = (lhs − lhs_zero_point) · (rhs − rhs_zero_point), i32 or i64.

    (A1) the shapes broadcast
    (Q2) the operands have at most 16 bits, or 32 beside an i64 product; in i32 the product of two 16-bit operands may
         wrap around
    """

    name = "qint.mul"
    WORDS: ClassVar[bool] = True
    acc = result_def(TensorType)

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `->` type($acc)"

    def formula(self) -> Mul:
        return Mul(self.zero_points(), I64 if width_of(self.acc) == 64 else I32)


@dataclass(frozen=True)
class Div:
    """The formula of `DivOp`; `factor` is the multiplier and the shift."""

    zero_points: tuple[int, int]
    factor: tuple[int, int]
    wraps: bool
    narrow: Narrow

    def __call__(self, lhs: N, rhs: N) -> N:
        x, y = (less_zero_point(v, z, I64) for v, z in zip((lhs, rhs), self.zero_points, strict=True))
        return self.narrow(quotient(x, y, *self.factor, wraps=self.wraps))


@irdl_op_definition
class DivOp(ZeroPointsOp, NarrowingOp):
    """y = clamp(zero_point + (lhs − z_l) / (rhs − z_r) · M, min, max), as TFLite divides.

    M = multiplier · 2^(shift − 31). The quotient has 31 bits. Each product in its computation is rounded, and the last
    shift rounds half away from zero (`quotient` of numerics/elementary/gemmlowp.py). Division by 0 saturates with
    the sign of lhs; 0 / 0 is 0. With `wraps`, shifts by 32 bits and more behave as on a processor, as in LiteRT's
    kernels.

    (R1) min ≤ max, and both fit the result's element type
    (R3) the multiplier is 0 or in [2^29, 2^31), the shift in [−31, 30]
    (A1) the shapes broadcast
    (A3) |x − zero point| is at most 2^30 for all values x of the operands' types
    """

    name = "qint.div"
    multiplier = prop_def(IntegerAttr.constr(i32))
    shift = prop_def(IntegerAttr.constr(i32))
    wraps = prop_def(BoolAttr, default_value=BoolAttr.from_bool(False))

    assembly_format = "$lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `->` type($y)"

    def formula(self) -> Div:
        factor = self.multiplier.value.data, self.shift.value.data
        return Div(self.zero_points(), factor, bool(self.wraps), self.narrowing())

    def verify_(self) -> None:
        super().verify_()
        require_multipliers(self, "double", [self.multiplier.value.data], [self.shift.value.data])  # R3
        if (reach := max(self.differences())) > 1 << 30:  # A3
            raise VerifyException(f"'{self.name}' divides numbers of 31 bits, got up to {reach}")


# ---------------------------------------------------------------------------------------------------------------
# Lookup tables: functions of narrow integers as full tables, or as breakpoints joined by straight lines.


@dataclass(frozen=True)
class Lookup:
    """The formula of `LookupOp` and `PairLookupOp`: the table's entry at the operands; `half` is that of 0."""

    half: int

    def __call__(self, *operands: Any) -> Any:
        *places, entry = operands
        return entry(*(x.to(I64) + self.half for x in places))


class TableOp(ElementwiseOp, abc.ABC):
    """A function of the operands' elements, given by a table whose entries have the result's type."""

    table = prop_def(WeightsAttr)
    y = result_def(TensorType)

    irdl_options = (ParsePropInAttrDict(),)

    def infer_elements(self) -> Sequence[Attribute | None]:
        return [self.table.type.element_type]

    def tables(self) -> Sequence[Array]:
        return [self.table.array]


@irdl_op_definition
class LookupOp(TableOp):
    """y[i] = table[x[i] + half], where `half` is half the number of table entries.

    (L1) x is i8 and the table has 256 entries, or x is i16 and the table has 65,536; they have the result's type
    """

    name = "qint.lookup"
    x = operand_def(TensorType)

    assembly_format = "$x `,` $table attr-dict `:` type($x) `->` type($y)"

    def formula(self) -> Lookup:
        return Lookup(self.half)

    @property
    def half(self) -> int:
        """The number of entries for negative x."""
        return len(self.table.array) // 2

    def verify_(self) -> None:
        if (element_of(self.x), self.table.array.shape) not in ((i8, (256,)), (i16, (65536,))):  # L1
            raise VerifyException(
                f"'{self.name}' needs i8 data and 256 entries or i16 and 65536, "
                f"got {element_of(self.x)} and {self.table.type}"
            )
        super().verify_()


def interpolated_lookup(x: N, breakpoint: Callable[[N], N]) -> N:
    """The formula of `InterpolatedLookupOp`."""
    return tables.between_breakpoints(x.to(I32) + (1 << 15), lambda at: breakpoint(at).to(I32)).to(I16)


@irdl_op_definition
class InterpolatedLookupOp(TableOp):
    """y = t[k] + ((t[k+1] − t[k])·f + 64 >> 7), where x + 2^15 = 2^7·k + f and f is in [0, 2^7).

    The table t has a breakpoint at every 128th integer from −2^15 to 2^15; y is linear between breakpoints.

    (L1) x is i16 and the table has 513 entries of i16
    """

    name = "qint.interpolated_lookup"

    x = operand_def(TensorType)

    assembly_format = "$x `,` $table attr-dict `:` type($x) `->` type($y)"

    def formula(self) -> Callable[..., Any]:
        return interpolated_lookup

    def verify_(self) -> None:
        table = self.table
        if (
            element_of(self.x) != i16 or table.array.shape != (tables.BREAKPOINTS,) or table.array.dtype != np.int16
        ):  # L1
            raise VerifyException(
                f"'{self.name}' needs i16 data and {tables.BREAKPOINTS} entries of i16, "
                f"got {element_of(self.x)} and {table.type}"
            )
        super().verify_()


@irdl_op_definition
class PairLookupOp(BinaryOp, TableOp):
    """y[i] = table[lhs[i] + 128, rhs[i] + 128], for any function of two i8 elements; shapes broadcast.

    (A1) the shapes broadcast
    (L4) lhs and rhs are i8, and the table has 256 by 256 entries of the result's type
    """

    name = "qint.pair_lookup"

    assembly_format = "$lhs `,` $rhs `,` $table attr-dict `:` type($lhs) `,` type($rhs) `->` type($y)"

    def formula(self) -> Lookup:
        return Lookup(128)

    def verify_(self) -> None:
        if {element_of(self.lhs), element_of(self.rhs)} != {i8} or self.table.array.shape != (256, 256):  # L4
            raise VerifyException(
                f"'{self.name}' needs i8 data and 256 by 256 entries, got {element_of(self.lhs)}, "
                f"{element_of(self.rhs)} and {self.table.type}"
            )
        super().verify_()
