"""Kernels of pools and weighted sums of neighbours."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import IntegerType, VectorType, f32, i32, i64
from xdsl.ir import Attribute

from qmlir.codegen.code import Buffer, Code
from qmlir.codegen.kernels.elementwise import lower_resize, merged_around
from qmlir.codegen.kernels.interfaces import Epilogue
from qmlir.codegen.kernels.packing import Window, window_of
from qmlir.codegen.kernels.windows import Reduction, lower_global_pool, lower_pool
from qmlir.codegen.lowering import Kernel, MainLowering, Rules
from qmlir.codegen.value import INDEX, Value
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
from qmlir.ir.types import is_integer
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
    """Σ (x − zero_point) in the type `accumulator`, then an epilogue."""

    zero_point: int
    accumulator: Attribute
    epilogue: Epilogue

    def start(self, code: Code, lanes: int | None) -> Value:
        return code.zeros(self.accumulator, lanes)

    def combine(self, accumulator: Value, x: Value) -> Value:
        return accumulator + (x.to(i32) - self.zero_point).to(self.accumulator)

    def finish(self, accumulator: Value, count: Value, parameters: Sequence[Value]) -> Value:
        return self.epilogue.finish(accumulator, parameters)


def _global_sum_pool(state: MainLowering, op: GlobalSumPoolOp) -> None:
    batch, height, width, channels = shape_of(op.x)
    result, epilogue, parameters = ending(state, op.acc, None)
    reduction = CentredSum(op.zero_point.value.data, element_of(op.acc), epilogue)
    shape = (batch, height * width, channels)
    lower_global_pool(state, "qint_global_sum_pool", shape, reduction, state.buffer(op.x), result, parameters)


# ---------------------------------------------------------------------------------------------------------------
# Lowering of integer interpolation.


def _resize(state: MainLowering, op: ResizeOp) -> None:
    lower_resize(state, "qint_resize", op.tables(), op.x, op.acc, op.zero_point.value.data, op.dropped.value.data)


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
    ResizeOp: _resize,
    InterpolateOp: _interpolate,
}
