"""Export of table lookups: `tosa.table` for i8 to i8 and for interpolated i16 tables, a gather for all others."""

import numpy as np
from xdsl.dialects.builtin import i16, i32
from xdsl.ir import SSAValue

from qmlir.dialects.qint.lookup import InterpolatedLookupOp, LookupOp, PairLookupOp
from qmlir.ir.interfaces import element_of, shape_of
from qmlir.ir.upstream.tosa.lookup import TableOp
from qmlir.lowering.qint_to_tosa.tensors import ADD, TosaCode, is_byte
from qmlir.numerics.tables import SEGMENT_BITS


def _lookup(code: TosaCode, op: LookupOp, x: SSAValue) -> SSAValue:
    if is_byte(x) and is_byte(op.y):
        return code.op(TableOp, [x, code.constant(op.table.array)], element_of(op.y), shape_of(x))
    return code.looked_up(code.table(op.table.array), code.plus(code.cast(x, i32), op.half))


def _interpolated_lookup(code: TosaCode, op: InterpolatedLookupOp, x: SSAValue) -> SSAValue:
    """Writes an interpolated lookup; the results of `tosa.table` have seven fractional bits, which are rounded off."""
    knots = op.table.array
    steepest = int(np.abs(np.diff(knots.astype(np.int64))).max())
    if steepest >= 1 << 15:
        code.refuse("needs neighbouring entries less than 2^15 apart in tosa", got=str(steepest))
    fine = code.op(TableOp, [x, code.constant(knots)], i32, shape_of(x))
    return code.cast(code.shifted(fine, SEGMENT_BITS, rounded=True), i16)


def _pair_lookup(code: TosaCode, op: PairLookupOp, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
    row, column = (code.plus(code.cast(x, i32), 128) for x in (lhs, rhs))
    place = code.combine(ADD, code.product(row, code.number(256, row)), column)
    return code.looked_up(code.table(op.table.array.reshape(-1)), place)


RULES = {PairLookupOp: _pair_lookup, LookupOp: _lookup, InterpolatedLookupOp: _interpolated_lookup}
