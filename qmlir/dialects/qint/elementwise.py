"""Integer operations on single elements: sums, products, tables."""

import abc
import math
from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import BoolAttr, DenseArrayBase, IntegerAttr, StringAttr, TensorType, i8, i16, i32, i64
from xdsl.ir import Attribute
from xdsl.irdl import ParsePropInAttrDict, irdl_op_definition, operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.qint.requantize import (
    ZERO,
    AccumulatingOp,
    NarrowingOp,
    QIntOp,
    is_float32,
    largest_difference,
    require_contract,
    require_multipliers,
    width_of,
)
from qmlir.ir.interfaces import Array, Shape, broadcast_shape, element_of, shape_of
from qmlir.ir.weights import WeightsAttr
from qmlir.numerics import fixed_point, tables
from qmlir.numerics.elementary.gemmlowp import quotient
from qmlir.numerics.elementary.lanes import Lanes, N

# ---------------------------------------------------------------------------------------------------------------
# Elementwise integer sums, products and quotients of two tensors.


@irdl_op_definition
class AddOp(NarrowingOp):
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
    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    lhs_zero_point = prop_def(IntegerAttr.constr(i32), default_value=ZERO)
    rhs_zero_point = prop_def(IntegerAttr.constr(i32), default_value=ZERO)
    multipliers = prop_def(DenseArrayBase.constr(i64))
    shift = prop_def(IntegerAttr.constr(i32))

    assembly_format = "$lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `->` type($y)"

    def infer_shapes(self) -> Sequence[Shape]:
        return [broadcast_shape(self, shape_of(self.lhs), shape_of(self.rhs))]  # A1

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        lhs = inputs[0].astype(np.int64) - self.lhs_zero_point.value.data
        rhs = inputs[1].astype(np.int64) - self.rhs_zero_point.value.data
        m_lhs, m_rhs = self.multipliers.get_values()
        shift = self.shift.value.data
        return (self.narrow((lhs * m_lhs + rhs * m_rhs + (1 << shift - 1)) >> shift),)

    def verify_(self) -> None:
        super().verify_()
        multipliers = self.multipliers.get_values()
        small = len(multipliers) == 2 and all(abs(m) < 1 << 31 for m in multipliers)
        if not small or not 1 <= self.shift.value.data <= 62:  # A2
            raise VerifyException(
                f"'{self.name}' needs two multipliers below 2^31 and a shift in [1, 62], "
                f"got {list(multipliers)} and {self.shift.value.data}"
            )
        lhs = largest_difference(self.lhs, self.lhs_zero_point.value.data) * abs(multipliers[0])
        rhs = largest_difference(self.rhs, self.rhs_zero_point.value.data) * abs(multipliers[1])
        reach = lhs + rhs + (1 << self.shift.value.data - 1)
        if reach >= 1 << 63:  # A3
            kinds = f"{element_of(self.lhs)} and {element_of(self.rhs)}"
            raise VerifyException(f"'{self.name}' of {kinds} with these multipliers can reach {reach}, beyond 64 bits")


