"""Reductions along axes, and pools over windows."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.ir import SSAValue

from qmlir.dialects import nn
from qmlir.dialects.nn.elementwise import MulOp
from qmlir.dialects.nn.functions import SqrtOp
from qmlir.dialects.nn.reduction import AveragePool2DOp, MaxPool2DOp, WindowPoolOp
from qmlir.dialects.quant.ops import StorageCastOp
from qmlir.dialects.quant.types import UniformType
from qmlir.errors import UnsupportedError
from qmlir.formats.tflite import ARGUMENTS, REDUCTIONS
from qmlir.frontends.builder import Properties
from qmlir.frontends.converters import Table
from qmlir.frontends.function import Value
from qmlir.frontends.tflite.contraction import Window
from qmlir.frontends.tflite.node import TFLiteNode
from qmlir.ir.interfaces import TensorOp, element_of
from qmlir.ir.types import element_type_of

converts = Table()

# ---------------------------------------------------------------------------------------------------------------
# Converters of reductions (sums, means, extremes), cumulative sums and normalizations.


def _reduced_shape(node: TFLiteNode, x: Value, over: Sequence[int], keep_dims: bool) -> list[int]:
    sizes = [(1 if i in over else d) for i, d in enumerate(node.shape(x))]
    return sizes if keep_dims else [d for i, d in enumerate(sizes) if i not in over]


def _axes(node: TFLiteNode, x: Value, axes: Value) -> list[int]:
    return sorted({node.axis(a, node.rank(x)) for a in node.ints(axes, "axes")})


def _axis(node: TFLiteNode, x: Value, axis: Value) -> int:
    """Returns the axis that an input names."""
    if not node.rank(x):
        raise node.error("its input must have an axis", "a scalar")
    return node.axis(node.only(axis, "axis"), node.rank(x))


@converts("MEAN")
def mean(node: TFLiteNode, x: Value, axes: Value, *, keep_dims: bool) -> Value:
    """The mean along axes."""
    over = _axes(node, x, axes)
    shape = _reduced_shape(node, x, over, keep_dims)
    count = int(np.prod([node.shape(x)[a] for a in over]))
    if not node.is_real([x]) or not count:
        raise UnsupportedError(f"it takes means of {node.element(x)}" if count else "it takes means of no elements")
    if over == [1, 2] and node.rank(x) == 4 and keep_dims:  # LiteRT has a special kernel, which rounds differently
        return node.pointwise(nn.GlobalAveragePoolOp, [x])
    return node.reshaped(node.pointwise(nn.ReduceMeanOp, [x], {"axes": over}), shape)


def _reduction(operator: str, op_type: type[TensorOp]) -> None:
    @converts(operator)
    def convert(node: TFLiteNode, x: Value, axes: Value, *, keep_dims: bool) -> Value:
        over = _axes(node, x, axes)
        y = node.pointwise(op_type, [x], {"axes": over})
        return node.reshaped(y, _reduced_shape(node, x, over, keep_dims))


for _operator, _op_type in REDUCTIONS.items():
    if _operator != "MEAN":
        _reduction(_operator, _op_type)


def _argument(operator: str, op_type: type[TensorOp]) -> None:
    @converts(operator)
    def convert(node: TFLiteNode, x: Value, axis: Value, *, output_type: int) -> Value:
        at = _axis(node, x, axis)
        found = node.compute(op_type, [node.stored(x)], {"axis": at})
        shape = [d for i, d in enumerate(node.shape(x)) if i != at]
        dtype = node.tensors[0].dtype
        if dtype is None or dtype.name not in ("int32", "int64"):
            raise node.error("its output must be int32 or int64", node.tensors[0].kind.lower())
        return node.reshaped(node.converted(found, element_type_of(dtype)), shape)


for _operator, _op_type in ARGUMENTS.items():
    _argument(_operator, _op_type)


@converts("CUMSUM")
def cumsum(node: TFLiteNode, x: Value, axis: Value, *, exclusive: bool, reverse: bool) -> Value:
    """Running sums along an axis."""
    at = _axis(node, x, axis)
    properties = {"axis": at, "exclusive": exclusive, "reverse": reverse}
    return node.pointwise(nn.CumulativeSumOp, [x], properties)


# ---------------------------------------------------------------------------------------------------------------
# Normalizations


def _last(node: TFLiteNode, x: Value) -> int:
    if not node.rank(x):
        raise node.error("its input must have an axis", "a scalar")
    return node.rank(x) - 1


@converts("SOFTMAX")
def softmax(node: TFLiteNode, x: Value, *, beta: float) -> Value:
    """exp(beta · x) divided by its sum along the last axis."""
    if not np.isfinite(beta) or beta <= 0:
        raise node.error("its beta must be above 0", str(beta))
    if beta != 1:
        x = _scaled(node, x, beta)
    return node.pointwise(nn.SoftmaxOp, [x], {"axis": _last(node, x)})


def _scaled(node: TFLiteNode, x: Value, factor: float) -> SSAValue:
    """Returns factor · x; for a quantized tensor, the same stored integers with `factor` times the scale."""
    if not node.is_quantized(x):
        return node.insert(nn.MulOp, [x, node.number(factor, x)])
    value = node.quantized(x)
    type = element_of(value)
    assert isinstance(type, UniformType)
    if type.axis is not None:
        raise UnsupportedError("its input is quantized per axis")
    scaled = UniformType.per_tensor(type.storage, type.scale * factor, type.zero_point)
    return node.cast(StorageCastOp, node.cast(StorageCastOp, value, type.storage_type), scaled)


@converts("LOG_SOFTMAX")
def log_softmax(node: TFLiteNode, x: Value) -> Value:
    """x − m − log Σ exp(x − m) along the last axis, where m is the maximum."""
    return node.pointwise(nn.LogSoftmaxOp, [x], {"axis": _last(node, x)})


@converts("L2_NORMALIZATION")
def l2_normalization(node: TFLiteNode, x: Value, *, fused_activation_function: int) -> Value:
    """x / √Σ x² along the last axis."""
    properties = {"axis": _last(node, x), "p": 2}
    return node.operation(nn.LpNormalizationOp, [x], properties, activation=fused_activation_function)


@converts("LOCAL_RESPONSE_NORMALIZATION")
def local_response_normalization(
    node: TFLiteNode, x: Value, *, radius: int, bias: float, alpha: float, beta: float
) -> Value:
    """x / (bias + alpha · Σ x²)^beta over the channels at most `radius` away."""
    size = 2 * radius + 1
    if not 0 <= radius < 1 << 20:
        raise node.error("its radius must not be negative", str(radius))
    properties = {"size": size, "alpha": alpha * size, "beta": beta, "bias": bias}
    return node.pointwise(nn.LocalResponseNormalizationOp, [x], properties)


# ---------------------------------------------------------------------------------------------------------------
# Converters of pools over windows of [N, H, W, C].


@dataclass(frozen=True, kw_only=True)
class Pool(Window):
    """The options of a pool."""

    filter_height: int
    filter_width: int
    fused_activation_function: int

    def over(self, node: TFLiteNode, x: Value) -> Properties:
        """Returns the properties of a pool over images."""
        window = self.filter_height, self.filter_width
        return {**self.properties(node, node.shape(x), window), "window": window}


def _pool(operator: str, op_type: type[WindowPoolOp]) -> None:
    @converts(operator)
    def convert(node: TFLiteNode, x: Value, *, pool: Pool) -> Value:
        return node.operation(op_type, [x], pool.over(node, x), activation=pool.fused_activation_function)


_pool("AVERAGE_POOL_2D", AveragePool2DOp)  # a mean of the elements inside the image: padding does not count
_pool("MAX_POOL_2D", MaxPool2DOp)


@converts("L2_POOL_2D")
def l2_pool_2d(node: TFLiteNode, x: Value, *, pool: Pool) -> Value:
    """The square root of the mean of the squares in a window."""
    if node.is_quantized(x):
        raise UnsupportedError("its input is quantized")
    properties = pool.over(node, x)
    mean = node.insert(AveragePool2DOp, [node.insert(MulOp, [x, x])], properties)
    y = node.operation(SqrtOp, [mean], activation=pool.fused_activation_function)
    node.mark_powers(2)
    return y
