"""Elementwise kernels: each operation's own formula, fused with the requantization that follows a product."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import i8, i16, i32

from qmlir.codegen.code import WIDTHS
from qmlir.codegen.kernels.elementwise import Entries, Formula, lower_elementwise
from qmlir.codegen.lowering import Array, MainLowering, Rules
from qmlir.codegen.value import Value
from qmlir.dialects.qint import QINT
from qmlir.dialects.qint.elementwise import Add, AddOp, DivOp, Lookup, LookupOp
from qmlir.dialects.qint.requantize import AccumulatingOp, ElementwiseOp, Narrow, RequantizeOp, less_zero_point
from qmlir.ir.interfaces import element_of, shape_of
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
        a, b = (
            less_zero_point(x, z, I32) << self.left for x, z in zip((lhs, rhs), self.formula.zero_points, strict=True)
        )
        total = a.code.multiply_add_shift_round(
            a, m_lhs.spread(a.lanes), b, m_rhs.spread(a.lanes), shift.to(i32).spread(a.lanes)
        )
        return packed(total, self.formula.narrow, self.formula.narrow.zero_point)


@dataclass(frozen=True)
class BytesAdd:
    """The formula of `qint.add` for operands of 8 bits: pairs of i16 products, in 32 bits.

    Bytes are read with 128 more, as unsigned, because processors extend these by interleaving zeros. A multiplier m is
    h·2^16 + l with −2^15 ≤ l < 2^15. With all constants in one number, the result's zero point z among them,

        k = 2^(shift−1) + z·2^shift − (z_l + 128)·m_l − (z_r + 128)·m_r = k_h·2^16 + k_l with 0 ≤ k_l < 2^16,

    the sum before the shift is H·2^16 + L:

        H = lhs·h_l + rhs·h_r + k_h          L = lhs·l_l + rhs·l_r + k_l

    and (H·2^16 + L) >> shift = (H + (L >> 16)) >> (shift − 16), because flooring twice is flooring once. This is exact
    if H, L and their sum fit i32, which `byte_parts` proves.

    The parameters are the pairs (h_l, h_r) and (l_l, l_r) in one i32 each, the second above the first, then k_h, k_l
    and shift − 16. `narrow` only clamps, so sums that differ in zero points share code.
    """

    narrow: Narrow

    def __call__(self, lhs: Value, rhs: Value, high: Value, low: Value, k_h: Value, k_l: Value, shift: Value) -> Value:
        narrow = self.narrow
        if lhs.lanes is not None and narrow.storage.itemsize == 1:
            y = lhs.code.add_bytes(lhs ^ -128, rhs ^ -128, high, low, k_h, k_l, shift)
            y = y if narrow.low == -128 else y.maximum(narrow.low)
            return y if narrow.high == 127 else y.minimum(narrow.high)
        a, b = ((x ^ -128).to(i32, unsigned=True) for x in (lhs, rhs))
        if lhs.lanes is None:

            def products(pair: Value) -> Value:
                return a * (pair << 16 >> 16) + b * (pair >> 16)

            total = k_h + products(high) + (k_l + products(low) >> 16)
        else:
            both = (a | b << 16).bits(i16)

            def dot(start: Value, pair: Value) -> Value:
                return a.code.dot_pairs(start.spread(a.lanes), both, pair.spread(a.lanes).bits(i16))

            total = dot(k_h, high) + (dot(k_l, low) >> 16)
        return packed(total >> shift.spread(a.lanes), narrow, 0)


def byte_parts(op: AddOp) -> Sequence[Array] | None:
    """The parameters of `BytesAdd` for a sum; None if the operands are wider, or a step might not fit."""
    if any(element_of(x) != i8 for x in (op.lhs, op.rhs)):
        return None
    multipliers, shift, zero_points = op.multipliers.get_values(), op.shift.value.data, op.zero_points()
    low = [(m + (1 << 15)) % (1 << 16) - (1 << 15) for m in multipliers]
    high = [(m - rest) >> 16 for m, rest in zip(multipliers, low, strict=True)]
    k = (1 << shift - 1) + (op.zero_point.value.data << shift)
    k -= sum((z + 128) * m for z, m in zip(zero_points, multipliers, strict=True))
    k_h, k_l = k >> 16, k % (1 << 16)
    reach = 255 * sum(map(abs, high)) + abs(k_h) + 255 * sum(map(abs, low)) + k_l
    if max(map(abs, high)) >= 1 << 15 or reach >= 1 << 31 or not 17 <= shift < 48 or reach >> shift - 16 >= 1 << 30:
        return None
    pairs = [np.array([(b << 16) + (a & 0xFFFF)], np.int32) for a, b in (high, low)]
    return *pairs, *(np.array([n], np.int32) for n in (k_h, k_l, shift - 16))


def faster_add(op: AddOp) -> tuple[NarrowAdd | BytesAdd, Sequence[Array]] | None:
    """A sum's formula and parameters for vectors of i32; None if a step might not fit."""
    formula, (m_lhs, m_rhs, shift) = op.formula(), op.parameters()
    if formula.narrow.storage.itemsize > 2 or not formula.narrow.fits_i32:
        return None
    if (parts := byte_parts(op)) is not None:
        return BytesAdd(replace(formula.narrow, zero_point=0)), parts
    left = max(0, 32 - int(shift[0]))
    largest = [n << left for n in op.differences()]
    reach = sum(n * abs(int(m[0])) for n, m in zip(largest, (m_lhs, m_rhs), strict=True)) + (1 << int(shift[0]) + left)
    fits = max(largest) < 1 << 31 and reach < 1 << 62 and reach >> int(shift[0]) + left < 1 << 30
    return (NarrowAdd(formula, left), (m_lhs, m_rhs, shift + left)) if fits and formula.wide == I32 else None


@dataclass(frozen=True)
class ByteLookup:
    """The formula of `qint.lookup` for bytes: an entry at a time, or those of a vector at once."""

    formula: Lookup

    def __call__(self, x: Value, entries: Entries) -> Value:
        return self.formula(x, entries) if x.lanes is None else entries.of_bytes(x ^ -128)


LOOKUP_WIDTHS = (64, 32, 16)
"""Lanes of the vectors that are looked up in tables of bytes: the registers of processors."""


def widths_of_bytes(count: int, register: int) -> tuple[int, ...]:
    """Lanes of the vectors that add a number of bytes, the widest first: one that leaves no byte over, if any.

    `register` is the size of the registers that the processor packs bytes to.
    """
    fitting = [n for n in (64, 32, 16) if n <= max(register, WIDTHS[0])]
    first = next((i for i, n in enumerate(fitting) if count % n == 0), 0)
    return (*fitting[first:], WIDTHS[-1])


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
    if isinstance(op, LookupOp) and op.table.array.nbytes == 256 and state.machine.table == 256:
        formula, widths = ByteLookup(op.formula()), tuple(n for n in LOOKUP_WIDTHS if n <= prod(shape_of(result)))
    if isinstance(formula, BytesAdd) and formula.narrow.storage.itemsize == 1:
        widths = widths_of_bytes(prod(shape_of(result)), state.machine.packed)
    operands = [*map(state.buffer, op.operands), *map(state.constant, parameters)]
    lower_elementwise(state, op.name.replace(".", "_"), formula, operands, result, widths, tables)


RULES: Rules = {op: _elementwise for op in QINT.operations if issubclass(op, ElementwiseOp)}
