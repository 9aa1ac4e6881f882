"""Kernels of normalizations: sums along an axis, numbers computed once from the sums, and results of each element.

Softmax, log-softmax and L2 normalization are computed in i64. Along the last axis, the maximum is taken in vectors; and
if a formula's elements depend only on table entries that the sum has read, these are kept, and the elements computed in
vectors from them. All else goes one element at a time.

Layer and root-mean-square normalization of rows are computed in vectors throughout: differences, and their squares
where they fit, in i32, and products with a row's factor in i64.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import i16, i32, i64

from qmlir.codegen.code import Buffer, Code
from qmlir.codegen.kernels.elementwise import Entries, ShortTable, held_table
from qmlir.codegen.lowering import Kernel, MainLowering, Rules
from qmlir.codegen.value import Value
from qmlir.dialects.qint.local_response import LocalResponse, LocalResponseNormalizationOp
from qmlir.dialects.qint.normalization import AlongAxisOp, AxisFormula, L2NormalizationOp, LogSoftmaxOp, SoftmaxOp
from qmlir.dialects.qint.root_normalization import LayerNormOp, RMSNormOp, RootNormalization, RootNormalizationOp
from qmlir.ir.interfaces import element_of, shape_of
from qmlir.ir.types import dtype_of, vector_of

BYTES_OF_MAXIMUM = 64
"""Bytes of the vectors whose maximum is taken lane by lane."""

QUOTIENTS = 8
"""Elements that are computed together, in i64."""

MOST_KEPT = 4096
"""The most entries that are kept, 16 KB: half of a first-level cache."""


@dataclass(frozen=True)
class AlongAxis(Kernel):
    """y[o, a, i] from x[o, a, i] and sums over x[o, :, i]. Buffers: x, the formula's tables, y.

    name      the kernel's symbol
    shape     x's sizes before, along and behind the axis
    formula   the integer arithmetic
    short     how the formula's first table is read if the buffer holds its short form
    """

    name: str
    shape: tuple[int, int, int]
    formula: AxisFormula
    short: ShortTable | None = None

    @property
    def symbol(self) -> str:
        return self.name

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, *tables, y = buffers
        length, formula = self.shape[1], self.formula
        readers: list[Callable[[Value], Value]] = [Entries(table) for table in tables]
        if self.short is not None:
            readers[0] = self.short(readers[0])
        keeps = formula.reuses_entries and self.shape[2] == 1 and length <= MOST_KEPT
        kept = code.scratch((length,), i32, "entries") if keeps else None
        with code.loop(begin, end, name="row") as o, code.loop(0, self.shape[2], name="column") as i:
            most = self.maximum(code, x, o, i) if formula.zero_point is None else code.constant(0, i64)

            def difference(a: Value) -> Value:
                return formula.difference(x.load(o, a, i), most)

            def add(a: Value, sums: list[Value]) -> Sequence[Value]:
                def read(place: Value) -> Value:
                    entry = readers[0](place)
                    if kept is not None:
                        kept.store(entry, a)
                    return entry

                terms = formula.terms(difference(a), *([read, *readers[1:]] if readers else []))
                return [total + term.to(i64) for total, term in zip(sums, terms, strict=True)]

            totals = code.fold(0, length, [code.zeros(i64, None)] * formula.SUMS, add) if formula.SUMS else []
            shared = formula.shared(totals, *readers)

            def finish(a: Value, lanes: int | None) -> None:
                if kept is None:
                    y.store(formula.element(difference(a), shared, *readers), o, a, i)
                    return
                entry = kept.load(a, lanes=lanes)
                y.store(formula.element(entry, shared, lambda _: entry, *readers[1:]), o, a, i)

            code.spans(0, length, finish, () if kept is None else (QUOTIENTS,))

    def maximum(self, code: Code, x: Buffer, o: Value, i: Value) -> Value:
        """The maximum along the axis, in i64."""
        length, lanes = self.shape[1], BYTES_OF_MAXIMUM // dtype_of(x.element).itemsize
        whole = length - length % lanes if self.shape[2] == 1 and code.vectors else 0
        most = x.load(o, 0, i)
        if whole:

            def greater(step: Value, m: list[Value]) -> Sequence[Value]:
                return [m[0].maximum(x.load(o, step * lanes, i, lanes=lanes))]

            (found,) = code.fold(1, whole // lanes, [x.load(o, 0, i, lanes=lanes)], greater)
            while lanes > 1:
                lanes //= 2
                found = found.lanes_from(0, lanes).maximum(found.lanes_from(lanes, lanes))
            most = found.lane(0)
        (most,) = code.fold(whole, length, [most], lambda a, m: [m[0].maximum(x.load(o, a, i))])
        return most.to(i64)


Differences = Callable[[Value, int | None], Value]
"""(the first index, the number of lanes, None for a scalar) → differences of elements of a row."""

LEAST_STEPS = 64
"""Terms are summed in i32 if a lane holds at least so many."""


@dataclass(frozen=True)
class OfRows(AlongAxis):
    """The kernel of a formula that takes vectors, along the last axis; sums are in i32 as far as these hold them."""

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, y = buffers
        formula, zero = self.formula, code.constant(0, i64)
        with code.loop(begin, end, name="row") as o:

            def differences(a: Value, lanes: int | None) -> Value:
                return formula.difference(x.load(o, a, 0, lanes=lanes), zero)

            shared = formula.shared(self.totals(code, x, o, differences))

            def finish(a: Value, lanes: int | None) -> None:
                y.store(self.element(differences(a, lanes), shared), o, a, 0)

            code.spans(0, self.shape[1], finish, (2 * QUOTIENTS, QUOTIENTS))

    def element(self, d: Value, shared: Sequence[Value]) -> Value:
        """The results for differences, or for one."""
        return self.formula.element(d, shared)

    def totals(self, code: Code, x: Buffer, o: Value, differences: Differences) -> list[Value]:
        """The sums of a row of x, in i64."""
        length, formula = self.shape[1], self.formula
        assert formula.largest is not None
        held = ((1 << 31) - 1) // max(formula.largest**2, 1)
        element, lanes = (i32, 2 * QUOTIENTS) if held >= LEAST_STEPS else (i64, QUOTIENTS)
        steps = length // lanes
        block = min(steps, held) if element == i32 else steps

        def plus(sums: Sequence[Value], terms: Sequence[Value]) -> list[Value]:
            return [total + term.to(total.element) for total, term in zip(sums, terms, strict=True)]

        def add_block(first: Value, count: int, totals: Sequence[Value]) -> list[Value]:
            def add(step: Value, sums: list[Value]) -> Sequence[Value]:
                return plus(sums, formula.terms(differences((first + step) * lanes, lanes)))

            found = code.fold(0, count, [code.zeros(element, lanes)] * formula.SUMS, add)
            return plus(totals, [across(each.to(i64)) for each in found])

        totals = [code.zeros(i64, None)] * formula.SUMS
        if block:
            totals = code.fold(0, steps // block, totals, lambda b, sums: add_block(b * block, block, sums))
        if block and steps % block:
            totals = add_block(code.index(steps - steps % block), steps % block, totals)
        return code.fold(steps * lanes, length, totals, lambda a, sums: plus(sums, formula.terms(differences(a, None))))


WORDS = 32
"""Words whose squares and sums are added side by side."""

MOST_WORDS = 1 << 20
"""The most words of a row whose sum fits i32 in each lane, which adds two of `WORDS`."""


@dataclass(frozen=True)
class OfWords(OfRows):
    """The kernel of a normalization by the root of a sum of squares, for rows of words without a zero point.

    A product of pairs adds two squares, which fit 32 bits without a sign. Those of even and of odd lanes are added in
    the lanes of i64 that two of them fill. Differences of even and of odd lanes are multiplied in such lanes, too, and
    their results lie in the halves of these that are theirs.
    """

    def element(self, d: Value, shared: Sequence[Value]) -> Value:
        formula = self.formula
        if d.lanes is None:
            return formula.element(d, shared)
        assert isinstance(formula, RootNormalization)
        wide = d.to(i32).bits(i64)
        factor, offset, behind = (each.spread(wide.lanes) for each in shared)
        factor = factor.to(i32).to(i64)
        even, odd = (lanes * factor + offset for lanes in ((wide << 32) >> 32, wide >> 32))
        both = (even.logical_shift(behind) & (1 << 32) - 1) | ((odd << 32 - behind) & -(1 << 32))
        return formula.narrow(both.bits(i32))

    def totals(self, code: Code, x: Buffer, o: Value, differences: Differences) -> list[Value]:
        length, formula = self.shape[1], self.formula
        steps, zeros = length // WORDS, code.zeros(i32, WORDS // 2)
        ones = code.constant(1, vector_of(i16, WORDS))

        def add(step: Value, sums: list[Value]) -> Sequence[Value]:
            words = x.load(o, step * WORDS, 0, lanes=WORDS)
            squares = code.dot_pairs(zeros, words, words).bits(i64)
            even, odd, *others = sums
            others = [code.dot_pairs(total, words, ones) for total in others]
            return even + (squares & 0xFFFFFFFF), odd + squares.logical_shift(32), *others

        start = [code.zeros(i64, WORDS // 4)] * 2 + [zeros] * (formula.SUMS - 1)
        even, odd, *others = code.fold(0, steps, start, add)
        totals = [across(even + odd), *(across(total.to(i64)) for total in others)]

        def rest(a: Value, sums: list[Value]) -> Sequence[Value]:
            return [total + term.to(i64) for total, term in zip(sums, formula.terms(differences(a, None)), strict=True)]

        return code.fold(steps * WORDS, length, totals, rest)


def across(vector: Value) -> Value:
    """The sum of a vector's lanes."""
    lanes = vector.lanes or 1
    while lanes > 1:
        lanes //= 2
        vector = vector.lanes_from(0, lanes) + vector.lanes_from(lanes, lanes)
    return vector.lane(0)


