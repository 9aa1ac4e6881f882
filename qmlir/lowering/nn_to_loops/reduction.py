"""Kernels of reductions along axes and of pools over windows."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, prod

import numpy as np
from xdsl.dialects.builtin import AnyFloat, VectorType, f64, i1, i32, i64
from xdsl.ir import Attribute

from qmlir.codegen.code import Buffer, Code
from qmlir.codegen.kernels.packing import Window, window_of
from qmlir.codegen.kernels.windows import Output, Pool, Reduction, each_output, lower_global_pool, lower_pool
from qmlir.codegen.lowering import Kernel, MainLowering, Rules
from qmlir.codegen.value import Value
from qmlir.dialects import nn
from qmlir.dialects.nn.base import NNOp, is_unsigned
from qmlir.dialects.nn.reduction import (
    AdditionOp,
    ArgumentOp,
    AveragePool2DOp,
    CumulativeOp,
    GlobalAveragePoolOp,
    MaxPool2DOp,
    MaxPoolIndices2DOp,
    ReductionOp,
    WindowPoolOp,
    least,
)
from qmlir.ir.interfaces import element_of, shape_of
from qmlir.ir.types import dtype_of, is_integer
from qmlir.lowering.nn_to_loops.movement import loops_over
from qmlir.numerics.additions import NINE, added_nine

# ---------------------------------------------------------------------------------------------------------------
# Lowering of reductions and cumulative operations: loops over reduced dimensions inside loops over kept dimensions.


LANES = 8
"""The number of neighbouring results that are computed together, as a vector."""


SUMS = (nn.ReduceSumOp, nn.ReduceMeanOp, nn.CumulativeSumOp)


@dataclass(frozen=True)
class Combination:
    """How a reduction or cumulative operation combines two elements.

    kind       the class of the operation: nn.ReduceSumOp, …
    unsigned   whether integers are compared as unsigned
    addition   how floats are added (`AdditionOp`); None: in f64
    """

    kind: type[NNOp]
    unsigned: bool
    addition: str | None = None

    @property
    def by_runs(self) -> bool:
        """Whether the elements along the last axes are added by themselves, and scaled before their sums are added."""
        return self.addition == "float32_reciprocal"

    def start(self, code: Code, element: Attribute, lanes: int | None) -> Value:
        """The identity of the combination, as a scalar or a vector."""
        element = self.carried(element)
        number: float
        if self.kind in SUMS:
            number = -0.0 if isinstance(element, AnyFloat) and self.addition is None else 0
        elif self.kind in (nn.ReduceProdOp, nn.CumulativeProductOp):
            number = 1
        else:
            number = self._least(element) if self.kind is nn.ReduceMaxOp else self._greatest(element)
        return code.constant(number, VectorType(element, [lanes]) if lanes else element)

    def _least(self, element: Attribute) -> float:
        if isinstance(element, AnyFloat):
            return -inf
        assert is_integer(element)
        return 0 if self.unsigned else -(1 << element.width.data - 1)

    def _greatest(self, element: Attribute) -> float:
        if isinstance(element, AnyFloat):
            return inf
        assert is_integer(element)
        return -1 if self.unsigned else (1 << element.width.data - 1) - 1

    def carried(self, element: Attribute) -> Attribute:
        """The type of the accumulator: f64 for sums and products of floats by default, else the elements' type."""
        computes = self.kind not in (nn.ReduceMaxOp, nn.ReduceMinOp)
        return f64 if computes and isinstance(element, AnyFloat) and self.addition is None else element

    def __call__(self, accumulator: Value, x: Value) -> Value:
        if self.kind in SUMS:
            return accumulator + x.to(accumulator.element)
        if self.kind in (nn.ReduceProdOp, nn.CumulativeProductOp):
            return accumulator * x.to(accumulator.element)
        if self.kind is nn.ReduceMaxOp:
            return accumulator.maximum(x, unsigned=self.unsigned)
        return accumulator.minimum(x, unsigned=self.unsigned)

    def finish(self, accumulator: Value, count: int) -> Value:
        """The result from the accumulator of `count` elements."""
        divides = self.kind is nn.ReduceMeanOp and not (self.by_runs and count)
        return accumulator / float(count) if divides else accumulator

    def of_run(self, total: Value, run: Value, count: int) -> Value:
        """Adds the sum of one more run along the last axes to a total of `count` elements in all."""
        return total + (run * float(np.float32(1) / np.float32(count)) if self.kind is nn.ReduceMeanOp else run)


