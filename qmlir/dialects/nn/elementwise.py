"""Operations on single elements of one, two or three tensors: arithmetic, comparisons, selection, logic."""

import abc
import math
from collections.abc import Sequence
from functools import reduce
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import BoolAttr, TensorType, i1
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.nn.base import Clamped, Elements, NNOp, is_unsigned
from qmlir.dialects.nn.movement import ConstantOp
from qmlir.dialects.nn.quantizable import ALL_STORAGES, BYTES, NARROW, Scales, Sums, is_exact, uniform, widest
from qmlir.dialects.quant.rules import FreeScale, SameScale
from qmlir.dialects.quant.types import UniformType
from qmlir.errors import UnsupportedError
from qmlir.ir.interfaces import (
    Array,
    BinaryTensorOp,
    ScalarOp,
    Shape,
    UnaryTensorOp,
    broadcast_shape,
    element_of,
    shape_of,
)
from qmlir.ir.samples import Axes, aligned_axis
from qmlir.ir.types import dtype_of
from qmlir.numerics.elementary.exponential import power
from qmlir.numerics.elementary.lanes import F64, Lanes, N
from qmlir.numerics.elementary.trigonometric import float_remainder, floored_remainder

# ---------------------------------------------------------------------------------------------------------------
# Base classes of elementwise operations: one formula defines both their meaning on arrays and their kernels.


_BLOCK = 1 << 16
"""How many elements `UnaryOp.evaluate` computes at a time."""

SUM_EXPONENTS = (-32, 29)
"""Bounds of e: the larger of the two factors of a sum is m · 2^e with m in [1/2, 1) (qint.add)."""


class PointwiseOp(NNOp, abc.ABC):
    """y[i] = formula(the operands' elements at i); shapes broadcast as in numpy.

    (C1) the shapes broadcast
    """

    @abc.abstractmethod
    def formula(self, *operands: N) -> N:
        """Computes a result element from the operands' elements, for arrays and for generated kernels alike.

        Integer operands are signless; `self.unsigned` tells whether to read them as unsigned.
        """

    @property
    def unsigned(self) -> bool:
        """Whether the data operands are unsigned integers or booleans."""
        return is_unsigned(element_of(self.data_operands()[0]))

    def infer_shapes(self) -> Sequence[Shape]:
        shapes = map(shape_of, self.operands)
        return [reduce(lambda a, b: broadcast_shape(self, a, b), shapes)]  # C1

    def sample_axis(self, axes: Axes) -> int:
        return aligned_axis(axes, [shape_of(x) for x in self.operands])

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        y = self.formula(*map(Lanes, inputs)).array
        shape = np.broadcast_shapes(*(x.shape for x in inputs))
        y = y if y.shape == shape else np.broadcast_to(y, shape)
        if y.dtype.kind == "f":  # else integers may be unsigned
            return (y,)
        return (y.view(dtype_of(self.result_element(element_of(self.data_operands()[0])))),)


class UnaryOp(UnaryTensorOp, PointwiseOp, abc.ABC):
    """y[i] = f(x[i])."""

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        """Computes block by block, because a correctly rounded function needs a dozen 64-bit temporaries an element."""
        (x,) = inputs
        if x.size <= _BLOCK:
            return super().evaluate(x)
        y = np.empty(x.size, dtype_of(self.result_element(element_of(self.x))))
        elements = x.reshape(-1)
        for start in range(0, x.size, _BLOCK):
            (y[start : start + _BLOCK],) = super().evaluate(elements[start : start + _BLOCK])
        return (y.reshape(x.shape),)


