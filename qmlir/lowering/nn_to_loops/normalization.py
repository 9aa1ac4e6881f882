"""Softmax: in f64, the sum in index order, rounded once to f32.

exp is computed twice, for the sum and for the quotient, rather than kept: it gives the same bits both times.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, prod

from xdsl.dialects.builtin import VectorType, f32, f64

from qmlir.dialects.elementary.exponential import exp
from qmlir.dialects.interfaces import shape_of
from qmlir.dialects.nn.normalization import SoftmaxOp
from qmlir.lowering.code import Buffer, Code
from qmlir.lowering.kernel import Kernel, MainLowering, Rules
from qmlir.lowering.value import Value

LANES = 8
"""f64 values computed together."""


@dataclass(frozen=True)
class Softmax(Kernel):
    """y[o, a, i] = exp(x[o, a, i] − m) / Σ_a exp(x[o, a, i] − m), m the maximum over a."""

    shape: tuple[int, int, int]

    @property
    def symbol(self) -> str:
        return "nn_softmax"

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, y = buffers
        with code.loop(begin, end, name="row") as o:
            if self.shape[2] == 1:
                self._write_row(code, x, y, o)
            else:
                code.spans(0, self.shape[2], lambda i, lanes: self._write_columns(code, x, y, o, i, lanes), (LANES,))

    def _maximum(self, code: Code, x: Buffer, o: Value, i: Value, lanes: int | None) -> Value:
        """m in f64."""
        least = code.constant(-inf, VectorType(f32, [lanes]) if lanes else f32)
        (greatest,) = code.fold(0, self.shape[1], [least], lambda a, m: [m[0].maximum(x.load(o, a, i, lanes=lanes))])
        return greatest.to(f64)

    def _write_columns(self, code: Code, x: Buffer, y: Buffer, o: Value, i: Value, lanes: int | None) -> None:
        """Neighbouring sums side by side."""
        m = self._maximum(code, x, o, i, lanes)

        def term(a: Value) -> Value:
            return exp(x.load(o, a, i, lanes=lanes).to(f64) - m)

        (total,) = code.fold(0, self.shape[1], [code.zeros(f64, lanes)], lambda a, sums: [sums[0] + term(a)])
        with code.loop(0, self.shape[1]) as a:
            y.store((term(a) / total).to(f32), o, a, i)

    def _write_row(self, code: Code, x: Buffer, y: Buffer, o: Value) -> None:
        """One sum: terms side by side, added one after another."""
        zero = code.index(0)
        m = self._maximum(code, x, o, zero, None)
        length = self.shape[1]
        whole = length - length % LANES

        def term(a: Value, lanes: int | None) -> Value:
            return exp(x.load(o, a, zero, lanes=lanes).to(f64) - m)

        def add_lanes(step: Value, sums: list[Value]) -> Sequence[Value]:
            terms, total = term(step * LANES, LANES), sums[0]
            for lane in range(LANES):
                total = total + terms.lane(lane)
            return [total]

        sums = [code.zeros(f64, None)]
        if whole:
            sums = code.fold(0, whole // LANES, sums, add_lanes)
        if whole < length:
            sums = code.fold(whole, length, sums, lambda a, s: [s[0] + term(a, None)])
        (total,) = sums
        code.spans(0, length, lambda a, lanes: y.store((term(a, lanes) / total).to(f32), o, a, zero), (LANES,))


def _softmax(state: MainLowering, op: SoftmaxOp) -> None:
    shape, axis = shape_of(op.x), op.axis.value.data
    split = (prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :]))
    y = state.allocate_result(op.y)
    state.call(Softmax(split), [state.view(state.buffer(op.x), split), state.view(y, split)], split[0])
    state.replace(op.y, y)


RULES: Rules = {SoftmaxOp: _softmax}
