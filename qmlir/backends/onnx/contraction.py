"""Forms of contractions: Conv, Gemm and MatMul on real values; filters become channels-first."""

from collections.abc import Sequence

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import IntegerType, i8, i32, i64
from xdsl.ir import SSAValue

from qmlir.backends.forms import Forms, constant
from qmlir.backends.onnx.graph import MICROSOFT, Attributes, Tensor
from qmlir.backends.onnx.values import Permutation, Values, channels_first
from qmlir.dialects import nn, qint
from qmlir.dialects.nn.base import is_float, is_quantized, is_unsigned
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.dialects.nn.quantizable import uniform
from qmlir.dialects.quant.types import UniformType
from qmlir.dialects.windows import WindowOp
from qmlir.errors import UnsupportedError
from qmlir.ir.interfaces import Array, element_of, shape_of
from qmlir.ir.rewriting import tensor_name
from qmlir.ir.types import is_integer
from qmlir.numerics.hadamard import transformed

exports: Forms[Values] = Forms()

IMAGES = channels_first(4)
DEPTHWISE_FILTERS: Permutation = (3, 0, 1, 2)
"""The permutation of depthwise filters from [1, KH, KW, C·m] to [C·m, 1, KH, KW]."""


ConvolutionOp = nn.Conv2DOp | nn.DepthwiseConv2DOp | qint.Conv2DOp | qint.DepthwiseConv2DOp


def window_attributes(op: WindowOp) -> Attributes:
    """Returns ONNX's attributes of a sliding window; its padding is [top, left, bottom, right]."""
    top, bottom, left, right = op.padding_values()
    given = {"strides": op.stride_values(), "dilations": op.dilation_values(), "pads": (top, left, bottom, right)}
    defaults = {"strides": (1, 1), "dilations": (1, 1), "pads": (0, 0, 0, 0)}
    return {name: list(value) for name, value in given.items() if value != defaults[name]}


def convolution(op: ConvolutionOp) -> tuple[Permutation, Attributes]:
    """Returns the dimension order of a convolution's filters in ONNX, and the attributes.

    Filters [O, KH, KW, C/G] become [O, C/G, KH, KW]. A depthwise convolution has one group for each input channel.
    """
    depthwise = isinstance(op, nn.DepthwiseConv2DOp | qint.DepthwiseConv2DOp)
    groups = shape_of(op.x)[3] if depthwise else op.group_count()
    attributes = {"kernel_shape": list(shape_of(op.w)[1:3]), "group": groups if groups != 1 else None}
    return DEPTHWISE_FILTERS if depthwise else IMAGES, attributes | window_attributes(op)


@exports(nn.Conv2DOp, nn.DepthwiseConv2DOp)
def convolve(op: nn.Conv2DOp | nn.DepthwiseConv2DOp, values: Values) -> None:
    """Writes Conv."""
    filters, attributes = convolution(op)
    x, w = values.real(op.x, IMAGES), values.real(op.w, filters)
    values.define(op.y, values.graph.node("Conv", x, w, bias(op, values), **attributes), IMAGES)


@exports(nn.FullyConnectedOp)
def fully_connected(op: nn.FullyConnectedOp, values: Values) -> None:
    """Writes Gemm with transB; nn's weights [O, I] keep their order.

    A layer on plain integers becomes MatMul and Add: onnxruntime has no Gemm of integers.
    """
    if isinstance(element_of(op.x), IntegerType):
        y = values.graph.node("MatMul", values.real(op.x), values.real(op.w, (1, 0)))
        if op.b is not None:
            y = values.graph.node("Add", y, values.real(op.b))
    else:
        y = values.graph.node("Gemm", values.real(op.x), values.real(op.w), bias(op, values), transB=1)
    values.define(op.y, y)


BLOCKS_SINCE = 21
"""The first opset whose DequantizeLinear has blocks."""


