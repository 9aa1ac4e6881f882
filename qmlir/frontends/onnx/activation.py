"""Relu, Clip, Sigmoid, Tanh and what is the identity at inference."""

import numpy as np

from qmlir.dialects.nn.activation import ClampOp, ReluOp, SigmoidOp, TanhOp
from qmlir.dialects.nn.base import bound
from qmlir.frontends.onnx.builder import Node
from qmlir.frontends.onnx.converters import converts
from qmlir.frontends.onnx.types import element_name, element_type
from qmlir.frontends.onnx.values import Constant, Refusal, Value


@converts("Relu")
def relu(node: Node, x: Value) -> Value:
    """max(x, 0)."""
    return node.compute(ReluOp, [x])


@converts("Sigmoid")
def sigmoid(node: Node, x: Value) -> Value:
    """1 / (1 + exp(−x))."""
    return node.compute(SigmoidOp, [x])


@converts("Tanh")
def tanh(node: Node, x: Value) -> Value:
    """The hyperbolic tangent."""
    return node.compute(TanhOp, [x])


_LARGEST = float(np.finfo(np.float32).max)


@converts("Clip")
def clip_attributes(node: Node, x: Value, *, min: float = -_LARGEST, max: float = _LARGEST) -> Value:
    """min(max(x, min), max)."""
    return _clamp(node, x, min, max)


@converts("Clip", since=11)
def clip(node: Node, x: Value, min: Value | None = None, max: Value | None = None) -> Value:
    """min(max(x, min), max); an absent bound does not bind."""
    bounds: list[float | None] = []
    for value, what in ((min, "lower bound"), (max, "upper bound")):
        array = None if value is None else node.array(value, what)
        if array is not None and array.size != 1:
            raise node.error(f"its {what} must be a scalar", f"{array.size} values")
        bounds.append(None if array is None else float(array.reshape(())))
    return _clamp(node, x, *bounds)


def _clamp(node: Node, x: Value, low: float | None, high: float | None) -> Value:
    if (low is not None and np.isnan(low)) or (high is not None and np.isnan(high)):
        raise Refusal("a bound is NaN")
    low = None if low is None or low <= -_LARGEST else low
    high = None if high is None or high >= _LARGEST else high
    if low is not None and high is not None and low > high:
        low = high  # every element becomes the upper bound
    if low is None and high is None:
        return x
    return node.compute(ClampOp, [x], {"min": bound(low), "max": bound(high)})


@converts("Identity")
def identity(node: Node, x: Value) -> Value:
    """x."""
    return x


@converts("Cast")
def cast(node: Node, x: Value, *, to: int, saturate: int = 1, round_mode: str = "up") -> Value:
    """x, where it is of that type already."""
    element = node.element(x)
    if str(element_type(to)) != element:
        raise Refusal(f"it casts {element} to {element_name(to)}")
    return x


@converts("Dropout", since=7)
def dropout(node: Node, x: Value, *, ratio: float = 0.5) -> Value:
    """x; its mask, before version 10 of x's type, is not given."""
    return x


@converts("Dropout", since=10)
def dropout_bool_mask(node: Node, x: Value, *, ratio: float = 0.5) -> tuple[Value, ...]:
    """x and a mask that keeps everything."""
    return x, Constant(np.ones(node.shape(x), np.bool_))


@converts("Dropout", since=12)
def dropout_training(
    node: Node, x: Value, ratio: Value | None = None, training_mode: Value | None = None, *, seed: int = 0
) -> tuple[Value, ...]:
    """x and a mask that keeps everything, unless it is training."""
    if training_mode is not None and node.array(training_mode, "training_mode").any():
        raise Refusal("it is in training mode")
    return x, Constant(np.ones(node.shape(x), np.bool_))
