"""Lowering of pools on plain elements."""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import VectorType, i32, i64
from xdsl.ir import Attribute

from qmlir.codegen.code import Buffer, Code
from qmlir.codegen.kernel import Kernel, MainLowering, Rules
from qmlir.codegen.kernels.pooling import Reduction, each_output, lower_global_pool, lower_pool
from qmlir.codegen.kernels.tile import Window, window_of
from qmlir.codegen.value import Value
from qmlir.dialects.nn.base import is_unsigned
from qmlir.dialects.nn.pooling import (
    AveragePool2DOp,
    GlobalAveragePoolOp,
    MaxPool2DOp,
    MaxPoolIndices2DOp,
    WindowPoolOp,
    least,
)
from qmlir.ir.dtypes import dtype_of
from qmlir.ir.interfaces import element_of, shape_of


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
    """The sum in index order, divided by `divisor`, or by the number of elements if `divisor` is None."""

    element: Attribute
    divisor: int | None

    def start(self, code: Code, lanes: int | None) -> Value:
        return code.zeros(self.element, lanes)

    def combine(self, accumulator: Value, x: Value) -> Value:
        return accumulator + x

    def finish(self, accumulator: Value, count: Value, parameters: Sequence[Value]) -> Value:
        if self.divisor is not None:
            return accumulator / float(self.divisor)
        return accumulator / count.to(i32).to(self.element)


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

    @property
    def symbol(self) -> str:
        return "nn_max_pool2d_indices"

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
    y = state.allocate_result(op.y)
    source = state.view(state.buffer(op.x), (window.batch * window.height, window.width, window.channels))
    lines = window.batch * window.output[0]
    target = state.view(y, (lines, window.output[1], window.channels))
    state.call(MaximumPlaces(window, is_unsigned(element_of(op.x))), [source, target], lines)
    state.replace(op.y, y)


def _stored(state: MainLowering, op: WindowPoolOp | GlobalAveragePoolOp) -> Attribute:
    """The element type of the data's buffer."""
    return state.buffer_type(op.x).element_type


def _average_pool(state: MainLowering, op: AveragePool2DOp) -> None:
    window = _window(op)
    rows, columns = window.extent
    inside = not (window.padded_rows or window.padded_columns)
    divisor = rows * columns if bool(op.count_include_pad) or inside else None
    lower_pool(state, "nn_average_pool2d", window, Mean(_stored(state, op), divisor), state.buffer(op.x), op.y)


def _global_average_pool(state: MainLowering, op: GlobalAveragePoolOp) -> None:
    batch, height, width, channels = shape_of(op.x)
    shape = (batch, height * width, channels)
    lower_global_pool(
        state, "nn_global_average_pool", shape, Mean(_stored(state, op), height * width), state.buffer(op.x), op.y
    )


RULES: Rules = {
    MaxPool2DOp: _max_pool,
    MaxPoolIndices2DOp: _max_pool_indices,
    AveragePool2DOp: _average_pool,
    GlobalAveragePoolOp: _global_average_pool,
}