class FunctionOp(UnaryOp, ScalarOp, abc.ABC):
    """A real function of one element; floats are computed in f64 and rounded once."""

    ELEMENTS: ClassVar[Elements] = Elements.FLOATS | Elements.QUANTIZED

    INTEGER_FORM: ClassVar[tuple[str, ...]] = NARROW
    """Tables of all results; for 16 bits of breakpoints with lines between them, where that is exact enough."""

    DOMAIN: ClassVar[tuple[float, float]] = (-math.inf, math.inf)
    """The closed interval on which the function has a value, finite or infinite; float arguments outside give NaN."""

    @abc.abstractmethod
    def function(self, x: N) -> N:
        """The function on an f64 argument."""

    def scalar(self, x: Array) -> Array:
        """The function on dequantized f64 arguments; arguments outside the domain are clipped to its nearest end.

        A stored integer represents all numbers that round to it: with a scale of 0.0076, the argument 1.0 of an arc
        sine is stored as 1.0024, outside the domain.
        """
        return self.function(Lanes(np.clip(x, *self.DOMAIN))).array

    def domain_bounds(self, element: UniformType) -> tuple[float | None, float | None]:
        """The ends of the function's domain; an end is None unless the type can represent numbers beyond it."""
        low, high = self.DOMAIN
        scales, points = np.array(element.scales), np.array(element.zero_points)
        least, most = ((q - points) * scales for q in (element.storage_min, element.storage_max))
        return low if least.min() < low else None, high if most.max() > high else None

    def formula(self, *operands: N) -> N:
        (x,) = operands
        return self.function(x.to(F64)).to(x.dtype)


class StepOp(FunctionOp, abc.ABC):
    """A function with jumps; a lookup table places each jump where the argument, rounded to f32, crosses it."""

    def scalar(self, x: Array) -> Array:
        return super().scalar(x.astype(np.float32).astype(np.float64))


class OneNumber(NamedTuple):
    """A constant operand of a single element: its place, 0 or 1, and its stored integer."""

    place: int
    stored: int


class OperandPairOp(BinaryTensorOp, PointwiseOp, abc.ABC):
    """An operation of two operands.

    JUMPS  whether the result jumps where an operand is a whole number, or a multiple of the other operand
    """

    JUMPS: ClassVar[bool] = False

    def has_words(self) -> bool:
        """Whether a value has more than 8 bits, so that a table of pairs of bytes cannot compute the operation."""
        return any(uniform(value).storage_width > 8 for value in (self.lhs, self.rhs, self.y))

    def one_number(self) -> OneNumber | None:
        """The operand that is a constant of a single element, beside an operand of the result's shape; else None."""
        for place, (value, other) in enumerate(((self.lhs, self.rhs), (self.rhs, self.lhs))):
            if isinstance(value.owner, ConstantOp) and shape_of(other) == shape_of(self.y):
                array = value.owner.value.array
                if array.size == 1:
                    return OneNumber(place, int(array.reshape(-1)[0]))
        return None


# ---------------------------------------------------------------------------------------------------------------
# Elementwise arithmetic on two operands, whose shapes broadcast as in numpy.


class ArithmeticOp(OperandPairOp, abc.ABC):
    """An operation of two numbers that has an integer form."""

    ELEMENTS: ClassVar[Elements] = Elements.NUMBERS | Elements.QUANTIZED

    INTEGER_FORM: ClassVar[tuple[str, ...]] = NARROW

    traits = traits_def(FreeScale())


class BinaryOp(ArithmeticOp, Clamped, abc.ABC):
    """An elementwise operation on two tensors with a fused clamp."""

    @abc.abstractmethod
    def combine(self, lhs: N, rhs: N) -> N:
        """The result of the operation before the clamp."""

    def formula(self, *operands: N) -> N:
        lhs, rhs = operands
        return self.clamped(self.combine(lhs, rhs))


class SumOp(BinaryOp, abc.ABC):
    """A sum or difference, whose integer form brings both operands to one scale by two multipliers and one shift.

    An operand of 32 bits must have the result's scale and no zero point, so that the sum is exact before it saturates.
    """

    def is_accumulator(self, value: SSAValue) -> bool:
        own, result = uniform(value), uniform(self.y)
        plain = own.storage_width == 32 and own.is_signed and not own.is_per_axis and not result.is_per_axis
        return value is not self.y and plain and (own.scale, own.zero_point) == (result.scale, 0)

    def ratios(self, scales: Scales) -> npt.NDArray[Any]:
        return np.concatenate([scales(self.lhs), scales(self.rhs)]) / scales(self.y)

    def factors_fit(self) -> bool:
        exponent = math.frexp(float(self.factors().max()))[1]
        return SUM_EXPONENTS[0] <= exponent <= SUM_EXPONENTS[1]


