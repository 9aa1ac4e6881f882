"""Lowering of softmax, log-softmax and L2 normalization: one element at a time, in i64."""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import i64

from qmlir.codegen.code import Buffer, Code
from qmlir.codegen.kernel import Kernel, MainLowering, Rules
from qmlir.codegen.value import INDEX, Value
from qmlir.dialects.qint.normalization import (
    Division,
    L2NormalizationOp,
    LogOfSum,
    LogSoftmaxOp,
    Root,
    SoftmaxOp,
    logarithm_of_share,
)
from qmlir.lowering.qint_to_loops.requantize import Narrow, narrowing


@dataclass(frozen=True)
class Softmax(Kernel):
    """y[o, a, i] = narrow(table[m − x[o, a, i]] / Σ_a table[m − x[o, a, i]]), with m the maximum of x[o, :, i].

    Buffers: x, table, breakpoints (knots) of 1/(1 + x), y.

    shape      x's sizes before, along and behind the axis
    division   the integer arithmetic of the quotient
    """

    shape: tuple[int, int, int]
    division: Division
    narrow: Narrow

    @property
    def symbol(self) -> str:
        return "qint_softmax"

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, table, inverse, y = buffers
        length = self.shape[1]
        with code.loop(begin, end, name="row") as o, code.loop(0, self.shape[2], name="column") as i:
            most = _maximum(code, x, length, o, i)

            def exponential(a: Value) -> Value:
                return table.load((most - x.load(o, a, i).to(i64)).to(INDEX)).to(i64)

            def add(a: Value, sums: list[Value]) -> Sequence[Value]:
                return [sums[0] + self.division.term(exponential(a))]

            (total,) = code.fold(0, length, [code.zeros(i64, None)], add)
            shares = self.division.shares(total, lambda place: inverse.load(place.to(INDEX)).to(i64))
            with code.loop(0, length, name="a") as a:
                y.store(self.narrow(self.division.share(exponential(a), *shares)), o, a, i)


def _softmax(state: MainLowering, op: SoftmaxOp) -> None:
    shape = op.split()
    y = state.allocate_result(op.y)
    kernel = Softmax(shape, op.division_by_sum(), narrowing(op))
    tables = [state.constant((t or op.table).array) for t in (op.table, op.inverse)]
    buffers = [state.view(state.buffer(op.x), shape), *tables, state.view(y, shape)]
    state.call(kernel, buffers, shape[0])
    state.replace(op.y, y)


def _maximum(code: Code, x: Buffer, length: int, o: Value, i: Value) -> Value:
    """The maximum of x[o, :, i], in i64."""
    least = code.constant(-(1 << 15), i64)
    (most,) = code.fold(0, length, [least], lambda a, m: [m[0].maximum(x.load(o, a, i).to(i64))])
    return most


@dataclass(frozen=True)
class LogSoftmax(Kernel):
    """y[o, a, i] = differences[m − x[o, a, i]] − ln Σ_a table[m − x[o, a, i]]. Buffers: x, table, differences, y.

    shape        x's sizes before, along and behind the axis
    log_of_sum   the integer arithmetic of the logarithm
    """

    shape: tuple[int, int, int]
    log_of_sum: LogOfSum

    @property
    def symbol(self) -> str:
        return "qint_log_softmax"

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, table, differences, y = buffers
        length = self.shape[1]
        with code.loop(begin, end, name="row") as o, code.loop(0, self.shape[2], name="column") as i:
            most = _maximum(code, x, length, o, i)

            def entry(buffer: Buffer, a: Value) -> Value:
                return buffer.load((most - x.load(o, a, i).to(i64)).to(INDEX)).to(i64)

            def add(a: Value, sums: list[Value]) -> Sequence[Value]:
                return [sums[0] + entry(table, a)]

            (total,) = code.fold(0, length, [code.zeros(i64, None)], add)
            log_total = self.log_of_sum(total)
            with code.loop(0, length, name="a") as a:
                y.store(logarithm_of_share(entry(differences, a), log_total).to(y.element), o, a, i)


def _log_softmax(state: MainLowering, op: LogSoftmaxOp) -> None:
    shape = op.split()
    y = state.allocate_result(op.y)
    tables = [state.constant(t.array) for t in (op.table, op.differences)]
    buffers = [state.view(state.buffer(op.x), shape), *tables, state.view(y, shape)]
    state.call(LogSoftmax(shape, op.log_of_sum()), buffers, shape[0])
    state.replace(op.y, y)


@dataclass(frozen=True)
class L2Normalization(Kernel):
    """y[o, a, i] = narrow((x[o, a, i] − z) / √Σ_a (x[o, a, i] − z)²), with the zero point z.

    shape   x's sizes before, along and behind the axis
    root    the integer arithmetic of the quotient by the root
    """

    shape: tuple[int, int, int]
    zero_point: int
    root: Root
    narrow: Narrow

    @property
    def symbol(self) -> str:
        return "qint_l2_normalization"

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, y = buffers
        length = self.shape[1]
        with code.loop(begin, end, name="row") as o, code.loop(0, self.shape[2], name="column") as i:

            def centred(a: Value) -> Value:
                return x.load(o, a, i).to(i64) - self.zero_point

            def add(a: Value, sums: list[Value]) -> Sequence[Value]:
                return [sums[0] + centred(a) * centred(a)]

            (total,) = code.fold(0, length, [code.zeros(i64, None)], add)
            factor, bits = self.root.factor(total)
            with code.loop(0, length, name="a") as a:
                y.store(self.narrow(self.root.share(centred(a), factor, bits)), o, a, i)


def _l2_normalization(state: MainLowering, op: L2NormalizationOp) -> None:
    shape = op.split()
    y = state.allocate_result(op.y)
    kernel = L2Normalization(shape, op.input_zero_point.value.data, op.root(), narrowing(op))
    state.call(kernel, [state.view(state.buffer(op.x), shape), state.view(y, shape)], shape[0])
    state.replace(op.y, y)


RULES: Rules = {SoftmaxOp: _softmax, LogSoftmaxOp: _log_softmax, L2NormalizationOp: _l2_normalization}