def along_axis(state: MainLowering, op: AlongAxisOp, of_rows: type[AlongAxis] | None = None) -> None:
    """Calls the kernel of an operation along an axis: `of_rows`, if it is given, along the last axis."""
    shape, formula, (result,) = op.split(), op.formula(), op.results
    y = state.allocate_result(result)
    held = [held_table(state, table) for table in op.tables()[:1]]
    tables = [constant for constant, _ in held] + [state.constant(table) for table in op.tables()[1:]]
    kind = AlongAxis
    if shape[2] == 1:
        kind = of_rows or (AlongAxis if formula.largest is None else OfRows)
    kernel = kind(op.name.replace(".", "_"), shape, formula, held[0][1] if held else None)
    state.call(kernel, [state.view(state.buffer(op.x), shape), *tables, state.view(y, shape)], shape[0])
    state.replace(result, y)


@dataclass(frozen=True)
class Responses(Kernel):
    """y[p, c] from x[p, c] and the squares of the channels around c, one element at a time. Buffers: x, tables, y.

    shape        [pixels, channels]
    neighbours   how many channels before and after c are summed
    formula      the integer arithmetic
    """

    shape: tuple[int, int]
    neighbours: tuple[int, int]
    formula: LocalResponse

    @property
    def symbol(self) -> str:
        return "qint_local_response_normalization"

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, *tables, y = buffers
        readers = [Entries(table) for table in tables]
        channels, (before, after) = self.shape[1], self.neighbours
        with code.loop(begin, end, name="pixel") as p, code.loop(0, channels, name="channel") as c:

            def add(k: Value, sums: list[Value]) -> Sequence[Value]:
                return [sums[0] + self.formula.square(x.load(p, k))]

            first, last = (c - before).maximum(0), (c + (after + 1)).minimum(channels)
            (total,) = code.fold(first, last, [code.zeros(i64, None)], add)
            y.store(self.formula(x.load(p, c), total, *readers), p, c)


def _local_response(state: MainLowering, op: LocalResponseNormalizationOp) -> None:
    *pixels, channels = shape_of(op.x)
    shape, y = (prod(pixels), channels), state.allocate_result(op.y)
    tables = [state.constant(table) for table in op.tables()]
    kernel = Responses(shape, op.neighbours(), op.formula())
    state.call(kernel, [state.view(state.buffer(op.x), shape), *tables, state.view(y, shape)], shape[0])
    state.replace(op.y, y)


def _root_normalization(state: MainLowering, op: RootNormalizationOp) -> None:
    words = state.machine.packed > 0 and not state.machine.small and element_of(op.x) == i16
    words = words and not op.formula().zero_point
    along_axis(state, op, OfWords if words and WORDS <= op.split()[1] <= MOST_WORDS else None)


RULES: Rules = {
    LocalResponseNormalizationOp: _local_response,
    SoftmaxOp: along_axis,
    LogSoftmaxOp: along_axis,
    L2NormalizationOp: along_axis,
    LayerNormOp: _root_normalization,
    RMSNormOp: _root_normalization,
}