@dataclass(frozen=True)
class Reduce(Kernel):
    """y[kept] = the elements x[kept and reduced], combined in index order.

    shape     x's dimensions, with neighbours merged that are both kept or both reduced
    reduced   for each of these dimensions, whether it is reduced
    """

    combine: Combination
    shape: tuple[int, ...]
    reduced: tuple[bool, ...]

    @property
    def result(self) -> tuple[int, ...]:
        """y's dimensions: the kept dimensions, or one dimension of size 1 if all are reduced."""
        return tuple(n for n, gone in zip(self.shape, self.reduced, strict=True) if not gone) or (1,)

    @property
    def count(self) -> int:
        """The number of elements that are combined to one result."""
        return prod(n for n, gone in zip(self.shape, self.reduced, strict=True) if gone)

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, y = buffers
        *outer, inner = self.result
        columns = not self.reduced[-1] and inner > 1 and y.element != i1
        with loops_over(code, outer, begin, end) as rows:

            def element(i: Value, lanes: int | None) -> None:
                total = self._combined(code, x, [*rows, i], lanes)
                y.store(self.combine.finish(total, self.count).to(y.element), *rows, i)

            first, last = (0, inner) if outer else (begin, end)
            code.spans(first, last, element, (LANES,) if columns else ())

    def _combined(self, code: Code, x: Buffer, kept: list[Value], lanes: int | None) -> Value:
        place = iter(kept)
        at: list[Value | None] = [None if gone else next(place) for gone in self.reduced]
        along = [axis for axis, gone in enumerate(self.reduced) if gone]

        def over(axes: list[int], indices: list[Value | None], total: Value) -> Value:
            if not axes:
                load = x.load(*(i for i in indices if i is not None), lanes=lanes)
                return self.combine(total, load)

            def step(i: Value, carried: list[Value]) -> Sequence[Value]:
                inside = [i if axis == axes[0] else index for axis, index in enumerate(indices)]
                return [over(axes[1:], inside, carried[0])]

            run = self.combine.by_runs and len(axes) == 1
            start = self.combine.start(code, x.element, lanes) if run else total
            (result,) = code.fold(0, self.shape[axes[0]], [start], step)
            return self.combine.of_run(total, result, self.count) if run else result

        if any(self.shape[axis] == 0 for axis in along) and self.combine.kind in SUMS:
            return code.zeros(self.combine.carried(x.element), lanes)
        return over(along, at, self.combine.start(code, x.element, lanes))


def _merged(
    shape: Sequence[int], axes: Sequence[int], *, runs: bool = False
) -> tuple[tuple[int, ...], tuple[bool, ...]]:
    """Merges neighbouring dimensions that are both kept or both reduced, and drops dimensions of size 1.

    Args:
        shape: The dimensions.
        axes: Those that are reduced.
        runs: Whether dimensions of size 1 stay, so that the last reduced dimension is the last run of axes.

    Returns:
        The merged dimensions, and for each whether it is reduced.
    """
    merged: list[tuple[int, bool]] = []
    for axis, size in enumerate(shape):
        gone = axis in axes
        if merged and merged[-1][1] == gone:
            merged[-1] = (merged[-1][0] * size, gone)
        elif size != 1 or runs:
            merged.append((size, gone))
    merged = merged or [(1, True)]
    return tuple(n for n, _ in merged), tuple(gone for _, gone in merged)


def _reduce(state: MainLowering, op: ReductionOp) -> None:
    addition = op.addition if isinstance(op, AdditionOp) else None
    combine = Combination(type(op), is_unsigned(element_of(op.x)), addition)
    shape, reduced = _merged(shape_of(op.x), op.axes.get_values(), runs=combine.by_runs)
    kernel = Reduce(combine, shape, reduced)
    state.compute(kernel, op.y, kernel.result, (op.x, shape))


@dataclass(frozen=True)
class Argument(Kernel):
    """y[o, i] = the position a of the maximum or minimum of x[o, :, i].

    greatest   whether to find the maximum; otherwise the minimum
    last       whether to choose the last of equal elements; otherwise the first
    """

    greatest: bool
    last: bool
    unsigned: bool
    length: int

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, y = buffers
        with code.loop(begin, end) as o, code.loop(0, y.shape[1]) as i:
            start = [x.load(o, 0, i), code.constant(0, i64)]

            def step(a: Value, carried: list[Value]) -> Sequence[Value]:
                best, place = carried
                new = x.load(o, a, i)
                better = self._better(new, best)
                return [better.choose(new, best), better.choose(a.to(i64), place)]

            y.store(code.fold(0, self.length, start, step)[1], o, i)

    def _better(self, new: Value, best: Value) -> Value:
        low, high = (best, new) if self.greatest else (new, best)
        compare = low.less_equal if self.last else low.less
        better = compare(high, unsigned=self.unsigned)
        if isinstance(new.element, AnyFloat):
            better = better | (new.is_nan() if self.last else new.is_nan() & (best.is_nan() ^ 1))
        return better


