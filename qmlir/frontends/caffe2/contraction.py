"""Convolutions, fully connected layers and matrix products, on floats and on integers."""

from fractions import Fraction
from math import prod

import numpy as np
from xdsl.dialects.builtin import TensorType, i8, i32
from xdsl.ir import SSAValue

from qmlir.dialects.nn.contraction import Conv2DOp, DepthwiseConv2DOp, FullyConnectedOp, MatMulOp
from qmlir.dialects.nn.elementwise import MulOp
from qmlir.dialects.nn.functions import ReluOp
from qmlir.dialects.nn.reduction import ReduceSumOp
from qmlir.dialects.quant.types import UniformType
from qmlir.errors import UnsupportedError
from qmlir.frontends.builder import Properties
from qmlir.frontends.caffe2.node import Caffe2Node, Order
from qmlir.frontends.caffe2.reader import UINT8
from qmlir.frontends.caffe2.windows import Window
from qmlir.frontends.converters import Table
from qmlir.frontends.function import Constant, Dequantized, Value
from qmlir.frontends.quantized import UNBOUNDED, Bounds
from qmlir.frontends.windows import Geometry, convolved, cropped, spread
from qmlir.ir.interfaces import TensorOp
from qmlir.numerics.contracts import WIDE_LIMIT

converts = Table()

RELU: Bounds = (0.0, None)

# ---------------------------------------------------------------------------------------------------------------
# The bias of an integer contraction.
#
# Sums of products count in steps of s_x · s_w. A bias q of the scale s_b and the zero point z_b stands for the real
# numbers (q − z_b) · s_b, so it adds, rounded half to even,
#
#     rint((q − z_b) · s_b / (s_x · s_w))
#
# The quotient is computed exactly. If s_b equals s_x · s_w up to the rounding of float32, it is q − z_b itself.


SAME_SCALE = Fraction(1, 1 << 20)
"""Two scales whose relative difference is below this are meant to be equal: Caffe2 states scales as float32."""


def bias_in_steps(node: Caffe2Node, b: Value, data: UniformType, weights: UniformType) -> Constant:
    """Returns a bias in the steps of the sums, quantized i32, or plain i64 if it needs more bits.

    Args:
        node: The node.
        b: The bias [O]: floats, or integers with a scale and a zero point of their own.
        data: The type of the data, per tensor.
        weights: The type of the weights.

    Raises:
        UnsupportedError: The bias is computed at run time, or is larger than the sums can be.
    """
    if not isinstance(b, Constant):
        raise UnsupportedError("its bias is computed at run time and must be constant")
    channels = prod(b.shape)
    steps = [Fraction(data.scale) * Fraction(scale) for scale in weights.scales]
    if len(steps) not in (1, channels):
        raise node.error(f"its bias must have {len(steps)} elements", str(channels))
    if isinstance(b, Dequantized):
        stored, own = b.stored.reshape(-1).astype(np.int64), b.type
        points = np.broadcast_to(np.array(own.zero_points), (channels,))
        numbers = [Fraction(int(q) - int(z)) for q, z in zip(stored, points, strict=True)]
        scales = [Fraction(s) for s in own.scales]
    else:
        floats = b.array.reshape(-1)
        if floats.dtype.kind != "f" or not np.isfinite(floats.astype(np.float64)).all():
            raise node.error("its bias must be finite floats or quantized", floats.dtype)
        numbers, scales = [Fraction(float(v)) for v in floats], [Fraction(1)]
    if len(scales) not in (1, channels):
        raise node.error(f"its bias must have {len(scales)} elements", str(channels))
    found: list[int] = []
    for channel, number in enumerate(numbers):
        ratio = scales[channel % len(scales)] / steps[channel % len(steps)]
        found.append(round(number if abs(ratio - 1) < SAME_SCALE else number * ratio))
    if found and max(map(abs, found)) > WIDE_LIMIT:
        raise UnsupportedError(f"its bias does not fit {WIDE_LIMIT.bit_length() + 1} bits in the steps of its sums")
    integers, name = np.array(found, np.int64), b.name
    if found and max(map(abs, found)) > np.iinfo(np.int32).max:
        return Constant(integers, name)
    floats_of = [float(step) for step in steps]
    type = UniformType.per_tensor(i32, floats_of[0]) if len(floats_of) == 1 else UniformType.per_axis(i32, 0, floats_of)
    return Dequantized(integers.astype(np.int32), type, name)


