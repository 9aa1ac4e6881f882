"""Operations on bits: of integers bit by bit, of i1 the logical ones."""

import abc
from typing import ClassVar

from xdsl.dialects.builtin import i1
from xdsl.irdl import irdl_op_definition

from qmlir.dialects.elementary.lanes import N
from qmlir.dialects.interfaces import element_of
from qmlir.dialects.loops import is_integer
from qmlir.dialects.nn.base import Elements
from qmlir.dialects.nn.pointwise import OperandPairOp, UnaryOp


class BitwiseOp(OperandPairOp, abc.ABC):
    """An operation on the bits of two operands."""

    ELEMENTS: ClassVar[Elements] = Elements.INTEGERS | Elements.BOOL


@irdl_op_definition
class AndOp(BitwiseOp):
    """The bits that both have."""

    name = "nn.and"

    def formula(self, *operands: N) -> N:
        return operands[0] & operands[1]


@irdl_op_definition
class OrOp(BitwiseOp):
    """The bits that either has."""

    name = "nn.or"

    def formula(self, *operands: N) -> N:
        return operands[0] | operands[1]


@irdl_op_definition
class XorOp(BitwiseOp):
    """The bits that one of both has."""

    name = "nn.xor"

    def formula(self, *operands: N) -> N:
        return operands[0] ^ operands[1]


@irdl_op_definition
class NotOp(UnaryOp):
    """The bits that x lacks."""

    name = "nn.not"

    ELEMENTS: ClassVar[Elements] = Elements.INTEGERS | Elements.BOOL

    def formula(self, *operands: N) -> N:
        (x,) = operands
        return x ^ (1 if element_of(self.x) == i1 else -1)


class ShiftOp(OperandPairOp, abc.ABC):
    """lhs moved by rhs bits; counts that are negative or no less than the width move every bit out."""

    ELEMENTS: ClassVar[Elements] = Elements.INTEGERS

    def inside(self, count: N) -> N:
        """Whether a count is less than the width, and not negative."""
        element = element_of(self.lhs)
        assert is_integer(element)
        return count.less(element.width.data, unsigned=True)


@irdl_op_definition
class ShiftLeftOp(ShiftOp):
    """Toward the leading bits, zeros brought in: times 2^rhs."""

    name = "nn.shift_left"

    def formula(self, *operands: N) -> N:
        lhs, count = operands
        inside = self.inside(count)
        return inside.choose(lhs << inside.choose(count, count.same(0)), lhs.same(0))


@irdl_op_definition
class ShiftRightOp(ShiftOp):
    """Toward the trailing bits, zeros or copies of the sign brought in: the quotient by 2^rhs rounded down."""

    name = "nn.shift_right"

    def formula(self, *operands: N) -> N:
        lhs, count = operands
        inside = self.inside(count)
        moved = inside.choose(count, count.same(0))
        if self.unsigned:
            return inside.choose(lhs.logical_shift(moved), lhs.same(0))
        return inside.choose(lhs >> moved, lhs.less(0).choose(-1, lhs.same(0)))