def _argument(state: MainLowering, op: ArgumentOp) -> None:
    outer, length, inner = op.split()
    unsigned = is_unsigned(element_of(op.x))
    kernel = Argument(isinstance(op, nn.ArgMaxOp), bool(op.last), unsigned, length)
    state.compute(kernel, op.y, (outer, inner), (op.x, (outer, length, inner)))


@dataclass(frozen=True)
class Cumulative(Kernel):
    """y[o, a, i] = the combination of the elements x[o, …a, i] up to a; see `CumulativeOp`."""

    combine: Combination
    exclusive: bool
    reverse: bool

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, y = buffers
        _, length, inner = x.shape

        def column(o: Value, i: Value, lanes: int | None) -> None:
            def step(a: Value, carried: list[Value]) -> Sequence[Value]:
                at = code.index(length - 1) - a if self.reverse else a
                total = self.combine(carried[0], x.load(o, at, i, lanes=lanes))
                y.store((carried[0] if self.exclusive else total).to(y.element), o, at, i)
                return [total]

            start = self.combine.start(code, x.element, lanes)
            if self.exclusive and self.combine.kind is nn.CumulativeSumOp:
                start = code.zeros(start.element, lanes)
            code.fold(0, length, [start], step)

        with code.loop(begin, end) as o:
            code.spans(0, inner, lambda i, lanes: column(o, i, lanes), (LANES,))


def _cumulative(state: MainLowering, op: CumulativeOp) -> None:
    shape = op.split()
    combine = Combination(type(op), is_unsigned(element_of(op.x)), op.addition)
    state.compute(Cumulative(combine, bool(op.exclusive), bool(op.reverse)), op.y, shape, (op.x, shape))


# ---------------------------------------------------------------------------------------------------------------
# Lowering of pools on plain elements.


@dataclass(frozen=True)
class Maximum(Reduction):
    """The maximum; `least` is the identity of max: the result for an empty window."""

    element: Attribute
    least: float
    unsigned: bool

    def start(self, code: Code, lanes: int | None) -> Value:
        return code.constant(self.least, VectorType(self.element, [lanes]) if lanes else self.element)

    def combine(self, accumulator: Value, x: Value) -> Value:
        return accumulator.maximum(x, unsigned=self.unsigned)

    def finish(self, accumulator: Value, count: Value, parameters: Sequence[Value]) -> Value:
        return accumulator


@dataclass(frozen=True)
class Mean(Reduction):
    """The sum in index order, divided by `divisor`, or by the number of elements if `divisor` is None.

    With `reciprocal`, the sum is multiplied by 1 / the divisor.
    """

    element: Attribute
    divisor: int | None
    reciprocal: bool = False

    def start(self, code: Code, lanes: int | None) -> Value:
        return code.zeros(self.element, lanes)

    def combine(self, accumulator: Value, x: Value) -> Value:
        return accumulator + x

    def finish(self, accumulator: Value, count: Value, parameters: Sequence[Value]) -> Value:
        if self.divisor is not None:
            if self.reciprocal:
                return accumulator * float(np.float32(1) / np.float32(self.divisor))
            return accumulator / float(self.divisor)
        number = count.to(i32).to(self.element)
        return accumulator * (1.0 / number) if self.reciprocal else accumulator / number


def _window(op: WindowPoolOp) -> Window:
    return window_of(op, shape_of(op.x), shape_of(op.y), op.window_values())


def _max_pool(state: MainLowering, op: MaxPool2DOp) -> None:
    element = element_of(op.x)
    reduction = Maximum(_stored(state, op), least(dtype_of(element)), is_unsigned(element))
    lower_pool(state, "nn_max_pool2d", _window(op), reduction, state.buffer(op.x), op.y)


