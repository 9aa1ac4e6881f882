"""Operators of domain com.microsoft into which onnxruntime's optimizer fuses ONNX's float operators.

Each is imported as the operators that it replaces.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from qmlir.dialects.nn.elementwise import AddOp, MulOp
from qmlir.dialects.nn.functions import GeluOp, SwishOp
from qmlir.errors import UnsupportedError
from qmlir.frontends.converters import Table
from qmlir.frontends.function import Constant, Floats, Ints, Value
from qmlir.frontends.onnx.node import ONNXNode
from qmlir.frontends.onnx.types import MICROSOFT
from qmlir.frontends.onnx.windows import Window

converts = Table()

SINCE = 22
"""The operator set of the operators that are fused."""


# ---------------------------------------------------------------------------------------------------------------
# Activations


@converts("Gelu", domain=MICROSOFT)
def gelu(node: ONNXNode, x: Value) -> Value:
    """y = x · Φ(x)."""
    return node.compute(GeluOp, [x], {"tanh": False})


@converts("BiasGelu", domain=MICROSOFT)
def bias_gelu(node: ONNXNode, x: Value, bias: Value) -> Value:
    """y = z · Φ(z) for z = x + bias."""
    return node.compute(GeluOp, [node.compute(AddOp, [x, bias], part="sum")], {"tanh": False})


@converts("FastGelu", domain=MICROSOFT)
def fast_gelu(node: ONNXNode, x: Value, bias: Value | None = None) -> Value:
    """The approximation of z · Φ(z) by tanh, for z = x + bias."""
    data = x if bias is None else node.compute(AddOp, [x, bias], part="sum")
    return node.compute(GeluOp, [data], {"tanh": True})


@converts("QuickGelu", domain=MICROSOFT)
def quick_gelu(node: ONNXNode, x: Value, *, alpha: float = 1.702) -> Value:
    """y = x · sigmoid(alpha · x)."""
    return node.compute(SwishOp, [x], {"alpha": float(alpha)})


# ---------------------------------------------------------------------------------------------------------------
# Contractions


@converts("FusedMatMul", domain=MICROSOFT)
def fused_matmul(
    node: ONNXNode, a: Value, b: Value, *,
    alpha: float = 1.0, transA: int = 0, transB: int = 0, transBatchA: int = 0, transBatchB: int = 0,
) -> Value:  # fmt: skip
    """y = alpha · A' · B', where the factors are transposed first."""
    lhs, rhs = _transposed(node, a, transBatchA, transA), _transposed(node, b, transBatchB, transB)
    if alpha == 1:
        return node.newest("MatMul", lhs, rhs)
    if isinstance(rhs, Constant):
        return node.newest("MatMul", lhs, rhs.times(alpha))
    product = node.operator("MatMul", lhs, rhs, since=SINCE)
    return node.compute(MulOp, [product, node.number(alpha, product)])


def _transposed(node: ONNXNode, x: Value, batch: int, matrix: int) -> Value:
    """Returns a factor with its first dimension moved behind the batch if `batch`, then with its matrices transposed.

    As in onnxruntime, a vector stays as it is.
    """
    rank = node.rank(x)
    if rank < 2:
        return x
    order = [*range(1, rank - 1), 0, rank - 1] if batch else list(range(rank))
    if matrix:
        order[-2:] = order[:-3:-1]
    return node.moved(x, order)


ACTIVATIONS: Mapping[str, Sequence[str]] = {
    "Relu": (),
    "Sigmoid": (),
    "Tanh": (),
    "Softplus": (),
    "Softsign": (),
    "Elu": ("alpha",),
    "LeakyRelu": ("alpha",),
    "ThresholdedRelu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
}
"""The activations that onnxruntime fuses into contractions, with the attributes that they keep."""


def _activated(node: ONNXNode, y: Value, activation: str, given: Mapping[str, float]) -> Value:
    """Applies the activation of a name; attributes that are not given have the activation's own defaults."""
    if activation not in ACTIVATIONS:
        raise UnsupportedError(f'its activation is "{activation}", and qmlir fuses {", ".join(ACTIVATIONS)}')
    return node.newest(activation, y, **{name: given[name] for name in ACTIVATIONS[activation] if name in given})


@converts("FusedGemm", domain=MICROSOFT)
def fused_gemm(
    node: ONNXNode, a: Value, b: Value, c: Value | None = None, *,
    activation: str = "", activation_alpha: float | None = None, activation_beta: float | None = None,
    activation_gamma: float | None = None, alpha: float = 1.0, beta: float = 1.0, transA: int = 0, transB: int = 0,
) -> Value:  # fmt: skip
    """y = activation(alpha · A' · B' + beta · C)."""
    inputs = [a, b] if c is None else [a, b, c]
    y = node.operator("Gemm", *inputs, since=SINCE, alpha=alpha, beta=beta, transA=transA, transB=transB)
    named = {"alpha": activation_alpha, "beta": activation_beta, "gamma": activation_gamma}
    return _activated(node, y, activation, {name: value for name, value in named.items() if value is not None})


@converts("FusedConv", domain=MICROSOFT)
def fused_conv(
    node: ONNXNode, x: Value, w: Value, b: Value | None = None, z: Value | None = None, *,
    window: Window, activation: str = "", activation_params: Floats = (), group: int = 1, kernel_shape: Ints = (),
) -> Value:  # fmt: skip
    """y = activation(conv(x, w) + b + z)."""
    if b is not None and node.element(b) != node.element(x):
        raise node.error(f"its bias must be {node.element(x)} like its data", node.element(b))
    size = {"kernel_shape": kernel_shape} if kernel_shape else {}
    inputs = [x, w] if b is None else [x, w, b]
    y = node.operator("Conv", *inputs, since=SINCE, group=group, **size, **window.given())
    if z is not None:
        y = node.compute(AddOp, [y, z], part="sum" if activation else None)
    if not activation:
        return y
    if activation == "Clip":
        low, high = (Constant(np.array(bound, np.float32)) for bound in activation_params)
        return node.newest("Clip", y, low, high)
    return _activated(node, y, activation, dict(zip(ACTIVATIONS.get(activation, ()), activation_params, strict=True)))
