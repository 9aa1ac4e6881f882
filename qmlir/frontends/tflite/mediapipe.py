"""MediaPipe's custom operators: a transposed convolution with a bias, and pools that remember where a maximum lies.

Their options are the C structures of TFLite's own operators, as they lie in memory: int32 numbers in order, and more
behind them that no operator reads. Paddings are counted from 1 there.
"""

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import f32, i32
from xdsl.ir import SSAValue

from qmlir.dialects import nn
from qmlir.errors import UnsupportedError
from qmlir.formats.tflite import SAME, VALID
from qmlir.frontends.converters import Table
from qmlir.frontends.function import Constant, Value
from qmlir.frontends.tflite.contraction import spread_zeros, transposed, window_properties
from qmlir.frontends.tflite.node import TFLiteNode

converts = Table()

CONVOLUTION = ("padding", "stride_w", "stride_h", "activation")
POOL = ("padding", "stride_w", "stride_h", "filter_w", "filter_h", "activation")
"""The numbers of the structures, in order."""

PADDINGS = {1: SAME, 2: VALID}
"""Codes of paddings in C → codes in the schema."""


def _padding(node: TFLiteNode, code: int, activation: int) -> int:
    """Returns the schema's code of a padding, after a check that there is no fused activation."""
    if code not in PADDINGS:
        raise node.error("its padding must be 1 (SAME) or 2 (VALID)", str(code))
    if activation:
        raise UnsupportedError(f"it has the fused activation {activation}")
    return PADDINGS[code]


def _floats(node: TFLiteNode, inputs: Sequence[Value], rank: int = 4) -> None:
    for x in inputs:
        if node.is_quantized(x) or node.element(x) != "f32" or node.rank(x) != rank:
            raise node.error(
                "its inputs must be images [N, H, W, C] of float32", f"{node.element(x)} of rank {node.rank(x)}"
            )


@converts("CUSTOM.Convolution2DTransposeBias", layout=CONVOLUTION)
def convolution_2d_transpose_bias(
    node: TFLiteNode, x: Value, w: Value, b: Value, *, padding: int, stride_w: int, stride_h: int, activation: int = 0
) -> Value:
    """Transposed convolution with weights [O, KH, KW, C]; the shape of its output follows from its input's."""
    same = _padding(node, padding, activation) == SAME
    _floats(node, [x, w])
    (n, *image, _), weights = node.shape(x), node.shape(w)
    if min(stride_h, stride_w, *weights, *image) < 1:
        raise node.error("its strides and sizes must be at least 1", f"{(stride_h, stride_w)} over {list(weights)}")
    out, before = [n], list[int]()
    for size, window, stride in zip(image, weights[1:3], (stride_h, stride_w), strict=True):
        cut = max(0, window - (size - 1) % stride - 1) if same else 0
        out.append(stride * (size - 1) + window - cut)
        before.append(cut // 2)
    return transposed(node, spread_zeros(node, x, (stride_h, stride_w)), w, b, (*out, weights[0]), before)


@converts("CUSTOM.MaxPoolingWithArgmax2D", layout=POOL)
def max_pooling_with_argmax_2d(
    node: TFLiteNode, x: Value, *, padding: int, stride_w: int, stride_h: int, filter_w: int, filter_h: int,
    activation: int = 0,
) -> tuple[Value, ...]:  # fmt: skip
    """The maxima of windows, and the place of each in its window, row · width + column, as float32 and 0.1 larger."""
    code = _padding(node, padding, activation)
    _floats(node, [x])
    window, strides, image = (filter_h, filter_w), (stride_h, stride_w), node.shape(x)
    properties = {**window_properties(node, image, window, strides, code), "window": window}
    pads = properties["padding"]
    assert isinstance(pads, list)
    maxima = node.compute(nn.MaxPool2DOp, [x], properties)
    places = node.insert(nn.MaxPoolIndices2DOp, [x], properties)
    width = Constant(np.array(image[2], np.int64))
    row = node.insert(nn.DivOp, [places, width])
    column = node.insert(nn.SubOp, [places, node.insert(nn.MulOp, [row, width])])
    rows, columns = (
        node.insert(nn.SubOp, [value, _origins(node, maxima, axis, strides[axis - 1], pads[2 * (axis - 1)])])
        for value, axis in ((row, 1), (column, 2))
    )
    index = node.insert(nn.AddOp, [node.insert(nn.MulOp, [rows, Constant(np.array(filter_w, np.int64))]), columns])
    number = node.insert(nn.CastOp, [index], element=f32)
    return maxima, node.compute(nn.AddOp, [number, Constant(np.array(0.1, np.float32))], output=1)


def _origins(node: TFLiteNode, y: SSAValue, axis: int, stride: int, before: int) -> Constant:
    """Where each window begins along an axis of the image, as a tensor that broadcasts against the result."""
    size = node.shape(y)[axis]
    node.room((size,))
    return Constant(
        (np.arange(size, dtype=np.int64) * stride - before).reshape([-1 if i == axis else 1 for i in range(4)])
    )


@converts("CUSTOM.MaxUnpooling2D", layout=POOL)
def max_unpooling_2d(
    node: TFLiteNode, x: Value, places: Value, *, padding: int, stride_w: int, stride_h: int, filter_w: int,
    filter_h: int, activation: int = 0,
) -> Value:  # fmt: skip
    """Images in which each element of x lies at its place in a window of its own, among zeros."""
    _padding(node, padding, activation)
    _floats(node, [x, places])
    shape = node.shape(x)
    if node.shape(places) != shape or min(filter_h, filter_w) < 1:
        raise node.error("it needs a place for each element, and windows of at least 1", node.shape(places))
    if (filter_h, filter_w) != (stride_h, stride_w):
        raise UnsupportedError("its windows overlap, or leave gaps")
    n, rows, columns, channels = shape
    wide = (n, rows, 1, columns, 1, channels)
    index = node.insert(nn.CastOp, [places], element=i32)
    node.room((filter_h, filter_w))
    window = Constant(np.arange(filter_h * filter_w, dtype=np.int32).reshape(1, 1, filter_h, 1, filter_w, 1))
    here = node.insert(nn.EqualOp, [node.reshaped(index, wide), window])
    y = node.insert(nn.WhereOp, [here, node.reshaped(x, wide), Constant(np.zeros((), np.float32))])
    return node.reshaped(y, (n, rows * filter_h, columns * filter_w, channels))
