"""Comparisons, tests for NaN and infinity, and the selection between two tensors by a condition."""

import abc
import math
from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import BoolAttr, TensorType, i1
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import ParsePropInAttrDict, irdl_op_definition, operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.nn.base import Elements
from qmlir.dialects.nn.pointwise import OperandPairOp, PointwiseOp, UnaryOp
from qmlir.ir.interfaces import element_of
from qmlir.numerics.elementary.lanes import N


class ComparisonOp(OperandPairOp, abc.ABC):
    """A comparison of two elements, as i1; false if either is NaN."""

    ELEMENTS: ClassVar[Elements] = Elements.NUMBERS

    def result_element(self, data: Attribute) -> Attribute:
        return i1


@irdl_op_definition
class EqualOp(ComparisonOp):
    """lhs = rhs."""

    name = "nn.equal"

    ELEMENTS: ClassVar[Elements] = Elements.PLAIN

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
    """Whether a float has a property, as i1."""

    ELEMENTS: ClassVar[Elements] = Elements.FLOATS

    def result_element(self, data: Attribute) -> Attribute:
        return i1


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
    """y = lhs where the condition holds, else rhs.

    (C2) the condition is i1
    """

    name = "nn.where"
    condition = operand_def(TensorType)
    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    y = result_def(TensorType)

    ELEMENTS: ClassVar[Elements] = Elements.PLAIN

    irdl_options = (ParsePropInAttrDict(),)
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