@irdl_op_definition
class AddOp(SumOp):
    """y = lhs + rhs, then the clamp."""

    name = "nn.add"

    def combine(self, lhs: N, rhs: N) -> N:
        return lhs + rhs


@irdl_op_definition
class SubOp(SumOp):
    """y = lhs − rhs, then the clamp."""

    name = "nn.sub"

    def combine(self, lhs: N, rhs: N) -> N:
        return lhs - rhs


@irdl_op_definition
class MulOp(BinaryOp):
    """y = lhs · rhs, then the clamp."""

    name = "nn.mul"

    def combine(self, lhs: N, rhs: N) -> N:
        return lhs * rhs

    def ratios(self, scales: Scales) -> npt.NDArray[Any]:
        return scales(self.lhs) * scales(self.rhs) / scales(self.y)

    def sums(self) -> Sums:
        return product_of(self)

    def is_accumulator(self, value: SSAValue) -> bool:
        return value is self.y and is_exact(self)


def product_of(op: OperandPairOp) -> Sums:
    """The product of an operation's two operands."""
    return Sums.up_to(widest(uniform(op.lhs)) * widest(uniform(op.rhs)), "a product")


@irdl_op_definition
class DivOp(ArithmeticOp):
    """y = lhs / rhs; integer quotients are rounded toward zero and are 0 where the divisor is 0."""

    name = "nn.div"

    def formula(self, *operands: N) -> N:
        lhs, rhs = operands
        return lhs / rhs if lhs.is_float else lhs.quotient(rhs, unsigned=self.unsigned)

    def ratios(self, scales: Scales) -> npt.NDArray[Any]:
        if not self.has_words():
            return super().ratios(scales)
        return scales(self.lhs) / (scales(self.rhs) * scales(self.y))


@irdl_op_definition
class ModOp(OperandPairOp):
    """The exact remainder of lhs / rhs with the sign of the divisor; with `truncated`, the sign of the dividend.

    If the divisor is 0, the result is 0 for integers and NaN for floats. Where a float remainder has the wrong sign,
    the divisor is added to it, and that sum is rounded once.
    """

    name = "nn.mod"

    JUMPS: ClassVar[bool] = True

    truncated = prop_def(BoolAttr, default_value=BoolAttr.from_bool(False))

    ELEMENTS: ClassVar[Elements] = Elements.F32 | Elements.INTEGERS | Elements.QUANTIZED

    INTEGER_FORM: ClassVar[tuple[str, ...]] = BYTES

    traits = traits_def(FreeScale())

    def formula(self, *operands: N) -> N:
        lhs, rhs = operands
        if lhs.is_float:
            rest = float_remainder(lhs.to(F64), rhs.to(F64))
            signed = rest if bool(self.truncated) else floored_remainder(rest, rhs.to(F64))
            return signed.to(lhs.dtype)
        rest = lhs.remainder(rhs, unsigned=self.unsigned)
        if bool(self.truncated) or self.unsigned:
            return rest
        # A remainder whose sign differs from the divisor's is one divisor away from the floored remainder.
        astray = (rest ^ rhs).less(0) & (rest.equals(0) ^ 1) & (rhs.equals(0) ^ 1)
        return astray.choose(rest + rhs, rest)


