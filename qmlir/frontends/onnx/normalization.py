"""Softmax and normalizations; a normalization's scale and bias become a product and a sum behind it."""

from collections.abc import Sequence
from math import prod

import numpy as np
from onnx import TensorProto
from xdsl.ir import SSAValue

from qmlir.dialects.nn.elementwise import AddOp, DivOp, MulOp, SubOp
from qmlir.dialects.nn.functions import ReciprocalOp, SqrtOp
from qmlir.dialects.nn.normalization import (
    LayerNormOp,
    LocalResponseNormalizationOp,
    LogSoftmaxOp,
    RMSNormOp,
    SoftmaxOp,
)
from qmlir.dialects.nn.reduction import GlobalAveragePoolOp
from qmlir.errors import UnsupportedError
from qmlir.frontends.converters import Table
from qmlir.frontends.function import Constant, Ints, Value
from qmlir.frontends.onnx.node import ONNXNode
from qmlir.frontends.onnx.types import channels_first, channels_last
from qmlir.ir.interfaces import Array

converts = Table()

DEVIATION_EPSILON = 1e-9
"""The epsilon of MeanVarianceNormalization, which ONNX adds to the standard deviation, not to the variance."""


@converts("Softmax")
def softmax_flattened(node: ONNXNode, x: Value, *, axis: int = 1) -> Value:
    """Softmax before version 13: over all dimensions from `axis` on, as if they were one dimension."""
    shape = node.shape(x)
    first = axis if axis == len(shape) else node.axis(axis, len(shape))
    count = int(np.prod(shape[first:]))
    if first < len(shape) and shape[first] == count:
        return node.compute(SoftmaxOp, [x], {"axis": first})
    return node.reshaped(node.compute(SoftmaxOp, [node.matrix(x, axis)], {"axis": 1}), shape)


@converts("LogSoftmax")
def log_softmax_flattened(node: ONNXNode, x: Value, *, axis: int = 1) -> Value:
    """LogSoftmax before version 13: over all dimensions from `axis` on, as if they were one dimension."""
    return node.reshaped(node.compute(LogSoftmaxOp, [node.matrix(x, axis)], {"axis": 1}), node.shape(x))


@converts("BatchNormalization", since=7)
def batch_normalization(
    node: ONNXNode, x: Value, scale: Value, bias: Value, mean: Value, variance: Value, *, epsilon: float = 1e-5,
    momentum: float = 0.9, spatial: int = 1, training_mode: int = 0,
) -> Value | tuple[Value, ...]:  # fmt: skip
    """y = scale · (x − mean) / √(variance + epsilon) + bias, computed as x · factor + offset.

    An input with spatial dimensions is computed channels last, as convolutions are. In training mode, mean and variance
    are those of x; the second and the third output are the given ones, moved towards these by 1 − momentum.
    """
    given = [scale, bias, mean, variance]
    if not training_mode:
        return _batch_normalized(node, x, given, epsilon, spatial)
    own = _moments(node, x)
    y = _batch_normalized(node, x, [scale, bias, *own], epsilon, spatial)
    return (y, *(_moved(node, old, new, momentum) for old, new in zip((mean, variance), own, strict=True)))


def _batch_normalized(node: ONNXNode, x: Value, parameters: Sequence[Value], epsilon: float, spatial: int) -> Value:
    """Returns x, normalized by scale, bias, mean and variance of each channel."""
    rank, channels = node.rank(x), node.shape(x)[1:2]
    if any(node.shape(p) != channels for p in parameters):
        if not spatial:
            raise UnsupportedError("it is not spatial: it has parameters for each element")
        shapes = [list(node.shape(p)) for p in parameters]
        raise node.error(f"its parameters must have shape {list(channels)}", str(shapes))
    known = [p.array for p in parameters if isinstance(p, Constant)]
    if len(known) == len(parameters):
        factor, offset = _folded_batch_norm(node, known, epsilon)
    else:
        factor, offset = _computed_batch_norm(node, *parameters, epsilon=epsilon)
    image = channels_last(node, x) if rank > 2 else x
    product = node.compute(MulOp, [image, factor], part="scaled")
    y = node.compute(AddOp, [product, offset])
    return channels_first(node, y) if rank > 2 else y


