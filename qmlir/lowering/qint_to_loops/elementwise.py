"""Elementwise kernels: each operation's own formula, fused with the requantization that follows a product."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import i32

from qmlir.codegen.code import WIDTHS
from qmlir.codegen.kernel import Array, MainLowering, Rules
from qmlir.codegen.kernels.elementwise import Formula, lower_elementwise
from qmlir.codegen.value import Value
from qmlir.dialects.qint import QINT
from qmlir.dialects.qint.elementwise import Add, AddOp, DivOp
from qmlir.dialects.qint.requantize import AccumulatingOp, ElementwiseOp, RequantizeOp, centred
from qmlir.lowering.qint_to_loops.requantize import Requantize, fused_requantize, packed, requantization
from qmlir.numerics.elementary.lanes import I32


@dataclass(frozen=True)
class Requantized:
    """A formula and the requantization of its result, whose parameters come last."""

    formula: Formula
    requantize: Requantize

    def __call__(self, *elements: Any) -> Value:
        own = len(elements) - self.requantize.parameters
        return self.requantize.finish(self.formula(*elements[:own]), elements[own:])


@dataclass(frozen=True)
class NarrowAdd:
    """The formula of `qint.add` for differences of few bits: 2^left times them, so that the shift is 32 or more.

    The parameters are the two multipliers and the shift, to which `left` is added.
    """

    formula: Add
    left: int

    def __call__(self, lhs: Value, rhs: Value, m_lhs: Value, m_rhs: Value, shift: Value) -> Value:
        if lhs.lanes is None:
            return self.formula(lhs, rhs, m_lhs, m_rhs, shift - self.left)
        a, b = (centred(x, z, I32) << self.left for x, z in zip((lhs, rhs), self.formula.zero_points, strict=True))
        total = a.code.multiply_add_shift_round(
            a, m_lhs.spread(a.lanes), b, m_rhs.spread(a.lanes), shift.to(i32).spread(a.lanes)
        )
        return packed(total, self.formula.narrow, self.formula.narrow.zero_point)


def faster_add(op: AddOp) -> tuple[NarrowAdd, Sequence[Array]] | None:
    """A sum's formula and parameters for vectors of i32; None if a step might not fit."""
    formula, (m_lhs, m_rhs, shift) = op.formula(), op.parameters()
    left = max(0, 32 - int(shift[0]))
    largest = [n << left for n in op.differences()]
    reach = sum(n * abs(int(m[0])) for n, m in zip(largest, (m_lhs, m_rhs), strict=True)) + (1 << int(shift[0]) + left)
    fits = max(largest) < 1 << 31 and reach < 1 << 62 and reach >> int(shift[0]) + left < 1 << 30
    if not fits or formula.wide != I32 or formula.narrow.storage.itemsize > 2 or not formula.narrow.fits_i32:
        return None
    return NarrowAdd(formula, left), (m_lhs, m_rhs, shift + left)


def _elementwise(state: MainLowering, op: ElementwiseOp) -> None:
    (result,) = op.results
    if not result.uses:
        return  # an earlier kernel contains this requantization
    formula: Formula = op.formula()
    parameters: Sequence[Array] = op.parameters()
    if isinstance(op, RequantizeOp):
        formula, parameters = requantization(state, op)
    elif isinstance(op, AccumulatingOp) and (fused := fused_requantize(result)) is not None:
        requantize, after = requantization(state, fused)
        formula, parameters, result = Requantized(formula, requantize), [*parameters, *after], fused.y
    elif isinstance(op, AddOp) and (faster := faster_add(op)) is not None:
        formula, parameters = faster
    tables = [state.constant(table) for table in op.tables()]
    # xDSL compares scalars only, and vectors of indices have no loads.
    widths = () if tables or isinstance(op, DivOp) else WIDTHS
    operands = [*map(state.buffer, op.operands), *map(state.constant, parameters)]
    lower_elementwise(state, op.name.replace(".", "_"), formula, operands, result, widths, tables)


RULES: Rules = {op: _elementwise for op in QINT.operations if issubclass(op, ElementwiseOp)}
