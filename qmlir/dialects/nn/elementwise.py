"""Elementwise arithmetic on two operands, whose shapes broadcast as in numpy."""

import abc
from typing import ClassVar

from xdsl.dialects.builtin import BoolAttr
from xdsl.irdl import irdl_op_definition, prop_def, traits_def

from qmlir.dialects.nn.base import Clamped, Elements
from qmlir.dialects.nn.pointwise import OperandPairOp
from qmlir.dialects.quant.rules import FreeScale
from qmlir.numerics.elementary.exponential import power
from qmlir.numerics.elementary.lanes import F64, N
from qmlir.numerics.elementary.remainder import float_remainder, floored_remainder


class BinaryOp(OperandPairOp, Clamped, abc.ABC):
    """An elementwise operation on two tensors with a fused clamp."""

    ELEMENTS: ClassVar[Elements] = Elements.NUMBERS | Elements.QUANTIZED

    traits = traits_def(FreeScale())

    @abc.abstractmethod
    def combine(self, lhs: N, rhs: N) -> N:
        """The result of the operation before the clamp."""

    def formula(self, *operands: N) -> N:
        lhs, rhs = operands
        return self.clamped(self.combine(lhs, rhs))


@irdl_op_definition
class AddOp(BinaryOp):
    """y = lhs + rhs, then the clamp."""

    name = "nn.add"

    def combine(self, lhs: N, rhs: N) -> N:
        return lhs + rhs


@irdl_op_definition
class SubOp(BinaryOp):
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


class PlainPairOp(OperandPairOp, abc.ABC):
    """An operation on two tensors without a clamp; most subclasses accept no quantized data."""

    ELEMENTS: ClassVar[Elements] = Elements.NUMBERS


@irdl_op_definition
class DivOp(PlainPairOp):
    """y = lhs / rhs; integer quotients are rounded toward zero and are 0 where the divisor is 0."""

    name = "nn.div"

    ELEMENTS: ClassVar[Elements] = Elements.NUMBERS | Elements.QUANTIZED

    traits = traits_def(FreeScale())

    def formula(self, *operands: N) -> N:
        lhs, rhs = operands
        return lhs / rhs if lhs.is_float else lhs.quotient(rhs, unsigned=self.unsigned)


@irdl_op_definition
class ModOp(PlainPairOp):
    """The exact remainder of lhs / rhs with the sign of the divisor; with `truncated`, the sign of the dividend.

    If the divisor is 0, the result is 0 for integers and NaN for floats. Where a float remainder has the wrong sign,
    the divisor is added to it, and that sum is rounded once.
    """

    name = "nn.mod"
    truncated = prop_def(BoolAttr, default_value=BoolAttr.from_bool(False))

    ELEMENTS: ClassVar[Elements] = Elements.F32 | Elements.INTEGERS

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
class PowOp(PlainPairOp):
    """y = lhs ^ rhs.

    Floats are computed in f64 and rounded once. Integers wrap around: for exponents above 63 only the parity of the
    exponent counts. For negative exponents the integer power is rounded toward zero, and 0 to a negative power is 0.
    """

    name = "nn.pow"

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
class SquaredDifferenceOp(OperandPairOp):
    """y = (lhs − rhs)²; each float step is rounded separately, integers wrap around."""

    name = "nn.squared_difference"

    ELEMENTS: ClassVar[Elements] = Elements.NUMBERS | Elements.QUANTIZED

    traits = traits_def(FreeScale())

    def formula(self, *operands: N) -> N:
        difference = operands[0] - operands[1]
        return difference * difference


class ChoosingPairOp(PlainPairOp, abc.ABC):
    """A maximum, minimum or PReLU: an operation on two tensors without a clamp that also has a quantized form."""

    ELEMENTS: ClassVar[Elements] = Elements.NUMBERS | Elements.QUANTIZED

    traits = traits_def(FreeScale())


@irdl_op_definition
class MaximumOp(ChoosingPairOp):
    """The greater of the two elements; NaN where either is NaN."""

    name = "nn.maximum"

    def formula(self, *operands: N) -> N:
        return operands[0].maximum(operands[1], unsigned=self.unsigned)


@irdl_op_definition
class MinimumOp(ChoosingPairOp):
    """The lesser of the two elements; NaN where either is NaN."""

    name = "nn.minimum"

    def formula(self, *operands: N) -> N:
        return operands[0].minimum(operands[1], unsigned=self.unsigned)


@irdl_op_definition
class PReluOp(ChoosingPairOp):
    """y = lhs where it is not negative, else lhs · rhs: a leaky ReLU whose slopes are a tensor."""

    name = "nn.prelu"

    def formula(self, *operands: N) -> N:
        x, slope = operands
        return x.less(0, unsigned=self.unsigned).choose(x * slope, x)