def _moments(node: ONNXNode, x: Value) -> tuple[Value, Value]:
    """Returns the mean and the variance of each channel of x [N, C, …]."""
    axes = Constant(np.array([i for i in range(node.rank(x)) if i != 1]))
    mean = node.operator("ReduceMean", x, axes, since=18)
    off = node.operator("Sub", x, mean, since=14)
    variance = node.operator("ReduceMean", node.insert(MulOp, [off, off]), axes, since=18, keepdims=0)
    return node.reshaped(mean, node.shape(x)[1:2]), variance


def _moved(node: ONNXNode, old: Value, new: Value, momentum: float) -> Value:
    """Returns old · momentum + new · (1 − momentum)."""
    kept, added = node.number(momentum, old), node.number(1 - momentum, old)
    return node.insert(AddOp, [node.insert(MulOp, [old, kept]), node.insert(MulOp, [new, added])])


def _folded_batch_norm(node: ONNXNode, parameters: Sequence[Array], epsilon: float) -> tuple[Value, Value]:
    """Computes (factor, offset) from constant parameters, rounded once: to f64 for f64 parameters, else to f32."""
    scale, bias, mean, variance = (p.astype(np.float64) for p in parameters)
    if np.any(variance + epsilon <= 0):
        raise node.error("its variance must not be negative", str(float(variance.min())))
    factor = scale / np.sqrt(variance + epsilon)
    dtype = np.float64 if parameters[0].dtype == np.float64 else np.float32
    return Constant(factor.astype(dtype)), Constant((bias - mean * factor).astype(dtype))


def _computed_batch_norm(
    node: ONNXNode, scale: Value, bias: Value, mean: Value, variance: Value, epsilon: float
) -> tuple[Value, Value]:
    """Adds the operations that compute (factor, offset) at run time, if some parameter is not constant."""
    root = node.insert(SqrtOp, [node.insert(AddOp, [variance, node.number(epsilon, variance)])])
    factor = node.compute(DivOp, [scale, root], part="factor")
    shift = node.insert(MulOp, [mean, factor])
    return factor, node.compute(SubOp, [bias, shift], part="offset")


# ---------------------------------------------------------------------------------------------------------------
# Normalizations by statistics of the tensor itself, which are computed at run time


@converts("LayerNormalization", since=17)
def layer_normalization(
    node: ONNXNode, x: Value, scale: Value, bias: Value | None = None, *, axis: int = -1, epsilon: float = 1e-5,
    stash_type: int = 1,
) -> Value | tuple[Value, ...]:  # fmt: skip
    """Normalizes over all dimensions from `axis` on; further outputs are the mean and 1 / standard deviation."""
    if not any(node.outputs[1:]):
        return _trailing(node, LayerNormOp, x, axis, epsilon, scale, bias)
    if node.element(x) != "f32" or stash_type != TensorProto.FLOAT:
        raise UnsupportedError("its mean or its deviation is used, and not all its types are float32")
    y = _trailing(node, LayerNormOp, x, axis, epsilon, scale, bias)
    return (y, *_statistics(node, x, axis, epsilon))


