"""Operations on single elements: arithmetic, casts, tables, requantization."""

import abc

from xdsl.dialects.builtin import AnyFloat, BoolAttr, FloatAttr, IntegerAttr, IntegerType, i1, i8, i16, i32, i64
from xdsl.dialects.tosa import NanModeAttr, RoundingMode, RoundingModeAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def

from qmlir.ir.upstream import named
from qmlir.ir.upstream.tosa.base import TENSOR, TosaOp, element, fits, is_float, is_integer, known, sizes

# ---------------------------------------------------------------------------------------------------------------
# TOSA's elementwise operations on one, two or three tensors, which must have the same rank and broadcast.


class ElementwiseOp(TosaOp, abc.ABC):
    """Base of the elementwise operations: y[i] = f(operands[i]).

    (E1) operands have the same rank and broadcast to the result's shape
    (E2) operands and result have the same element type
    """

    output = result_def(TENSOR)

    def check_elements(self) -> None:
        """Checks (E2)."""
        for operand in self.operands:
            self.check_element(element(self.output), operand=operand)  # E2

    def verify_(self) -> None:
        self.check_result(self.broadcast(self.operands))  # E1
        self.check_elements()


class UnaryOp(ElementwiseOp, abc.ABC):
    """Base of the functions of one tensor's elements."""

    input1 = operand_def(TENSOR)


class BinaryOp(ElementwiseOp, abc.ABC):
    """Base of the functions of two tensors' elements."""

    input1 = operand_def(TENSOR)
    input2 = operand_def(TENSOR)


class ComparisonOp(BinaryOp, abc.ABC):
    """Base of the comparisons of two tensors' elements.

    (E2) the operands have the same element type; the result's elements are i1
    """

    def check_elements(self) -> None:
        self.check_element(element(self.input1), input2=self.input2)  # E2
        self.check_element(i1, result=self.output)  # E2


UNARY: dict[str, str] = {
    "abs": "|x|",
    "bitwise_not": "~x",
    "ceil": "⌈x⌉",
    "clz": "The number of leading zeros.",
    "cos": "cos x",
    "erf": "The error function.",
    "exp": "e^x",
    "floor": "⌊x⌋",
    "log": "ln x",
    "logical_not": "not x",
    "reciprocal": "1 / x",
    "rsqrt": "1 / √x",
    "sigmoid": "1 / (1 + e^−x)",
    "sin": "sin x",
    "tanh": "tanh x",
}
"""Names and formulas of the functions of one element."""

BINARY: dict[str, str] = {
    "add": "a + b",
    "bitwise_and": "a & b",
    "bitwise_or": "a | b",
    "bitwise_xor": "a ^ b",
    "intdiv": "a / b, truncated toward zero.",
    "logical_and": "a and b",
    "logical_left_shift": "a << b",
    "logical_or": "a or b",
    "logical_right_shift": "a >> b, filled with zeros.",
    "logical_xor": "a is not b",
    "pow": "a^b",
    "sub": "a − b",
}
"""Names and formulas of the functions of two elements."""

COMPARISONS: dict[str, str] = {"equal": "a = b", "greater": "a > b", "greater_equal": "a ≥ b"}
"""Names and formulas of the functions of two elements that yield i1."""

NAMED: dict[str, type[ElementwiseOp]] = {
    name: named(f"tosa.{name}", base, meaning)
    for base, table in ((UnaryOp, UNARY), (BinaryOp, BINARY), (ComparisonOp, COMPARISONS))
    for name, meaning in table.items()
}
"""Operations without properties, by name."""


class ExtremumOp(BinaryOp, abc.ABC):
    """Base of the functions that select the greater or the lesser of two elements."""

    nan_mode = opt_prop_def(NanModeAttr)


MaximumOp = named("tosa.maximum", ExtremumOp, "max(a, b).")
MinimumOp = named("tosa.minimum", ExtremumOp, "min(a, b).")


