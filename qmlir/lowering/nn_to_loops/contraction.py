"""Lowering of contractions on plain elements: sums in the order kh, kw, c, by fused multiply-adds if they are f32.

Constant weights are packed at compile time, computed weights by a kernel that runs before the contraction.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from xdsl.dialects.builtin import f32, i32
from xdsl.ir import Attribute, SSAValue

from qmlir.codegen.code import Buffer, Code
from qmlir.codegen.kernels.choice import Candidate, choose
from qmlir.codegen.kernels.contraction import lower_contraction
from qmlir.codegen.kernels.depthwise import lower_depthwise
from qmlir.codegen.kernels.interfaces import Arithmetic, Epilogue, TapArithmetic
from qmlir.codegen.kernels.packing import Window, pack_columns, window_of
from qmlir.codegen.kernels.task import Broadcast, Task
from qmlir.codegen.lowering import Array, MainLowering, Rules, constant_array
from qmlir.codegen.value import Value
from qmlir.dialects.nn.blocked import BlockedFullyConnectedOp
from qmlir.dialects.nn.contraction import Conv2DOp, DepthwiseConv2DOp, FullyConnectedOp, MatMulOp, WeightedOp
from qmlir.ir.interfaces import Shape, element_of, shape_of
from qmlir.ir.types import dtype_of
from qmlir.lowering.nn_to_loops.stored_weights import StoredWeights, of_blocks, of_constant


def multiply_add(accumulator: Value, x: Value, w: Value) -> Value:
    """accumulator + x · w, which `add_products` of the numerics defines: f32 sums are rounded once."""
    return x.fused_multiply_add(w, accumulator) if accumulator.element == f32 else accumulator + x * w


@dataclass(frozen=True)
class PlainArithmetic(Arithmetic):
    """Multiplies and adds in the type of the elements, one channel a step; integers wrap around."""

    group: int = 1
    element: Attribute = f32
    zero_point: int = 0

    @property
    def sums(self) -> Attribute:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The type of the elements."""
        return self.element

    def prepare(self, x: Value, zero_point: Value | None = None) -> Value:
        return x

    def start(self, code: Code, bias: Buffer | None, block: Value, lanes: int) -> Value:
        if bias is None:
            return code.zeros(self.element, lanes)
        return bias.load(block * lanes, lanes=lanes)

    def weights(self, w: Buffer, at: Value, lanes: int) -> Value:
        return w.chunk(at, lanes)

    def step(self, accumulator: Value, x: Buffer, place: Value, w: Value) -> Value:
        return multiply_add(accumulator, x.load(place), w)


@dataclass(frozen=True)
class PlainTaps(TapArithmetic):
    """Depthwise arithmetic in the type of the elements."""

    element: Attribute = f32
    sums: Attribute = f32
    group: int = 1
    zero_point: int = 0
    outside: int = 0

    def prepare(self, x: Value) -> Value:
        return x

    def weights(self, w: Value) -> Value:
        return w

    def start(self, code: Code, bias: Buffer | None, channel: Value, lanes: int | None) -> Value:
        return code.zeros(self.element, lanes) if bias is None else bias.load(channel, lanes=lanes)

    def multiply_add(self, accumulator: Value, x: Value, w: Value) -> Value:
        return multiply_add(accumulator, x, w)


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
    """A fused clamp, with its bounds rounded to f32."""
    low, high = (None if b is None else float(np.float32(b)) for b in bounds)
    return Clamp(low, high)


@dataclass(frozen=True)
class StoredArithmetic(PlainArithmetic):
    """Multiplies f32 data by weights that are stored as integers, each of which becomes a float first."""

    def weights(self, w: Buffer, at: Value, lanes: int) -> Value:
        return super().weights(w, at, lanes).to(i32).to(f32)


SUMS = [Candidate("multiply-adds", lower_contraction)]
STORED = [Candidate("multiply-adds of stored weights", lower_contraction)]
TAPS = [Candidate("multiply-adds of taps", lower_depthwise)]
"""Kernels of contractions, with weights that are floats or stored integers, and of depthwise convolutions: the order of
their sums is fixed, so there is one of each."""


def _element(state: MainLowering, tensor: SSAValue) -> Attribute:
    """The element type of the buffer that holds a tensor."""
    return state.buffer_type(tensor).element_type