def _statistics(node: ONNXNode, x: Value, axis: int, epsilon: float) -> tuple[Value, Value]:
    """Computes the mean over all dimensions from `axis` on, and 1 / √(variance + epsilon).

    The variance is the mean of squared differences from the mean. ONNX's own body subtracts the squared mean from the
    mean square; integers cannot hold this difference where the mean exceeds the deviation.
    """
    shape = node.shape(x)
    first = node.axis(axis, len(shape))
    kept = (*shape[:first], *(1,) * (len(shape) - first))
    rows = node.reshaped(x, (prod(shape[:first]), prod(shape[first:]), 1, 1))
    mean = node.compute(GlobalAveragePoolOp, [rows], part="mean")
    if not any(node.outputs[2:]):
        return node.reshaped(mean, kept), node.reshaped(mean, kept)
    less_mean = node.compute(SubOp, [rows, mean], part="centred")
    first = len(node.pending)
    square = node.compute(MulOp, [less_mean, less_mean], part="square")
    variance = node.compute(GlobalAveragePoolOp, [square], part="variance")
    shifted = node.compute(AddOp, [variance, node.number(epsilon, variance)], part="shifted")
    deviation = node.compute(SqrtOp, [shifted], part="deviation")
    reciprocal = node.compute(ReciprocalOp, [deviation], part="reciprocal")
    node.mark_powers(2, first)
    return node.reshaped(mean, kept), node.reshaped(reciprocal, kept)


