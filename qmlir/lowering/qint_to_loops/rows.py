"""Kernels of rows with scales of their own: largest magnitudes of rows, and quotients by them."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import i16, i32, i64

from qmlir.codegen.code import Buffer, Code
from qmlir.codegen.lowering import Kernel, MainLowering, Rules
from qmlir.codegen.value import Value
from qmlir.dialects.qint.requantize import largest_difference, less_zero_point
from qmlir.dialects.qint.rows import MOST, DividedRows, DivideRowsOp, RowMagnitudesOp, magnitude
from qmlir.ir.interfaces import element_of, shape_of
from qmlir.ir.types import dtype_of
from qmlir.lowering.qint_to_loops.candidates import fits_i16
from qmlir.lowering.qint_to_loops.normalization import QUOTIENTS

MAXIMA = 64
"""Bytes of the elements that are compared side by side."""

WORDS = (32, 16, 8)
"""Lanes of the vectors of quotients that are computed in 16 bits."""


@dataclass(frozen=True)
class OfRows(Kernel):
    """A kernel that needs the largest magnitude of each row of x.

    length      the elements of a row
    zero_point  subtracted from each element
    """

    length: int
    zero_point: int

    def largest(self, code: Code, x: Buffer, row: Value) -> Value:
        """The largest magnitude of a row, i64: that of its greatest or of its least element."""
        size = dtype_of(x.element).itemsize
        wide, lanes = i32 if size < 4 else i64, min(MAXIMA // size, 1 << self.length.bit_length() - 1)
        whole = self.length // lanes if code.vectors and lanes > 1 else 0
        greatest = least = x.load(row, 0)

        def compared(first: Value, bounds: list[Value], lanes: int | None) -> list[Value]:
            element = x.load(row, first, lanes=lanes)
            return [bounds[0].maximum(element), bounds[1].minimum(element)]

        if whole:
            start = [x.load(row, 0, lanes=lanes)] * 2
            high, low = code.fold(1, whole, start, lambda step, m: compared(step * lanes, m, lanes))
            half = lanes
            while half > 1:
                half //= 2
                high = high.lanes_from(0, half).maximum(high.lanes_from(half, half))
                low = low.lanes_from(0, half).minimum(low.lanes_from(half, half))
            greatest, least = high.lane(0), low.lane(0)
        bounds = code.fold(whole * lanes, self.length, [greatest, least], lambda i, m: compared(i, m, None))
        first, second = (magnitude(bound, self.zero_point, dtype_of(wide)) for bound in bounds)
        return first.maximum(second).to(i64)


@dataclass(frozen=True)
class Magnitudes(OfRows):
    """y[r, 0] from x[r, :]. Buffers: x, y."""

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, y = buffers
        with code.loop(begin, end, name="row") as row:
            y.store(self.largest(code, x, row).minimum(MOST).to(i32), row, 0)


@dataclass(frozen=True)
class Quotients(OfRows):
    """y[r, i] from x[r, :]. Buffers: x, the largest magnitudes [rows, 1] if they are known, y.

    formula   the integer arithmetic
    words     whether differences from the zero point fit 16 bits, and a reciprocal R fits 32
    """

    formula: DividedRows
    words: bool

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, *known, y = buffers
        with code.loop(begin, end, name="row") as row:
            largest = known[0].load(row, 0).to(i64) if known else self.largest(code, x, row)
            reciprocal = self.formula.reciprocal(largest)

            def finish(i: Value, lanes: int | None) -> None:
                element = x.load(row, i, lanes=lanes)
                if self.words and lanes is not None:
                    y.store(self._in_words(element, reciprocal), row, i)
                else:
                    y.store(self.formula.element(element, reciprocal.spread(lanes)), row, i)

            code.spans(0, self.length, finish, WORDS if self.words else (2 * QUOTIENTS, QUOTIENTS))

    def _in_words(self, x: Value, reciprocal: Value) -> Value:
        """Quotients of differences d in 16 bits, by R = h · 2^16 + l with −2^15 ≤ l < 2^15.

        (d·R + 2^(k−1)) >> k = (d·h + (d·l >> 16) + 2^(k−17)) >> (k−16), where the sum before the shift fits 16 bits,
        because |d · R| + 2^(k−1) < 2^31. Its parts may wrap around.
        """
        kept = self.formula.fraction - 16
        d = less_zero_point(x, self.zero_point, dtype_of(i16))
        low = reciprocal.to(i16)
        high = ((reciprocal - low.to(i64)) >> 16).to(i16)
        above = (d.to(i32) * low.spread(x.lanes).to(i32) >> 16).to(i16)
        return (d * high.spread(x.lanes) + above + (1 << kept - 1) >> kept).to(self.formula.storage)


def _row_magnitudes(state: MainLowering, op: RowMagnitudesOp) -> None:
    *rows, length = shape_of(op.x)
    count, kernel, x = prod(rows), Magnitudes(length, op.zero_point.value.data), state.buffer(op.x)
    largest = largest_difference(op.x, op.zero_point.value.data)
    state.note_largest(op.y, min(largest, MOST))
    y = state.allocate_result(op.y)
    if count:
        state.call(kernel, [state.view(x, (count, length)), state.view(y, (count, 1))], count)
    if largest <= MOST:
        state.packed[x, kernel] = y
    state.replace(op.y, y)


def _divide_rows(state: MainLowering, op: DivideRowsOp) -> None:
    *rows, length = shape_of(op.x)
    count, formula, x = prod(rows), op.formula(), state.buffer(op.x)
    words = fits_i16(element_of(op.x), formula.zero_point) and op.is_short
    known = state.packed.get((x, Magnitudes(length, formula.zero_point)))
    y = state.allocate_result(op.y)
    if count:
        largest = [] if known is None else [state.view(known, (count, 1))]
        buffers = [state.view(x, (count, length)), *largest, state.view(y, (count, length))]
        state.call(Quotients(length, formula.zero_point, formula, words), buffers, count)
    state.replace(op.y, y)


RULES: Rules = {RowMagnitudesOp: _row_magnitudes, DivideRowsOp: _divide_rows}