@exports(nn.BlockedFullyConnectedOp)
def blocked_fully_connected(op: nn.BlockedFullyConnectedOp, values: Values) -> None:
    """Writes MatMulNBits, or Gemm with transB of weights behind a DequantizeLinear with blocks, or of constant floats.

    onnxruntime has MatMulNBits for constant unsigned weights of 4 and 8 bits in blocks of 16, 32, 64 and so on. Other
    weights are floats for older opsets, and where a zero point is. Weights of fewer than 4 bits take 8, as onnxruntime
    requires.

    Raises:
        UnsupportedError: The weights are computed, and ONNX has no such form of them.
    """
    arrays = [a for v in (op.w, op.s, op.z) if (a := constant(v)) is not None]
    if len(arrays) == 3 and op.size >= 16 and op.size & op.size - 1 == 0 and arrays[0].dtype in NARROW:
        return values.define(op.y, _matmul_n_bits(op, values, arrays[0], arrays[1], arrays[2]))
    if values.graph.opset >= BLOCKS_SINCE and not is_float(op.z):
        w, s, z = (_of_four_bits(v, values) for v in (op.w, op.s, op.z))
        weights = values.graph.node("DequantizeLinear", w, s, z, axis=1, block_size=op.size, dtype=np.dtype(np.float32))
    elif len(arrays) == 3:
        weights = values.graph.constant(op.floats(arrays[0], arrays[1], arrays[2]), tensor_name(op.w))
    else:
        raise UnsupportedError("needs constant weights", "computed ones")
    y = values.graph.node("Gemm", values.real(op.x), weights, None if op.b is None else values.real(op.b), transB=1)
    values.define(op.y, y)


NARROW = {np.dtype(ml_dtypes.uint4): 4, np.dtype(np.uint8): 8}
"""Types of weights that MatMulNBits stores → their bits."""


