"""Bitwise operations and shifts of integers; on i1 the former are the logical operations."""

import abc
from typing import ClassVar

from xdsl.dialects.builtin import i1
from xdsl.irdl import irdl_op_definition

from qmlir.dialects.nn.base import Elements
from qmlir.dialects.nn.elementwise import OperandPairOp, UnaryOp
from qmlir.ir.interfaces import element_of
from qmlir.ir.types import is_integer
from qmlir.numerics.elementary.lanes import N

COMPUTES_ON_BITS = "it computes on bits"


class BitwiseOp(OperandPairOp, abc.ABC):
    """A bitwise operation on two operands."""

    ELEMENTS: ClassVar[Elements] = Elements.INTEGERS | Elements.BOOL

    WHY_FLOAT: ClassVar[str] = COMPUTES_ON_BITS


@irdl_op_definition
class AndOp(BitwiseOp):
    """Bitwise (on i1: logical) and of lhs and rhs."""

    name = "nn.and"

    def formula(self, *operands: N) -> N:
        return operands[0] & operands[1]


@irdl_op_definition
class OrOp(BitwiseOp):
    """Bitwise (on i1: logical) or of lhs and rhs."""

    name = "nn.or"

    def formula(self, *operands: N) -> N:
        return operands[0] | operands[1]


@irdl_op_definition
class XorOp(BitwiseOp):
    """Bitwise (on i1: logical) exclusive or of lhs and rhs."""

    name = "nn.xor"

    def formula(self, *operands: N) -> N:
        return operands[0] ^ operands[1]


@irdl_op_definition
class NotOp(UnaryOp):
    """Bitwise (on i1: logical) complement of x."""

    name = "nn.not"

    ELEMENTS: ClassVar[Elements] = Elements.INTEGERS | Elements.BOOL

    WHY_FLOAT: ClassVar[str] = COMPUTES_ON_BITS

    def formula(self, *operands: N) -> N:
        (x,) = operands
        return x ^ (1 if element_of(self.x) == i1 else -1)


class ShiftOp(OperandPairOp, abc.ABC):
    """lhs shifted by rhs bits; a count that is negative or at least the type's width shifts every bit out."""

    ELEMENTS: ClassVar[Elements] = Elements.INTEGERS

    WHY_FLOAT: ClassVar[str] = COMPUTES_ON_BITS

    def inside(self, count: N) -> N:
        """Whether a shift count is less than the type's width, and not negative."""
        element = element_of(self.lhs)
        assert is_integer(element)
        return count.less(element.width.data, unsigned=True)


@irdl_op_definition
class ShiftLeftOp(ShiftOp):
    """lhs · 2^rhs: shifts toward the leading bits and fills with zeros."""

    name = "nn.shift_left"

    def formula(self, *operands: N) -> N:
        lhs, count = operands
        inside = self.inside(count)
        return inside.choose(lhs << inside.choose(count, count.same(0)), lhs.same(0))


@irdl_op_definition
class ShiftRightOp(ShiftOp):
    """lhs / 2^rhs rounded down: fills with zeros for unsigned integers, with the sign bit for signed integers."""

    name = "nn.shift_right"

    def formula(self, *operands: N) -> N:
        lhs, count = operands
        inside = self.inside(count)
        moved = inside.choose(count, count.same(0))
        if self.unsigned:
            return inside.choose(lhs.logical_shift(moved), lhs.same(0))
        return inside.choose(lhs >> moved, lhs.less(0).choose(-1, lhs.same(0)))
