"""The base classes of all qint operations, which compute on integers only, and exactly.

The reference, the CPU code and the simulator agree bit for bit on this level. An accumulator is i32, or in a
contraction i64. Code that builds an operation with an accumulator must have proven that the accumulator cannot overflow
(see legality.py), so sums may run in any order.
"""

import abc
from collections.abc import Sequence
from typing import ClassVar, cast

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, IntegerType, i32
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.exceptions import VerifyException

from qmlir.ir.interfaces import TensorOp, element_of

ZERO = IntegerAttr(0, i32)


def int32(value: int) -> IntegerAttr[IntegerType]:
    """An i32 property value."""
    return IntegerAttr(value, i32)


def int32s(values: Sequence[int]) -> DenseArrayBase[IntegerType]:
    """Python integers as an `array<i32: …>` property value."""
    return DenseArrayBase.from_list(i32, list(values))


def width_of(value: SSAValue) -> int:
    """The width in bits of an integer tensor's elements."""
    return cast(IntegerType, element_of(value)).width.data


def largest_difference(value: SSAValue, zero_point: int) -> int:
    """The largest |x − zero_point| over all values x of an integer tensor's element type."""
    half = 1 << width_of(value) - 1
    return max(half + zero_point, half - 1 - zero_point)


class QIntOp(TensorOp, abc.ABC):
    """An operation on integers.

    (Q1) every operand and result is a tensor of signless integers, which the operation reads as signed
    """

    def verify_(self) -> None:
        # This check comes first: the checks after it rely on integer elements.
        for value in (*self.operands, *self.results):
            element = element_of(value)
            if not isinstance(element, IntegerType) or element != IntegerType(width_of(value)):  # Q1
                raise VerifyException(f"'{self.name}' computes on signless integers only, got {value.type}")
        super().verify_()


class AccumulatingOp(QIntOp, abc.ABC):
    """An operation whose result is an accumulator: exact sums of products of narrow integers.

    (Q2) the operands that are multiplied or summed have at most 16 bits
    """

    ACCUMULATORS: ClassVar[Sequence[Attribute]] = (i32,)
    """The element types that the result may have; the first is the default."""

    def infer_elements(self) -> Sequence[Attribute | None]:
        for operand in self.narrow_operands():
            if not isinstance(element_of(operand), IntegerType) or width_of(operand) > 16:  # Q2
                raise VerifyException(
                    f"'{self.name}' multiplies integers of at most 16 bits, got {element_of(operand)}"
                )
        return [self.accumulator()]

    def accumulator(self) -> Attribute:
        """The element type of the accumulators: the result's own if it is allowed, else the default."""
        own = element_of(self.results[0])
        return own if own in self.ACCUMULATORS else self.ACCUMULATORS[0]

    def narrow_operands(self) -> Sequence[SSAValue]:
        """The operands that are multiplied or summed: all operands except a bias."""
        return self.operands
