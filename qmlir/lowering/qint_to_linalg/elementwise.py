"""Export of elementwise operations and of lookup tables."""

from xdsl.dialects import tensor
from xdsl.dialects.builtin import f32, f64, i16, i32, i64
from xdsl.ir import SSAValue

from qmlir.codegen.value import INDEX, Value
from qmlir.dialects.qint.elementwise import (
    AddOp,
    DivOp,
    FloatAddOp,
    InterpolatedLookupOp,
    LookupOp,
    MulOp,
    PairLookupOp,
    RescaledAddOp,
)
from qmlir.ir.interfaces import tensor_type
from qmlir.lowering.qint_to_linalg.contraction import centred
from qmlir.lowering.qint_to_linalg.requantize import ROUNDINGS, narrowed
from qmlir.lowering.qint_to_linalg.structured import TensorCode
from qmlir.numerics.tables import SEGMENT_BITS

# ---------------------------------------------------------------------------------------------------------------
# Export of integer sums, products and quotients of two tensors.


def _add(code: TensorCode, op: AddOp, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
    m_lhs, m_rhs = op.multipliers.get_values()
    shift = op.shift.value.data

    def formula(lhs: Value, rhs: Value) -> Value:
        a, b = lhs.to(i64) - op.lhs_zero_point.value.data, rhs.to(i64) - op.rhs_zero_point.value.data
        return narrowed(op, (a * m_lhs + b * m_rhs + (1 << shift - 1)) >> shift)

    return code.elementwise([lhs, rhs], tensor_type(op.y), formula)


def _rescaled_add(code: TensorCode, op: RescaledAddOp, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
    operand, total = (ROUNDINGS[contract.data] for contract in (op.operand_contract, op.contract))
    factors = list(zip(op.multipliers.get_values(), op.shifts.get_values(), strict=True))

    def scaled(x: Value, zero_point: int, factor: tuple[int, int]) -> Value:
        moved = (x.to(i64) - zero_point) << op.left.value.data
        return operand(moved, moved.same(factor[0]), moved.same(factor[1]))

    def formula(lhs: Value, rhs: Value) -> Value:
        a, b = (scaled(x, z, f) for x, z, f in zip((lhs, rhs), op.zero_points(), factors[:2], strict=True))
        both = a - b if bool(op.subtract) else a + b
        return narrowed(op, total(both, both.same(factors[2][0]), both.same(factors[2][1])))

    return code.elementwise([lhs, rhs], tensor_type(op.y), formula)


def _float_add(code: TensorCode, op: FloatAddOp, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
    """Writes products and sums in f64, which holds the products exactly; each sum is rounded to f32."""
    left, right, constant = op.numbers()

    def formula(lhs: Value, rhs: Value) -> Value:
        a, b = ((x.to(i64) + op.offset.value.data).to(f64) for x in (lhs, rhs))
        inner = (b * right + constant).to(f32)
        return narrowed(op, (a * left + inner.to(f64)).to(f32).round_even().to(i64))

    return code.elementwise([lhs, rhs], tensor_type(op.y), formula)


def _mul(code: TensorCode, op: MulOp, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
    zero_points = op.lhs_zero_point.value.data, op.rhs_zero_point.value.data

    def formula(lhs: Value, rhs: Value) -> Value:
        return centred(lhs, zero_points[0]) * centred(rhs, zero_points[1])

    return code.elementwise([lhs, rhs], tensor_type(op.acc), formula)


def _div(code: TensorCode, op: DivOp, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
    def formula(lhs: Value, rhs: Value) -> Value:
        return narrowed(op, op.quotient(lhs.to(i64), rhs.to(i64)))

    return code.elementwise([lhs, rhs], tensor_type(op.y), formula)


# ---------------------------------------------------------------------------------------------------------------
# Export of lookup tables.


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


RULES = {
    AddOp: _add,
    RescaledAddOp: _rescaled_add,
    FloatAddOp: _float_add,
    MulOp: _mul,
    DivOp: _div,
    PairLookupOp: _pair_lookup,
    LookupOp: _lookup,
    InterpolatedLookupOp: _interpolated_lookup,
}