@irdl_op_definition
class PowOp(OperandPairOp):
    """y = lhs ^ rhs.

    Floats are computed in f64 and rounded once. Integers wrap around: for exponents above 63 only the parity of the
    exponent counts. For negative exponents the integer power is rounded toward zero, and 0 to a negative power is 0.

    The integer form is a table of all pairs of bytes. Wider data require one constant exponent, or one constant base.
    """

    name = "nn.pow"

    JUMPS: ClassVar[bool] = True

    ELEMENTS: ClassVar[Elements] = Elements.NUMBERS | Elements.QUANTIZED

    INTEGER_FORM: ClassVar[tuple[str, ...]] = NARROW

    traits = traits_def(FreeScale())

    def check_integer_form(self) -> None:
        if self.has_words() and self.one_number() is None:
            need = "powers of two computed operands, or with several exponents, have an integer form of 8 bits only"
            raise UnsupportedError(need, code="precision")

    def formula(self, *operands: N) -> N:
        base, exponent = operands
        if base.is_float:
            return power(base.to(F64), exponent.to(F64)).to(base.dtype)
        beyond = exponent.same(63).less(exponent, unsigned=True)  # true for negative exponents too
        rest = beyond.choose((exponent & 1) + 62, exponent)
        y, square = base.same(1), base
        for _ in range(6):
            y = (rest & 1).equals(0).choose(y, y * square)
            square, rest = square * square, rest >> 1
        if self.unsigned:
            return y
        fraction = exponent.less(0) & (base.equals(1) ^ 1) & (base.equals(-1) ^ 1)
        return fraction.choose(0, y)


@irdl_op_definition
class SquaredDifferenceOp(ArithmeticOp):
    """y = (lhs − rhs)²; each float step is rounded separately, integers wrap around."""

    name = "nn.squared_difference"
    INTEGER_FORM: ClassVar[tuple[str, ...]] = BYTES

    def formula(self, *operands: N) -> N:
        difference = operands[0] - operands[1]
        return difference * difference


class ExtremumOp(ArithmeticOp, abc.ABC):
    """A maximum or minimum of two elements.

    The integer form compares stored integers if operands and result have one quantized type. Else it is a table of all
    pairs for operands of 8 bits; wider operands are brought to the result's scale first, which keeps their order.
    """

    def chooses_integers(self) -> bool:
        """Whether stored integers can be compared directly, because operands and result have the same type."""
        return uniform(self.lhs) == uniform(self.rhs) == uniform(self.y)

    def rescales(self) -> bool:
        """Whether the integer form brings the operands to the result's scale before it compares them."""
        wide = any(uniform(value).storage_width > 8 for value in (self.lhs, self.rhs))
        return wide and not self.chooses_integers()

    def ratios(self, scales: Scales) -> npt.NDArray[Any]:
        if not self.rescales():
            return super().ratios(scales)
        return np.concatenate([scales(self.lhs), scales(self.rhs)]) / scales(self.y)


@irdl_op_definition
class MaximumOp(ExtremumOp):
    """The greater of the two elements; NaN where either is NaN."""

    name = "nn.maximum"

    def formula(self, *operands: N) -> N:
        return operands[0].maximum(operands[1], unsigned=self.unsigned)


@irdl_op_definition
class MinimumOp(ExtremumOp):
    """The lesser of the two elements; NaN where either is NaN."""

    name = "nn.minimum"

    def formula(self, *operands: N) -> N:
        return operands[0].minimum(operands[1], unsigned=self.unsigned)


@irdl_op_definition
class PReluOp(ArithmeticOp):
    """y = lhs where it is not negative, else lhs · rhs: a leaky ReLU whose slopes are a tensor."""

    name = "nn.prelu"

    def formula(self, *operands: N) -> N:
        x, slope = operands
        return x.less(0, unsigned=self.unsigned).choose(x * slope, x)

    def ratios(self, scales: Scales) -> npt.NDArray[Any]:
        if not self.has_words():
            return super().ratios(scales)
        x, slope, result = scales(self.lhs), scales(self.rhs), scales(self.y)
        return np.concatenate([x / result, x * slope / result])

    def sums(self) -> Sums:
        return product_of(self) if self.has_words() else super().sums()


# ---------------------------------------------------------------------------------------------------------------
# Comparisons, tests for NaN and infinity, and the selection between two tensors by a condition.


