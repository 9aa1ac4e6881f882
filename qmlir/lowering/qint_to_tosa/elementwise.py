"""Export of elementwise operations and of lookup tables."""

from math import prod

import numpy as np
from xdsl.dialects.builtin import i16, i32
from xdsl.ir import SSAValue

from qmlir.dialects.qint.elementwise import (
    AddOp,
    InterpolatedLookupOp,
    LookupOp,
    MulOp,
    PairLookupOp,
)
from qmlir.ir.interfaces import element_of, shape_of
from qmlir.ir.upstream.tosa.elementwise import TableOp
from qmlir.lowering.qint_to_tosa.requantize import narrowed
from qmlir.lowering.qint_to_tosa.tensors import ADD, TosaCode, is_byte
from qmlir.numerics.tables import SEGMENT_BITS

# ---------------------------------------------------------------------------------------------------------------
# Export of integer sums and products of two tensors, in i32.
#
# A sum (a·m + b·n + 2^(s−1)) >> s has 40 bits and more before the shift. Both multipliers are therefore split at bit k,
# m = m'·2^k + m", so that the sums of the high parts H and of the low parts L fit in i32. As floors nest,
#
#     (H·2^k + L + 2^(s−1)) >> s  =  (H + (L >> k) + 2^(s−k−1)) >> (s−k)        for 0 ≤ k < s
#
# exactly. The last shift rounds half up.


MOST = (1 << 31) - 1
LARGEST_SHIFT = 31
"""The largest shift of `tosa.arithmetic_right_shift`, in bits."""


def less_zero_point(code: TosaCode, x: SSAValue, zero_point: int) -> SSAValue:
    """An integer minus its zero point, in i32."""
    return code.minus(code.cast(x, i32), zero_point)


def _cut(op: AddOp) -> int | None:
    """The bit k at which the multipliers may be split; None if no split fits i32."""
    shift = op.shift.value.data
    largest = op.differences()
    multipliers = op.multipliers.get_values()
    for k in range(max(shift - LARGEST_SHIFT, 0), min(shift, LARGEST_SHIFT)):
        low = sum(d * (m & (1 << k) - 1) for d, m in zip(largest, multipliers, strict=True))
        high = sum(d * abs(m >> k) for d, m in zip(largest, multipliers, strict=True))
        if low <= MOST and high + (low >> k) < MOST:
            return k
    return None


def _weighted(code: TosaCode, operands: list[SSAValue], multipliers: list[int]) -> SSAValue:
    """Σ operand · multiplier."""
    terms = [code.product(x, code.number(m, x)) for x, m in zip(operands, multipliers, strict=True)]
    return code.combine(ADD, *terms)


def _add(code: TosaCode, op: AddOp, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
    k, multipliers = _cut(op), op.multipliers.get_values()
    if k is None:
        code.refuse(
            "has no exact sum in 32 bits, which is what tosa adds in",
            got=f"{op.lhs.type} and {op.rhs.type} with multipliers {list(multipliers)} and shift {op.shift.value.data}",
            remedy="quantize both operands with precision=int8",
        )
    operands = [less_zero_point(code, x, z) for x, z in zip((lhs, rhs), op.zero_points(), strict=True)]
    total = _weighted(code, operands, [m >> k for m in multipliers])
    low = [m & (1 << k) - 1 for m in multipliers]
    if any(low):
        total = code.combine(ADD, total, code.shifted(_weighted(code, operands, low), k))
    return narrowed(code, op, code.shifted(total, op.shift.value.data - k, rounded=True))


def _mul(code: TosaCode, op: MulOp, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
    zero_points, largest = op.zero_points(), prod(op.differences())
    if largest > MOST:
        code.refuse(
            "needs products that 32 bits hold in tosa", got=f"up to {largest}", remedy="quantize with precision=int8"
        )
    return code.product(less_zero_point(code, lhs, zero_points[0]), less_zero_point(code, rhs, zero_points[1]))


# ---------------------------------------------------------------------------------------------------------------
# Export of table lookups: `tosa.table` for i8 to i8 and for interpolated i16 tables, a gather for all others.


def _lookup(code: TosaCode, op: LookupOp, x: SSAValue) -> SSAValue:
    if is_byte(x) and is_byte(op.y):
        return code.op(TableOp, [x, code.constant(op.table.array)], element_of(op.y), shape_of(x))
    return code.looked_up(code.table(op.table.array), code.plus(code.cast(x, i32), op.half))


def _interpolated_lookup(code: TosaCode, op: InterpolatedLookupOp, x: SSAValue) -> SSAValue:
    """Writes an interpolated lookup; the results of `tosa.table` have seven fractional bits, which are rounded off."""
    breakpoints = op.table.array
    steepest = int(np.abs(np.diff(breakpoints.astype(np.int64))).max())
    if steepest >= 1 << 15:
        code.refuse("needs neighbouring entries less than 2^15 apart in tosa", got=str(steepest))
    fine = code.op(TableOp, [x, code.constant(breakpoints)], i32, shape_of(x))
    return code.cast(code.shifted(fine, SEGMENT_BITS, rounded=True), i16)


def _pair_lookup(code: TosaCode, op: PairLookupOp, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
    row, column = (code.plus(code.cast(x, i32), 128) for x in (lhs, rhs))
    place = code.combine(ADD, code.product(row, code.number(256, row)), column)
    return code.looked_up(code.table(op.table.array.reshape(-1)), place)


RULES = {
    AddOp: _add,
    MulOp: _mul,
    PairLookupOp: _pair_lookup,
    LookupOp: _lookup,
    InterpolatedLookupOp: _interpolated_lookup,
}