def _weights(state: MainLowering, op: WeightedOp, groups: int, shape: Shape) -> Array | SSAValue:
    """The weights [O, …] of a contraction: constants as an array of the given shape, computed weights as packed buffer.

    `shape` is [O, KH, KW, C / groups].
    """
    if (array := constant_array(op.w)) is not None:
        return array.reshape(shape)
    arithmetic = PlainArithmetic(element=_element(state, op.w))
    matrices = state.view(state.buffer(op.w), (groups, shape[0] // groups, prod(shape[1:])))
    return pack_columns(state, "nn_pack_weights", matrices, arithmetic, transposed=True)


def _bias(state: MainLowering, op: WeightedOp, groups: int = 1) -> Array | SSAValue | None:
    """The bias of a contraction: an array, or for a computed bias a buffer padded to whole blocks; None if absent."""
    if op.b is None:
        return None
    if (array := constant_array(op.b)) is not None:
        return array
    arithmetic = PlainArithmetic(element=_element(state, op.b))
    rows = state.view(state.buffer(op.b), (groups, 1, op.output_channels() // groups))
    return pack_columns(state, "nn_pack_bias", rows, arithmetic)


def _conv2d(state: MainLowering, op: Conv2DOp) -> None:
    shape, groups = shape_of(op.w), op.group_count()
    window = window_of(op, shape_of(op.x), shape_of(op.y), shape[1:3])
    _sum(state, op, "nn_conv2d", window, state.buffer(op.x), shape, groups)


def _sum(
    state: MainLowering, op: Conv2DOp | FullyConnectedOp, name: str, window: Window, x: SSAValue, shape: Shape,
    groups: int = 1,
) -> None:  # fmt: skip
    """Lowers sums of products with the weights [O, KH, KW, C / groups], floats or stored integers."""
    stored = of_constant(op.w)
    task = Task(
        name=name,
        window=window,
        outputs=shape[0],
        arithmetic=PlainArithmetic(element=_element(state, op.x)),
        epilogue=clamp_of(op.bounds()),
        groups=groups,
        result=op.y,
        x=x,
        weights=_weights(state, op, groups, shape) if stored is None else stored.integers.reshape(shape),
        bias=_bias(state, op, groups),
    )
    choose(state, *_kernels(task, stored))


def _kernels(
    task: Task[Arithmetic], stored: StoredWeights | None
) -> tuple[Task[Arithmetic], Sequence[Candidate[Arithmetic]]]:
    """The task and its kernels; those of stored weights make floats of them."""
    if stored is None:
        return task, SUMS
    return replace(task, arithmetic=StoredArithmetic(), reals=stored.reals, levels=stored.levels), STORED


def _depthwise(state: MainLowering, op: DepthwiseConv2DOp) -> None:
    _, *window, outputs = shape_of(op.w)
    weights, bias = constant_array(op.w), None if op.b is None else constant_array(op.b)
    task = Task(
        name="nn_depthwise_conv2d",
        window=window_of(op, shape_of(op.x), shape_of(op.y), window),
        outputs=outputs,
        arithmetic=PlainTaps(_element(state, op.x), _element(state, op.x)),
        epilogue=clamp_of(op.bounds()),
        result=op.y,
        x=state.buffer(op.x),
        weights=state.view(state.buffer(op.w), (*window, outputs)) if weights is None else weights[0],
        bias=state.buffer(op.b) if op.b is not None and bias is None else bias,
    )
    choose(state, task, TAPS)


def _fully_connected(state: MainLowering, op: FullyConnectedOp) -> None:
    shape = op.output_channels(), 1, 1, shape_of(op.x)[1]
    _sum(state, op, "nn_fully_connected", _rows(op), state.buffer(op.x), shape)


def _rows(op: FullyConnectedOp | BlockedFullyConnectedOp) -> Window:
    """The geometry of a product of rows with weights."""
    rows, channels = shape_of(op.x)
    return Window(1, 1, rows, channels, (1, 1), (1, rows))


def _stored(state: MainLowering, op: BlockedFullyConnectedOp, value: SSAValue) -> Array:
    """The data of a constant operand in their own type, such as uint4."""
    return state.require_constant(op, value, "weights").view(dtype_of(element_of(value)))


def _blocked(state: MainLowering, op: BlockedFullyConnectedOp) -> None:
    """The weights stay integers, or become floats here, of which only machine code knows."""
    w, s, z = (_stored(state, op, v) for v in (op.w, op.s, op.z))
    stored = of_blocks(op, w, s, z)
    task = Task(
        name="nn_fully_connected",
        window=_rows(op),
        outputs=shape_of(op.w)[0],
        arithmetic=PlainArithmetic(),
        epilogue=clamp_of(op.bounds()),
        result=op.y,
        x=state.buffer(op.x),
        weights=(op.floats(w, s, z) if stored is None else stored.integers)[:, None, None, :],
        bias=None if op.b is None else state.require_constant(op, op.b, "bias"),
    )
    choose(state, *_kernels(task, stored))


def _matmul(state: MainLowering, op: MatMulOp) -> None:
    lhs, rhs, result = shape_of(op.lhs), shape_of(op.rhs), shape_of(op.y)
    batch, rows, outputs = int(np.prod(result[:-2], dtype=np.int64)), lhs[-2], rhs[-1]
    arithmetic = PlainArithmetic(element=_element(state, op.lhs))
    task = Task(
        name="nn_matmul",
        window=Window(batch, 1, rows, lhs[-1], (1, 1), (1, rows)),
        outputs=outputs,
        arithmetic=arithmetic,
        epilogue=clamp_of(op.bounds()),
        x_batch=Broadcast.of(lhs[:-2], result[:-2]),
        w_batch=Broadcast.of(rhs[:-2], result[:-2]),
        result=op.y,
        x=state.buffer(op.lhs),
        weights=pack_columns(state, "nn_pack_columns", state.buffer(op.rhs), arithmetic),
    )
    choose(state, task, SUMS)


RULES: Rules = {
    Conv2DOp: _conv2d,
    DepthwiseConv2DOp: _depthwise,
    FullyConnectedOp: _fully_connected,
    BlockedFullyConnectedOp: _blocked,
    MatMulOp: _matmul,
}
