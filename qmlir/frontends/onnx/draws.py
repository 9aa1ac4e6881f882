"""ONNX operators whose results are random, which are drawn at import (`Node.drawn`)."""

from collections.abc import Sequence

import numpy as np
from onnx import TensorProto

from qmlir.errors import UnsupportedError
from qmlir.frontends.converters import Table
from qmlir.frontends.function import Constant, Value, filled
from qmlir.frontends.onnx.node import ONNXNode
from qmlir.frontends.onnx.types import element_code, element_dtype
from qmlir.ir.interfaces import Array

converts = Table()


@converts("RandomUniform")
def uniform(
    node: ONNXNode, *, shape: Sequence[int], dtype: int = TensorProto.FLOAT, low: float = 0.0, high: float = 1.0,
    seed: float | None = None,
) -> Value:  # fmt: skip
    """Returns numbers that are uniform in [low, high)."""
    taken = _taken(node, shape)
    return _as(node.drawn(seed).uniform(low, high, taken), dtype)


@converts("RandomNormal")
def normal(
    node: ONNXNode, *, shape: Sequence[int], dtype: int = TensorProto.FLOAT, mean: float = 0.0, scale: float = 1.0,
    seed: float | None = None,
) -> Value:  # fmt: skip
    """Returns numbers of a normal distribution with the standard deviation `scale`."""
    taken = _taken(node, shape)
    return _as(node.drawn(seed).normal(mean, scale, taken), dtype)


@converts("RandomUniformLike")
def uniform_like(
    node: ONNXNode, x: Value, *, dtype: int = 0, low: float = 0.0, high: float = 1.0, seed: float | None = None
) -> Value:
    """Returns as many numbers as x has that are uniform in [low, high)."""
    taken = _taken(node, node.shape(x))
    return _as(node.drawn(seed).uniform(low, high, taken), dtype, node.dtype(x))


@converts("RandomNormalLike")
def normal_like(
    node: ONNXNode, x: Value, *, dtype: int = 0, mean: float = 0.0, scale: float = 1.0, seed: float | None = None
) -> Value:
    """Returns as many numbers as x has, of a normal distribution with the standard deviation `scale`."""
    taken = _taken(node, node.shape(x))
    return _as(node.drawn(seed).normal(mean, scale, taken), dtype, node.dtype(x))


@converts("Bernoulli", since=15)
def bernoulli(node: ONNXNode, x: Value, *, dtype: int = 0, seed: float | None = None) -> Value:
    """Returns 1 with the probability x, else 0.

    The body that ONNX gives this operator has the probability 1 − x, against ONNX's own words.
    """
    numbers = node.drawn(seed).uniform(0, 1, _taken(node, node.shape(x)))
    truth = node.operator("Less", Constant(numbers.astype(node.dtype(x))), x)
    return node.operator("Cast", truth, to=dtype or element_code(node.dtype(x)))


@converts("Dropout", since=12)
def dropout(
    node: ONNXNode, x: Value, ratio: Value | None = None, training_mode: Value | None = None, *, seed: int | None = None
) -> tuple[Value, ...]:
    """Returns x and a mask that keeps every element; in training mode it drops elements that are drawn at import."""
    share, shape = 0.0, node.shape(x)
    if training_mode is not None and node.array(training_mode, "training_mode").any():
        share = 0.5 if ratio is None else float(node.array(ratio, "ratio").reshape(-1)[0])
    if not share:
        return x, filled(shape, np.True_)
    if not 0 < share < 1:
        raise node.error("its ratio must lie in [0, 1)", str(share))
    kept = np.asarray(node.drawn(seed).uniform(0, 1, _taken(node, shape)) >= share)
    factors = Constant((kept / (1 - share)).astype(node.dtype(x)))
    return node.operator("Mul", x, factors), Constant(kept)


def _taken(node: ONNXNode, shape: Sequence[int]) -> tuple[int, ...]:
    """Charges numbers to the budget of computed constants, and returns their shape."""
    if not node.builder.budget.take(shape, 8):
        raise UnsupportedError(node.builder.budget.refusal(shape))
    return tuple(shape)


def _as(numbers: Array, code: int, default: np.dtype[np.generic] | None = None) -> Constant:
    """Returns numbers in an ONNX element type, or in the default one if there is no such type."""
    dtype = element_dtype(code) or default
    if dtype is None:
        raise UnsupportedError("its dtype is none that onnx knows")
    return Constant(np.asarray(numbers).astype(dtype))