def type_per_tensor(node: Caffe2Node, x: Value) -> UniformType:
    """Returns the type of the data of an integer operator, which has one scale.

    Raises:
        NodeError: The data are plain numbers.
        UnsupportedError: The data have several scales.
    """
    node.require_quantized(x)
    type = node.type_of(x)
    assert type is not None
    if type.axis is not None:
        raise UnsupportedError("its input is quantized per axis")
    return type


def contracted(
    node: Caffe2Node, op_type: type[TensorOp], x: SSAValue, w: Value, b: Value | None, properties: Properties,
    bounds: Bounds = UNBOUNDED,
) -> SSAValue:  # fmt: skip
    """Adds a contraction of integers with the node's output type.

    Raises:
        NodeError: The data or the weights are plain numbers, or the node does not state the type of its result.
    """
    data, out = type_per_tensor(node, x), node.stated_type()
    node.require_quantized(w)
    weights = node.type_of(w)
    assert weights is not None
    bias = None if b is None else bias_in_steps(node, b, data, weights)
    operands = [x, node.quantized(w), None if bias is None else node.quantized(bias)]
    low, high = bounds
    return node.compute(op_type, operands, {**properties, "min": low, "max": high}, element=out)


# ---------------------------------------------------------------------------------------------------------------
# Convolutions


def _weights(node: Caffe2Node, x: SSAValue, w: Value, groups: int, order: Order, window: Window) -> Value:
    """Returns the weights of a convolution as [O, …, C/groups].

    Caffe2 stores them in the order of the image: [O, C/groups, …] for NCHW, [O, …, C/groups] for NHWC. Glow's importer
    takes weights of floats as [O, C/groups, …] whatever the order; such weights are taken if the others do not fit.
    """
    shape, rank, channels = node.shape(w), node.rank(x), node.shape(x)[-1]
    first = (0, *range(2, rank), 1)
    if rank < 3 or len(shape) != rank:
        raise node.error("it needs an image and weights of one rank above 2", f"{list(node.shape(x))}, {list(shape)}")
    if groups < 1 or channels % groups or shape[0] % groups:
        raise node.error(f"its groups must divide {channels} inputs and {shape[0]} outputs", str(groups))
    own = channels // groups
    sizes = window.kernel * (1 if len(window.kernel) > 1 else rank - 2)
    if order == "NCHW":
        moved = node.moved(w, first)
    elif shape[-1] == own and sizes in ((), shape[1:-1]):
        moved = w
    elif shape[1] == own and sizes in ((), shape[2:]) and not node.is_quantized(w):
        moved = node.moved(w, first)
    else:
        moved = w
    if node.shape(moved)[-1] != own:
        raise node.error(f"its weights must be for {own} channels in order {order}", shape)
    return moved


def _bias(node: Caffe2Node, b: Value | None, outputs: int) -> Value | None:
    """Checks the shape of a bias and returns it as a vector."""
    if b is None:
        return None
    if prod(node.shape(b)) != outputs:
        raise node.error(f"its bias must have {outputs} elements", node.shape(b))
    return node.reshaped(b if isinstance(b, Constant) else node.quantized(b), (outputs,))


@converts("Conv", "ConvRelu")
def conv(
    node: Caffe2Node, x: Value, w: Value, b: Value | None = None, *, window: Window, group: int = 1,
    order: Order = "NCHW", no_bias: bool = False,
) -> Value:  # fmt: skip
    """Convolution of floats, over images with any number of spatial dimensions."""
    for operand in (x, w, *([] if b is None else [b])):
        node.real(operand)
    image = node.channels_last(x, order)
    weights = node.widened(_weights(node, image, w, group, order, window))
    windows = window.geometry(node, node.shape(image)[1:-1], node.shape(weights)[1:-1])
    bias = _bias(node, b, node.shape(weights)[0])
    if node.kind == "Conv":
        return node.in_order(convolved(node, image, weights, bias, windows, group), order)
    y = convolved(node, image, weights, bias, windows, group, part="sums")
    return node.in_order(node.compute(ReluOp, [y]), order)


