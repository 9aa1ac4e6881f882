"""Comparisons of stored integers as LiteRT's kernels make them: of what each stands for in steps of 1/256.

Both sides are moved left by 8 bits, multiplied by their scale and rounded as under `double`, so numbers less than a
step apart may be equal, and the greater one of two may be the other. A scale of 1 and more has a multiplier whose last
shift is to the left, by n bits, which the kernels take for one to the right by −n: processors that shift modulo 32,
such as those of x86-64, leave the sign alone of a number, 1 or −1. Integers of 16 bits the kernels order as they are
stored, but see in these steps whether they are equal.
"""

from collections.abc import Sequence

import numpy as np
from xdsl.ir import Operation, SSAValue

from qmlir.dialects import nn, qint
from qmlir.dialects.interfaces import Array
from qmlir.dialects.nn.comparison import ComparisonOp
from qmlir.dialects.quant import numerics
from qmlir.dialects.quant.types import UniformType
from qmlir.dialects.weights import WeightsAttr

STEP_BITS = 8
"""Bits behind the point of the numbers that are compared."""


def lower_comparison(op: ComparisonOp, types: Sequence[UniformType], operands: Sequence[SSAValue]) -> list[Operation]:
    """The comparison of the numbers that tables list for stored integers; of the integers where it is the same.

    Args:
        op: The comparison.
        types: What the operands are stored as, signed.
        operands: The stored integers.
    """
    if types[0].storage_width == 16 and not isinstance(op, nn.EqualOp):
        return [type(op).make(operands)]
    left, right = (compared_numbers(t) for t in types)
    if np.array_equal(left, right) and (np.diff(left) > 0).all():
        return [type(op).make(operands)]
    lookups = [
        qint.LookupOp.make([x], {"table": WeightsAttr(table)}) for x, table in zip(operands, (left, right), strict=True)
    ]
    return [*lookups, type(op).make([each.y for each in lookups])]


def compared_numbers(type: UniformType) -> Array:
    """What LiteRT compares for each integer of a signed storage, in steps of 1/256; int32, [2^width]."""
    half = 1 << type.storage_width - 1
    moved = (np.arange(-half, half) - type.zero_point) << STEP_BITS
    multiplier, shift = numerics.quantize_multiplier(float(np.float32(type.scale)))
    high = numerics.requantize(moved, multiplier, min(shift, 0), "double")
    if shift > 0:
        high = (high >> 32 - shift) + (high >= 0)
    return high.astype(np.int32)