@dataclass(frozen=True)
class MaximumPlaces(Kernel):
    """y[n, oh, ow, c] = the position row · W + column of the window's first maximum in the image.

    Buffers: x [N·H, W, C], y [N·OH, OW, C] i64. The kernel computes one element at a time. The position is −1 if the
    window has no elements, or only NaN.
    """

    window: Window
    unsigned: bool

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, y = buffers
        window = self.window
        with each_output(code, window, begin, end) as at:
            with code.loop(0, window.channels, name="channel") as c:

                def over_rows(i: Value, best: list[Value]) -> Sequence[Value]:
                    row = at.top + i * window.dilations[0]

                    def over_columns(j: Value, best: list[Value]) -> Sequence[Value]:
                        column = at.left + j * window.dilations[1]
                        element = x.load(at.image + row, column, c)
                        return self._better(element, (row * window.width + column).to(i64), *best)

                    return code.fold(*at.columns, best, over_columns, "kw")

                start = [code.zeros(x.element, None), code.constant(-1, i64)]
                y.store(code.fold(*at.rows, start, over_rows, "kh")[1], at.line, at.column, c)

    def _better(self, element: Value, place: Value, best: Value, found: Value) -> list[Value]:
        """Updates the maximum so far, and its position, with one more element."""
        greater = best.less(element, unsigned=self.unsigned) | (found.less(0) & element.equals(element))
        return [greater.choose(element, best), greater.choose(place, found)]


def _max_pool_indices(state: MainLowering, op: MaxPoolIndices2DOp) -> None:
    window = _window(op)
    image = op.x, (window.batch * window.height, window.width, window.channels)
    result = (window.batch * window.output[0], window.output[1], window.channels)
    state.compute(MaximumPlaces(window, is_unsigned(element_of(op.x))), op.y, result, image)


def _stored(state: MainLowering, op: WindowPoolOp | GlobalAveragePoolOp) -> Attribute:
    """The element type of the data's buffer."""
    return state.buffer_type(op.x).element_type


@dataclass(frozen=True)
class PoolByNines(Pool):
    """A pool that adds elements column by column, nine at a time (`added_nine`); elements outside the image are 0."""

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, y = buffers
        rows, columns = self.window.extent
        whole, last = divmod(rows * columns - 1, NINE)
        with each_output(code, self.window, begin, end) as at:
            count = (at.rows[1] - at.rows[0]) * (at.columns[1] - at.columns[0])

            def channels(c: Value, lanes: int | None) -> None:
                zero = code.zeros(x.element, lanes)

                def group(i: Value, sums: list[Value]) -> Sequence[Value]:
                    taps = [self._element(code, x, at, (i * NINE + k) % rows, (i * NINE + k) // rows, c, lanes)
                            for k in range(NINE)]  # fmt: skip
                    return [added_nine(sums[0], taps)]

                (total,) = code.fold(0, whole, [zero], group, "nine")
                ends = [divmod(whole * NINE + k, rows) for k in range(last + 1)]
                taps = [self._element(code, x, at, code.index(i), code.index(j), c, lanes) for j, i in ends]
                total = added_nine(total, taps + [zero] * (NINE - len(taps)))
                y.store(self.reduction.finish(total, count, []), at.line, at.column, c)

            code.spans(0, self.window.channels, channels)

    def _element(self, code: Code, x: Buffer, at: Output, i: Value, j: Value, c: Value, lanes: int | None) -> Value:
        """The element of tap (i, j); 0 outside the image."""
        window = self.window
        row, column = at.top + i * window.dilations[0], at.left + j * window.dilations[1]
        inside: list[Value] = []
        if window.padded_rows:
            held = row.maximum(0).minimum(window.height - 1)
            inside.append(held.equals(row))
            row = held
        if window.padded_columns:
            held = column.maximum(0).minimum(window.width - 1)
            inside.append(held.equals(column))
            column = held
        element = x.load(at.image + row, column, c, lanes=lanes)
        for condition in inside:
            element = condition.choose(element, code.zeros(x.element, lanes))
        return element


def _average_pool(state: MainLowering, op: AveragePool2DOp) -> None:
    window = _window(op)
    rows, columns = window.extent
    inside = not (window.padded_rows or window.padded_columns)
    divisor = rows * columns if bool(op.count_include_pad) or inside else None
    nines = op.addition == "float32_reciprocal"
    mean, kind = Mean(_stored(state, op), divisor, reciprocal=nines), PoolByNines if nines else Pool
    lower_pool(state, "nn_average_pool2d", window, mean, state.buffer(op.x), op.y, kind)


def _global_average_pool(state: MainLowering, op: GlobalAveragePoolOp) -> None:
    batch, height, width, channels = shape_of(op.x)
    shape = (batch, height * width, channels)
    mean = Mean(_stored(state, op), height * width, reciprocal=op.addition == "float32_reciprocal")
    lower_global_pool(state, "nn_global_average_pool", shape, mean, state.buffer(op.x), op.y)


RULES: Rules = {
    ReductionOp: _reduce,
    ArgumentOp: _argument,
    CumulativeOp: _cumulative,
    MaxPool2DOp: _max_pool,
    MaxPoolIndices2DOp: _max_pool_indices,
    AveragePool2DOp: _average_pool,
    GlobalAveragePoolOp: _global_average_pool,
}
