"""Normalizations and softmax."""

from collections.abc import Sequence
from math import prod

import numpy as np

from qmlir.dialects import nn
from qmlir.dialects.nn.normalization import (
    LayerNormOp,
    LocalResponseNormalizationOp,
    LogSoftmaxOp,
    LpNormalizationOp,
    SoftmaxOp,
)
from qmlir.errors import UnsupportedError
from qmlir.frontends.caffe2.node import Caffe2Node, Order
from qmlir.frontends.converters import Table
from qmlir.frontends.function import Constant, Value
from qmlir.ir.interfaces import Array

converts = Table()

# ---------------------------------------------------------------------------------------------------------------
# Batch normalization


@converts("SpatialBN")
def spatial_bn(
    node: Caffe2Node, x: Value, scale: Value, bias: Value, mean: Value, variance: Value, *, epsilon: float = 1e-5,
    is_test: bool = False, momentum: float = 0.9, order: Order = "NCHW", num_batches: int = 1,
) -> Value:  # fmt: skip
    """scale · (x − mean) / √(variance + epsilon) + bias, computed as x · factor + offset.

    A node with one output is that of a network that runs, even if `is_test` is absent, as in Glow.
    """
    if not is_test and len([o for o in node.outputs if o]) > 1:
        raise UnsupportedError("it is in training mode")
    image = node.channels_last(node.real(x), order)
    channels = node.shape(image)[-1:]
    parameters = [scale, bias, mean, variance]
    if any(node.shape(p) != channels for p in parameters):
        raise node.error(f"its parameters must have shape {list(channels)}", [list(node.shape(p)) for p in parameters])
    known = [p.array for p in parameters if isinstance(p, Constant)]
    if len(known) == len(parameters):
        factor, offset = _folded(node, known, epsilon)
    else:
        spread = node.insert(nn.AddOp, [variance, node.number(epsilon, variance)])
        factor = node.insert(nn.DivOp, [scale, node.insert(nn.SqrtOp, [spread])])
        offset = node.insert(nn.SubOp, [bias, node.insert(nn.MulOp, [mean, factor])])
    product = node.compute(nn.MulOp, [image, factor], part="scaled")
    return node.in_order(node.compute(nn.AddOp, [product, offset]), order)


def _folded(node: Caffe2Node, parameters: Sequence[Array], epsilon: float) -> tuple[Value, Value]:
    """Computes (factor, offset) from constant parameters in f64, and rounds them once to f32."""
    scale, bias, mean, variance = (p.astype(np.float64) for p in parameters)
    if np.any(variance + epsilon <= 0):
        raise node.error("its variance must not be negative", str(float(variance.min())))
    factor = scale / np.sqrt(variance + epsilon)
    return Constant(factor.astype(np.float32)), Constant((bias - mean * factor).astype(np.float32))


@converts("InstanceNorm")
def instance_norm(
    node: Caffe2Node, x: Value, scale: Value, bias: Value, *, epsilon: float = 1e-5, order: Order = "NCHW"
) -> Value:
    """x normalized over each channel of each image, times a scale, plus a bias."""
    return _grouped(node, x, scale, bias, epsilon, order, None)


@converts("GroupNorm")
def group_norm(
    node: Caffe2Node, x: Value, scale: Value, bias: Value, *, epsilon: float = 1e-5, order: Order = "NCHW",
    group: int = 32, is_test: bool = True,
) -> Value:  # fmt: skip
    """x normalized over each group of channels of each image, times a scale, plus a bias."""
    return _grouped(node, x, scale, bias, epsilon, order, group)


