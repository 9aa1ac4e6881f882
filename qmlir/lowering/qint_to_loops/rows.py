"""Kernels of rows with scales of their own: largest magnitudes of rows, and quotients by them."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import i32, i64

from qmlir.codegen.code import Buffer, Code
from qmlir.codegen.lowering import Kernel, MainLowering, Rules
from qmlir.codegen.value import Value
from qmlir.dialects.qint.rows import MOST, DividedRows, DivideRowsOp, RowMagnitudesOp, magnitude
from qmlir.ir.interfaces import shape_of
from qmlir.ir.types import dtype_of
from qmlir.lowering.qint_to_loops.normalization import QUOTIENTS

MAXIMA = 16
"""Elements whose magnitudes are compared side by side."""


@dataclass(frozen=True)
class OfRows(Kernel):
    """A kernel that needs the largest magnitude of each row of x.

    length      the elements of a row
    zero_point  subtracted from each element
    """

    length: int
    zero_point: int

    def largest(self, code: Code, x: Buffer, row: Value) -> Value:
        """The largest magnitude of a row, i64."""
        wide = i32 if dtype_of(x.element).itemsize < 4 else i64
        whole = self.length // MAXIMA if code.vectors else 0

        def greater(first: Value, most: Value, lanes: int | None) -> list[Value]:
            return [most.maximum(magnitude(x.load(row, first, lanes=lanes), self.zero_point, dtype_of(wide)))]

        most = code.zeros(wide, None)
        if whole:
            (found,) = code.fold(
                0, whole, [code.zeros(wide, MAXIMA)], lambda step, m: greater(step * MAXIMA, m[0], MAXIMA)
            )
            lanes = MAXIMA
            while lanes > 1:
                lanes //= 2
                found = found.lanes_from(0, lanes).maximum(found.lanes_from(lanes, lanes))
            most = found.lane(0)
        (most,) = code.fold(whole * MAXIMA, self.length, [most], lambda i, m: greater(i, m[0], None))
        return most.to(i64)


@dataclass(frozen=True)
class Magnitudes(OfRows):
    """y[r, 0] from x[r, :]. Buffers: x, y."""

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, y = buffers
        with code.loop(begin, end, name="row") as row:
            y.store(self.largest(code, x, row).minimum(MOST).to(i32), row, 0)


@dataclass(frozen=True)
class Quotients(OfRows):
    """y[r, i] from x[r, :]. Buffers: x, y.

    formula   the integer arithmetic
    """

    formula: DividedRows

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, y = buffers
        with code.loop(begin, end, name="row") as row:
            reciprocal = self.formula.reciprocal(self.largest(code, x, row))

            def finish(i: Value, lanes: int | None) -> None:
                y.store(self.formula.element(x.load(row, i, lanes=lanes), reciprocal.spread(lanes)), row, i)

            code.spans(0, self.length, finish, (2 * QUOTIENTS, QUOTIENTS))


def _row_magnitudes(state: MainLowering, op: RowMagnitudesOp) -> None:
    *rows, length = shape_of(op.x)
    count, kernel = prod(rows), Magnitudes(length, op.zero_point.value.data)
    state.compute(kernel, op.y, (count, 1), (op.x, (count, length)))


def _divide_rows(state: MainLowering, op: DivideRowsOp) -> None:
    *rows, length = shape_of(op.x)
    shape, formula = (prod(rows), length), op.formula()
    state.compute(Quotients(length, formula.zero_point, formula), op.y, shape, (op.x, shape))


RULES: Rules = {RowMagnitudesOp: _row_magnitudes, DivideRowsOp: _divide_rows}
