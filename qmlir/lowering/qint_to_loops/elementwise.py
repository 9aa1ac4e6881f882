"""Elementwise kernels: each operation's own formula, fused with the requantization that follows a product."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import i8, i16, i32, i64
from xdsl.ir import SSAValue

from qmlir.codegen.code import WIDTHS
from qmlir.codegen.kernels.elementwise import (
    Entries,
    Formula,
    WithShortTable,
    held_table,
    lower_elementwise,
    lower_word_lookup,
)
from qmlir.codegen.lowering import Array, MainLowering, Rules, constant_array
from qmlir.codegen.machine import Capabilities
from qmlir.codegen.value import Value
from qmlir.dialects.qint import QINT
from qmlir.dialects.qint.elementwise import Add, AddOp, DivOp, InterpolatedLookupOp, Lookup, LookupOp, MulOp
from qmlir.dialects.qint.requantize import AccumulatingOp, ElementwiseOp, Narrow, RequantizeOp, less_zero_point
from qmlir.ir.interfaces import element_of, shape_of
from qmlir.ir.types import dtype_of
from qmlir.lowering.qint_to_loops.requantize import Requantize, fused_requantize, packed, requantization
from qmlir.lowering.qint_to_loops.rotation import widened_by_its_reader
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
class RescaledByRows:
    """A product x·n of i32, requantized under `single64`: |x| < 2^30, and many x share an n from 0 to 2^15.

    With a multiplier m, P = n·m is below 2^46. In signed words, x = x1·2^16 + x0 and P = P2·2^32 + P1·2^16 + P0, and
    flooring step by step is flooring once:

        t0 = x0·P0                            t1 = x1·P0 + x0·P1 + (t0 >> 16)
        t2 = x1·P1 + x0·P2 + (t1 >> 16)       t3 = x1·P2 + (t2 >> 16)

    so that (x·P + 2^(k+47)) >> (k + 48) is (t3 + 2^(k−1)) >> k; for k = 0 the half is in t2. All sums fit i32, whose
    lanes hold x0 and x1 beside each other. The parameters are the multiplier and the contract's shift, −17 − k.

    exact   the formula of single elements
    whole   whether k is 0, so that no bit of t3 is dropped
    """

    exact: Requantized
    whole: bool

    def __call__(self, x: Value, n: Value, multiplier: Value, shift: Value) -> Value:
        if x.lanes is None:
            return self.exact(x, n, multiplier, shift)
        code, lanes, narrow = x.code, x.lanes, self.exact.requantize.formula.narrow
        halves = ((x + (1 << 15)) ^ (1 << 15)).bits(i16)
        product, kept = n.lane(0).to(i64) * multiplier.lane(0).to(i64), -17 - shift.lane(0).to(i32)
        low = product.to(i16).to(i64)
        middle = (product - low >> 16).to(i16).to(i64)
        high = (product - low >> 16) - middle >> 16

        def dot(start: Value, first: Value, second: Value) -> Value:
            """start + x0 · first + x1 · second"""
            pair = (second << 16 | first & 0xFFFF).to(i32).spread(lanes).bits(i16)
            return code.dot_pairs(start.spread(lanes), halves, pair)

        one, none = code.constant(1, i32), code.constant(0, i64)
        total = dot(code.constant(0, i32), low, none) >> 16
        total = dot(total, middle, low) >> 16
        total = dot(total + (1 << 15 if self.whole else 0), high, middle) >> 16
        if self.whole:
            return packed(dot(total, none, high), narrow, narrow.zero_point)
        total = dot(total + ((one << kept) >> 1).spread(lanes), none, high) >> kept.spread(lanes)
        return packed(total, narrow, narrow.zero_point)


def rescaled_by_rows(state: MainLowering, op: MulOp, formula: Requantized) -> bool:
    """Whether `RescaledByRows` gives the bits of a formula, and is faster: rows share elements of the right side."""
    one = formula.requantize.formula
    first, second = (state.largest.get((op, i), 1 << 31) for i in range(2))
    fits = state.machine.packed > 0 and first < 1 << 30 and second <= 1 << 15
    shared = shape_of(op.rhs)[-1:] == (1,) and shape_of(op.acc)[-1] > 1
    plain = not any(op.zero_points()) and not one.input_zero_point
    return fits and shared and plain and one.contract == "single64" and one.narrow.storage.itemsize <= 2


@dataclass(frozen=True)
class PlainAdd:
    """The formula of `qint.add` for operands of one type and one scale, that of the sum: an addition that saturates.

    There are no parameters: both multipliers are 2^shift, so that nothing is rounded.
    """

    narrow: Narrow

    def __call__(self, lhs: Value, rhs: Value) -> Value:
        return packed(lhs.to(i32) + rhs.to(i32), self.narrow, 0)


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
    if H, L and their sum fit i32, which `pair_parts` proves.

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


@dataclass(frozen=True)
class WordsAdd:
    """The formula of `qint.add` for operands of 16 bits: `BytesAdd` on signed words, without the 128 more.

    So k = 2^(shift−1) + z·2^shift − z_l·m_l − z_r·m_r. The parameters are the same.
    """

    narrow: Narrow

    def __call__(self, lhs: Value, rhs: Value, high: Value, low: Value, k_h: Value, k_l: Value, shift: Value) -> Value:
        narrow, most = self.narrow, 1 << 15
        if lhs.lanes is not None:
            y = lhs.code.add_words(lhs, rhs, high, low, k_h, k_l, shift)
            y = y if narrow.low == -most else y.maximum(narrow.low)
            return y if narrow.high == most - 1 else y.minimum(narrow.high)
        a, b = lhs.to(i32), rhs.to(i32)

        def products(pair: Value) -> Value:
            return a * (pair << 16 >> 16) + b * (pair >> 16)

        return packed(k_h + products(high) + (k_l + products(low) >> 16) >> shift, narrow, 0)


def pair_parts(op: AddOp) -> Sequence[Array] | None:
    """The parameters of `BytesAdd` or `WordsAdd` for a sum; None if operands are others, or a step might not fit."""
    if element_of(op.lhs) != element_of(op.rhs) or element_of(op.lhs) not in (i8, i16):
        return None
    more, most = (128, 255) if element_of(op.lhs) == i8 else (0, 1 << 15)
    multipliers, shift, zero_points = op.multipliers.get_values(), op.shift.value.data, op.zero_points()
    low = [(m + (1 << 15)) % (1 << 16) - (1 << 15) for m in multipliers]
    high = [(m - rest) >> 16 for m, rest in zip(multipliers, low, strict=True)]
    k = (1 << shift - 1) + (op.zero_point.value.data << shift)
    k -= sum((z + more) * m for z, m in zip(zero_points, multipliers, strict=True))
    k_h, k_l = k >> 16, k % (1 << 16)
    of_high, of_low = most * sum(map(abs, high)) + abs(k_h), most * sum(map(abs, low)) + k_l
    reach = of_high + (of_low >> 16) + 1
    if max(map(abs, high)) >= 1 << 15 or max(reach, of_low) >= 1 << 31:
        return None
    if not 17 <= shift < 48 or reach >> shift - 16 >= 1 << 30:
        return None
    pairs = [np.array([(b << 16) + (a & 0xFFFF)], np.int32) for a, b in (high, low)]
    return *pairs, *(np.array([n], np.int32) for n in (k_h, k_l, shift - 16))


@dataclass(frozen=True)
class ProductAndSum:
    """A product of two operands, and the sum of it and a third one that has its scale."""

    product: Formula
    plus: PlainAdd

    def __call__(self, lhs: Value, rhs: Value, addend: Value, *parameters: Value) -> Value:
        return self.plus(self.product(lhs, rhs, *parameters), addend)


def added_constant(product: SSAValue) -> tuple[AddOp, Array] | None:
    """The sum that alone reads a product, and the constant that it adds, if both have its scale, and it its shape."""
    uses = list(product.uses)
    add = uses[0].operation if len(uses) == 1 else None
    if not isinstance(add, AddOp) or not is_plain_add(add) or shape_of(add.y) != shape_of(product):
        return None
    constant = constant_array(add.operands[1 - uses[0].index])
    return None if constant is None else (add, constant)


def is_plain_add(op: AddOp) -> bool:
    """Whether operands of one type of 8 or 16 bits, and their sum, have one scale and no zero points."""
    (low, high), elements = op.multipliers.get_values(), [element_of(v) for v in (op.lhs, op.rhs, op.y)]
    whole = low == high == 1 << op.shift.value.data
    same = elements[0] in (i8, i16) and len({*elements}) == 1
    return whole and same and not any((*op.zero_points(), op.zero_point.value.data))


def faster_add(op: AddOp, *, packs: bool) -> tuple[PlainAdd | NarrowAdd | BytesAdd | WordsAdd, Sequence[Array]] | None:
    """A sum's formula and parameters for vectors of i32; None if a step might not fit.

    `packs` says whether the processor interleaves and packs words faster than it extends and truncates them.
    """
    formula, (m_lhs, m_rhs, shift) = op.formula(), op.parameters()
    if formula.narrow.storage.itemsize > 2 or not formula.narrow.fits_i32:
        return None
    if is_plain_add(op):
        return PlainAdd(formula.narrow), ()
    if (parts := pair_parts(op)) is not None:
        narrow = replace(formula.narrow, zero_point=0)
        if element_of(op.lhs) == i8:
            return BytesAdd(narrow), parts
        if packs and narrow.storage.itemsize == 2:
            return WordsAdd(narrow), parts
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


def widths_of_packed(count: int, register: int) -> tuple[int, ...]:
    """Lanes of the vectors that add a number of elements, the widest first: one that leaves none over, if any.

    `register` is the number of lanes of the registers that the processor packs them to.
    """
    fitting = [n for n in (64, 32, 16) if n <= max(register, WIDTHS[0])]
    first = next((i for i, n in enumerate(fitting) if count % n == 0), 0)
    return (*fitting[first:], WIDTHS[-1])


def _table_of_words(op: ElementwiseOp, machine: Capabilities) -> Array | None:
    """The entries of a look-up of words, of which some processors load a vector's one after another.

    The lines between breakpoints are drawn out, if the tensor has as many elements as the table gets entries.
    """
    if machine.packed == 0 or machine.small:
        return None
    if isinstance(op, LookupOp) and element_of(op.x) == i16:
        return op.table.array
    if isinstance(op, InterpolatedLookupOp) and prod(shape_of(op.x)) >= 1 << 16:
        return op.compute(np.arange(-(1 << 15), 1 << 15, dtype=np.int16))
    return None


def _with_requantization(
    state: MainLowering, op: ElementwiseOp, fused: RequantizeOp
) -> tuple[Formula, Sequence[Array], SSAValue, AddOp | None]:
    """Formula, parameters and result of an operation with its requantization, and with a sum behind if there is one."""
    requantize, after = requantization(state, fused)
    exact, parameters = Requantized(op.formula(), requantize), [*op.parameters(), *after]
    if not isinstance(op, MulOp):
        return exact, parameters, fused.y, None
    shift, formula = max(fused.shift.get_values()), exact
    if len(after[0]) == 1 and shift <= -17 and rescaled_by_rows(state, op, exact):
        formula = RescaledByRows(exact, shift == -17)
    if state.machine.packed == 0 or (found := added_constant(fused.y)) is None:
        return formula, parameters, fused.y, None
    add, constant = found
    return ProductAndSum(formula, PlainAdd(add.narrowing())), [constant, *parameters], add.y, add


def _elementwise(state: MainLowering, op: ElementwiseOp) -> None:
    (result,) = op.results
    if not result.uses:
        return  # an earlier kernel contains this requantization
    if (entries := _table_of_words(op, state.machine)) is not None:
        lower_word_lookup(state, op.name.replace(".", "_"), op.operands[0], entries, result)
        return
    if isinstance(op, RequantizeOp) and widened_by_its_reader(op):
        return
    formula: Formula = op.formula()
    parameters: Sequence[Array] = op.parameters()
    fused_add: AddOp | None = None
    if isinstance(op, RequantizeOp):
        formula, parameters = requantization(state, op)
    elif isinstance(op, AccumulatingOp) and (fused := fused_requantize(result)) is not None:
        formula, parameters, result, fused_add = _with_requantization(state, op, fused)
    elif isinstance(op, AddOp) and (faster := faster_add(op, packs=state.machine.packed > 0)) is not None:
        formula, parameters = faster
    if isinstance(op, LookupOp):
        table, short = held_table(state, op.table.array)
        formula, tables = formula if short is None else WithShortTable(formula, short), [table]
    else:
        tables = [state.constant(table) for table in op.tables()]
    # xDSL compares scalars only, and vectors of indices have no loads.
    widths = () if tables or isinstance(op, DivOp) else WIDTHS
    if isinstance(op, LookupOp) and op.table.array.nbytes == 256 and state.machine.table == 256:
        formula, widths = ByteLookup(op.formula()), tuple(n for n in LOOKUP_WIDTHS if n <= prod(shape_of(result)))
    if isinstance(formula, PlainAdd | BytesAdd | WordsAdd) and element_of(result) == element_of(op.operands[0]):
        lanes = state.machine.packed // dtype_of(element_of(result)).itemsize
        widths = widths_of_packed(prod(shape_of(result)), lanes)
    operands = [*map(state.buffer, op.operands), *map(state.constant, parameters)]
    lower_elementwise(state, op.name.replace(".", "_"), formula, operands, result, widths, tables)
    if fused_add is not None:  # so that nothing reads the product
        fused_add.detach()
        fused_add.erase()


RULES: Rules = {op: _elementwise for op in QINT.operations if issubclass(op, ElementwiseOp)}
