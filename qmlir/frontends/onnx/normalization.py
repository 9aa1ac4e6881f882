"""Softmax, and batch normalization as a product and a sum."""

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, i64

from qmlir.dialects.nn.elementwise import AddOp, MulOp
from qmlir.dialects.nn.normalization import SoftmaxOp
from qmlir.frontends.onnx.builder import Node
from qmlir.frontends.onnx.converters import converts
from qmlir.frontends.onnx.layout import channels_first, channels_last
from qmlir.frontends.onnx.values import Constant, Refusal, Value


@converts("Softmax")
def softmax_flattened(node: Node, x: Value, *, axis: int = 1) -> Value:
    """Before version 13: over all elements from `axis` on, as if they were one dimension."""
    shape = node.shape(x)
    first = axis if axis == len(shape) else node.axis(axis, len(shape))
    count = int(np.prod(shape[first:]))
    if first < len(shape) and shape[first] == count:
        return _softmax(node, x, first)
    rows = node.reshaped(x, (int(np.prod(shape[:first])), count))
    return node.reshaped(_softmax(node, rows, 1), shape)


@converts("Softmax", since=13)
def softmax(node: Node, x: Value, *, axis: int = -1) -> Value:
    """Over one dimension."""
    return _softmax(node, x, node.axis(axis, node.rank(x)))


def _softmax(node: Node, x: Value, axis: int) -> Value:
    return node.compute(SoftmaxOp, [x], {"axis": IntegerAttr(axis, i64)})


@converts("BatchNormalization", since=7)
def batch_normalization(
    node: Node,
    x: Value,
    scale: Value,
    bias: Value,
    mean: Value,
    variance: Value,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    spatial: int = 1,
    training_mode: int = 0,
) -> Value:
    """scale · (x − mean) / √(variance + epsilon) + bias as x · factor + offset, channels last as convolutions are."""
    if training_mode:
        raise Refusal("it is in training mode")
    rank, channels = node.rank(x), node.shape(x)[1:2]
    names = {"scale": scale, "bias": bias, "mean": mean, "variance": variance}
    arrays = [node.array(value, name).astype(np.float64) for name, value in names.items()]
    if any(a.shape != channels for a in arrays):
        if not spatial:
            raise Refusal("it is not spatial: it has parameters for each element")
        raise node.error(f"its parameters must have shape {list(channels)}", str([list(a.shape) for a in arrays]))
    if np.any(arrays[3] + epsilon <= 0):
        raise node.error("its variance must not be negative", str(float(arrays[3].min())))
    factor = arrays[0] / np.sqrt(arrays[3] + epsilon)
    offset = arrays[1] - arrays[2] * factor
    image = channels_last(node, x) if rank > 2 else x
    product = node.compute(MulOp, [image, Constant(factor.astype(np.float32))], part="scaled")
    y = node.compute(AddOp, [product, Constant(offset.astype(np.float32))])
    return channels_first(node, y) if rank > 2 else y
