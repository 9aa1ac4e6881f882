"""Interpolation: every element by itself, its neighbours weighted along one axis inside the other."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from math import prod

from qmlir.dialects.dtypes import dtype_of
from qmlir.dialects.interfaces import element_of, shape_of
from qmlir.dialects.nn.resize import ResizeOp
from qmlir.lowering.code import WIDTHS, Buffer, Code
from qmlir.lowering.kernel import Kernel, MainLowering, Rules
from qmlir.lowering.value import INDEX, Value


@dataclass(frozen=True)
class Resize(Kernel):
    """y[o, …] = Σ over the taps of the last axis (Σ over those of the one before it (… x)).

    axes   in the order in which they are resized; buffers are x, then taps and weights of each, then y
    """

    axes: tuple[int, ...]
    widths: tuple[int, ...]

    @property
    def symbol(self) -> str:
        return "nn_resize"

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, *tables, y = buffers
        *outer, length = y.shape

        with ExitStack() as nest:
            rows = [
                nest.enter_context(code.loop(begin, end) if axis == 0 else code.loop(0, size))
                for axis, size in enumerate(outer)
            ]

            def compute(i: Value, lanes: int | None) -> None:
                place = [*rows, i]
                y.store(self._value(code, x, tables, place, place, len(self.axes), lanes), *place)

            code.spans(0, length, compute, self.widths)

    def _value(
        self,
        code: Code,
        x: Buffer,
        tables: Sequence[Buffer],
        result: Sequence[Value],
        place: Sequence[Value],
        depth: int,
        lanes: int | None,
    ) -> Value:
        """The element at `place` of what the first `depth` axes make of x, for the result's element at `result`."""
        if depth == 0:
            return x.load(*place, lanes=lanes)
        axis = self.axes[depth - 1]
        taps, weights = tables[2 * depth - 2 : 2 * depth]

        def step(t: Value, sums: list[Value]) -> list[Value]:
            own = list(place)
            own[axis] = taps.load(result[axis], t).to(INDEX)
            value = self._value(code, x, tables, result, own, depth - 1, lanes)
            return [sums[0] + weights.load(result[axis], t).spread(lanes) * value]

        zero = code.zeros(x.element, lanes)
        return code.fold(0, taps.shape[1], [zero], step, name="t")[0]


def _resize(state: MainLowering, op: ResizeOp) -> None:
    axes = op.axes.get_values()
    shape, result, place = merged_around(shape_of(op.x), shape_of(op.y), axes)
    y = state.allocate_result(op.y)
    if prod(result):
        tables = [
            state.constant(table)
            for _, taps, weights in op.tables()
            for table in (taps, weights.astype(dtype_of(element_of(op.x))))
        ]
        kept = len(shape) - 1 not in place
        kernel = Resize(tuple(place), WIDTHS if kept else ())
        items = result[0] if len(result) > 1 else 1
        state.call(kernel, [state.view(state.buffer(op.x), shape), *tables, state.view(y, result)], items)
    state.replace(op.y, y)


def merged_around(
    shape: Sequence[int], result: Sequence[int], axes: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...], list[int]]:
    """(shape, result, axes) in fewer dimensions: neighbours that are no axes, and have one size in both, are one."""
    sizes: list[tuple[int, int]] = []
    place: dict[int, int] = {}
    for axis, (before, after) in enumerate(zip(shape, result, strict=True)):
        if axis in axes:
            place[axis] = len(sizes)
        elif sizes and axis - 1 not in axes:
            sizes[-1] = (sizes[-1][0] * before, sizes[-1][1] * after)
            continue
        sizes.append((before, after))
    return tuple(b for b, _ in sizes), tuple(a for _, a in sizes), [place[a] for a in axes]


RULES: Rules = {ResizeOp: _resize}