@irdl_op_definition
class ArithmeticRightShiftOp(BinaryOp):
    """a · 2^−b, rounded down; with `round`, rounded to nearest, half up."""

    name = "tosa.arithmetic_right_shift"
    round = prop_def(BoolAttr)


@irdl_op_definition
class MulOp(ElementwiseOp):
    """a · b; for i32 operands, (a · b + 2^(shift − 1)) >> shift.

    (E2) the operands have the same element type; the result has it too, unless both are integers, which may differ
    (M1) shift is a single i8
    """

    name = "tosa.mul"
    input1 = operand_def(TENSOR)
    input2 = operand_def(TENSOR)
    shift = operand_def(TENSOR)

    def verify_(self) -> None:
        self.check_result(self.broadcast([self.input1, self.input2]))  # E1
        self.check_element(element(self.input1), input2=self.input2)  # E2
        if not is_integer(element(self.input1)) or not is_integer(element(self.output)):
            self.check_element(element(self.input1), result=self.output)  # E2
        if not fits(sizes(self.shift), (1,)) or element(self.shift) != i8:  # M1
            self.fail(f"needs a shift of type tensor<1xi8>, got {self.shift.type}")


@irdl_op_definition
class NegateOp(TosaOp):
    """Negates quantized values: −(x − x_zp) + y_zp.

    (E1) operand and result have the same shape
    (E2) operand and result have the same element type
    (N1) each zero point has one element, of the element type of its operand or result, and is 0 unless that has 8 bits
    """

    name = "tosa.negate"
    input1 = operand_def(TENSOR)
    input1_zp = operand_def(TENSOR)
    output_zp = operand_def(TENSOR)
    output = result_def(TENSOR)

    def verify_(self) -> None:
        self.check_same(self.input1)  # E1, E2
        self.check_zero_point("input1_zp", self.input1_zp, self.input1)  # N1
        self.check_zero_point("output_zp", self.output_zp, self.output)  # N1


@irdl_op_definition
class SelectOp(ElementwiseOp):
    """Selects on_true where the condition holds, on_false elsewhere.

    (E2) the condition is i1; the other operands and the result have the same element type
    """

    name = "tosa.select"
    condition = operand_def(TENSOR)
    on_true = operand_def(TENSOR)
    on_false = operand_def(TENSOR)

    def check_elements(self) -> None:
        self.check_element(i1, condition=self.condition)  # E2
        self.check_element(element(self.output), on_true=self.on_true, on_false=self.on_false)  # E2


@irdl_op_definition
class ClampOp(ElementwiseOp):
    """Clamps each element: min(max(x, min_val), max_val).

    (E2) operand, result and both bounds have the same element type
    (B1) min_val is not above max_val, and both are numbers (not NaN)
    """

    name = "tosa.clamp"
    input = operand_def(TENSOR)
    min_val = prop_def(FloatAttr[AnyFloat] | IntegerAttr)
    max_val = prop_def(FloatAttr[AnyFloat] | IntegerAttr)
    nan_mode = opt_prop_def(NanModeAttr)

    def verify_(self) -> None:
        super().verify_()
        for bound in (self.min_val, self.max_val):
            if bound.get_type() != element(self.input):  # E2
                self.fail(f"needs bounds of element type {element(self.input)}, got {bound}")
        low, high = self.min_val.value.data, self.max_val.value.data
        if not low <= high:  # B1
            self.fail(f"needs a min_val that is not above max_val, got {low} and {high}")


@irdl_op_definition
class CastOp(ElementwiseOp):
    """Converts elements to another type; floats are rounded half to even and saturated to integers.

    (E1) operand and result have the same shape
    (E2) elements are integers or floats
    """

    name = "tosa.cast"
    input = operand_def(TENSOR)

    def check_elements(self) -> None:
        for value in (self.input, self.output):
            if not (is_float(element(value)) or is_integer(element(value))):  # E2
                self.fail(f"needs elements that are integers or floats, got {value.type}")


# ---------------------------------------------------------------------------------------------------------------
# TOSA's table lookups, gathers and scatters.


