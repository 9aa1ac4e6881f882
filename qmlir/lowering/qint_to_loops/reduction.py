"""Kernels of pools, normalizations and weighted sums of neighbours."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import IntegerType, VectorType, f32, i32, i64
from xdsl.ir import Attribute

from qmlir.codegen.code import Buffer, Code
from qmlir.codegen.kernel import Epilogue, Kernel, MainLowering, Rules
from qmlir.codegen.kernels.elementwise import Entries, lower_resize, merged_around
from qmlir.codegen.kernels.packing import Window, window_of
from qmlir.codegen.kernels.windows import Reduction, lower_global_pool, lower_pool
from qmlir.codegen.value import INDEX, Value
from qmlir.dialects.qint.normalization import AlongAxisOp, AxisFormula, L2NormalizationOp, LogSoftmaxOp, SoftmaxOp
from qmlir.dialects.qint.pooling import (
    IN_FLOATS,
    AveragePool2DOp,
    GlobalSumPoolOp,
    InterpolateOp,
    MaxPool2DOp,
    PoolOp,
    ResizeOp,
    mean,
    round_mean,
    weighted,
)
from qmlir.ir.interfaces import element_of, shape_of
from qmlir.ir.types import dtype_of, is_integer
from qmlir.lowering.qint_to_loops.contraction import ending

# ---------------------------------------------------------------------------------------------------------------
# Lowering of integer pools.


@dataclass(frozen=True)
class Maximum(Reduction):
    """The maximum of signed integers; the least integer of the type for an empty window."""

    element: IntegerType

    def start(self, code: Code, lanes: int | None) -> Value:
        least = -(1 << self.element.width.data - 1)
        return code.constant(least, VectorType(self.element, [lanes]) if lanes else self.element)

    def combine(self, accumulator: Value, x: Value) -> Value:
        return accumulator.maximum(x)

    def finish(self, accumulator: Value, count: Value, parameters: Sequence[Value]) -> Value:
        return accumulator


@dataclass(frozen=True)
class Average(Reduction):
    """The mean, rounded half away from −offset.

    accumulator   the type of the sums, which must hold the sums of elements with `offset` added
    size          the number of elements of the window
    offset        added to the elements before the mean is rounded, and subtracted afterwards
    include       whether positions outside the image count; the divisor is then the window's size
    padding       the value of positions outside the image, if they count
    """

    element: IntegerType
    accumulator: IntegerType
    size: int
    offset: int
    include: bool
    padding: int

    def start(self, code: Code, lanes: int | None) -> Value:
        return code.zeros(self.accumulator, lanes)

    def combine(self, accumulator: Value, x: Value) -> Value:
        return accumulator + x.to(self.accumulator)

    def finish(self, accumulator: Value, count: Value, parameters: Sequence[Value]) -> Value:
        total = accumulator
        if self.include:
            if self.padding:
                outside = (self.size - count).to(self.accumulator)
                total = total + outside * self.padding
            divisor = total.code.index(self.size).to(self.accumulator)
        else:
            divisor = count.maximum(1).to(self.accumulator)  # an empty window yields 0 / 1
        return mean(total, divisor, self.offset).to(self.element)


def _window(op: PoolOp) -> Window:
    return window_of(op, shape_of(op.x), shape_of(op.y), op.window_values())


def _element(op: PoolOp) -> IntegerType:
    element = element_of(op.x)
    assert is_integer(element)
    return element


def _max_pool(state: MainLowering, op: MaxPool2DOp) -> None:
    lower_pool(state, "qint_max_pool2d", _window(op), Maximum(_element(op)), state.buffer(op.x), op.y)


def _average_pool(state: MainLowering, op: AveragePool2DOp) -> None:
    window, element = _window(op), _element(op)
    rows, columns = window.extent
    zero_point, include, offset = op.zero_point.value.data, bool(op.count_include_pad), op.offset.value.data
    largest = max(1 << element.width.data - 1, abs(zero_point)) + abs(offset)
    fits = largest * rows * columns + rows * columns < 1 << 31
    average = Average(element, i32 if fits else i64, rows * columns, offset, include, zero_point if include else 0)
    lower_pool(state, "qint_average_pool2d", window, average, state.buffer(op.x), op.y)


@dataclass(frozen=True)
class CentredSum(Reduction):
    """Σ (x − zero_point) in i32, then an epilogue."""

    zero_point: int
    epilogue: Epilogue

    def start(self, code: Code, lanes: int | None) -> Value:
        return code.zeros(i32, lanes)

    def combine(self, accumulator: Value, x: Value) -> Value:
        return accumulator + (x.to(i32) - self.zero_point)

    def finish(self, accumulator: Value, count: Value, parameters: Sequence[Value]) -> Value:
        return self.epilogue.finish(accumulator, parameters)


def _global_sum_pool(state: MainLowering, op: GlobalSumPoolOp) -> None:
    batch, height, width, channels = shape_of(op.x)
    result, epilogue, parameters = ending(state, op.acc, channels)
    reduction = CentredSum(op.zero_point.value.data, epilogue)
    shape = (batch, height * width, channels)
    lower_global_pool(state, "qint_global_sum_pool", shape, reduction, state.buffer(op.x), result, parameters)


# ---------------------------------------------------------------------------------------------------------------
# Lowering of softmax, log-softmax and L2 normalization, in i64. Along the last axis, the maximum is taken in vectors;
# and if a formula's elements depend only on table entries that the sum has read, these are kept, and the elements
# computed in vectors from them. All else goes one element at a time.

BYTES_OF_MAXIMUM = 64
"""Bytes of the vectors whose maximum is taken lane by lane."""

QUOTIENTS = 8
"""Elements that are computed together, in i64."""

MOST_KEPT = 4096
"""The most entries that are kept, 16 KB: half of a first-level cache."""


@dataclass(frozen=True)
class AlongAxis(Kernel):
    """y[o, a, i] from x[o, a, i] and a sum over x[o, :, i]. Buffers: x, the formula's tables, y.

    name      the kernel's symbol
    shape     x's sizes before, along and behind the axis
    formula   the integer arithmetic
    """

    name: str
    shape: tuple[int, int, int]
    formula: AxisFormula

    @property
    def symbol(self) -> str:
        return self.name

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, *tables, y = buffers
        length, formula, readers = self.shape[1], self.formula, [Entries(table) for table in tables]
        keeps = formula.reuses_entries and self.shape[2] == 1 and length <= MOST_KEPT
        kept = code.scratch((length,), tables[0].element, "entries") if keeps else None
        with code.loop(begin, end, name="row") as o, code.loop(0, self.shape[2], name="column") as i:
            most = self._maximum(code, x, o, i) if formula.zero_point is None else code.constant(0, i64)

            def difference(a: Value) -> Value:
                return formula.difference(x.load(o, a, i), most)

            def add(a: Value, sums: list[Value]) -> Sequence[Value]:
                def read(place: Value) -> Value:
                    entry = readers[0](place)
                    if kept is not None:
                        kept.store(entry, a)
                    return entry

                return [sums[0] + formula.term(difference(a), *([read, *readers[1:]] if readers else []))]

            (total,) = code.fold(0, length, [code.zeros(i64, None)], add)
            shared = formula.shared(total, *readers)

            def finish(a: Value, lanes: int | None) -> None:
                if kept is None:
                    y.store(formula.element(difference(a), shared, *readers), o, a, i)
                    return
                entry = kept.load(a, lanes=lanes)
                y.store(formula.element(entry, shared, lambda _: entry, *readers[1:]), o, a, i)

            code.spans(0, length, finish, () if kept is None else (QUOTIENTS,))

    def _maximum(self, code: Code, x: Buffer, o: Value, i: Value) -> Value:
        """The maximum along the axis, in i64."""
        length, lanes = self.shape[1], BYTES_OF_MAXIMUM // dtype_of(x.element).itemsize
        whole = length - length % lanes if self.shape[2] == 1 and code.vectors else 0
        most = x.load(o, 0, i)
        if whole:

            def greater(step: Value, m: list[Value]) -> Sequence[Value]:
                return [m[0].maximum(x.load(o, step * lanes, i, lanes=lanes))]

            (found,) = code.fold(1, whole // lanes, [x.load(o, 0, i, lanes=lanes)], greater)
            while lanes > 1:
                lanes //= 2
                found = found.lanes_from(0, lanes).maximum(found.lanes_from(lanes, lanes))
            most = found.lane(0)
        (most,) = code.fold(whole, length, [most], lambda a, m: [m[0].maximum(x.load(o, a, i))])
        return most.to(i64)


def _along_axis(state: MainLowering, op: AlongAxisOp) -> None:
    shape, (result,) = op.split(), op.results
    y = state.allocate_result(result)
    tables = [state.constant(table) for table in op.tables()]
    kernel = AlongAxis(op.name.replace(".", "_"), shape, op.formula())
    state.call(kernel, [state.view(state.buffer(op.x), shape), *tables, state.view(y, shape)], shape[0])
    state.replace(result, y)


# ---------------------------------------------------------------------------------------------------------------
# Lowering of integer interpolation.


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


RULES: Rules = {
    MaxPool2DOp: _max_pool,
    AveragePool2DOp: _average_pool,
    GlobalSumPoolOp: _global_sum_pool,
    SoftmaxOp: _along_axis,
    LogSoftmaxOp: _along_axis,
    L2NormalizationOp: _along_axis,
    ResizeOp: _resize,
    InterpolateOp: _interpolate,
}