@converts("Int8Conv", "Int8ConvRelu")
def int8_conv(
    node: Caffe2Node, x: Value, w: Value, b: Value | None = None, *, window: Window, group: int = 1,
    order: Order = "NCHW", quantize_groupwise: bool = False,
) -> Value:  # fmt: skip
    """Convolution of integers, whose result is rounded once; with Relu, it is at least its zero point."""
    node.require_quantized(x)
    if quantize_groupwise and group > 1:
        w = _by_channel(node, w)
    node.require_quantized(w)
    image = node.channels_last(x, order)
    weights = _weights(node, image, w, group, order, window)
    windows = window.geometry(node, node.shape(image)[1:-1], node.shape(weights)[1:-1])
    bounds = RELU if node.kind == "Int8ConvRelu" else UNBOUNDED
    y = _int8_convolved(node, image, weights, _bias(node, b, node.shape(weights)[0]), windows, group, bounds)
    return node.in_order(y, order)


def _int8_convolved(
    node: Caffe2Node, image: SSAValue, weights: Value, bias: Value | None, windows: Geometry, groups: int,
    bounds: Bounds = UNBOUNDED,
) -> SSAValue:  # fmt: skip
    """Adds a convolution of integers over the rows and columns of images."""
    if len(windows.kernel) != 2:
        raise UnsupportedError(f"it computes on images of {len(windows.kernel)} dimensions, and qmlir on 2")
    image, windows = cropped(node, image, windows)
    properties = windows.properties()
    if groups > 1 and node.shape(weights)[3] == 1:
        turned = node.moved(weights, (3, 1, 2, 0))
        return contracted(node, DepthwiseConv2DOp, image, turned, bias, properties, bounds)
    given = {**properties, "groups": groups} if groups > 1 else properties
    return contracted(node, Conv2DOp, image, weights, bias, given, bounds)


LOADED_SCALES, LOADED_OFFSETS = "_loaded_scales", "_loaded_offsets"
"""What follows the name of weights in the names of their scales and zero points, one for each output channel.

The zero points are those of int8, which are 128 less than those of the uint8 that Caffe2 stores.
"""


def _by_channel(node: Caffe2Node, w: Value) -> Value:
    """Returns weights with a scale and a zero point for each output channel, from two tensors beside them."""
    if not isinstance(w, Dequantized):
        raise UnsupportedError("its weights have a scale for each channel, and must be quantized and constant")
    scales, offsets = (node.lookup(w.name + suffix) for suffix in (LOADED_SCALES, LOADED_OFFSETS))
    if scales is None or offsets is None:
        raise node.error(f'it needs "{w.name}{LOADED_SCALES}" and "{w.name}{LOADED_OFFSETS}"', "none")
    found = node.array(scales, "scales").reshape(-1)
    points = np.array(node.ints(offsets, "zero points"))
    channels = w.shape[0] if w.shape else 0
    if found.shape != points.shape or len(found) != channels:
        raise node.error(f"it needs a scale and a zero point for each of {channels} channels", len(found))
    low, high = np.iinfo(np.int8).min, np.iinfo(np.int8).max
    if points.size and not low <= points.min() <= points.max() <= high:
        raise node.error("the zero points of its weights must be numbers of int8", str(points.tolist()[:8]))
    type = UniformType.per_axis(UINT8, 0, [float(s) for s in found], [int(p) + 128 for p in points])
    return Dequantized(w.stored, type, w.name)


