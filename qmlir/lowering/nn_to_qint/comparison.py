"""Comparisons of quantized tensors as LiteRT's kernels make them: on real values in steps of 1/256.

Each kernel shifts the zero-point-subtracted integers left by 8 bits, multiplies them by their scale and rounds them
under the `double` contract. Numbers that are less than a step apart may therefore compare as equal, and the order of
two numbers may be reversed. A scale of 1 or more has a multiplier with a left shift by n bits. The kernels execute it
as a right shift by −n; processors that take shift counts modulo 32, such as x86-64, then keep little but the sign (1 or
−1 for small n). The kernels order 16-bit integers as they are stored, but test them for equality in these steps.
"""

from collections.abc import Sequence

import numpy as np
from xdsl.ir import Operation, SSAValue

from qmlir.dialects import nn, qint
from qmlir.dialects.nn.comparison import ComparisonOp
from qmlir.dialects.quant.types import UniformType
from qmlir.ir.interfaces import Array
from qmlir.ir.weights import WeightsAttr
from qmlir.numerics import fixed_point

STEP_BITS = 8
"""Fractional bits of the numbers that are compared."""


def lower_comparison(op: ComparisonOp, types: Sequence[UniformType], operands: Sequence[SSAValue]) -> list[Operation]:
    """Lowers a comparison to a comparison of table entries, or of the stored integers where the result is the same.

    Args:
        op: The comparison.
        types: The quantized types of the operands, with signed storage.
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
    """The number that LiteRT compares for each integer of a signed storage, in steps of 1/256; int32, [2^width]."""
    half = 1 << type.storage_width - 1
    moved = (np.arange(-half, half) - type.zero_point) << STEP_BITS
    multiplier, shift = fixed_point.quantize_multiplier(float(np.float32(type.scale)))
    high = fixed_point.requantize(moved, multiplier, min(shift, 0), "double")
    if shift > 0:
        high = (high >> 32 - shift) + (high >= 0)
    return high.astype(np.int32)
