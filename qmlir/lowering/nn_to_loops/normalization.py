"""Lowering of softmax and normalizations: computed in f64, sums in index order, results rounded once.

The exponentials of a row of neighbours are kept from the sum to the quotient, if the row is short enough. Otherwise exp
is computed twice; both times it gives the same bits.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, prod
from typing import ClassVar, Protocol

from xdsl.dialects.builtin import VectorType, f64

from qmlir.codegen.code import Buffer, Code
from qmlir.codegen.lowering import Kernel, MainLowering, Rules
from qmlir.codegen.value import Value
from qmlir.dialects.nn.normalization import (
    ExponentialsOp,
    LayerNormOp,
    LocalResponse,
    LocalResponseNormalizationOp,
    LogSoftmaxOp,
    LpNormalizationOp,
    NormalizationOp,
    RMSNormOp,
    SoftmaxOp,
)
from qmlir.ir.interfaces import shape_of
from qmlir.numerics.elementary.exponential import exp_by_four, log

LANES = 8
"""Lanes of the f64 vectors."""

ROWS = 8
"""Rows of a normalization that are summed side by side: an addition takes a few cycles, and each waits for the last."""

MOST_KEPT = 1024
"""The most exponentials that are kept, 8 KB: a part of a first-level cache."""

SIDES = 4
"""Rows of a softmax whose exponentials are added up side by side, if all of these are kept."""

MAXIMA = 16
"""Lanes of the vector of maxima of a row."""


@dataclass(frozen=True)
class Softmax(Kernel):
    """y[o, a, i] = exp(x[o, a, i] − m) / Σ_a exp(x[o, a, i] − m), with m the maximum over a."""

    shape: tuple[int, int, int]

    COLUMNS: ClassVar[Sequence[int]] = (LANES,)
    """Lanes of vectors of sums, for neighbouring i; empty to compute one sum at a time."""

    OF_EXPONENTIALS: ClassVar[bool] = True
    """Whether `part` is the exponential of `shifted` divided by `size`."""

    def size(self, total: Value) -> Value:
        """The value that `part` needs of a sum of exponentials."""
        return total

    def part(self, shifted: Value, size: Value) -> Value:
        """The result for `shifted`, which is x − m, and `size` of the sum."""
        return exp_by_four(shifted) / size

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, y = buffers
        if self._keeps(SIDES):
            code.spans(begin, end, lambda o, count: self._write_rows(code, x, y, o, count or 1), (SIDES,))
            return
        with code.loop(begin, end, name="row") as o:
            if self._keeps(1):
                self._write_rows(code, x, y, o, 1)
            elif self.shape[2] == 1:
                self._write_row(code, x, y, o)
            else:
                code.spans(
                    0, self.shape[2], lambda i, lanes: self._write_columns(code, x, y, o, i, lanes), self.COLUMNS
                )

    def _keeps(self, rows: int) -> bool:
        """Whether the exponentials of some rows are kept."""
        return self.OF_EXPONENTIALS and self.shape[2] == 1 and self.shape[1] * rows <= MOST_KEPT

    def _maximum(self, code: Code, x: Buffer, o: Value, i: Value, lanes: int | None) -> Value:
        """The maximum m over a, in f64."""
        least = code.constant(-inf, VectorType(x.element, [lanes]) if lanes else x.element)
        (greatest,) = code.fold(0, self.shape[1], [least], lambda a, m: [m[0].maximum(x.load(o, a, i, lanes=lanes))])
        return greatest.to(f64)

    def _write_columns(self, code: Code, x: Buffer, y: Buffer, o: Value, i: Value, lanes: int | None) -> None:
        """Writes the results for neighbouring i, whose sums are the lanes of a vector."""
        m = self._maximum(code, x, o, i, lanes)

        def shifted(a: Value) -> Value:
            return x.load(o, a, i, lanes=lanes).to(f64) - m

        (total,) = code.fold(
            0, self.shape[1], [code.zeros(f64, lanes)], lambda a, sums: [sums[0] + exp_by_four(shifted(a))]
        )
        size = self.size(total)
        with code.loop(0, self.shape[1]) as a:
            y.store(self.part(shifted(a), size).to(y.element), o, a, i)

    def _row_maximum(self, code: Code, x: Buffer, o: Value) -> Value:
        """The maximum m of a row, in f64: maxima of lanes first, in any order, since a maximum has no rounding."""
        zero, length = code.index(0), self.shape[1]
        whole = length - length % MAXIMA
        greatest = code.constant(-inf, x.element)
        if whole:
            least = code.constant(-inf, VectorType(x.element, [MAXIMA]))

            def further(step: Value, m: list[Value]) -> Sequence[Value]:
                return [m[0].maximum(x.load(o, step * MAXIMA, zero, lanes=MAXIMA))]

            (maxima,) = code.fold(0, whole // MAXIMA, [least], further)
            lanes = MAXIMA
            while lanes > 1:
                lanes //= 2
                maxima = maxima.lanes_from(0, lanes).maximum(maxima.lanes_from(lanes, lanes))
            greatest = maxima.lane(0)
        if whole < length:
            (greatest,) = code.fold(whole, length, [greatest], lambda a, m: [m[0].maximum(x.load(o, a, zero))])
        return greatest.to(f64)

    def _write_rows(self, code: Code, x: Buffer, y: Buffer, first: Value, count: int) -> None:
        """Writes the results of some rows, whose exponentials are kept; the additions to their sums take turns."""
        zero, length = code.index(0), self.shape[1]
        kept = code.scratch((count, length), f64, "exponentials")

        for row in range(count):
            m = self._row_maximum(code, x, first + row)

            def exponential(a: Value, lanes: int | None, row: int = row, m: Value = m) -> None:
                kept.store(exp_by_four(x.load(first + row, a, zero, lanes=lanes).to(f64) - m), row, a)

            code.spans(0, length, exponential, (LANES,))
        sums = code.fold(
            0, length, [code.zeros(f64, None)] * count, lambda a, s: [t + kept.load(r, a) for r, t in enumerate(s)]
        )
        for row, total in enumerate(sums):
            size = self.size(total)

            def finish(a: Value, lanes: int | None, row: int = row, size: Value = size) -> None:
                y.store((kept.load(row, a, lanes=lanes) / size).to(y.element), first + row, a, zero)

            code.spans(0, length, finish, (LANES,))

    def _write_row(self, code: Code, x: Buffer, y: Buffer, o: Value) -> None:
        """Writes the results of one row; exponentials are computed in vectors, and added one after another."""
        zero, length = code.index(0), self.shape[1]
        m = self._row_maximum(code, x, o)
        whole = length - length % LANES

        def shifted(a: Value, lanes: int | None) -> Value:
            return x.load(o, a, zero, lanes=lanes).to(f64) - m

        def add_lanes(step: Value, sums: list[Value]) -> Sequence[Value]:
            terms, total = exp_by_four(shifted(step * LANES, LANES)), sums[0]
            for lane in range(LANES):
                total = total + terms.lane(lane)
            return [total]

        sums = [code.zeros(f64, None)]
        if whole:
            sums = code.fold(0, whole // LANES, sums, add_lanes)
        if whole < length:
            sums = code.fold(whole, length, sums, lambda a, s: [s[0] + exp_by_four(shifted(a, None))])
        size = self.size(sums[0])

        def finish(a: Value, lanes: int | None) -> None:
            y.store(self.part(shifted(a, lanes), size).to(y.element), o, a, zero)

        code.spans(0, length, finish, (LANES,))


@dataclass(frozen=True)
class LogSoftmax(Softmax):
    """y[o, a, i] = x[o, a, i] − m − log Σ_a exp(x[o, a, i] − m); logarithms are computed one at a time."""

    COLUMNS: ClassVar[Sequence[int]] = ()
    OF_EXPONENTIALS: ClassVar[bool] = False

    def size(self, total: Value) -> Value:
        return log(total)

    def part(self, shifted: Value, size: Value) -> Value:
        return shifted - size


def _exponentials(kernel: type[Softmax]) -> Callable[[MainLowering, ExponentialsOp], None]:
    def lower(state: MainLowering, op: ExponentialsOp) -> None:
        split = op.split()
        state.compute(kernel(split), op.y, split, (op.x, split))

    return lower


@dataclass(frozen=True)
class Normalize(Kernel):
    """y[o, a, i] = (x[o, a, i] − m) / s, with a size s of all x[o, :, i] − m; computed in f64.

    subtracts_mean   whether m is the mean over a; otherwise m is 0
    term      the function of x − m that is summed over a, such as the square
    size      computes s from the sum of the terms and their number
    """

    shape: tuple[int, int, int]
    subtracts_mean: bool
    term: Callable[[Value], Value]
    size: "Size"

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, y = buffers

        def rows(first: Value, count: int | None) -> None:
            with code.loop(0, self.shape[2], name="column") as i:
                self._write_rows(code, x, y, [first + r for r in range(count or 1)], i)

        code.spans(begin, end, rows, (ROWS,))

    def _write_rows(self, code: Code, x: Buffer, y: Buffer, rows: Sequence[Value], i: Value) -> None:
        """Writes the results of some rows; the additions to their sums take turns."""
        length = self.shape[1]

        def sums_of(terms: Sequence[Callable[[Value], Value]]) -> list[Value]:
            def add(a: Value, sums: list[Value]) -> Sequence[Value]:
                loaded = [x.load(o, a, i).to(f64) for o in rows]
                return [total + term(v) for total, term, v in zip(sums, terms, loaded, strict=True)]

            return code.fold(0, length, [code.zeros(f64, None)] * len(rows), add)

        def centring(mean: Value | None) -> Callable[[Value], Value]:
            return lambda v: v if mean is None else v - mean

        def term_of(centre: Callable[[Value], Value]) -> Callable[[Value], Value]:
            return lambda v: self.term(centre(v))

        found = sums_of([centring(None)] * len(rows)) if self.subtracts_mean else [None] * len(rows)
        centre = [centring(None if total is None else total / float(length)) for total in found]
        sums = sums_of([term_of(c) for c in centre])
        for o, c, total in zip(rows, centre, sums, strict=True):
            self._write_row(code, x, y, o, i, c, self.size(total, length))

    def _write_row(
        self, code: Code, x: Buffer, y: Buffer, o: Value, i: Value, centre: Callable[[Value], Value], size: Value
    ) -> None:
        """Writes the quotients of a row."""

        def finish(a: Value, lanes: int | None) -> None:
            wide = centre(x.load(o, a, i, lanes=lanes).to(f64))
            y.store((wide / size).to(y.element), o, a, i)

        code.spans(0, self.shape[1], finish, (LANES,) if self.shape[2] == 1 else ())


class Size(Protocol):
    """Computes the divisor of a normalization from a sum of `count` terms."""

    def __call__(self, total: Value, count: int) -> Value:
        """The divisor, f64."""
        ...


@dataclass(frozen=True)
class RootMean:
    """√(total / count + epsilon)."""

    epsilon: float

    def __call__(self, total: Value, count: int) -> Value:
        return (total / float(count) + self.epsilon).square_root()


@dataclass(frozen=True)
class Norm:
    """The total, or its square root if p = 2; 1 if that is 0."""

    p: int

    def __call__(self, total: Value, count: int) -> Value:
        size = total.square_root() if self.p == 2 else total
        return size.equals(0.0).choose(1.0, size)


def square(x: Value) -> Value:
    """x · x."""
    return x * x


def magnitude(x: Value) -> Value:
    """|x|."""
    return x.magnitude()


def _normalize(
    state: MainLowering, op: NormalizationOp, subtracts_mean: bool, term: Callable[[Value], Value], size: Size
) -> None:
    split = op.split()
    state.compute(Normalize(split, subtracts_mean, term, size), op.y, split, (op.x, split))


def _layer_norm(state: MainLowering, op: LayerNormOp) -> None:
    _normalize(state, op, True, square, RootMean(op.epsilon.value.data))


def _rms_norm(state: MainLowering, op: RMSNormOp) -> None:
    _normalize(state, op, False, square, RootMean(op.epsilon.value.data))


def _lp_normalization(state: MainLowering, op: LpNormalizationOp) -> None:
    p = op.p.value.data
    _normalize(state, op, False, square if p == 2 else magnitude, Norm(p))


@dataclass(frozen=True)
class Responses(Kernel):
    """y[p, c] = formula(x[p, c], Σ x²), the sum over the existing channels around c; one element at a time, in f64.

    shape        [pixels, channels]
    neighbours   how many channels before and after c are summed
    """

    shape: tuple[int, int]
    neighbours: tuple[int, int]
    formula: LocalResponse

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, y = buffers
        channels, (before, after) = self.shape[1], self.neighbours
        with code.loop(begin, end, name="pixel") as p, code.loop(0, channels, name="channel") as c:

            def add(k: Value, sums: list[Value]) -> Sequence[Value]:
                return [sums[0] + square(x.load(p, k).to(f64))]

            first, last = (c - before).maximum(0), (c + (after + 1)).minimum(channels)
            (total,) = code.fold(first, last, [code.zeros(f64, None)], add)
            y.store(self.formula(x.load(p, c).to(f64), total).to(y.element), p, c)


def _local_response(state: MainLowering, op: LocalResponseNormalizationOp) -> None:
    *pixels, channels = shape_of(op.x)
    shape = prod(pixels), channels
    state.compute(Responses(shape, op.neighbours(), op.formula()), op.y, shape, (op.x, shape))


RULES: Rules = {
    SoftmaxOp: _exponentials(Softmax),
    LogSoftmaxOp: _exponentials(LogSoftmax),
    LayerNormOp: _layer_norm,
    RMSNormOp: _rms_norm,
    LpNormalizationOp: _lp_normalization,
    LocalResponseNormalizationOp: _local_response,
}
