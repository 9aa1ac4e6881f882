"""Operators on integers: ONNX's QLinear* and *Integer, and onnxruntime's QLinear* and QGemm in domain com.microsoft.

Each is imported as its float operator, with a DequantizeLinear before every input and a QuantizeLinear behind the
output. The `fold-qdq` pass turns this pattern into one integer operation again.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import IntegerType, f32, i32
from xdsl.ir import OpResult, SSAValue

from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.dialects.nn.elementwise import AddOp, MulOp
from qmlir.dialects.nn.movement import ReshapeOp, TransposeOp
from qmlir.dialects.quant.types import UniformType
from qmlir.errors import UnsupportedError
from qmlir.formats.onnx import ON_INTEGERS, WRITTEN
from qmlir.formats.rows import Operator
from qmlir.frontends.converters import Converter, Table, attributes_of
from qmlir.frontends.function import Constant, Dequantized, Ints, Value
from qmlir.frontends.onnx.attention import self_attention
from qmlir.frontends.onnx.dynamic_quantization import quantized_by_its_range
from qmlir.frontends.onnx.node import ONNXNode
from qmlir.frontends.onnx.quantization import (
    dequantized,
    parameters,
    plain,
    quantized,
    requantized,
    storage_of,
)
from qmlir.frontends.onnx.types import MICROSOFT, integers_of
from qmlir.frontends.onnx.windows import Window
from qmlir.ir.facts import INTEGER_OPERATOR
from qmlir.ir.interfaces import element_of

converts = Table()


def _float(node: ONNXNode, x: Value, scale: Value, zero_point: Value | None, axis: int = 0) -> Value:
    """Dequantizes an input by the given parameters."""
    type = parameters(node, storage_of(node, x), scale, zero_point, node.shape(x), axis)
    return dequantized(node, x, type)


def _floats(node: ONNXNode, inputs: Sequence[Value]) -> list[Value]:
    """Dequantizes inputs that are each given as data, scale and zero point."""
    return [_float(node, *each) for each in zip(inputs[::3], inputs[1::3], inputs[2::3], strict=True)]


def _stored(node: ONNXNode, y: Value, scale: Value, zero_point: Value | None, like: Value) -> Value:
    """Quantizes floats as the node's output; without a zero point, the storage type is that of the input `like`."""
    storage = storage_of(node, like if zero_point is None else zero_point)
    return requantized(node, y, parameters(node, storage, scale, zero_point, node.shape(y), 0))


# ---------------------------------------------------------------------------------------------------------------
# Contractions


@converts("QLinearConv", since=10)
def qlinear_conv(
    node: ONNXNode, x: Value, x_scale: Value, x_zero_point: Value, w: Value, w_scale: Value, w_zero_point: Value,
    y_scale: Value, y_zero_point: Value, b: Value | None = None, *,
    window: Window, group: int = 1, kernel_shape: Ints = (),
) -> Value:  # fmt: skip
    """A convolution of quantized tensors, whose bias has the scale x_scale · w_scale."""
    data, weights = _float(node, x, x_scale, x_zero_point), _float(node, w, w_scale, w_zero_point)
    bias = None if b is None else _bias(node, b, x_scale, w_scale)
    y = node.newest("Conv", data, weights, bias, group=group, kernel_shape=kernel_shape, **window.given())
    return _stored(node, on_integers(y), y_scale, y_zero_point, x)


def on_integers(y: Value) -> Value:
    """Marks the contraction behind y as computed by an operator on integers, and returns y.

    A runtime may compute such an operator differently from a float operator between casts.
    """
    value = y
    while isinstance(value, OpResult) and isinstance(value.op, TransposeOp | ReshapeOp):
        value = value.op.x
    if isinstance(value, OpResult) and isinstance(value.op, WeightedOp):
        INTEGER_OPERATOR.put(value.op)
    return y


def _bias(node: ONNXNode, b: Value, x_scale: Value, w_scale: Value) -> Value:
    """Dequantizes an int32 bias; its scale is x_scale · w_scale, per output channel if the scales are."""
    stored = node.array(b, "bias")
    steps = node.array(x_scale, "scale").astype(np.float64) * node.array(w_scale, "scale").astype(np.float64)
    if stored.dtype != np.int32:
        raise node.error("its bias must be int32", stored.dtype)
    if steps.size == 1:
        return Dequantized(stored, UniformType.per_tensor(i32, float(steps.reshape(()))), _name(b))
    if stored.shape[-1:] != steps.shape or stored.size != steps.size:
        raise node.error(f"its bias must have {steps.size} elements, one for each scale", stored.size)
    return Dequantized(stored, UniformType.per_axis(i32, stored.ndim - 1, steps.tolist()), _name(b))


