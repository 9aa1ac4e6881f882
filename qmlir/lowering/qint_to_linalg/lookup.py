"""Export of lookup tables."""

from xdsl.dialects import tensor
from xdsl.dialects.builtin import i16, i32
from xdsl.ir import SSAValue

from qmlir.codegen.value import INDEX, Value
from qmlir.dialects.qint.lookup import InterpolatedLookupOp, LookupOp, PairLookupOp
from qmlir.ir.interfaces import tensor_type
from qmlir.lowering.qint_to_linalg.structured import TensorCode
from qmlir.numerics.tables import SEGMENT_BITS


def _lookup(code: TensorCode, op: LookupOp, x: SSAValue) -> SSAValue:
    table = code.constant(op.table.array)
    type = tensor_type(op.y)

    def formula(x: Value) -> Value:
        return x.code.emit(tensor.ExtractOp, [table, (x.to(INDEX) + op.half).ssa], type.element_type)

    return code.elementwise([x], type, formula)


def _interpolated_lookup(code: TensorCode, op: InterpolatedLookupOp, x: SSAValue) -> SSAValue:
    table = code.constant(op.table.array)

    def formula(x: Value) -> Value:
        place = x.to(i32) + (1 << 15)
        knot, offset = (place >> SEGMENT_BITS).to(INDEX), place & (1 << SEGMENT_BITS) - 1
        base, following = (x.code.emit(tensor.ExtractOp, [table, at.ssa], i16).to(i32) for at in (knot, knot + 1))
        return (base + ((following - base) * offset + (1 << SEGMENT_BITS - 1) >> SEGMENT_BITS)).to(i16)

    return code.elementwise([x], tensor_type(op.y), formula)


def _pair_lookup(code: TensorCode, op: PairLookupOp, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
    table = code.constant(op.table.array)
    type = tensor_type(op.y)

    def formula(lhs: Value, rhs: Value) -> Value:
        place = [(x.to(INDEX) + 128).ssa for x in (lhs, rhs)]
        return lhs.code.emit(tensor.ExtractOp, [table, *place], type.element_type)

    return code.elementwise([lhs, rhs], type, formula)


RULES = {PairLookupOp: _pair_lookup, LookupOp: _lookup, InterpolatedLookupOp: _interpolated_lookup}