@irdl_op_definition
class RescaledAddOp(NarrowingOp):
    """y = clamp(zero_point + C(D((lhs − z_l)·2^left) + D((rhs − z_r)·2^left)), min, max), as TFLite adds.

    D rescales each operand to a common scale and rounds by `operand_contract`. C rescales the sum to the result's scale
    and rounds by `contract`. Each is a product with a multiplier and a shift (numerics/fixed_point.py).
    `multipliers` and `shifts` hold the entries of lhs, rhs and the sum, in this order. With `subtract`, the rescaled
    rhs is subtracted instead of added.

    (R1) min ≤ max, and both fit the result's element type
    (R3) the contracts are in `fixed_point.CONTRACTS` and accept any multiplier; multipliers are 0 or in [2^29, 2^31);
         shifts are in [−31, 30]
    (A1) the shapes broadcast
    (A2) there are three multipliers and three shifts; the shifts of the operands are at most 0
    (A3) `left` is in [0, 30]; |x − zero point| is at most 2^(30 − left) for all values x of the operands' types
    """

    name = "qint.rescaled_add"
    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    lhs_zero_point = prop_def(IntegerAttr.constr(i32), default_value=ZERO)
    rhs_zero_point = prop_def(IntegerAttr.constr(i32), default_value=ZERO)
    left = prop_def(IntegerAttr.constr(i32))
    multipliers = prop_def(DenseArrayBase.constr(i32))
    shifts = prop_def(DenseArrayBase.constr(i32))
    operand_contract = prop_def(StringAttr)
    contract = prop_def(StringAttr)
    subtract = prop_def(BoolAttr, default_value=BoolAttr.from_bool(False))

    assembly_format = "$lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `->` type($y)"

    def infer_shapes(self) -> Sequence[Shape]:
        return [broadcast_shape(self, shape_of(self.lhs), shape_of(self.rhs))]  # A1

    def zero_points(self) -> tuple[int, int]:
        """The zero points of lhs and rhs."""
        return self.lhs_zero_point.value.data, self.rhs_zero_point.value.data

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        left = self.left.value.data
        factors = list(zip(self.multipliers.get_values(), self.shifts.get_values(), strict=True))
        lhs, rhs = (
            fixed_point.requantize((x.astype(np.int64) - z) << left, *factor, self.operand_contract.data)
            for x, z, factor in zip(inputs, self.zero_points(), factors[:2], strict=True)
        )
        total = lhs - rhs if bool(self.subtract) else lhs + rhs
        return (self.narrow(fixed_point.requantize(total, *factors[2], self.contract.data)),)

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
        reach = max(largest_difference(x, z) for x, z in zip((self.lhs, self.rhs), self.zero_points(), strict=True))
        if not 0 <= left <= 30 or reach << left > 1 << 30:  # A3
            raise VerifyException(f"'{self.name}' of operands up to {reach} cannot move them left by {left} bits")


@irdl_op_definition
class FloatAddOp(NarrowingOp):
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
    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    ratios = prop_def(DenseArrayBase.constr(i32))
    constant = prop_def(DenseArrayBase.constr(i32))
    offset = prop_def(IntegerAttr.constr(i32), default_value=ZERO)

    assembly_format = "$lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `->` type($y)"

    def infer_shapes(self) -> Sequence[Shape]:
        return [broadcast_shape(self, shape_of(self.lhs), shape_of(self.rhs))]  # A1

    def numbers(self) -> tuple[float, float, float]:
        """r_l, r_r and c."""
        left, left_exponent, right, right_exponent = self.ratios.get_values()
        return (
            math.ldexp(left, left_exponent),
            math.ldexp(right, right_exponent),
            math.ldexp(*self.constant.get_values()),
        )

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        lhs, rhs = (x.astype(np.int64) + self.offset.value.data for x in inputs)
        left, right, constant = self.numbers()
        return (self.narrow(fixed_point.float_addition(lhs, rhs, (left, right), constant)),)

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


@irdl_op_definition
class MulOp(AccumulatingOp):
    """acc = (lhs − lhs_zero_point) · (rhs − rhs_zero_point), i32.

    (A1) the shapes broadcast
    (Q2) the operands have at most 16 bits; the product of two 16-bit operands may wrap around
    """

    name = "qint.mul"
    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    lhs_zero_point = prop_def(IntegerAttr.constr(i32), default_value=ZERO)
    rhs_zero_point = prop_def(IntegerAttr.constr(i32), default_value=ZERO)
    acc = result_def(TensorType)

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `->` type($acc)"

    def infer_shapes(self) -> Sequence[Shape]:
        return [broadcast_shape(self, shape_of(self.lhs), shape_of(self.rhs))]  # A1

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        lhs = inputs[0].astype(np.int32) - np.int32(self.lhs_zero_point.value.data)
        return (lhs * (inputs[1].astype(np.int32) - np.int32(self.rhs_zero_point.value.data)),)