TABLES: dict[Attribute, tuple[int, Attribute, Attribute]] = {i8: (256, i8, i8), i16: (513, i16, i32)}
"""Element type of the data → number of table entries, element type of the table, element type of the result."""


@irdl_op_definition
class TableOp(TosaOp):
    """Looks up each element in a table: y = table[x + 128] for i8, linear interpolation for i16.

    For i16, the high 9 bits select two neighbouring entries of 513, and the low 7 bits interpolate; the result is i32.

    (L1) for i8 data, the table has 256 i8 entries, and the result is i8; for i16 data, the table has 513 i16 entries,
         and the result is i32
    (L2) operand and result have the same shape
    """

    name = "tosa.table"
    input1 = operand_def(TENSOR)
    table = operand_def(TENSOR)
    output = result_def(TENSOR)

    def verify_(self) -> None:
        kind = element(self.input1)
        rows = TABLES.get(kind)
        if rows is None:  # L1
            self.fail(f"needs data of element type i8 or i16, got {self.input1.type}")
        entries, of_table, of_result = rows
        self.check_element(of_table, table=self.table)  # L1
        self.check_element(of_result, result=self.output)  # L1
        if not fits(sizes(self.table), (entries,)):  # L1
            self.fail(f"needs a table of {entries} entries for {kind}, got {self.table.type}")
        self.check_result(sizes(self.input1))  # L2


def check_indices(op: TosaOp, indices: SSAValue) -> None:
    """Checks that indices are i32 or i64 (TOSA 1.1)."""
    if element(indices) not in (i32, i64):
        op.fail(f"needs indices of element type i32 or i64, got {indices.type}")


@irdl_op_definition
class GatherOp(TosaOp):
    """Gathers rows of a tensor: y[n,w,c] = values[n, indices[n,w], c].

    (L1) values [N,K,C], indices [N,W] of i32 or i64, output [N,W,C] of the values' element type
    """

    name = "tosa.gather"
    values = operand_def(TENSOR)
    indices = operand_def(TENSOR)
    output = result_def(TENSOR)

    def verify_(self) -> None:
        self.check_rank(3, values=self.values, result=self.output)  # L1
        self.check_rank(2, indices=self.indices)  # L1
        check_indices(self, self.indices)  # L1
        self.check_element(element(self.values), result=self.output)  # L1
        values, indices = sizes(self.values), sizes(self.indices)
        if values is None or indices is None:
            return
        if not fits(values[:1], indices[:1]):  # L1
            self.fail(f"needs indices for each batch of values, got {self.indices.type} and {self.values.type}")
        self.check_result((values[0] if known(values[0]) else indices[0], indices[1], values[2]))  # L1


@irdl_op_definition
class ScatterOp(TosaOp):
    """Returns values_in with rows replaced: values_out[n, indices[n,w], c] = input[n,w,c].

    (L1) values_in and values_out [N,K,C], indices [N,W] of i32 or i64, input [N,W,C]; K is at least W; values_in,
         input and values_out have the same element type
    """

    name = "tosa.scatter"
    values_in = operand_def(TENSOR)
    indices = operand_def(TENSOR)
    input = operand_def(TENSOR)
    values_out = result_def(TENSOR)

    def verify_(self) -> None:
        self.check_rank(3, values_in=self.values_in, input=self.input, values_out=self.values_out)  # L1
        self.check_rank(2, indices=self.indices)  # L1
        check_indices(self, self.indices)  # L1
        self.check_element(element(self.values_in), input=self.input, values_out=self.values_out)  # L1
        values, indices, given = sizes(self.values_in), sizes(self.indices), sizes(self.input)
        if values is None or indices is None or given is None:
            return
        self.check_result(values)  # L1
        if not fits(given, (values[0], indices[1], values[2])) or not fits(indices[:1], values[:1]):  # L1
            self.fail(f"needs an input [N, W, C] for indices [N, W], got {self.input.type} and {self.indices.type}")
        if known(values[1]) and known(indices[1]) and values[1] < indices[1]:  # L1
            self.fail(f"has no place for {indices[1]} elements in {self.values_in.type}")


