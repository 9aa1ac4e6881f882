"""Lowering of integer sums, products and quotients of two tensors."""

from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import f32, f64, i32, i64
from xdsl.ir import Attribute

from qmlir.codegen.kernel import MainLowering, Rules
from qmlir.codegen.kernels.elementwise import lower_elementwise
from qmlir.codegen.value import Value
from qmlir.dialects.qint.elementwise import AddOp, DivOp, FloatAddOp, MulOp, RescaledAddOp
from qmlir.ir.interfaces import element_of
from qmlir.ir.predicates import is_integer
from qmlir.lowering.qint_to_loops.requantize import (
    ROUNDINGS,
    Narrow,
    Requantize,
    fused_requantize,
    narrowing,
    requantization,
)
from qmlir.numerics.elementary.gemmlowp import quotient


@dataclass(frozen=True)
class Add:
    """narrow((lhs − z_l)·m_l + (rhs − z_r)·m_r + 2^(shift−1) >> shift) in i64; the parameters are m_l, m_r and shift.

    narrow_inputs   whether both operands minus their zero points fit i32
    """

    zero_points: tuple[int, int]
    narrow_inputs: bool
    narrow: Narrow

    def __call__(self, lhs: Value, rhs: Value, m_lhs: Value, m_rhs: Value, shift: Value) -> Value:
        wide = i32 if self.narrow_inputs else i64
        a, b = ((x.to(wide) - z).to(i64) for x, z in zip((lhs, rhs), self.zero_points, strict=True))
        half = shift.same(1) << shift - 1
        return self.narrow((a * m_lhs.to(i64) + b * m_rhs.to(i64) + half) >> shift)


@dataclass(frozen=True)
class RescaledAdd:
    """narrow(C(D((lhs − z_l) << left) ± D((rhs − z_r) << left))) in i64, where D and C rescale and round.

    The parameters are three multipliers (of lhs, of rhs, of the sum) and their three shifts, i64.

    contracts   the rounding contracts of D and of C
    """

    zero_points: tuple[int, int]
    left: int
    contracts: tuple[str, str]
    subtract: bool
    narrow: Narrow

    def __call__(self, lhs: Value, rhs: Value, *factors: Value) -> Value:
        multipliers, shifts = ([f.spread(lhs.lanes or rhs.lanes) for f in half] for half in (factors[:3], factors[3:]))
        operand, total = (ROUNDINGS[contract] for contract in self.contracts)
        a, b = (
            operand((x.to(i64) - z) << self.left, m, s)
            for x, z, m, s in zip((lhs, rhs), self.zero_points, multipliers, shifts, strict=False)
        )
        return self.narrow(total(a - b if self.subtract else a + b, multipliers[2], shifts[2]))


def _rescaled_add(state: MainLowering, op: RescaledAddOp) -> None:
    numbers = (*op.multipliers.get_values(), *op.shifts.get_values())
    contracts = op.operand_contract.data, op.contract.data
    formula = RescaledAdd(op.zero_points(), op.left.value.data, contracts, bool(op.subtract), narrowing(op))
    operands = [state.buffer(op.lhs), state.buffer(op.rhs), *(state.constant(np.array([n])) for n in numbers)]
    lower_elementwise(state, "qint_rescaled_add", formula, operands, op.y)


FLOAT_LIMIT = float(1 << 30)
"""A limit beyond all bounds of clamps; floats are clamped to it before they are converted to i32."""


def _add(state: MainLowering, op: AddOp) -> None:
    zero_points = (op.lhs_zero_point.value.data, op.rhs_zero_point.value.data)
    narrow_inputs = all(
        _is_narrow(element_of(x)) and abs(z) < 1 << 30 for x, z in zip((op.lhs, op.rhs), zero_points, strict=True)
    )
    multipliers = np.array(op.multipliers.get_values(), np.int32)
    arrays = [multipliers[:1], multipliers[1:], np.array([op.shift.value.data], np.int64)]
    operands = [state.buffer(op.lhs), state.buffer(op.rhs), *(state.constant(a) for a in arrays)]
    lower_elementwise(state, "qint_add", Add(zero_points, narrow_inputs, narrowing(op)), operands, op.y)


def _is_narrow(element: Attribute) -> bool:
    return is_integer(element) and element.width.data <= 16


@dataclass(frozen=True)
class FloatAdd:
    """narrow(rint((lhs + offset)·r_l + ((rhs + offset)·r_r + c))); each sum is rounded to f32, parameters are f64."""

    offset: int
    narrow: Narrow

    def __call__(self, lhs: Value, rhs: Value, left: Value, right: Value, constant: Value) -> Value:
        a, b = ((x.to(i32) + self.offset).to(f64) for x in (lhs, rhs))
        inner = (b * right + constant).to(f32).to(f64)
        rounded = (a * left + inner).to(f32).round_even()
        return self.narrow(rounded.maximum(-FLOAT_LIMIT).minimum(FLOAT_LIMIT).to(i32))


def _float_add(state: MainLowering, op: FloatAddOp) -> None:
    parameters = [state.constant(np.array([number])) for number in op.numbers()]
    operands = [state.buffer(op.lhs), state.buffer(op.rhs), *parameters]
    formula = FloatAdd(op.offset.value.data, narrowing(op))
    lower_elementwise(state, "qint_float_add", formula, operands, op.y)


@dataclass(frozen=True)
class Mul:
    """(lhs − z_l) · (rhs − z_r) in i32, then the requantization unless it is None."""

    zero_points: tuple[int, int]
    requantize: Requantize | None

    def __call__(self, lhs: Value, rhs: Value, *parameters: Value) -> Value:
        product = (lhs.to(i32) - self.zero_points[0]) * (rhs.to(i32) - self.zero_points[1])
        return product if self.requantize is None else self.requantize(product, *parameters)


def _mul(state: MainLowering, op: MulOp) -> None:
    zero_points = (op.lhs_zero_point.value.data, op.rhs_zero_point.value.data)
    operands = [state.buffer(op.lhs), state.buffer(op.rhs)]
    fused = fused_requantize(op.acc)
    if fused is None:
        lower_elementwise(state, "qint_mul", Mul(zero_points, None), operands, op.acc)
        return
    requantize, parameters = requantization(state, fused)
    operands += [state.constant(p) for p in parameters]
    lower_elementwise(state, "qint_mul", Mul(zero_points, requantize), operands, fused.y)


@dataclass(frozen=True)
class Div:
    """narrow((lhs − z_l) / (rhs − z_r) · M) in i64, one element at a time; `wraps` is the attribute of `qint.div`."""

    zero_points: tuple[int, int]
    factor: tuple[int, int]
    wraps: bool
    narrow: Narrow

    def __call__(self, lhs: Value, rhs: Value) -> Value:
        x, y = (v.to(i64) - z for v, z in zip((lhs, rhs), self.zero_points, strict=True))
        return self.narrow(quotient(x, y, *self.factor, wraps=self.wraps))


def _div(state: MainLowering, op: DivOp) -> None:
    zero_points = (op.lhs_zero_point.value.data, op.rhs_zero_point.value.data)
    factor = (op.multiplier.value.data, op.shift.value.data)
    formula = Div(zero_points, factor, bool(op.wraps), narrowing(op))
    lower_elementwise(state, "qint_div", formula, [state.buffer(op.lhs), state.buffer(op.rhs)], op.y, widths=())


RULES: Rules = {AddOp: _add, RescaledAddOp: _rescaled_add, FloatAddOp: _float_add, MulOp: _mul, DivOp: _div}
