"""Float pools."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from xdsl.dialects.builtin import VectorType, f32, i32

from qmlir.dialects.interfaces import shape_of
from qmlir.dialects.nn.pooling import AveragePool2DOp, GlobalAveragePoolOp, MaxPool2DOp, PoolOp
from qmlir.lowering.code import Code
from qmlir.lowering.kernel import MainLowering, Rules
from qmlir.lowering.kernels.pooling import Reduction, lower_global_pool, lower_pool
from qmlir.lowering.kernels.tile import Window, window_of
from qmlir.lowering.value import Value


@dataclass(frozen=True)
class Maximum(Reduction):
    """The greatest element; −∞ of none."""

    def start(self, code: Code, lanes: int | None) -> Value:
        return code.constant(-inf, VectorType(f32, [lanes]) if lanes else f32)

    def combine(self, accumulator: Value, x: Value) -> Value:
        return accumulator.maximum(x)

    def finish(self, accumulator: Value, count: Value, parameters: Sequence[Value]) -> Value:
        return accumulator


@dataclass(frozen=True)
class Mean(Reduction):
    """The sum in order divided by the number of elements, or by `divisor`."""

    divisor: int | None

    def start(self, code: Code, lanes: int | None) -> Value:
        return code.zeros(f32, lanes)

    def combine(self, accumulator: Value, x: Value) -> Value:
        return accumulator + x

    def finish(self, accumulator: Value, count: Value, parameters: Sequence[Value]) -> Value:
        if self.divisor is not None:
            return accumulator / float(self.divisor)
        return accumulator / count.to(i32).to(f32)


def _window(op: PoolOp) -> Window:
    return window_of(op, shape_of(op.x), shape_of(op.y), op.window_values())


def _max_pool(state: MainLowering, op: MaxPool2DOp) -> None:
    lower_pool(state, "nn_max_pool2d", _window(op), Maximum(), state.buffer(op.x), op.y)


def _average_pool(state: MainLowering, op: AveragePool2DOp) -> None:
    window = _window(op)
    rows, columns = window.extent
    inside = not (window.padded_rows or window.padded_columns)
    divisor = rows * columns if bool(op.count_include_pad) or inside else None
    lower_pool(state, "nn_average_pool2d", window, Mean(divisor), state.buffer(op.x), op.y)


def _global_average_pool(state: MainLowering, op: GlobalAveragePoolOp) -> None:
    batch, height, width, channels = shape_of(op.x)
    shape = (batch, height * width, channels)
    lower_global_pool(state, "nn_global_average_pool", shape, Mean(height * width), state.buffer(op.x), op.y)


RULES: Rules = {
    MaxPool2DOp: _max_pool,
    AveragePool2DOp: _average_pool,
    GlobalAveragePoolOp: _global_average_pool,
}
