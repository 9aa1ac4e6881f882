"""Keeps the whole exponents of powers whole: their scale is a power of two.

A power of a negative number has a value for whole exponents only, and its sign depends on whether the exponent is even.
Under a scale such as 3/127, the exponents 1 and 2 would become 0.992 and 2.008, and powers of negative numbers would be
lost. Under a scale of 1, 1/2, 1/4 and so on, stored integers stand for whole exponents exactly.
"""

import numpy as np
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import SSAValue

from qmlir.dialects.nn import CastOp, CeilOp, ConstantOp, FloorOp, PowOp, RoundOp
from qmlir.dialects.nn.movement import MovementOp
from qmlir.dialects.nn.quantizable import data_operands
from qmlir.dialects.quant.types import UniformType
from qmlir.ir.interfaces import element_of
from qmlir.ir.traversal import reached
from qmlir.numerics.schemas import power_of_two_above

WHOLE = (FloorOp, CeilOp, RoundOp)
"""Operations whose results are whole numbers."""


def is_whole_exponent(value: SSAValue) -> bool:
    """Whether a tensor holds the exponents of a power, and is known to hold whole numbers other than 0.

    Such tensors are constants with a whole number, roundings and conversions of integers, and what is moved from them.
    """
    if not any(isinstance(u.operation, PowOp) and u.operation.rhs is value for u in value.uses):
        return False

    def moved(value: SSAValue) -> list[SSAValue]:
        return list(data_operands(value.owner)) if isinstance(value.owner, MovementOp) else []

    return any(_is_whole(source) for source in reached([value], moved))


def _is_whole(value: SSAValue) -> bool:
    match value.owner:
        case ConstantOp():
            array = value.owner.value.array
            return bool(((array == np.rint(array)) & (array != 0)).any())
        case CastOp():
            return isinstance(element_of(value.owner.x), IntegerType)
        case _:
            return isinstance(value.owner, WHOLE)


def with_whole_numbers(type: UniformType) -> UniformType:
    """The type with its scale rounded up to a power of two, so that it stores whole numbers exactly.

    The type stays as it is if its scale is above 1: then it has no integers for all whole numbers of its range.
    """
    scale = power_of_two_above(type.scale)
    return UniformType.per_tensor(type.storage, scale, type.zero_point) if scale <= 1 else type
