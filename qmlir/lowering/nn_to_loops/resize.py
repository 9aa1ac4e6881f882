"""Kernels of interpolations: resizes, and samples at computed places."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import i64

from qmlir.codegen.code import WIDTHS, Buffer, Code
from qmlir.codegen.kernels.elementwise import lower_resize
from qmlir.codegen.lowering import Kernel, MainLowering, Rules
from qmlir.codegen.value import INDEX, Value
from qmlir.dialects.nn.resize import ResizeOp, SampleOp, Sampling
from qmlir.ir.interfaces import element_of, shape_of
from qmlir.ir.types import dtype_of

# ---------------------------------------------------------------------------------------------------------------
# Lowering of float interpolation.


def _resize(state: MainLowering, op: ResizeOp) -> None:
    dtype = dtype_of(element_of(op.x))
    tables = [(axis, taps, weights.astype(dtype)) for axis, taps, weights in op.tables()]
    lower_resize(state, "nn_resize", tables, op.x, op.y)


# ---------------------------------------------------------------------------------------------------------------
# Lowering of image sampling at computed positions.
#
# For each position, the kernel first computes the neighbours (taps) and their weights along each axis, and then the
# weighted sum for each channel.


@dataclass(frozen=True)
class Sample(Kernel):
    """y[r, :] = the image x[r // each, …, :] sampled at the position places[r, :].

    each   the number of positions for each image
    """

    sampling: Sampling
    each: int

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, places, y = buffers
        axes = range(places.shape[1])
        with code.loop(begin, end, name="row") as row:
            tables: list[tuple[Buffer, Buffer]] = []
            for a in axes:
                first, found = self.sampling.neighbours(places.load(row, a), x.shape[a + 1])
                taps = code.scratch((len(found),), i64, "taps")
                weights = code.scratch((len(found),), x.element, "weights")
                for k, weight in enumerate(found):
                    weights.store(weight, k)
                with code.loop(0, len(found), name="k") as k:
                    neighbour = first + k.to(i64).to(x.element)
                    at, weight = self.sampling.tap(neighbour, weights.load(k), x.shape[a + 1])
                    taps.store(at, k)
                    weights.store(weight, k)
                tables.append((taps, weights))

            def value(at: Sequence[Value], i: Value, lanes: int | None) -> Value:
                if len(at) == len(tables):
                    return x.load(row // self.each, *at, i, lanes=lanes)
                taps, weights = tables[len(at)]

                def step(t: Value, sums: list[Value]) -> list[Value]:
                    inner = value((*at, taps.load(t).to(INDEX)), i, lanes)
                    return [sums[0] + weights.load(t).spread(lanes) * inner]

                return code.fold(0, taps.shape[0], [code.zeros(x.element, lanes)], step, name="t")[0]

            code.spans(0, y.shape[1], lambda i, lanes: y.store(value((), i, lanes), row, i), WIDTHS)


def _sample(state: MainLowering, op: SampleOp) -> None:
    *listed, channels = shape_of(op.y)
    rows = prod(listed)
    places = op.places, (rows, shape_of(op.places)[-1])
    state.compute(Sample(op.sampling(), prod(listed[1:])), op.y, (rows, channels), (op.x, shape_of(op.x)), places)


RULES: Rules = {
    ResizeOp: _resize,
    SampleOp: _sample,
}
