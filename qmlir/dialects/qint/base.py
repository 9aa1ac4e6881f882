"""What all qint operations share: integers only, and exact.

The waist of the compiler: reference, CPU and simulator agree here bit for bit. An accumulator is i32, or of a
contraction i64; whoever builds an operation with one has proven that it cannot overflow (see legality.py), so sums may
be taken in any order.
"""

import abc
from collections.abc import Sequence
from typing import ClassVar, cast

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, IntegerType, i32
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.interfaces import TensorOp, element_of

ZERO = IntegerAttr(0, i32)


def int32(value: int) -> IntegerAttr[IntegerType]:
    """An i32 property value."""
    return IntegerAttr(value, i32)


def int32s(values: Sequence[int]) -> DenseArrayBase[IntegerType]:
    """`array<i32: …>` from Python ints."""
    return DenseArrayBase.from_list(i32, list(values))


def width_of(value: SSAValue) -> int:
    """The bits of an integer tensor's elements."""
    return cast(IntegerType, element_of(value)).width.data


def largest_difference(value: SSAValue, zero_point: int) -> int:
    """The largest |x − zero_point| for an element x of an integer tensor."""
    half = 1 << width_of(value) - 1
    return max(half + zero_point, half - 1 - zero_point)


class QIntOp(TensorOp, abc.ABC):
    """An operation on integers.

    (Q1) every operand and result is a tensor of signless integers, which are read as signed
    """

    def verify_(self) -> None:
        # First, so that what comes after may take it for granted.
        for value in (*self.operands, *self.results):
            element = element_of(value)
            if not isinstance(element, IntegerType) or element != IntegerType(width_of(value)):  # Q1
                raise VerifyException(f"'{self.name}' computes on signless integers only, got {value.type}")
        super().verify_()


class AccumulatingOp(QIntOp, abc.ABC):
    """An operation whose result is an accumulator: exact sums of products of narrow integers.

    (Q2) what is multiplied or summed has at most 16 bits
    """

    ACCUMULATORS: ClassVar[Sequence[Attribute]] = (i32,)
    """What the result's elements may be; the first where nobody asks for another."""

    def infer_elements(self) -> Sequence[Attribute | None]:
        for operand in self.narrow_operands():
            if not isinstance(element_of(operand), IntegerType) or width_of(operand) > 16:  # Q2
                raise VerifyException(
                    f"'{self.name}' multiplies integers of at most 16 bits, got {element_of(operand)}"
                )
        return [self.accumulator()]

    def accumulator(self) -> Attribute:
        """The type of the sums."""
        own = element_of(self.results[0])
        return own if own in self.ACCUMULATORS else self.ACCUMULATORS[0]

    def narrow_operands(self) -> Sequence[SSAValue]:
        """The operands that are multiplied or summed: all but a bias."""
        return self.operands
