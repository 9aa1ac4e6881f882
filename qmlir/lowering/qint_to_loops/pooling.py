"""Lowering of integer pools."""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import IntegerType, VectorType, i32, i64

from qmlir.codegen.code import Code
from qmlir.codegen.kernel import MainLowering, Rules
from qmlir.codegen.kernels.arithmetic import Epilogue
from qmlir.codegen.kernels.pooling import Reduction, lower_global_pool, lower_pool
from qmlir.codegen.kernels.tile import Window, window_of
from qmlir.codegen.value import Value
from qmlir.dialects.qint.pooling import AveragePool2DOp, GlobalSumPoolOp, MaxPool2DOp, PoolOp
from qmlir.ir.interfaces import element_of, shape_of
from qmlir.ir.predicates import is_integer
from qmlir.lowering.qint_to_loops.contraction import ending


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
        if self.offset:
            total = total + divisor * self.offset
        half = divisor.logical_shift(1).spread(total.lanes)
        sign = total >> (self.accumulator.width.data - 1)
        away = (half ^ sign) - sign  # half with the total's sign
        return ((total + away).truncated_quotient(divisor) - self.offset).to(self.element)


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


RULES: Rules = {
    MaxPool2DOp: _max_pool,
    AveragePool2DOp: _average_pool,
    GlobalSumPoolOp: _global_sum_pool,
}