@converts("ConvTranspose", "Int8ConvTranspose")
def conv_transpose(
    node: Caffe2Node, x: Value, w: Value, b: Value | None = None, *, window: Window, group: int = 1,
    order: Order = "NCHW",
) -> Value:  # fmt: skip
    """Transposed convolution: a convolution over the input with zeros between its elements, weights reversed."""
    integers = node.kind.startswith("Int8")
    if integers:
        node.require_quantized(x, w)
    else:
        node.real(x)
        node.real(w)
    image = node.channels_last(x, order)
    weights = _transposed_weights(node, image, w, group, order, window)
    sizes = node.shape(image)[1:-1]
    windows = window.transposed(node, sizes, node.shape(weights)[1:-1])
    bias = _bias(node, b, node.shape(weights)[0])
    wide = spread(node, image, window.steps(node, len(sizes)))
    if integers:
        return node.in_order(_int8_convolved(node, wide, weights, bias, windows, group), order)
    return node.in_order(convolved(node, wide, node.widened(weights), bias, windows, group), order)


def _transposed_weights(node: Caffe2Node, x: SSAValue, w: Value, groups: int, order: Order, window: Window) -> Value:
    """Returns the weights of a transposed convolution as [O, …, C/groups], reversed in space.

    Caffe2 stores them as [C, O/groups, …] for NCHW and [C, …, O/groups] for NHWC; for Glow's importer see `_weights`.
    """
    shape, rank, channels = node.shape(w), node.rank(x), node.shape(x)[-1]
    if rank < 3 or len(shape) != rank or shape[0] != channels:
        raise node.error(f"its weights must be for the {channels} channels of its image", shape)
    if groups < 1 or channels % groups:
        raise node.error(f"its groups must divide {channels} inputs", str(groups))
    sizes = window.kernel * (1 if len(window.kernel) > 1 else rank - 2)
    last = order == "NHWC" and (sizes in ((), shape[1:-1]) or node.is_quantized(w))
    spaced = w if last else node.moved(w, (0, *range(2, rank), 1))  # [C, …, O/groups]
    kernel, outputs = node.shape(spaced)[1:-1], node.shape(spaced)[-1]
    if groups > 1 and isinstance(type := node.type_of(w), UniformType) and type.axis is not None:
        raise UnsupportedError("its weights have several scales")
    split = node.reshaped(spaced, (groups, channels // groups, *kernel, outputs))
    space = len(kernel)
    turned = node.moved(split, (0, 2 + space, *range(2, 2 + space), 1))
    joined = node.reshaped(turned, (groups * outputs, *kernel, channels // groups))
    return node.reversed(joined, tuple(range(1, 1 + space)))


# ---------------------------------------------------------------------------------------------------------------
# Fully connected layers


def _connected(
    node: Caffe2Node, x: Value, w: Value, b: Value | None, axis: int, axis_w: int, *, turned: bool = False
) -> Value:
    """Adds x · wᵀ + b on rows of x and of w; `turned` weights are already [I, O]."""
    rows, weights = node.matrix(node.movable(x), axis), node.matrix(node.movable(w), axis_w)
    weights = node.moved(weights, (1, 0)) if turned else weights
    if node.shape(rows)[1] != node.shape(weights)[1]:
        raise node.error(
            "the rows of its input and its weights must have one length",
            f"{list(node.shape(rows))} and {list(node.shape(weights))}",
        )
    outputs = node.shape(weights)[0]
    bias = _bias(node, b, outputs)
    if node.is_quantized(rows):
        bounds = RELU if node.kind.endswith("Relu") else UNBOUNDED
        y = contracted(node, FullyConnectedOp, node.quantized(rows), weights, bias, {}, bounds)
    else:
        real = weights if isinstance(weights, Constant) else node.floats(weights)
        y = node.compute(FullyConnectedOp, [node.widened(rows), node.widened(real), bias])
    shape = node.shape(x)
    return node.reshaped(y, (*shape[: node.axis(axis, len(shape)) if axis < len(shape) else axis], outputs))


@converts("FC", "FbFCPacked", "FCTransposed")
def fc(
    node: Caffe2Node, x: Value, w: Value, b: Value | None = None, *, axis: int = 1, axis_w: int = 1,
    order: Order = "NCHW",
) -> Value:  # fmt: skip
    """x · wᵀ + b on floats; `FbFCPacked` has weights of float16, `FCTransposed` has them transposed."""
    for operand in (x, w, *([] if b is None else [b])):
        node.real(operand)
    return _connected(node, x, w, b, axis, axis_w, turned=node.kind == "FCTransposed")


@converts("Int8FC", "Int8FCRelu")
def int8_fc(
    node: Caffe2Node, x: Value, w: Value, b: Value | None = None, *, axis: int = 1, axis_w: int = 1,
    order: Order = "NCHW", dequantize_output: bool = False,
) -> Value:  # fmt: skip
    """x · wᵀ + b on integers, rounded once.

    With `dequantize_output`, input and result are floats. Glow quantizes the rows of the input when it runs; here the
    integers of weights and bias count as the floats that they stand for.
    """
    if dequantize_output:
        if node.is_quantized(x):
            raise node.error("its input must be floats, as its result is", str(node.element(x)))
        node.stated = None
    elif not isinstance(x, SSAValue) or isinstance(x.type, TensorType):
        node.require_quantized(x, w)
    return _connected(node, x, w, b, axis, axis_w)


# ---------------------------------------------------------------------------------------------------------------
# Matrix products


def _factor(node: Caffe2Node, x: Value, turned: bool) -> Value:
    rank = node.rank(x)
    return node.moved(x, (*range(rank - 2), rank - 1, rank - 2)) if turned else x


@converts("MatMul")
def matmul(
    node: Caffe2Node, a: Value, b: Value, *, trans_a: bool = False, trans_b: bool = False, axis_a: int = 1,
    axis_b: int = 1,
) -> Value:  # fmt: skip
    """The product of two matrices; tensors of higher rank are matrices of the dimensions before and from an axis."""
    lhs, rhs = node.matrix(node.real(a), axis_a), node.matrix(node.real(b), axis_b)
    return node.compute(MatMulOp, [_factor(node, lhs, trans_a), _factor(node, rhs, trans_b)])


@converts("BatchMatMul")
def batch_matmul(
    node: Caffe2Node, a: Value, b: Value, *, trans_a: bool = False, trans_b: bool = False, broadcast: bool = False
) -> Value:
    """Products of matrices; the dimensions before the last two broadcast, and vectors count as numpy's do."""
    lhs, rhs = node.real(a), node.real(b)
    row, column = node.rank(lhs) == 1, node.rank(rhs) == 1
    if not node.rank(lhs) or not node.rank(rhs):
        raise node.error("its inputs must be vectors or matrices", "a scalar")
    lhs = node.reshaped(lhs, (1, *node.shape(lhs))) if row else _factor(node, lhs, trans_a)
    rhs = node.reshaped(rhs, (*node.shape(rhs), 1)) if column else _factor(node, rhs, trans_b)
    y = node.compute(MatMulOp, [lhs, rhs])
    *batch, rows, columns = node.shape(y)
    return node.reshaped(y, (*batch, *([] if row else [rows]), *([] if column else [columns])))


@converts("DotProduct")
def dot_product(node: Caffe2Node, a: Value, b: Value) -> Value:
    """The sum of the products of the elements along all dimensions but the first."""
    shape = node.shape(node.real(a))
    if node.shape(node.real(b)) != shape or not shape:
        raise node.error("its inputs must have one shape", f"{list(shape)} and {list(node.shape(b))}")
    if len(shape) == 1:
        return node.compute(MulOp, [a, b])
    flat = (shape[0], prod(shape[1:]))
    products = node.compute(MulOp, [node.reshaped(a, flat), node.reshaped(b, flat)], part="products")
    return node.reshaped(node.compute(ReduceSumOp, [products], {"axes": [1]}), (shape[0],))


# ---------------------------------------------------------------------------------------------------------------
# Means as contractions


def averaged(node: Caffe2Node, image: SSAValue, windows: Geometry) -> SSAValue:
    """Adds the mean over the windows of a quantized image, rounded once to the node's output type.

    It is a depthwise convolution with weights of 1 whose scale is that of the mean: elements of the padding count.
    """
    channels, (rows, columns) = node.shape(image)[3], windows.kernel
    type = UniformType.per_tensor(i8, 1.0 / (rows * columns))
    ones = Dequantized(np.ones((1, rows, columns, channels), np.int8), type)
    return contracted(node, DepthwiseConv2DOp, image, ones, None, windows.properties())
