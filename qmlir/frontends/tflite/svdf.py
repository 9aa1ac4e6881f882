"""SVDF: a layer over a window of time, as a product of two factors, whose state is the window.

    x [N, I], feature weights [F, I], time weights [F, M], bias [U] with F = U · rank, state [N, F·M], result [N, U]

A call computes a = x · feature weightsᵀ for each of F filters and puts it into the last of the filter's M places; the
places before it hold the results of earlier calls. A unit of the result is the sum over its filters of what their
places hold, times the time weights. Then the places move on by one.

On bytes LiteRT keeps the state in 16 bits, with time weights of 16 bits, and rounds twice, `double`, in all of its
three ways: the mark `qmlir.kernel` says so (policies/runtimes.py).
"""

import numpy as np
from xdsl.dialects.builtin import i8, i16
from xdsl.ir import OpResult, SSAValue

from qmlir.dialects.nn.contraction import DepthwiseConv2DOp, FullyConnectedOp
from qmlir.dialects.nn.movement import ConcatOp
from qmlir.dialects.quant.types import UniformType
from qmlir.errors import UnsupportedError
from qmlir.frontends.converters import Table
from qmlir.frontends.function import Value
from qmlir.frontends.tflite.contraction import refuse_hybrid, weighted
from qmlir.frontends.tflite.movement import pad_value
from qmlir.frontends.tflite.node import TFLiteNode
from qmlir.frontends.windows import sliced
from qmlir.ir.facts import KERNEL

converts = Table()

STATE_INPUT = 4
"""The number of the input that is the state."""

RELU = 1
"""The code of the activation that LiteRT asks for on integers, and then ignores."""


@converts("SVDF")
def svdf(
    node: TFLiteNode, x: Value, feature: Value, time: Value, b: Value | None = None, state: Value | None = None, *,
    rank: int, fused_activation_function: int,
) -> Value:  # fmt: skip
    """The sums over a window of time; the state moves on by one place."""
    if state is None:
        raise node.error("it needs a state", "none")
    if [node.rank(v) for v in (x, feature, time, state)] != [2] * 4:
        raise node.error("its input, weights and state must have rank 2", node.shape(x))
    (batch, width), (filters, taken), (rows, places) = (node.shape(v) for v in (x, feature, time))
    if rank < 1 or filters % rank or rows != filters or taken != width or node.shape(state) != (batch, rows * places):
        shapes = ", ".join(str(list(node.shape(v))) for v in (x, feature, time, state))
        raise node.error("its weights [F, I] and [F, M] and its state [N, F·M] must fit its input", shapes)
    refuse_hybrid(node, x, feature, time)
    type = node.type_of(state)
    if type is None and node.element(state) != node.element(x):
        raise UnsupportedError(f"it computes on {node.element(x)} with a state of {node.element(state)}")
    if node.is_quantized(x) or type is not None:
        _check_integers(node, x, feature, time, type)
        if fused_activation_function != RELU:
            raise UnsupportedError("LiteRT computes it on integers with the activation RELU only")
    operands = [node.quantized(x), node.quantized(feature)] if type is not None else [x, node.floats(feature)]
    newest = node.compute(FullyConnectedOp, [*operands, None], element=type, part="features")
    window = node.builder.ssa(node.reshaped(newest, (batch, filters, 1)))
    if places > 1:
        held = node.builder.ssa(node.reshaped(state, (batch, filters, places)))
        kept = sliced(node, held, (0, 0, 0), (batch, filters, places - 1))
        window = node.compute(ConcatOp, [[kept, window]], {"axis": 2}, part="window")
        later = sliced(node, window, (0, 0, 1), (batch, filters, places - 1))
        moved = pad_value(node, later, (0, 0, 0), (0, 0, 1), 0.0)
        node.update(STATE_INPUT, node.reshaped(moved, (batch, filters * places)))
    y = _over_time(node, window, time, b, rank)
    if type is None:
        return node.activated(y, fused_activation_function)
    for value in (newest, y):
        _mark(value)
    return y


def _over_time(node: TFLiteNode, window: SSAValue, time: Value, b: Value | None, rank: int) -> SSAValue:
    """Sums a window [N, F, M] times the time weights, over the filters of each unit: a depthwise convolution.

    The units are its channels, and the places of all filters of a unit its window.
    """
    batch, filters, places = node.shape(window)
    units, taps = filters // rank, rank * places
    image = node.permuted(node.reshaped(window, (batch, units, taps)), (0, 2, 1))
    weights = node.moved(node.reshaped(time, (units, taps)), (1, 0))
    image, weights = node.reshaped(image, (batch, taps, 1, units)), node.reshaped(weights, (1, taps, 1, units))
    bias = None if b is None else node.reshaped(b, (int(np.prod(node.shape(b))),))
    y = weighted(node, DepthwiseConv2DOp, image, weights, bias, 0, 3)
    return node.builder.ssa(node.reshaped(y, (batch, units)))


def _mark(value: SSAValue) -> None:
    """Marks the contraction behind a value as one that LiteRT's kernel of SVDF computes."""
    while isinstance(value, OpResult) and not isinstance(value.op, FullyConnectedOp | DepthwiseConv2DOp):
        value = value.op.operands[0]
    assert isinstance(value, OpResult)
    KERNEL.put(value.op, "SVDF")


def _check_integers(node: TFLiteNode, x: Value, feature: Value, time: Value, state: UniformType | None) -> None:
    """Refuses quantized operands that LiteRT's kernel does not take."""
    types = [node.type_of(v) for v in (x, feature, time)]
    stored = [None if t is None or t.is_per_axis else t.storage for t in (*types, state)]
    if stored != [i8, i8, i16, i16] or (state is not None and state.zero_point):
        raise UnsupportedError(
            "it computes on integers that are not stored as LiteRT does: input and feature weights as int8, time "
            "weights and state as int16, each with one scale, and the state with zero point 0"
        )
