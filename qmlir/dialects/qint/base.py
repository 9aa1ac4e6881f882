"""What all qint operations share: integers only, and exact.

The waist of the compiler: reference, CPU and simulator agree here bit for bit. An accumulator is i32; whoever
builds an operation with one has proven that it cannot overflow (see lowering/nn_to_qint), so sums may be taken in
any order.
"""

import abc
from collections.abc import Sequence

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, IntegerType, TensorType, i32
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


class QIntOp(TensorOp, abc.ABC):
    """An operation on integers.

    (Q1) every operand and result is a tensor of integers
    """

    def verify_(self) -> None:
        for value in (*self.operands, *self.results):
            if not isinstance(value.type, TensorType) or not isinstance(value.type.element_type, IntegerType):  # Q1
                raise VerifyException(f"'{self.name}' computes on integers only, got {value.type}")
        super().verify_()


class AccumulatingOp(QIntOp, abc.ABC):
    """An operation whose results are i32 accumulators: exact sums of products of narrow integers."""

    def infer_elements(self) -> Sequence[Attribute | None]:
        for operand in self.narrow_operands():
            element = element_of(operand)
            if not isinstance(element, IntegerType) or element.width.data > 16:
                raise VerifyException(f"'{self.name}' multiplies integers of at most 16 bits, got {element}")
        return [i32]

    def narrow_operands(self) -> Sequence[SSAValue]:
        """The operands that are multiplied or summed: all but a bias."""
        return self.operands