@converts("RMSNormalization", since=23)
@converts("SimplifiedLayerNormalization")
def rms_normalization(
    node: ONNXNode, x: Value, scale: Value, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Value:
    """Divides by the root mean square over all dimensions from `axis` on, without subtracting the mean.

    SimplifiedLayerNormalization is onnxruntime's older operator, which it registers in ONNX's domain.
    """
    return _trailing(node, RMSNormOp, x, axis, epsilon, scale, None)


@converts("SkipLayerNormalization", domain="com.microsoft")
def skip_layer_normalization(
    node: ONNXNode, x: Value, skip: Value, scale: Value, beta: Value | None = None, bias: Value | None = None, *,
    epsilon: float = 1e-12,
) -> Value | tuple[Value, ...]:  # fmt: skip
    """Layer normalization of x + skip + bias over the last dimension."""
    return _skipping(node, LayerNormOp, x, skip, bias, epsilon, scale, beta)


@converts("SkipSimplifiedLayerNormalization", domain="com.microsoft")
def skip_rms_normalization(
    node: ONNXNode, x: Value, skip: Value, scale: Value, bias: Value | None = None, *, epsilon: float = 1e-12
) -> Value | tuple[Value, ...]:
    """RMS normalization of x + skip + bias over the last dimension."""
    return _skipping(node, RMSNormOp, x, skip, bias, epsilon, scale, None)


def _skipping(
    node: ONNXNode, op_type: type[LayerNormOp | RMSNormOp], x: Value, skip: Value, bias: Value | None, epsilon: float,
    scale: Value, beta: Value | None,
) -> Value | tuple[Value, ...]:  # fmt: skip
    """Normalizes x + skip + bias; if the node has a fourth output, that is the sum itself."""
    if any(node.outputs[1:3]):
        raise UnsupportedError("its mean and its deviation are used, which qmlir does not give")
    wants_sum = len(node.outputs) > 3

    def add(lhs: Value, rhs: Value, last: bool) -> SSAValue:
        if last and wants_sum:
            return node.compute(AddOp, [lhs, rhs], output=3)
        return node.compute(AddOp, [lhs, rhs], part="sum" if last else "skipped")

    total = add(x, skip, bias is None)
    total = total if bias is None else add(total, bias, True)
    y = _trailing(node, op_type, total, -1, epsilon, scale, beta)
    return (y, y, y, total) if wants_sum else y


def _trailing(
    node: ONNXNode, op_type: type[LayerNormOp | RMSNormOp], x: Value, axis: int, epsilon: float, scale: Value,
    bias: Value | None,
) -> Value:  # fmt: skip
    properties = {"axis": node.axis(axis, node.rank(x)), "epsilon": epsilon}
    return _scaled(node, node.compute(op_type, [x], properties, part="normalized"), scale, bias)


def _scaled(node: ONNXNode, x: Value, scale: Value, bias: Value | None) -> SSAValue:
    """Computes x · scale + bias as the node's output."""
    if bias is None:
        return node.compute(MulOp, [x, scale])
    return node.compute(AddOp, [node.compute(MulOp, [x, scale], part="scaled"), bias])


@converts("InstanceNormalization")
def instance_normalization(node: ONNXNode, x: Value, scale: Value, bias: Value, *, epsilon: float = 1e-5) -> Value:
    """Normalizes each channel of each image [N, C, …] by itself."""
    shape = node.shape(x)
    if len(shape) < 3:
        raise node.error("its input must have at least one spatial dimension", shape)
    y = _by_group(node, x, shape[1], epsilon)
    return _scaled(node, node.reshaped(y, shape), *_over_channels(node, (scale, bias), len(shape) - 2))


@converts("GroupNormalization", since=18)
def group_normalization_of_groups(
    node: ONNXNode, x: Value, scale: Value, bias: Value, *, epsilon: float = 1e-5, num_groups: int
) -> Value:
    """Normalizes groups of channels of each image [N, C, …]; each group has a scale and a bias."""
    y = _scaled(node, _by_group(node, x, num_groups, epsilon), *_over_channels(node, (scale, bias), 1))
    return node.reshaped(y, node.shape(x))


@converts("GroupNormalization", since=21)
def group_normalization(
    node: ONNXNode, x: Value, scale: Value, bias: Value, *, epsilon: float = 1e-5, num_groups: int, stash_type: int = 1
) -> Value:
    """Normalizes groups of channels of each image [N, C, …]; each channel has a scale and a bias."""
    shape = node.shape(x)
    y = node.reshaped(_by_group(node, x, num_groups, epsilon), shape)
    return _scaled(node, y, *_over_channels(node, (scale, bias), len(shape) - 2))


def _by_group(node: ONNXNode, x: Value, groups: int, epsilon: float) -> SSAValue:
    """Reshapes the input [N, C, …] to [N, groups, rest] and normalizes each group by itself."""
    shape = node.shape(x)
    if len(shape) < 2 or groups < 1 or shape[1] % groups:
        raise node.error(f"its channels must fall into {groups} groups", shape)
    rows = node.reshaped(x, (shape[0], groups, prod(shape[1:]) // groups))
    properties = {"axis": 2, "epsilon": epsilon}
    return node.compute(LayerNormOp, [rows], properties, part="normalized")


def _over_channels(node: ONNXNode, parameters: Sequence[Value], spatial: int) -> list[Value]:
    """Reshapes parameters [C] to [C, 1, …], with `spatial` ones."""
    return [node.reshaped(p, (*node.shape(p), *(1,) * spatial)) for p in parameters]


@converts("MeanVarianceNormalization", since=9)
def mean_variance_normalization(node: ONNXNode, x: Value, *, axes: Ints = (0, 2, 3)) -> Value:
    """Layer normalization over any dimensions, without a scale or a bias.

    ONNX's own body subtracts the squared mean from the mean square. Integers cannot hold this difference where the
    mean exceeds the deviation, so the body only serves scalars and tensors without elements.
    """
    shape = node.shape(x)
    over = node.axes(axes, len(shape)) or list(range(len(shape)))
    if not shape or 0 in shape:
        raise UnsupportedError("it has nothing to normalize")
    order = [*(i for i in range(len(shape)) if i not in over), *over]
    properties = {"axis": len(shape) - len(over), "epsilon": DEVIATION_EPSILON**2}
    if order == list(range(len(shape))):
        return node.compute(LayerNormOp, [x], properties)
    y = node.compute(LayerNormOp, [node.permuted(x, order)], properties, part="normalized")
    return node.permuted(y, [order.index(i) for i in range(len(shape))])


@converts("LRN")
def local_response_normalization(
    node: ONNXNode, x: Value, *, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0, size: int
) -> Value:
    """y = x / (bias + alpha / size · Σ x²)^beta, with the sum over `size` neighbouring channels."""
    if node.rank(x) < 2:
        raise node.error("its input must have channels", node.shape(x))
    properties = {"size": size, "alpha": alpha, "beta": beta, "bias": bias}
    y = node.compute(LocalResponseNormalizationOp, [channels_last(node, x)], properties)
    return channels_first(node, y)