@irdl_op_definition
class DivOp(NarrowingOp):
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
    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    lhs_zero_point = prop_def(IntegerAttr.constr(i32), default_value=ZERO)
    rhs_zero_point = prop_def(IntegerAttr.constr(i32), default_value=ZERO)
    multiplier = prop_def(IntegerAttr.constr(i32))
    shift = prop_def(IntegerAttr.constr(i32))
    wraps = prop_def(BoolAttr, default_value=BoolAttr.from_bool(False))

    assembly_format = "$lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `->` type($y)"

    def infer_shapes(self) -> Sequence[Shape]:
        return [broadcast_shape(self, shape_of(self.lhs), shape_of(self.rhs))]  # A1

    def quotient(self, lhs: N, rhs: N) -> N:
        """The result for stored operands in i64, before the output zero point and the clamp."""
        x, y = lhs - self.lhs_zero_point.value.data, rhs - self.rhs_zero_point.value.data
        return quotient(x, y, self.multiplier.value.data, self.shift.value.data, wraps=bool(self.wraps))

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        lhs, rhs = np.broadcast_arrays(*(x.astype(np.int64) for x in inputs))
        return (self.narrow(self.quotient(Lanes(lhs), Lanes(rhs)).array),)

    def verify_(self) -> None:
        super().verify_()
        require_multipliers(self, "double", [self.multiplier.value.data], [self.shift.value.data])  # R3
        zero_points = self.lhs_zero_point.value.data, self.rhs_zero_point.value.data
        reach = max(largest_difference(x, z) for x, z in zip((self.lhs, self.rhs), zero_points, strict=True))
        if reach > 1 << 30:  # A3
            raise VerifyException(f"'{self.name}' divides numbers of 31 bits, got up to {reach}")


# ---------------------------------------------------------------------------------------------------------------
# Lookup tables: functions of narrow integers as full tables, or as breakpoints (knots) joined by straight lines.


class TableOp(QIntOp, abc.ABC):
    """A function of each element of x, given by a table whose entries have the result's type."""

    x = operand_def(TensorType)
    table = prop_def(WeightsAttr)
    y = result_def(TensorType)

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$x `,` $table attr-dict `:` type($x) `->` type($y)"

    def infer_elements(self) -> Sequence[Attribute | None]:
        return [self.table.type.element_type]

    def infer_shapes(self) -> Sequence[Shape]:
        return [shape_of(self.x)]


@irdl_op_definition
class LookupOp(TableOp):
    """y[i] = table[x[i] + half], where `half` is half the number of table entries.

    (L1) x is i8 and the table has 256 entries, or x is i16 and the table has 65,536; they have the result's type
    """

    name = "qint.lookup"

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        return (self.table.array[inputs[0].astype(np.int64) + self.half],)

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


@irdl_op_definition
class InterpolatedLookupOp(TableOp):
    """y = t[k] + ((t[k+1] − t[k])·f + 64 >> 7), where x + 2^15 = 2^7·k + f and f is in [0, 2^7).

    The table t has a breakpoint (knot) at every 128th integer from −2^15 to 2^15; y is linear between breakpoints.

    (L1) x is i16 and the table has 513 entries of i16
    """

    name = "qint.interpolated_lookup"

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        return (tables.interpolated(self.table.array, inputs[0]),)

    def verify_(self) -> None:
        table = self.table
        if element_of(self.x) != i16 or table.array.shape != (tables.KNOTS,) or table.array.dtype != np.int16:  # L1
            raise VerifyException(
                f"'{self.name}' needs i16 data and {tables.KNOTS} entries of i16, "
                f"got {element_of(self.x)} and {table.type}"
            )
        super().verify_()


@irdl_op_definition
class PairLookupOp(QIntOp):
    """y[i] = table[lhs[i] + 128, rhs[i] + 128], for any function of two i8 elements; shapes broadcast.

    (A1) the shapes broadcast
    (L4) lhs and rhs are i8, and the table has 256 by 256 entries of the result's type
    """

    name = "qint.pair_lookup"
    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    table = prop_def(WeightsAttr)
    y = result_def(TensorType)

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$lhs `,` $rhs `,` $table attr-dict `:` type($lhs) `,` type($rhs) `->` type($y)"

    def infer_elements(self) -> Sequence[Attribute | None]:
        return [self.table.type.element_type]

    def infer_shapes(self) -> Sequence[Shape]:
        return [broadcast_shape(self, shape_of(self.lhs), shape_of(self.rhs))]  # A1

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        lhs, rhs = (x.astype(np.int64) + 128 for x in inputs)
        return (self.table.array[lhs, rhs],)

    def verify_(self) -> None:
        if {element_of(self.lhs), element_of(self.rhs)} != {i8} or self.table.array.shape != (256, 256):  # L4
            raise VerifyException(
                f"'{self.name}' needs i8 data and 256 by 256 entries, got {element_of(self.lhs)}, "
                f"{element_of(self.rhs)} and {self.table.type}"
            )
        super().verify_()