class ComparisonOp(OperandPairOp, abc.ABC):
    """A comparison of two elements, as i1; false if either is NaN.

    The integer form compares stored integers of one quantized type directly. Integers of two types are compared by
    tables, which hold the place of each dequantized number in the order of the numbers of both types.
    """

    ELEMENTS: ClassVar[Elements] = Elements.NUMBERS | Elements.QUANTIZED

    INTEGER_FORM: ClassVar[tuple[str, ...]] = NARROW

    YIELDS: ClassVar[Attribute | None] = i1


@irdl_op_definition
class EqualOp(ComparisonOp):
    """lhs = rhs."""

    name = "nn.equal"

    ELEMENTS: ClassVar[Elements] = Elements.PLAIN | Elements.QUANTIZED

    def formula(self, *operands: N) -> N:
        return operands[0].equals(operands[1])


@irdl_op_definition
class LessOp(ComparisonOp):
    """lhs < rhs."""

    name = "nn.less"

    def formula(self, *operands: N) -> N:
        return operands[0].less(operands[1], unsigned=self.unsigned)


@irdl_op_definition
class LessEqualOp(ComparisonOp):
    """lhs ≤ rhs."""

    name = "nn.less_equal"

    def formula(self, *operands: N) -> N:
        return operands[0].less_equal(operands[1], unsigned=self.unsigned)


class PredicateOp(UnaryOp, abc.ABC):
    """Whether a float has a property that no finite number has, as i1; false for all stored integers."""

    ELEMENTS: ClassVar[Elements] = Elements.FLOATS | Elements.QUANTIZED

    INTEGER_FORM: ClassVar[tuple[str, ...]] = ALL_STORAGES

    YIELDS: ClassVar[Attribute | None] = i1


@irdl_op_definition
class IsNaNOp(PredicateOp):
    """Whether x is not a number."""

    name = "nn.is_nan"

    def formula(self, *operands: N) -> N:
        return operands[0].is_nan()


@irdl_op_definition
class IsInfOp(PredicateOp):
    """Whether x is an infinity: +∞ if `positive` is set, −∞ if `negative` is set.

    (C2) `positive` or `negative` is set
    """

    name = "nn.is_inf"
    negative = prop_def(BoolAttr, default_value=BoolAttr.from_bool(True))
    positive = prop_def(BoolAttr, default_value=BoolAttr.from_bool(True))

    def formula(self, *operands: N) -> N:
        (x,) = operands
        above, below = x.equals(math.inf), x.equals(-math.inf)
        if bool(self.positive) and bool(self.negative):
            return above | below
        return above if bool(self.positive) else below

    def verify_(self) -> None:
        super().verify_()
        if not (bool(self.positive) or bool(self.negative)):  # C2
            raise VerifyException(f"'{self.name}' must look for infinities of some sign, got neither")


@irdl_op_definition
class WhereOp(PointwiseOp):
    """y = lhs where the condition holds, else rhs; the integer form chooses between stored integers of one type.

    (C2) the condition is i1
    """

    name = "nn.where"
    condition = operand_def(TensorType)
    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    y = result_def(TensorType)

    ELEMENTS: ClassVar[Elements] = Elements.PLAIN | Elements.QUANTIZED

    INTEGER_FORM: ClassVar[tuple[str, ...]] = ALL_STORAGES

    traits = traits_def(SameScale())

    assembly_format = (
        "$condition `,` $lhs `,` $rhs attr-dict `:` type($condition) `,` type($lhs) `,` type($rhs) `->` type($y)"
    )

    def data_operands(self) -> Sequence[SSAValue]:
        return (self.lhs, self.rhs)

    def formula(self, *operands: N) -> N:
        condition, lhs, rhs = operands
        return condition.choose(lhs, rhs)

    def verify_(self) -> None:
        super().verify_()
        if element_of(self.condition) != i1:  # C2
            raise VerifyException(f"'{self.name}' needs a condition of i1, got {element_of(self.condition)}")