def _grouped(
    node: Caffe2Node, x: Value, scale: Value, bias: Value, epsilon: float, order: Order, groups: int | None
) -> Value:
    """Normalizes over groups of channels; without a number of groups, each channel is one."""
    rank = node.rank(node.real(x))
    if rank < 3:
        raise node.error("its input must be an image of rank 3 at least", node.shape(x))
    first = x if order == "NCHW" else node.permuted(x, (0, rank - 1, *range(1, rank - 1)))
    shape = node.shape(first)
    count = shape[1] if groups is None else groups
    if count < 1 or shape[1] % count:
        raise node.error(f"its groups must divide {shape[1]} channels", str(count))
    rows = node.reshaped(first, (shape[0], count, prod(shape[1:]) // count))
    normal = node.insert(LayerNormOp, [rows], {"axis": 2, "epsilon": epsilon})
    ones = [1] * (rank - 2)
    factors, summands = (node.reshaped(node.real(v), (*node.shape(v), *ones)) for v in (scale, bias))
    product = node.compute(nn.MulOp, [node.reshaped(normal, shape), factors], part="scaled")
    y = node.compute(nn.AddOp, [product, summands])
    return y if order == "NCHW" else node.permuted(y, (0, *range(2, rank), 1))


# ---------------------------------------------------------------------------------------------------------------
# Normalizations over the last dimensions


EPSILON = 1e-3
"""The epsilon of LayerNorm where a net states none, as Glow's importer has it; newer versions of Caffe2 take 1e-5."""


@converts("LayerNorm")
def layer_norm(
    node: Caffe2Node, x: Value, scale: Value | None = None, bias: Value | None = None, *, axis: int = 1,
    epsilon: float = EPSILON, elementwise_affine: bool = False,
) -> Value:  # fmt: skip
    """x normalized over the dimensions from an axis on, times a scale, plus a bias."""
    shape = node.shape(node.real(x))
    at = node.axis(axis, len(shape))
    if (scale is None) != (bias is None):
        raise node.error("it needs both a scale and a bias, or neither", "one of them")
    properties = {"axis": at, "epsilon": epsilon}
    if scale is None or bias is None:
        return node.compute(LayerNormOp, [x], properties)
    inner = shape[at:]
    if any(prod(node.shape(v)) != prod(inner) for v in (scale, bias)):
        raise node.error(f"its scale and bias must have shape {list(inner)}", node.shape(scale))
    normal = node.compute(LayerNormOp, [x], properties, part="normal")
    factors, summands = (node.reshaped(node.real(v), inner) for v in (scale, bias))
    return node.compute(nn.AddOp, [node.compute(nn.MulOp, [normal, factors], part="scaled"), summands])


@converts("RMSNorm")
def rms_norm(node: Caffe2Node, x: Value, gamma: Value, beta: Value, *, eps: float = 0.0) -> tuple[Value, Value]:
    """x / √(mean(x²) + eps) · gamma + beta over the rows of a matrix, and the factors 1 / √(mean(x²) + eps)."""
    if node.rank(node.real(x)) != 2 or eps < 0:
        raise node.error("it needs a matrix and an eps that is not negative", f"{list(node.shape(x))}, {eps}")
    mean = node.insert(nn.ReduceMeanOp, [node.insert(nn.MulOp, [x, x])], {"axes": [1]})
    moved = node.insert(nn.AddOp, [mean, node.number(eps, x)])
    factors = node.also(nn.RsqrtOp, [moved], output=1)
    scaled = node.insert(nn.MulOp, [node.insert(nn.MulOp, [x, factors]), node.real(gamma)])
    return node.compute(nn.AddOp, [scaled, node.real(beta)]), node.reshaped(factors, (node.shape(x)[0],))


@converts("Normalize", "NormalizeL1")
def normalize(node: Caffe2Node, x: Value, *, axis: int = -1) -> Value:
    """x divided by its length along an axis: the root of the sum of squares, or the sum of magnitudes."""
    properties = {"axis": node.axis(axis, node.rank(x)), "p": 1 if node.kind == "NormalizeL1" else 2}
    return node.compute(LpNormalizationOp, [node.real(x)], properties)


@converts("LRN")
def lrn(
    node: Caffe2Node, x: Value, *, size: int, alpha: float, beta: float, bias: float = 1.0, order: Order = "NCHW"
) -> Value:
    """x / (bias + alpha / size · Σ x²)^beta over the channels around each channel."""
    if size < 1 or size % 2 == 0:
        raise node.error("its size must be odd", str(size))
    image = node.channels_last(node.real(x), order)
    properties = {"size": size, "alpha": alpha, "beta": beta, "bias": bias}
    return node.in_order(node.compute(LocalResponseNormalizationOp, [image], properties), order)


# ---------------------------------------------------------------------------------------------------------------
# Softmax


@converts("Softmax", "LogSoftmax", "Int8Softmax")
def softmax(node: Caffe2Node, x: Value, *, axis: int = 1, order: Order = "NCHW") -> Value:
    """exp(x) divided by its sum over all dimensions from an axis on, or the logarithm of that."""
    shape = node.shape(x)
    integers = node.kind == "Int8Softmax"
    if integers:
        node.require_quantized(x)
        node.stated_type()
    else:
        node.real(x)
    if not shape:
        raise node.error("its input must have a dimension", "a scalar")
    at = node.axis(min(axis, len(shape) - 1), len(shape))
    op_type = LogSoftmaxOp if node.kind == "LogSoftmax" else SoftmaxOp
    y = node.pointwise(op_type, [node.matrix(node.movable(x), at)], {"axis": 1})
    return node.reshaped(node.movable(y), shape)
