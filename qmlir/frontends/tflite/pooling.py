"""Converters of pools over windows of [N, H, W, C]."""

from typing import Any

from qmlir.dialects.nn.elementary import SqrtOp
from qmlir.dialects.nn.elementwise import MulOp
from qmlir.dialects.nn.pooling import AveragePool2DOp, MaxPool2DOp
from qmlir.dialects.windows import ints
from qmlir.frontends.tflite.converters import converts
from qmlir.frontends.tflite.node import TFLiteNode
from qmlir.frontends.tflite.windows import window_properties
from qmlir.frontends.values import Refusal, Value


def _pool(
    node: TFLiteNode, op_type: Any, x: Value, padding: int, strides: tuple[int, int], window: tuple[int, int],
    activation: int,
) -> Value:  # fmt: skip
    properties = {**window_properties(node, node.shape(x), window, strides, padding), "window": ints(list(window))}
    return node.pointwise(op_type, [x], properties, activation=activation)


@converts("AVERAGE_POOL_2D", options="Pool2DOptions")
def average_pool_2d(
    node: TFLiteNode, x: Value, *, padding: int, stride_h: int, stride_w: int, filter_height: int, filter_width: int,
    fused_activation_function: int,
) -> Value:  # fmt: skip
    """The mean of a window's elements that lie inside the image; padding does not count."""
    strides, window = (stride_h, stride_w), (filter_height, filter_width)
    return _pool(node, AveragePool2DOp, x, padding, strides, window, fused_activation_function)


@converts("MAX_POOL_2D", options="Pool2DOptions")
def max_pool_2d(
    node: TFLiteNode, x: Value, *, padding: int, stride_h: int, stride_w: int, filter_height: int, filter_width: int,
    fused_activation_function: int,
) -> Value:  # fmt: skip
    """The largest element of a window."""
    strides, window = (stride_h, stride_w), (filter_height, filter_width)
    return _pool(node, MaxPool2DOp, x, padding, strides, window, fused_activation_function)


@converts("L2_POOL_2D", options="Pool2DOptions")
def l2_pool_2d(
    node: TFLiteNode, x: Value, *, padding: int, stride_h: int, stride_w: int, filter_height: int, filter_width: int,
    fused_activation_function: int,
) -> Value:  # fmt: skip
    """The square root of the mean of the squares in a window."""
    if node.is_quantized(x):
        raise Refusal("its input is quantized")
    strides, window = (stride_h, stride_w), (filter_height, filter_width)
    properties = {**window_properties(node, node.shape(x), window, strides, padding), "window": ints(list(window))}
    mean = node.insert(AveragePool2DOp, [node.insert(MulOp, [x, x])], properties)
    y = node.pointwise(SqrtOp, [mean], activation=fused_activation_function)
    node.mark_powers(2)
    return y