def _name(x: Value) -> str:
    return x.name if isinstance(x, Constant) else ""


@converts("QLinearMatMul", since=10)
def qlinear_matmul(
    node: ONNXNode, a: Value, a_scale: Value, a_zero_point: Value, b: Value, b_scale: Value, b_zero_point: Value,
    y_scale: Value, y_zero_point: Value,
) -> Value:  # fmt: skip
    """A matrix product of quantized tensors; if b has several scales, each belongs to a column of b."""
    a_scale, b_scale, y_scale = (node.widened(scale) for scale in (a_scale, b_scale, y_scale))
    lhs = _float(node, a, a_scale, a_zero_point, axis=max(node.rank(a) - 2, 0))
    rhs = _float(node, b, b_scale, b_zero_point, axis=node.rank(b) - 1)
    return _stored(node, on_integers(node.newest("MatMul", lhs, rhs)), y_scale, y_zero_point, a)


@converts("QGemm", domain=MICROSOFT)
def qgemm(
    node: ONNXNode, a: Value, a_scale: Value, a_zero_point: Value | None, b: Value, b_scale: Value,
    b_zero_point: Value | None, c: Value | None = None, y_scale: Value | None = None,
    y_zero_point: Value | None = None, *, alpha: float = 1.0, transA: int = 0, transB: int = 0,
) -> Value:  # fmt: skip
    """y = alpha · a' · b' + c, where c has the scale alpha · a_scale · b_scale; without a y_scale, y is floats."""
    # alpha becomes a factor of b's scale, so b's integers stay as they are.
    steps = Constant(node.array(b_scale, "scale") * np.float32(alpha))
    lhs = _float(node, a, a_scale, a_zero_point)
    rhs = _float(node, b, steps, b_zero_point, axis=0 if transB else 1)
    bias = None if c is None else _bias(node, c, a_scale, steps)
    y = on_integers(node.newest("Gemm", lhs, rhs, bias, transA=transA, transB=transB))
    return y if y_scale is None else _stored(node, y, y_scale, y_zero_point, a)


@converts("ConvInteger", since=10)
def conv_integer(
    node: ONNXNode, x: Value, w: Value, x_zero_point: Value | None = None, w_zero_point: Value | None = None, *,
    window: Window, group: int = 1, kernel_shape: Ints = (),
) -> Value:  # fmt: skip
    """A convolution of integers minus their zero points, with int32 sums as the result."""
    attributes = {"group": group, "kernel_shape": kernel_shape, **window.given()}
    return _sums(node, "Conv", (x, x_zero_point, 0), (w, w_zero_point, 0), **attributes)


@converts("MatMulInteger", since=10)
def matmul_integer(
    node: ONNXNode, a: Value, b: Value, a_zero_point: Value | None = None, b_zero_point: Value | None = None
) -> Value:
    """A matrix product of integers minus their zero points, with int32 sums as the result."""
    return _sums(node, "MatMul", (a, a_zero_point, max(node.rank(a) - 2, 0)), (b, b_zero_point, node.rank(b) - 1))


Factor = tuple[Value, Value | None, int]
"""A factor of a contraction: (tensor, zero points or None for 0, axis along which the zero points differ)."""


def _sums(node: ONNXNode, operator: str, lhs: Factor, rhs: Factor, **attributes: Any) -> Value:
    """Imports a contraction of integers: on quantized types of scale 1 if possible, else on int32.

    The int32 form serves zero points that are computed at run time, and convolutions with computed weights.
    """
    known = all(zero is None or isinstance(zero, Constant) for _, zero, _ in (lhs, rhs))
    if not known or (operator == "Conv" and not isinstance(rhs[0], Constant)):
        return node.newest(operator, _less_zero_point(node, *lhs), _less_zero_point(node, *rhs), **attributes)
    y = on_integers(node.newest(operator, _counted(node, *lhs), _counted(node, *rhs), **attributes))
    return requantized(node, y, UniformType.per_tensor(i32, 1.0))


def _counted(node: ONNXNode, x: Value, zero_point: Value | None, axis: int) -> Value:
    """Dequantizes a factor with scale 1: floats equal to its integers minus the zero point."""
    points = 1 if zero_point is None else node.array(zero_point, "zero point").size
    ones = Constant(np.ones(points, np.float32))
    return _float(node, x, ones, zero_point, axis)


def _less_zero_point(node: ONNXNode, x: Value, zero_point: Value | None, axis: int) -> Value:
    """Returns a factor minus its zero point as int32."""
    wide = _int32(node, x)
    if zero_point is None:
        return wide
    point = _int32(node, zero_point)
    if int(np.prod(node.shape(zero_point))) != 1:
        shape = [1] * node.rank(x)
        shape[axis] = node.shape(zero_point)[-1]
        point = node.reshaped(point, shape)
    if isinstance(wide, Constant) and isinstance(point, Constant):
        return Constant(wide.array - point.array)
    return node.newest("Sub", wide, point)


