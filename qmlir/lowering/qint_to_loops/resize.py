"""Lowering of integer interpolation."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import f32, i32, i64
from xdsl.ir import Attribute

from qmlir.codegen.code import Buffer, Code
from qmlir.codegen.kernel import Kernel, MainLowering, Rules
from qmlir.codegen.kernels.resize import lower_resize, merged_around
from qmlir.codegen.value import INDEX, Value
from qmlir.dialects.qint.resize import IN_FLOATS, InterpolateOp, ResizeOp, round_mean, weighted
from qmlir.ir.interfaces import shape_of


def _resize(state: MainLowering, op: ResizeOp) -> None:
    lower_resize(state, "qint_resize", op.tables(), op.x, op.acc, op.zero_point.value.data)


@dataclass(frozen=True)
class Interpolate(Kernel):
    """y = R(Σ w · (x + offset)) − offset with a rounding R, one element at a time.

    Buffers: x, then taps (positions of neighbours) and weights of each axis, then y.

    axes      the axes in the order in which weights multiply; sums run over the taps of the last axis outermost
    rounding  the rounding of the `InterpolateOp`, which decides whether sums are in f32 or in i64
    bits      the fractional bits of integer sums
    """

    axes: tuple[int, ...]
    rounding: str
    bits: int
    offset: int

    @property
    def symbol(self) -> str:
        return "qint_interpolate"

    @property
    def wide(self) -> Attribute:
        """The type of the sums."""
        return f32 if self.rounding in IN_FLOATS else i64

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, *tables, y = buffers
        with ExitStack() as nest:
            place = [
                nest.enter_context(code.loop(begin, end) if axis == 0 else code.loop(0, size))
                for axis, size in enumerate(y.shape)
            ]
            total = self._sum(code, x, tables, place, place, [], code.zeros(self.wide, None))
            y.store((round_mean(total, self.rounding, self.bits) - self.offset).to(y.element), *place)

    def _sum(
        self,
        code: Code,
        x: Buffer,
        tables: Sequence[Buffer],
        result: Sequence[Value],
        place: Sequence[Value],
        weights: Sequence[Value],
        total: Value,
    ) -> Value:
        """Adds to `total` the terms at all taps of the axes that have no weight yet, the last such axis outermost."""
        left = len(self.axes) - len(weights)
        if left == 0:
            term = (x.load(*place).to(i32) + self.offset).to(self.wide)
            return total + weighted(term, weights, self.rounding)
        axis = self.axes[left - 1]
        taps, own = tables[2 * left - 2 : 2 * left]

        def step(t: Value, sums: list[Value]) -> list[Value]:
            there = list(place)
            there[axis] = taps.load(result[axis], t).to(INDEX)
            weight = own.load(result[axis], t)
            return [self._sum(code, x, tables, result, there, [weight, *weights], sums[0])]

        return code.fold(0, taps.shape[1], [total], step, name="t")[0]


def _interpolate(state: MainLowering, op: InterpolateOp) -> None:
    steps = op.steps()
    shape, result, place = merged_around(shape_of(op.x), shape_of(op.y), [axis for axis, _, _ in steps])
    buffer = state.allocate_result(op.y)
    if prod(result):
        constants = [state.constant(table) for _, taps, weights in steps for table in (taps, weights)]
        kernel = Interpolate(tuple(place), op.rounding.data, sum(op.bits.get_values()), op.offset.value.data)
        views = [state.view(state.buffer(op.x), shape), *constants, state.view(buffer, result)]
        state.call(kernel, views, result[0] if len(result) > 1 else 1)
    state.replace(op.y, buffer)


RULES: Rules = {ResizeOp: _resize, InterpolateOp: _interpolate}
