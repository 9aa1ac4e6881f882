"""Activations with attributes or bounds, and operators that are the identity at inference."""

import numpy as np
from xdsl.dialects.builtin import BoolAttr

from qmlir.dialects.nn.activation import (
    CeluOp,
    ClampOp,
    EluOp,
    GeluOp,
    HardSigmoidOp,
    LeakyReluOp,
    SeluOp,
    ShrinkOp,
    SwishOp,
    ThresholdedReluOp,
)
from qmlir.dialects.nn.base import bound
from qmlir.dialects.nn.elementwise import MaximumOp, MinimumOp
from qmlir.frontends.builder import Node
from qmlir.frontends.onnx.converters import converts
from qmlir.frontends.values import Constant, Refusal, Value, filled


@converts("LeakyRelu", since=6)
def leaky_relu(node: Node, x: Value, *, alpha: float = 0.01) -> Value:
    """y = alpha · x where x < 0, else x."""
    return node.compute(LeakyReluOp, [x], {"alpha": bound(alpha)})


@converts("Elu", since=6)
def elu(node: Node, x: Value, *, alpha: float = 1.0) -> Value:
    """y = alpha · (e^x − 1) where x < 0, else x."""
    return node.compute(EluOp, [x], {"alpha": bound(alpha)})


@converts("Selu", since=6)
def selu(
    node: Node, x: Value, *, alpha: float = 1.67326319217681884765625, gamma: float = 1.05070102214813232421875
) -> Value:
    """y = gamma · alpha · (e^x − 1) where x < 0, else gamma · x."""
    return node.compute(SeluOp, [x], {"alpha": bound(alpha), "gamma": bound(gamma)})


@converts("Celu", since=12)
def celu(node: Node, x: Value, *, alpha: float = 1.0) -> Value:
    """y = alpha · (e^(x / alpha) − 1) where x < 0, else x."""
    return node.compute(CeluOp, [x], {"alpha": bound(alpha)})


@converts("HardSigmoid", since=6)
def hard_sigmoid(node: Node, x: Value, *, alpha: float = 0.2, beta: float = 0.5) -> Value:
    """y = max(0, min(1, alpha · x + beta))."""
    return node.compute(HardSigmoidOp, [x], {"alpha": bound(alpha), "beta": bound(beta)})


@converts("ThresholdedRelu", since=10)
def thresholded_relu(node: Node, x: Value, *, alpha: float = 1.0) -> Value:
    """y = x where x > alpha, else 0."""
    return node.compute(ThresholdedReluOp, [x], {"alpha": bound(alpha)})


@converts("Shrink", since=9)
def shrink(node: Node, x: Value, *, bias: float = 0.0, lambd: float = 0.5) -> Value:
    """y = x + bias where x < −lambd, x − bias where x > lambd, else 0."""
    return node.compute(ShrinkOp, [x], {"bias": bound(bias), "threshold": bound(lambd)})


@converts("Swish", since=24)
def swish(node: Node, x: Value, *, alpha: float = 1.0) -> Value:
    """y = x · sigmoid(alpha · x)."""
    return node.compute(SwishOp, [x], {"alpha": bound(alpha)})


@converts("Gelu", since=20)
def gelu(node: Node, x: Value, *, approximate: str = "none") -> Value:
    """y = x · Φ(x), or its approximation by tanh."""
    if approximate not in ("none", "tanh"):
        raise node.error("its attribute approximate must be none or tanh", approximate)
    return node.compute(GeluOp, [x], {"tanh": BoolAttr.from_bool(approximate == "tanh")})


_LARGEST = float(np.finfo(np.float32).max)


@converts("Clip", since=6)
def clip_attributes(node: Node, x: Value, *, min: float = -_LARGEST, max: float = _LARGEST) -> Value:
    """y = min(max(x, min), max), with bounds as attributes."""
    return _clamp(node, x, min, max)


@converts("Clip", since=11)
def clip(node: Node, x: Value, min: Value | None = None, max: Value | None = None) -> Value:
    """y = min(max(x, min), max), with bounds as inputs; an absent bound has no effect."""
    for value, what in ((min, "lower bound"), (max, "upper bound")):
        if value is not None and int(np.prod(node.shape(value))) != 1:
            raise node.error(f"its {what} must be a scalar", f"{list(node.shape(value))}")
    given = [(op, v) for op, v in ((MaximumOp, min), (MinimumOp, max)) if v is not None]
    if node.element(x) in ("f32", "f16", "bf16") and all(_is_number(v) for _, v in given):
        low, high = (None if v is None else float(node.array(v, "bound").reshape(())) for v in (min, max))
        return _clamp(node, x, low, high)
    for op, value in given:
        part = "clipped" if (op, value) != given[-1] else None
        x = node.compute(op, [x, node.reshaped(value, ())], part=part)
    return x


def _is_number(bound: Value) -> bool:
    """Whether a bound is known at import and is not NaN."""
    return isinstance(bound, Constant) and not np.isnan(bound.array.astype(np.float32)).any()


def _clamp(node: Node, x: Value, low: float | None, high: float | None) -> Value:
    low = None if low is None or low <= -_LARGEST else low
    high = None if high is None or high >= _LARGEST else high
    if low is not None and high is not None and low > high:
        low = high  # every element becomes the upper bound
    if low is None and high is None:
        return x
    return node.compute(ClampOp, [x], {"min": bound(low), "max": bound(high)})


@converts("Identity")
def identity(node: Node, x: Value) -> Value:
    """Returns x."""
    return x


@converts("Dropout", since=7)
def dropout(node: Node, x: Value, *, ratio: float = 0.5) -> Value:
    """Returns x without the mask, which has the type of x before version 10."""
    return x


@converts("Dropout", since=10)
def dropout_bool_mask(node: Node, x: Value, *, ratio: float = 0.5) -> tuple[Value, ...]:
    """Returns x and a mask that keeps every element."""
    return x, filled(node.shape(x), np.True_)


@converts("Dropout", since=12)
def dropout_training(
    node: Node, x: Value, ratio: Value | None = None, training_mode: Value | None = None, *, seed: int = 0
) -> tuple[Value, ...]:
    """Returns x and a mask that keeps every element; refuses training mode."""
    if training_mode is not None and node.array(training_mode, "training_mode").any():
        raise Refusal("it is in training mode")
    return x, filled(node.shape(x), np.True_)