def _matmul_n_bits(op: nn.BlockedFullyConnectedOp, values: Values, w: Array, s: Array, z: Array) -> Tensor:
    """Adds MatMulNBits; zero points of half the range of the weights are left out."""
    (outputs, inputs), blocks, bits, graph = w.shape, s.shape[1], NARROW[w.dtype], values.graph
    half, points, zeros = 1 << bits - 1, z.astype(np.float32), None
    if is_float(op.z):
        zeros = graph.constant(points.reshape(-1))
    elif (points != half).any():
        zeros = graph.constant(_packed(np.pad(points, ((0, 0), (0, blocks % 2))), bits)[:, : -(-blocks * bits // 8)])
    whole = np.pad(w.astype(np.uint8), ((0, 0), (0, blocks * op.size - inputs)), constant_values=half)
    weights = graph.constant(_packed(whole, bits).reshape(outputs, blocks, -1), tensor_name(op.w))
    bias = None if op.b is None else values.real(op.b)
    return graph.node(
        "MatMulNBits", values.real(op.x), weights, graph.constant(s.reshape(-1)), zeros, None, bias, domain=MICROSOFT,
        K=inputs, N=outputs, bits=bits, block_size=op.size,
    )  # fmt: skip


def _packed(integers: Array, bits: int) -> Array:
    """Returns unsigned integers as bytes, of two neighbours of 4 bits the first in the low half."""
    stored = integers.astype(np.uint8)
    return stored if bits == 8 else stored[:, ::2] | stored[:, 1::2] << np.uint8(4)


def _of_four_bits(value: SSAValue, values: Values) -> Tensor:
    """Returns the tensor of a value; a constant of integers of fewer than 4 bits becomes one of 8."""
    element, array = element_of(value), constant(value)
    if array is None or not is_integer(element) or element.width.data >= 4:
        return values.stored(value)
    return values.graph.constant(array.astype(np.uint8 if is_unsigned(element) else np.int8), tensor_name(value))


@exports(nn.MatMulOp)
def matmul(op: nn.MatMulOp, values: Values) -> None:
    """Writes MatMul."""
    values.define(op.y, values.graph.node("MatMul", values.real(op.lhs), values.real(op.rhs)))


@exports(nn.HadamardOp)
def hadamard(op: nn.HadamardOp, values: Values) -> None:
    """Writes MatMul with a constant matrix of ±1, on rows of a block each; beside quantized data it is of bytes."""
    graph, (count, size), x = values.graph, op.blocks(), values.real(op.x)
    signs = transformed(np.eye(size, dtype=np.int8 if is_quantized(op.x) else x.dtype))
    matrix = graph.constant(signs)
    if is_quantized(op.x):
        matrix = values.dequantized(matrix, UniformType.per_tensor(i8, 1.0), (0, 1))
    y = graph.node("MatMul", graph.node("Reshape", x, graph.indices([count, size])), matrix)
    values.define(op.y, graph.node("Reshape", y, graph.indices(shape_of(op.y))))


@exports(nn.AttendOp)
def attend(op: nn.AttendOp, values: Values) -> None:
    """Writes Softmax and MatMul, on floats."""
    shares = values.graph.node("Softmax", values.real(op.x), axis=-1)
    values.define(op.y, values.graph.node("MatMul", shares, values.real(op.v)))


def bias(op: WeightedOp, values: Values) -> Tensor | None:
    """Returns the tensor of a bias's real values; None if there is no bias.

    A bias of plain integers counts in steps of s_x · s_w. A bias of 8 or 16 bits has its own scale; it is written as
    int32 in steps of s_x · s_w too, because runtimes that sum in integers accept no other scale.

    Raises:
        UnsupportedError: The bias does not fit 32 bits, and DequantizeLinear takes no more.
    """
    if op.b is None:
        return None
    element, steps = element_of(op.b), _steps(op)
    if steps is None:
        return values.real(op.b)
    storage = element.storage if isinstance(element, UniformType) else element
    if storage == i64:
        return values.dequantized(_of_32_bits(op, values), _implied(steps), (0,))
    narrow = isinstance(element, UniformType) and element.storage_width < 32
    if not narrow and element != i32:
        return values.real(op.b)
    return values.dequantized(_added(op, values) if narrow else values.stored(op.b), _implied(steps), (0,))


def _implied(steps: Sequence[float]) -> UniformType:
    """Returns the type of a bias of 32 bits in steps of s_x · s_w."""
    if len(steps) > 1:
        return UniformType.per_axis(i32, 0, steps, [0] * len(steps))
    return UniformType.per_tensor(i32, steps[0])


def _of_32_bits(op: WeightedOp, values: Values) -> Tensor:
    """Returns a bias of 64 bits as int32, if that holds all its integers.

    Beside bytes, sums have to fit 32 bits, too: onnxruntime's default optimizations add them in integers.

    Raises:
        UnsupportedError: The bias is computed, or it or the sums do not fit.
    """
    assert op.b is not None
    array = constant(op.b)
    wide = array is not None and uniform(op.x).storage_width > 8
    if array is None or not (np.array_equal(array, array.astype(np.int32)) and (wide or op.fits_32_bits())):
        raise UnsupportedError("needs a bias of 32 bits", "one of 64", "quantize it with bias=int32")
    return values.graph.constant(array.astype(np.int32), tensor_name(op.b))


def _added(op: WeightedOp, values: Values) -> Tensor:
    """Returns a narrow bias as int32, rounded to steps of s_x · s_w."""
    assert op.b is not None
    try:
        added = op.stored_bias()
    except UnsupportedError as why:
        raise UnsupportedError(
            "needs a constant bias that fits its sums", why.need, "quantize it with bias=int32"
        ) from None
    assert added is not None
    if not np.array_equal(added, added.astype(np.int32)):
        raise UnsupportedError(
            "needs a bias that fits 32 bits as it is added", str(added.max()), "quantize it with bias=int32"
        )
    return values.graph.constant(added.astype(np.int32), tensor_name(op.b))


def _steps(op: WeightedOp) -> list[float] | None:
    """Returns s_x · s_w, one step or one per channel, rounded to float32 like any scale; None for plain types."""
    data, weights = element_of(op.x), element_of(op.w)
    if not isinstance(data, UniformType) or not isinstance(weights, UniformType):
        return None
    products = np.float32(data.scale) * np.array(weights.scales, np.float32)
    return products.astype(np.float64).tolist()
