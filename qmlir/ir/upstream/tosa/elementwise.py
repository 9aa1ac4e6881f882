"""TOSA's elementwise operations on one, two or three tensors, which must have the same rank and broadcast."""

import abc

from xdsl.dialects.builtin import AnyFloat, BoolAttr, FloatAttr, IntegerAttr, i1, i8
from xdsl.dialects.tosa import NanModeAttr
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def

from qmlir.ir.upstream.tosa.base import TENSOR, TosaOp, element, fits, is_float, is_integer, sizes


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
        shape = self.broadcast(self.operands)  # E1
        if shape is not None:
            self.check_result(shape)  # E1
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


def _named(name: str, base: type[ElementwiseOp], meaning: str) -> type[ElementwiseOp]:
    """Defines an operation from its name, its base class and the formula that becomes its docstring."""
    words = "".join(w.capitalize() for w in name.split("_"))
    return irdl_op_definition(type(f"{words}Op", (base,), {"name": f"tosa.{name}", "__doc__": meaning}))


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
    name: _named(name, base, meaning)
    for base, table in ((UnaryOp, UNARY), (BinaryOp, BINARY), (ComparisonOp, COMPARISONS))
    for name, meaning in table.items()
}
"""Operations without properties, by name."""


class ExtremumOp(BinaryOp, abc.ABC):
    """Base of the functions that select the greater or the lesser of two elements."""

    nan_mode = opt_prop_def(NanModeAttr)


@irdl_op_definition
class MaximumOp(ExtremumOp):
    """max(a, b)."""

    name = "tosa.maximum"


@irdl_op_definition
class MinimumOp(ExtremumOp):
    """min(a, b)."""

    name = "tosa.minimum"


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
        shape = self.broadcast([self.input1, self.input2])  # E1
        if shape is not None:
            self.check_result(shape)  # E1
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
        shape = sizes(self.input1)
        if shape is not None:
            self.check_result(shape)  # E1
        self.check_element(element(self.input1), result=self.output)  # E2
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


ELEMENTWISE = (
    *NAMED.values(),
    MaximumOp,
    MinimumOp,
    ArithmeticRightShiftOp,
    MulOp,
    NegateOp,
    SelectOp,
    ClampOp,
    CastOp,
)
"""All operations of this file."""
