"""Kernels of attention: exponentials of a row, and quotients by the sum of a row."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import i16, i32, i64

from qmlir.codegen.code import Buffer, Code
from qmlir.codegen.kernels.elementwise import INSERTED, Entries
from qmlir.codegen.kernels.task import Broadcast
from qmlir.codegen.lowering import Kernel, MainLowering, Rules
from qmlir.codegen.value import Value
from qmlir.dialects.qint.attention import Exponentials, ExponentialsOp, RowQuotient, RowQuotientOp
from qmlir.ir.interfaces import element_of, shape_of
from qmlir.ir.types import vector_of
from qmlir.lowering.qint_to_loops.normalization import MOST_KEPT, QUOTIENTS, AlongAxis, across, along_axis

TERMS = 16
"""Sums of weights that are added to side by side, in i32."""

MOST_WORDS = 1 << 16
"""The most weights whose sum fits i32 whatever they are."""

WORDS = (32, 16, 8)
"""Lanes of the vectors of differences from the maximum of a row."""

PLACES = 2048
"""Places in a table, of whole rows, that are computed before entries are loaded: the last ones are not in the cache
yet when single places are loaded from it, and wait until they are."""


@dataclass(frozen=True)
class RowExponentials(AlongAxis):
    """The kernel of `AlongAxis` for exponentials of rows of words, whose places in the table are vectors of words."""

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, table, y = buffers
        assert isinstance(self.formula, Exponentials)
        entries, length, last = Entries(table), self.shape[1], self.formula.last
        together = max(1, PLACES // length)
        places = code.scratch((together, length), i16, "places")
        with code.loop(begin, end, together, name="first") as first:
            count = (end - first).minimum(together)
            with code.loop(0, count, name="row") as row:
                most = self.maximum(code, x, first + row, code.index(0)).to(i16)

                def place(i: Value, lanes: int | None, row: Value = row, most: Value = most) -> None:
                    difference = most.spread(lanes) - x.load(first + row, i, 0, lanes=lanes)
                    places.store(difference.minimum(last - (last >> 15 << 16), unsigned=True), row, i)

                code.spans(0, length, place, WORDS)
            with code.loop(0, count, name="row") as row:

                def finish(i: Value, lanes: int | None, row: Value = row) -> None:
                    if lanes is None:
                        y.store(entries(places.load(row, i).to(i64, unsigned=True)), first + row, i, 0)
                    else:
                        y.store(entries.of_row(places, [row, i], lanes), first + row, i, 0)

                code.spans(0, length, finish, (INSERTED,))


@dataclass(frozen=True)
class RowQuotients(Kernel):
    """y[b, m, n] from acc[b, m, n] and the sum of w[b', m, :]. Buffers: acc, w, y.

    shape     [batch, rows, columns]
    length    the weights of a row
    batches   the batch b' of w for each batch
    formula   the integer arithmetic
    words     whether a row is summed by products of pairs with ones, and its sum fits i32
    """

    shape: tuple[int, int, int]
    length: int
    batches: Broadcast
    formula: RowQuotient
    words: bool

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        acc, w, y = buffers
        rows, columns = self.shape[1:]
        with code.loop(begin, end, name="row") as row:
            batch, m = row // rows, row % rows
            shared = self.formula.shared(self._total(code, w, self.batches.apply(code, batch), m))

            def finish(n: Value, lanes: int | None) -> None:
                found = [each.spread(lanes) for each in shared]
                y.store(self.formula.element(acc.load(batch, m, n, lanes=lanes), found), batch, m, n)

            code.spans(0, columns, finish, (QUOTIENTS,))

    def _total(self, code: Code, w: Buffer, batch: Value, m: Value) -> Value:
        """The sum of a row's weights, in i64."""
        together = 2 * TERMS if self.words else TERMS
        whole = self.length // together if code.vectors else 0
        total = code.zeros(i64, None)
        if whole:
            ones = code.constant(1, vector_of(i16, together)) if self.words else None

            def add(step: Value, sums: list[Value]) -> Sequence[Value]:
                terms = w.load(batch, m, step * together, lanes=together)
                return [sums[0] + terms.to(i32) if ones is None else code.dot_pairs(sums[0], terms, ones)]

            (found,) = code.fold(0, whole, [code.zeros(i32, TERMS)], add)
            total = across(found).to(i64) if self.words else across(found.to(i64))
        (total,) = code.fold(
            whole * together, self.length, [total], lambda k, sums: [sums[0] + w.load(batch, m, k).to(i64)]
        )
        return total


def _exponentials(state: MainLowering, op: ExponentialsOp) -> None:
    words = state.machine.packed > 0 and not state.machine.small and element_of(op.x) == i16
    along_axis(state, op, RowExponentials if words and op.split()[1] <= MOST_KEPT else None)


def _row_quotient(state: MainLowering, op: RowQuotientOp) -> None:
    *batches, rows, columns = shape_of(op.acc)
    shape, weights = (prod(batches), rows, columns), shape_of(op.w)
    words = state.machine.packed > 0 and not state.machine.small and weights[-1] <= MOST_WORDS
    kernel = RowQuotients(shape, weights[-1], Broadcast.of(weights[:-2], batches), op.formula(), words)
    read = (op.acc, shape), (op.w, (prod(weights[:-2]), *weights[-2:]))
    state.compute(kernel, op.y, shape, *read, items=shape[0] * rows)


RULES: Rules = {
    ExponentialsOp: _exponentials,
    RowQuotientOp: _row_quotient,
}
