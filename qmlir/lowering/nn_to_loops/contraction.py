"""Float contractions: sums in the fixed order kh, kw, c, each product and each sum rounded by itself."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import Attribute

from qmlir.dialects.interfaces import shape_of
from qmlir.dialects.nn.contraction import Conv2DOp, DepthwiseConv2DOp, FullyConnectedOp, MatMulOp, WeightedOp
from qmlir.lowering.code import Buffer, Code
from qmlir.lowering.kernel import Array, MainLowering, Rules
from qmlir.lowering.kernels.arithmetic import Arithmetic, Epilogue
from qmlir.lowering.kernels.contraction import Broadcast, Task, lower_contraction
from qmlir.lowering.kernels.depthwise import DepthwiseTask, TapArithmetic, lower_depthwise
from qmlir.lowering.kernels.pack import pack_columns
from qmlir.lowering.kernels.tile import Window, window_of
from qmlir.lowering.value import Value


@dataclass(frozen=True)
class FloatArithmetic(Arithmetic):
    """f32; one channel a step."""

    group: int = 1
    element: Attribute = f32

    def prepare(self, x: Value) -> Value:
        return x

    def start(self, code: Code, bias: Buffer | None, block: Value, lanes: int) -> Value:
        if bias is None:
            return code.zeros(f32, lanes)
        return bias.load(block * lanes, lanes=lanes)

    def weights(self, w: Buffer, at: Value, lanes: int) -> Value:
        return w.load(at * lanes, lanes=lanes)

    def step(self, accumulator: Value, x: Buffer, place: tuple[Value, Value], w: Value) -> Value:
        return accumulator + x.load(*place) * w


@dataclass(frozen=True)
class FloatTaps(TapArithmetic):
    """f32."""

    element: Attribute = f32

    def prepare(self, x: Value) -> Value:
        return x

    def start(self, code: Code, bias: Buffer | None, channel: Value, lanes: int | None) -> Value:
        return code.zeros(f32, lanes) if bias is None else bias.load(channel, lanes=lanes)

    def multiply_add(self, accumulator: Value, x: Value, w: Value) -> Value:
        return accumulator + x * w


@dataclass(frozen=True)
class Clamp(Epilogue):
    """min(max(y, low), high); either bound may be absent."""

    low: float | None
    high: float | None
    parameters: int = 0

    def finish(self, accumulator: Value, parameters: Sequence[Value]) -> Value:
        return self(accumulator)

    def __call__(self, y: Value) -> Value:
        y = y if self.low is None else y.maximum(self.low)
        return y if self.high is None else y.minimum(self.high)


def clamp_of(bounds: tuple[float | None, float | None]) -> Clamp:
    """A fused clamp with its bounds as f32."""
    low, high = (None if b is None else float(np.float32(b)) for b in bounds)
    return Clamp(low, high)


def constant_bias(state: MainLowering, op: WeightedOp) -> Array | None:
    """The bias of a contraction, or None."""
    return None if op.b is None else state.require_constant(op, op.b, "bias")


def _conv2d(state: MainLowering, op: Conv2DOp) -> None:
    weights = state.require_constant(op, op.w, "weights")
    task = Task(
        "nn_conv2d",
        window_of(op, shape_of(op.x), shape_of(op.y), weights.shape[1:3]),
        weights.shape[0],
        FloatArithmetic(),
        clamp_of(op.bounds()),
        state.buffer(op.x),
        weights,
        constant_bias(state, op),
    )
    lower_contraction(state, task, op.y)


def _depthwise(state: MainLowering, op: DepthwiseConv2DOp) -> None:
    weights = state.require_constant(op, op.w, "weights")
    task = DepthwiseTask(
        "nn_depthwise_conv2d",
        window_of(op, shape_of(op.x), shape_of(op.y), weights.shape[1:3]),
        weights.shape[3],
        FloatTaps(),
        clamp_of(op.bounds()),
        state.buffer(op.x),
        weights[0],
        constant_bias(state, op),
    )
    lower_depthwise(state, op, task, op.y)


def _fully_connected(state: MainLowering, op: FullyConnectedOp) -> None:
    weights = state.require_constant(op, op.w, "weights")
    rows, channels = shape_of(op.x)
    task = Task(
        "nn_fully_connected",
        Window(1, 1, rows, channels, (1, 1), (1, rows)),
        weights.shape[0],
        FloatArithmetic(),
        clamp_of(op.bounds()),
        state.buffer(op.x),
        weights[:, None, None, :],
        constant_bias(state, op),
    )
    lower_contraction(state, task, op.y)


def _matmul(state: MainLowering, op: MatMulOp) -> None:
    lhs, rhs, result = shape_of(op.lhs), shape_of(op.rhs), shape_of(op.y)
    batch, rows, outputs = int(np.prod(result[:-2], dtype=np.int64)), lhs[-2], rhs[-1]
    arithmetic = FloatArithmetic()
    task = Task(
        "nn_matmul",
        Window(batch, 1, rows, lhs[-1], (1, 1), (1, rows)),
        outputs,
        arithmetic,
        clamp_of(op.bounds()),
        state.buffer(op.lhs),
        pack_columns(state, "nn_pack_columns", state.buffer(op.rhs), arithmetic),
        x_batch=Broadcast.of(lhs[:-2], result[:-2]),
        w_batch=Broadcast.of(rhs[:-2], result[:-2]),
    )
    lower_contraction(state, task, op.y)


RULES: Rules = {
    Conv2DOp: _conv2d,
    DepthwiseConv2DOp: _depthwise,
    FullyConnectedOp: _fully_connected,
    MatMulOp: _matmul,
}