def _int32(node: ONNXNode, x: Value) -> Value:
    if isinstance(x, Constant):
        return Constant(integers_of(x.array).astype(np.int32), x.name)
    storage = storage_of(node, x)
    counted = quantized(node, x, UniformType.per_tensor(storage, 1.0))
    numbers = dequantized(node, counted, UniformType.per_tensor(storage, 1.0))
    assert isinstance(numbers, SSAValue)
    return node.converted(numbers, IntegerType(32))


# ---------------------------------------------------------------------------------------------------------------
# Elementwise operators and Softmax


def _as_operator(operator: Operator) -> None:
    """Registers the operator on integers of an operator: each input and the output has a scale and a zero point."""
    inputs = [part for name in operator.inputs for part in (name, f"{name}_scale", f"{name}_zero_point")]

    def convert(node: ONNXNode, *given: Value, **attributes: float) -> Value:
        data, (y_scale, *y_zero_point) = given[: len(inputs)], given[len(inputs) :]
        y = node.newest(operator.kind, *_floats(node, data), **attributes)
        return _stored(node, y, y_scale, y_zero_point[0] if y_zero_point else None, given[0])

    names = (*inputs, "y_scale", "y_zero_point")
    converter = Converter(convert, names, len(names) - 1, attributes=attributes_of(operator))
    converts.enter(f"QLinear{operator.kind}", converter, MICROSOFT)


for _op in ON_INTEGERS:
    _as_operator(WRITTEN[_op])


@converts("QLinearSoftmax", domain=MICROSOFT)
def qlinear_softmax(
    node: ONNXNode, x: Value, x_scale: Value, x_zero_point: Value | None, y_scale: Value, y_zero_point: Value, *,
    axis: int = -1, opset: int,
) -> Value:  # fmt: skip
    """Softmax along an axis on quantized tensors; before operator set 13, over all dimensions from that axis on."""
    data, shape = _float(node, x, x_scale, x_zero_point), node.shape(x)
    if opset >= 13:
        y = node.newest("Softmax", data, axis=axis)
    else:
        y = node.reshaped(node.newest("Softmax", node.matrix(data, axis), axis=1), shape)
    return _stored(node, y, y_scale, y_zero_point, x)


@converts("QLinearWhere", domain=MICROSOFT)
def qlinear_where(
    node: ONNXNode, condition: Value, x: Value, x_scale: Value, x_zero_point: Value, y: Value, y_scale: Value,
    y_zero_point: Value, z_scale: Value, z_zero_point: Value,
) -> Value:  # fmt: skip
    """Selects x where the condition holds, else y, on quantized tensors."""
    sides = [_float(node, x, x_scale, x_zero_point), _float(node, y, y_scale, y_zero_point)]
    return _stored(node, node.newest("Where", condition, *sides), z_scale, z_zero_point, x)


# ---------------------------------------------------------------------------------------------------------------
# Movement and means


@converts("QLinearConcat", domain=MICROSOFT)
def qlinear_concat(node: ONNXNode, y_scale: Value, y_zero_point: Value, *inputs: Value, axis: int) -> Value:
    """Joins quantized tensors along an axis; each input is three values: data, scale, zero point."""
    if len(inputs) % 3 or not inputs:
        raise node.error("it needs data, scale and zero point of each input", f"{len(inputs)} inputs")
    y = node.newest("Concat", *_floats(node, inputs), axis=axis)
    return _stored(node, y, y_scale, y_zero_point, inputs[0])


@converts("QLinearAveragePool", domain=MICROSOFT)
def qlinear_average_pool(
    node: ONNXNode, x: Value, x_scale: Value, x_zero_point: Value | None, y_scale: Value,
    y_zero_point: Value | None = None, *,
    window: Window, ceil_mode: int = 0, channels_last: bool = False, count_include_pad: int = 0, kernel_shape: Ints,
) -> Value:  # fmt: skip
    """The mean over each window of a quantized image."""
    counted = {"ceil_mode": ceil_mode, "count_include_pad": count_include_pad}
    attributes = {**counted, "kernel_shape": kernel_shape, **window.given()}
    data = _float(node, x, x_scale, x_zero_point)
    y = _in_model_layout(node, "AveragePool", data, channels_last, **attributes)
    return _stored(node, y, y_scale, y_zero_point, x)


