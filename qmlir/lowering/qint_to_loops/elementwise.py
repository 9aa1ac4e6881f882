"""Kernels of elementwise operations and of lookup tables."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.dialects.builtin import f32, f64, i16, i32, i64
from xdsl.ir import Attribute

from qmlir.codegen.code import Buffer, Code
from qmlir.codegen.kernel import Kernel, MainLowering, Rules
from qmlir.codegen.kernels.elementwise import RUN, lower_elementwise, merge_dimensions
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
from qmlir.ir.interfaces import element_of, shape_of
from qmlir.ir.types import is_integer
from qmlir.lowering.qint_to_loops.requantize import (
    ROUNDINGS,
    Narrow,
    Requantize,
    fused_requantize,
    narrowing,
    requantization,
)
from qmlir.numerics.elementary.gemmlowp import quotient
from qmlir.numerics.tables import SEGMENT_BITS

# ---------------------------------------------------------------------------------------------------------------
# Lowering of integer sums, products and quotients of two tensors.


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


# ---------------------------------------------------------------------------------------------------------------
# Lowering of lookup tables.


@dataclass(frozen=True)
class Lookup(Kernel):
    """y[i] = table[x[i] + half]. Buffers: x [elements], table [2 · half], y [elements]."""

    elements: int

    @property
    def symbol(self) -> str:
        return "qint_lookup"

    @property
    def items(self) -> int:
        """The number of runs of `RUN` elements, over which the parallel loop runs."""
        return -(-self.elements // RUN)

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, table, y = buffers
        half = table.shape[0] // 2
        with code.loop(begin * RUN, (end * RUN).minimum(self.elements)) as i:
            y.store(table.load(x.load(i).to(INDEX) + half), i)


def _lookup(state: MainLowering, op: LookupOp) -> None:
    elements = prod(shape_of(op.x))
    y = state.allocate_result(op.y)
    kernel = Lookup(elements)
    table = state.constant(op.table.array)
    state.call(kernel, [state.view(state.buffer(op.x), [elements]), table, state.view(y, [elements])], kernel.items)
    state.replace(op.y, y)


@dataclass(frozen=True)
class InterpolatedLookup(Kernel):
    """y[i] = t[k] + ((t[k+1] − t[k])·f + 64 >> 7) with k and f the upper and lower bits of x[i] + 2^15.

    Buffers: x [elements], table t [513], y [elements].
    """

    elements: int

    @property
    def symbol(self) -> str:
        return "qint_interpolated_lookup"

    @property
    def items(self) -> int:
        """The number of runs of `RUN` elements, over which the parallel loop runs."""
        return -(-self.elements // RUN)

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, table, y = buffers
        with code.loop(begin * RUN, (end * RUN).minimum(self.elements)) as i:
            place = x.load(i).to(i32) + (1 << 15)
            knot, offset = (place >> SEGMENT_BITS).to(INDEX), place & (1 << SEGMENT_BITS) - 1
            base, slope = table.load(knot).to(i32), table.load(knot + 1).to(i32)
            line = (slope - base) * offset + (1 << SEGMENT_BITS - 1) >> SEGMENT_BITS
            y.store((base + line).to(i16), i)


def _interpolated_lookup(state: MainLowering, op: InterpolatedLookupOp) -> None:
    elements = prod(shape_of(op.x))
    y = state.allocate_result(op.y)
    kernel = InterpolatedLookup(elements)
    table = state.constant(op.table.array)
    state.call(kernel, [state.view(state.buffer(op.x), [elements]), table, state.view(y, [elements])], kernel.items)
    state.replace(op.y, y)


@dataclass(frozen=True)
class PairLookup(Kernel):
    """y[i, j, …] = table[lhs + 128, rhs + 128]. Buffers: lhs, rhs, table [256, 256], y.

    shape    the merged dimensions of the result
    present  for each operand, which of these dimensions it has
    """

    shape: tuple[int, ...]
    present: tuple[tuple[bool, ...], ...]

    @property
    def symbol(self) -> str:
        return "qint_pair_lookup"

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        *operands, table, y = buffers
        with ExitStack() as nest:
            place = [
                nest.enter_context(code.loop(begin, end) if axis == 0 else code.loop(0, size))
                for axis, size in enumerate(self.shape)
            ]
            entry: list[Value] = []
            for x, present in zip(operands, self.present, strict=True):
                own = [p for p, has in zip(place, present, strict=True) if has] or [code.index(0)]
                entry.append(x.load(*own).to(INDEX) + 128)
            y.store(table.load(*entry), *place)


def _pair_lookup(state: MainLowering, op: PairLookupOp) -> None:
    shape, present = merge_dimensions(shape_of(op.y), [shape_of(op.lhs), shape_of(op.rhs)])
    y = state.allocate_result(op.y)
    views = [
        state.view(state.buffer(x), [size for size, has in zip(shape, p, strict=True) if has] or [1])
        for x, p in zip((op.lhs, op.rhs), present, strict=True)
    ]
    kernel = PairLookup(shape, present)
    state.call(kernel, [*views, state.constant(op.table.array), state.view(y, shape)], shape[0])
    state.replace(op.y, y)


RULES: Rules = {
    AddOp: _add,
    RescaledAddOp: _rescaled_add,
    FloatAddOp: _float_add,
    MulOp: _mul,
    DivOp: _div,
    PairLookupOp: _pair_lookup,
    LookupOp: _lookup,
    InterpolatedLookupOp: _interpolated_lookup,
}
