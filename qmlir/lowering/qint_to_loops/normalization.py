"""Integers divided by sums of their neighbours: element by element, in i64."""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import i64

from qmlir.dialects.qint.normalization import Division, SoftmaxOp
from qmlir.lowering.code import Buffer, Code
from qmlir.lowering.kernel import Kernel, MainLowering, Rules
from qmlir.lowering.qint_to_loops.requantize import Narrow, narrowing
from qmlir.lowering.value import INDEX, Value


@dataclass(frozen=True)
class Softmax(Kernel):
    """y[o, a, i] = narrow(share of table[m − x[o, a, i]] in its sum over a). Buffers: x, table, knots of 1/(1 + x), y.

    shape   before, along and behind the axis
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
            least = code.constant(-(1 << 15), i64)
            (most,) = code.fold(0, length, [least], lambda a, m: [m[0].maximum(x.load(o, a, i).to(i64))])

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


RULES: Rules = {SoftmaxOp: _softmax}