@converts("QLinearGlobalAveragePool", domain=MICROSOFT)
def qlinear_global_average_pool(
    node: ONNXNode, x: Value, x_scale: Value, x_zero_point: Value, y_scale: Value, y_zero_point: Value, *,
    channels_last: bool = False,
) -> Value:  # fmt: skip
    """The mean of each channel of a quantized image."""
    data = _float(node, x, x_scale, x_zero_point)
    return _stored(node, _in_model_layout(node, "GlobalAveragePool", data, channels_last), y_scale, y_zero_point, x)


def _in_model_layout(node: ONNXNode, operator: str, x: Value, channels_last: bool, **attributes: Any) -> Value:
    """Imports an operator on [N, C, …]; if the model's channels are last, transposes surround it."""
    if not channels_last:
        return node.newest(operator, x, **attributes)
    rank = node.rank(x)
    first = node.permuted(x, (0, rank - 1, *range(1, rank - 1)))
    y = node.newest(operator, first, **attributes)
    return node.permuted(y, (0, *range(2, rank), 1))


@converts("QLinearReduceMean", domain=MICROSOFT)
def qlinear_reduce_mean(
    node: ONNXNode, x: Value, x_scale: Value, x_zero_point: Value | None, y_scale: Value,
    y_zero_point: Value | None = None, *, axes: Ints, keepdims: int,
) -> Value:  # fmt: skip
    """The mean of a quantized tensor over the given axes."""
    over = Constant(np.array(axes, np.int64))
    y = node.newest("ReduceMean", _float(node, x, x_scale, x_zero_point), over, keepdims=keepdims)
    return _stored(node, y, y_scale, y_zero_point, x)


# ---------------------------------------------------------------------------------------------------------------
# onnxruntime's products of integers that give floats, in domain com.microsoft.
#
# onnxruntime computes each of them as a MatMulInteger, whose sums it multiplies by the product of the scales. Here they
# are imported in the same way.


@converts("MatMulIntegerToFloat", domain=MICROSOFT)
def matmul_integer_to_float(
    node: ONNXNode, a: Value, b: Value, a_scale: Value, b_scale: Value, a_zero_point: Value | None = None,
    b_zero_point: Value | None = None, bias: Value | None = None,
) -> Value:  # fmt: skip
    """y = (a − a_zero_point) · (b − b_zero_point) · a_scale · b_scale + bias."""
    sums = node.builder.ssa(matmul_integer(node, a, b, a_zero_point, b_zero_point))
    if isinstance(a_scale, Constant) and isinstance(b_scale, Constant):
        # The sums are read as integers whose scale is the product, so that they stay integers until then.
        steps = Constant(np.asarray(a_scale.array * b_scale.array))
        y = dequantized(node, sums, parameters(node, i32, steps, None, node.shape(sums), -1))
    else:
        steps = node.compute(MulOp, [a_scale, b_scale], part="scale")
        whole = plain(node, sums) if isinstance(element_of(sums), UniformType) else sums
        y = node.compute(MulOp, [node.converted(whole, f32), steps], part=None if bias is None else "product")
    return y if bias is None else node.compute(AddOp, [y, bias])


@converts("DynamicQuantizeMatMul", domain=MICROSOFT)
def dynamic_quantize_matmul(
    node: ONNXNode, a: Value, b: Value, b_scale: Value, b_zero_point: Value | None = None, bias: Value | None = None
) -> Value:
    """The product of a, quantized as DynamicQuantizeLinear does at run time, and of integers b."""
    stored, scale, zero_point = quantized_by_its_range(node, a, "quantized.")
    return matmul_integer_to_float(node, stored, b, scale, b_scale, zero_point, b_zero_point, bias)


@converts("QAttention", domain=MICROSOFT)
def quantized_attention(
    node: ONNXNode, x: Value, weights: Value, bias: Value, input_scale: Value, weight_scale: Value,
    mask_index: Value | None = None, input_zero_point: Value | None = None, weight_zero_point: Value | None = None,
    past: Value | None = None, *,
    do_rotary: int = 0, mask_filter_value: float = -10000.0, num_heads: int, past_present_share_buffer: int = 0,
    scale: float = 0.0, unidirectional: int = 0,
) -> Value:  # fmt: skip
    """Attention over the query, key and value that integer weights [I, 3 · H] compute from integers x [B, S, I]."""
    if mask_index is not None or past is not None or do_rotary:
        raise UnsupportedError("it has a mask, a past or rotations, which qmlir knows of ONNX's own Attention only")
    packed = matmul_integer_to_float(
        node, x, weights, input_scale, weight_scale, input_zero_point, weight_zero_point, bias
    )
    width = node.shape(packed)[-1]
    return self_attention(node, packed, (width // 3,) * 3, None, num_heads, scale, unidirectional)