# ---------------------------------------------------------------------------------------------------------------
# `tosa.rescale`, TOSA's requantization: an integer times a multiplier and a power of two.


i48 = IntegerType(48)


@irdl_op_definition
class RescaleOp(TosaOp):
    """Requantizes: y = saturate((((x − input_zp) · multiplier + 2^(shift − 1)) >> shift) + output_zp).

    The rounding mode DOUBLE_ROUND rounds the high half of the product first, which matters for shifts above 31. With
    INEXACT_ROUND an implementation may choose the rounding. The shift lies in [2, 62], and |x − input_zp| is below
    2^(shift − 1).

    (C1) input and output are integers of the same shape; an i48 is not scaled by 32-bit multipliers
    (C2) multipliers are i32 with scale32, else i16; shifts are i8; there is one multiplier and one shift, or, with
         per_channel, one of each for each element of the last dimension
    (C3) each zero point has one element, of the element type of its input or output, and is 0 unless that type is an
         8-bit or an unsigned 16-bit integer
    (C4) DOUBLE_ROUND needs scale32
    (C5) input and output are not both unsigned, and an i32 or i48 is never unsigned
    """

    name = "tosa.rescale"
    input = operand_def(TENSOR)
    multiplier = operand_def(TENSOR)
    shift = operand_def(TENSOR)
    input_zp = operand_def(TENSOR)
    output_zp = operand_def(TENSOR)
    scale32 = prop_def(BoolAttr)
    rounding_mode = prop_def(RoundingModeAttr)
    per_channel = prop_def(BoolAttr)
    input_unsigned = prop_def(BoolAttr)
    output_unsigned = prop_def(BoolAttr)
    output = result_def(TENSOR)

    def verify_(self) -> None:
        kinds = element(self.input), element(self.output)
        wide = bool(self.scale32)
        if not all(map(is_integer, kinds)) or (wide and kinds[0] == i48):  # C1
            allowed = "integers" if not wide or kinds[0] != i48 else "integers of at most 32 bits with scale32"
            self.fail(f"needs {allowed} to scale, got {kinds[0]} to {kinds[1]}")
        shape = sizes(self.input)
        self.check_result(shape)  # C1
        self.check_element(i32 if wide else i16, multiplier=self.multiplier)  # C2
        self.check_element(i8, shift=self.shift)  # C2
        channels = (1,) if not bool(self.per_channel) else shape[-1:] if shape is not None else None
        for name, value in (("multiplier", self.multiplier), ("shift", self.shift)):
            if channels is not None and not fits(sizes(value), channels):  # C2
                self.fail(f"needs a {name} of {channels[0]} elements, got {value.type}")
        self._check_zero_points()  # C3
        if self.rounding_mode.data == RoundingMode.DOUBLE_ROUND and not wide:  # C4
            self.fail("needs scale32 for rounding_mode DOUBLE_ROUND")
        unsigned = [k for k, u in zip(kinds, (self.input_unsigned, self.output_unsigned), strict=True) if bool(u)]
        if len(unsigned) == 2 or any(k in (i32, i48) for k in unsigned):  # C5
            self.fail(f"needs at most one of input and output unsigned, of 8 or 16 bits, got {kinds[0]} to {kinds[1]}")

    def _check_zero_points(self) -> None:
        for name, value, data, unsigned in (
            ("input_zp", self.input_zp, self.input, self.input_unsigned),
            ("output_zp", self.output_zp, self.output, self.output_unsigned),
        ):
            if element(data) == i16 and bool(unsigned):  # TOSA allows the zero points 0 and 32768
                self.check_element(i16, **{name: value})
            else:
                self.check_zero_point(name, value, data)


ELEMENTWISE = (
    *NAMED.values(),
    *(MaximumOp, MinimumOp, ArithmeticRightShiftOp, MulOp, NegateOp, SelectOp, ClampOp, CastOp),
    *(TableOp, GatherOp, ScatterOp, RescaleOp),
)
"""All operations of this file."""
