"""Convolutions, of volumes too, and matrix products."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import i32
from xdsl.ir import OpResult, SSAValue
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.nn.contraction import Conv2DOp, DepthwiseConv2DOp, FullyConnectedOp, MatMulOp
from qmlir.dialects.nn.movement import SliceOp
from qmlir.dialects.quant.types import UniformType
from qmlir.errors import UnsupportedError
from qmlir.formats.tflite import SAME, VALID, same_padding
from qmlir.frontends.builder import Node, Properties
from qmlir.frontends.converters import AttributeGroup, Table
from qmlir.frontends.function import Constant, Dequantized, Ints, Value, Wide
from qmlir.frontends.tflite.movement import pad_value
from qmlir.frontends.tflite.node import TFLiteNode
from qmlir.frontends.windows import Geometry, convolved, span, spread
from qmlir.ir.facts import KERNEL
from qmlir.ir.interfaces import TensorOp
from qmlir.policies.runtime_kernels import TRANSPOSED, TRANSPOSED_UNSIGNED

converts = Table()

# ---------------------------------------------------------------------------------------------------------------
# Padding of sliding windows as TFLite computes it: SAME and VALID; SAME puts an odd element at the end.


def window_properties(
    node: Node, image: tuple[int, ...], window: tuple[int, int], strides: tuple[int, int], padding: int,
    dilations: tuple[int, int] = (1, 1),
) -> Properties:  # fmt: skip
    """Returns the properties strides, padding and dilations of an operation on [N, H, W, C].

    Raises:
        NodeError: The input is not of rank 4, a number is below 1, or no window fits.
    """
    if len(image) != 4:
        raise node.error("its input must have rank 4 [N, H, W, C]", image)
    if min(*window, *strides, *dilations) < 1:
        raise node.error("its window, strides and dilations must be at least 1", str((window, strides, dilations)))
    if padding not in (SAME, VALID):
        raise node.error("its padding must be SAME or VALID", str(padding))
    pads = [(0, 0), (0, 0)]
    if padding == SAME:
        pads = [same_padding(*axis) for axis in zip(image[1:3], window, strides, dilations, strict=True)]
    else:
        for size, extent, dilation in zip(image[1:3], window, dilations, strict=True):
            _require_fit(node, size, (extent - 1) * dilation + 1)
    return {"strides": strides, "padding": [p for pair in pads for p in pair], "dilations": dilations}


@dataclass(frozen=True, kw_only=True)
class Window(AttributeGroup):
    """The options of a window over images."""

    padding: int
    stride_h: int
    stride_w: int
    dilation_h_factor: int = 1
    dilation_w_factor: int = 1

    @property
    def strides(self) -> tuple[int, int]:
        """The strides along rows and columns."""
        return self.stride_h, self.stride_w

    def properties(self, node: Node, image: tuple[int, ...], window: tuple[int, int]) -> Properties:
        """Returns the properties of an operation on [N, H, W, C]; raises as `window_properties` does."""
        dilations = self.dilation_h_factor, self.dilation_w_factor
        return window_properties(node, image, window, self.strides, self.padding, dilations)


@dataclass(frozen=True, kw_only=True)
class VolumeWindow(Window):
    """The options of a window over volumes."""

    stride_d: int
    dilation_d_factor: int

    def steps(self) -> tuple[Ints, Ints]:
        """Returns the strides and the dilations along planes, rows and columns."""
        dilations = self.dilation_d_factor, self.dilation_h_factor, self.dilation_w_factor
        return (self.stride_d, self.stride_h, self.stride_w), dilations


def _require_fit(node: Node, size: int, span: int) -> None:
    """Raises NodeError if a window is larger than an input that is not padded.

    LiteRT does not report such windows: it yields a result without elements. If the window exceeds the input by more
    than a stride, it fails to prepare the operator. XNNPACK pools the existing elements by rules of its own.
    """
    if span > size:
        raise node.error(
            "its window must fit into its input, which VALID does not pad; LiteRT yields a result without elements",
            f"a window over {span} of {size}",
        )


# ---------------------------------------------------------------------------------------------------------------
# Converters of convolutions over volumes [N, D, H, W, C]; TFLite has them on floats only.


def _check(node: TFLiteNode, x: Value, w: Value, window: VolumeWindow, inputs: int) -> tuple[Ints, Ints]:
    """Checks that volume, weights and options fit, and returns the strides and the dilations.

    Dimension `inputs` of the weights counts input channels.
    """
    strides, dilations = window.steps()
    steps = *strides, *dilations
    shape, weights = node.shape(x), node.shape(w)
    if len(shape) != 5 or len(weights) != 5 or not weights[inputs] or shape[-1] % weights[inputs]:
        raise node.error("it needs a volume [N, D, H, W, C] and weights of rank 5 for its channels",
                         f"{list(shape)} and {list(weights)}")  # fmt: skip
    if min(*steps, *shape, *weights) < 1 or window.padding not in (SAME, VALID):
        raise node.error("its sizes, strides and dilations must be at least 1", steps)
    if node.is_quantized(x) or node.element(x) != "f32":
        raise UnsupportedError(f"it computes on {node.element(x)}")
    return strides, dilations


@converts("CONV_3D")
def conv_3d(
    node: TFLiteNode, x: Value, w: Value, b: Value | None = None, *, window: VolumeWindow,
    fused_activation_function: int,
) -> Value:  # fmt: skip
    """Convolution with weights [KD, KH, KW, C/G, O]."""
    strides, dilations = _check(node, x, w, window, 3)
    kernel, image = node.shape(w)[:3], node.shape(x)[1:4]
    pads = [(0, 0)] * 3
    if window.padding == SAME:
        pads = [same_padding(*axis) for axis in zip(image, kernel, strides, dilations, strict=True)]
    elif any(n < span(k, d) for n, k, d in zip(image, kernel, dilations, strict=True)):
        raise node.error("its window must fit into its input", f"{list(kernel)} in {list(image)}")
    low, high = zip(*pads, strict=True)
    windows = Geometry(kernel, strides, dilations, low, high, (0, 0, 0))
    groups = node.shape(x)[-1] // node.shape(w)[3]
    if node.shape(w)[4] % groups:
        raise node.error(f"its outputs must come in {groups} groups", str(node.shape(w)[4]))
    y = convolved(node, node.builder.ssa(x), node.moved(w, (4, 0, 1, 2, 3)), b, windows, groups)
    return node.activated(y, fused_activation_function)


@converts("CONV_3D_TRANSPOSE")
def conv_3d_transpose(
    node: TFLiteNode, output_shape: Value, w: Value, x: Value, b: Value | None = None, *, window: VolumeWindow,
    fused_activation_function: int,
) -> Value:  # fmt: skip
    """Transposed convolution with weights [KD, KH, KW, O, C]."""
    strides, dilations = _check(node, x, w, window, 4)
    out, image, kernel = node.ints(output_shape, "output shape"), node.shape(x)[1:4], node.shape(w)[:3]
    if len(out) != 5 or min(out) < 1 or node.shape(x)[-1] != node.shape(w)[4]:
        raise node.error("it needs an output shape [N, D, H, W, O] and weights for all channels", out)
    low, high = list[int](), list[int]()
    for size, n, k, step, dilation in zip(out[1:4], image, kernel, strides, dilations, strict=True):
        before = same_padding(size, k, step, dilation)[0] if window.padding == SAME else 0
        low.append(span(k, dilation) - 1 - before)
        high.append(size + span(k, dilation) - 1 - n * step - low[-1])
        if -high[-1] >= step and window.padding == VALID:
            raise node.error("its output shape must fit its input, strides and padding", out)
    ones: Ints = (1, 1, 1)
    windows = Geometry(kernel, ones, dilations, tuple(low), tuple(high), (0, 0, 0))
    weights = node.reversed(node.moved(w, (3, 0, 1, 2, 4)), (1, 2, 3))
    y = convolved(node, spread(node, node.builder.ssa(x), strides), weights, b, windows)
    return node.activated(y, fused_activation_function)


# ---------------------------------------------------------------------------------------------------------------
# Converters of convolutions, fully connected layers and matrix products.


def weighted(
    node: TFLiteNode, op_type: type[TensorOp], x: Value, w: Value, b: Value | None, activation: int, axis: int,
    properties: Properties | None = None,
) -> SSAValue:  # fmt: skip
    """Adds a contraction with weights, on quantized operands or on floats; float contractions may have stored weights.

    Args:
        node: The node.
        op_type: The nn operation.
        x: The data.
        w: The weights; if they are stored as integers, they are quantized per tensor or along `axis`.
        b: The bias.
        activation: The code of the fused activation.
        axis: The axis of the weights that counts output channels.
        properties: Further properties of the operation.
    """
    low, high = node.activation(activation)
    given = {**(properties or {}), "min": low, "max": high}
    type = node.type_of(w)
    if type is not None and type.axis not in (None, axis):
        raise node.error(f"its weights must be quantized along axis {axis}", f"axis {type.axis}")
    if not node.is_quantized(x):
        operands = [node.floats(o) if o is not None else None for o in (x, w, b)]
        if not node.is_real([x]):
            raise UnsupportedError(f"it computes on {node.element(x)}")
        return node.compute(op_type, operands, given)
    if type is None or node.output_type() is None:
        raise node.error("its input, weights and output must be all quantized or all plain", "some of each")
    if b is not None and node.element(b) not in ("i32", "i64") and not node.is_quantized(b):
        raise node.error(f"its bias{_named(b)} must be int32 or int64", node.element(b))
    bias = None if b is None else _bias(node, b, x, w)
    return node.compute(op_type, [node.quantized(x), node.quantized(w), bias], given, element=node.output_type())


def refuse_hybrid(node: TFLiteNode, x: Value, *weights: Value | None) -> None:
    """Refuses a layer with states that has weights stored as integers beside float data.

    LiteRT quantizes data and states of such a layer anew in each call. Computed on floats, its states would differ from
    LiteRT's a little more with each call, unlike the results of a layer without states.
    """
    if not node.is_quantized(x) and any(w is not None and node.is_quantized(w) for w in weights):
        raise UnsupportedError(
            "its weights are integers beside float data, which LiteRT quantizes anew at each step, and its states keep "
            "the difference; convert the model with float weights, or quantize all of it"
        )


BIAS_STEPS = 0.02
"""The most by which a bias's own scale may differ from s_x · s_w, in units of the result's scale, as in TFLite."""


def _bias(node: TFLiteNode, b: Value, x: Value, w: Value) -> Value:
    """Returns a bias whose scale is exactly s_x · s_w, the scale that kernels assume for its integers.

    The file stores this product rounded to float32. A 64-bit bias has no quantized type and stays plain integers. A
    bias with a different scale is an error unless all its elements are 0: the real numbers that its scale implies
    would differ from those that kernels compute with.
    """
    own, data, weights, out = (node.type_of(b), node.type_of(x), node.type_of(w), node.output_type())
    scales = b.scales if isinstance(b, Wide) else own.scales if own is not None else ()
    if not scales or not isinstance(b, Wide | Dequantized):
        return node.quantized(b)
    assert data is not None
    assert weights is not None
    assert out is not None
    if data.axis is not None or out.axis is not None:
        raise UnsupportedError("its input or output is quantized per axis")
    if own is not None and (any(own.zero_points) or own.storage_width != 32 or len(b.shape) != 1):
        raise node.error(f"its bias{_named(b)} must be int32 [O] with zero point 0", str(own)[:80])
    steps = data.scale * np.array(weights.scales)
    if len(scales) not in (1, len(steps)) and len(steps) > 1:
        raise node.error(f"its bias{_named(b)} must have {len(steps)} scales, as its weights have", len(scales))
    apart = np.abs(steps - np.array(scales)) > BIAS_STEPS * out.scale
    if apart.any() and (b.array if isinstance(b, Wide) else b.stored).any():
        channel = int(apart.argmax())
        needed, given = (float(np.broadcast_to(s, apart.shape)[channel]) for s in (steps, scales))
        raise node.error(
            f"its bias{_named(b)} must count in steps of its input's scale times its weights', {needed:g} in channel "
            f"{channel}",
            f"a scale of {given:g}",
        )
    if isinstance(b, Wide):
        return node.quantized(b)
    if weights.axis is not None and b.stored.shape != steps.shape:
        raise node.error(f"its bias must have {steps.size} elements", b.stored.size)
    try:
        if weights.axis is None:
            type = UniformType.per_tensor(i32, float(steps[0]))
        else:
            type = UniformType.per_axis(i32, 0, steps.tolist())
    except VerifyException:
        raise UnsupportedError(f"its bias counts in steps of {steps.min():g}, which float32 does not hold") from None
    return node.quantized(Dequantized(b.stored, type, b.name))


def _named(value: Value) -> str:
    """Returns a constant's name as a part of a sentence, in quotes; empty if the value has no name."""
    return f' "{value.name}"' if isinstance(value, Constant) and value.name else ""


@converts("CONV_2D")
def conv_2d(
    node: TFLiteNode, x: Value, w: Value, b: Value | None = None, *, window: Window, fused_activation_function: int
) -> Value:
    """Convolution of [N, H, W, C] with weights [O, KH, KW, C/G]."""
    image, weights = node.shape(x), node.shape(w)
    if len(weights) != 4:
        raise node.error("its weights must have rank 4 [O, KH, KW, C]", weights)
    properties = window.properties(node, image, (weights[1], weights[2]))
    if not weights[3] or image[3] % weights[3]:
        raise node.error(f"its weights' channels must divide the input's {image[3]}", str(weights[3]))
    groups = {"groups": image[3] // weights[3]} if image[3] != weights[3] else {}
    return weighted(node, Conv2DOp, x, w, b, fused_activation_function, 0, {**properties, **groups})


@converts("DEPTHWISE_CONV_2D")
def depthwise_conv_2d(
    node: TFLiteNode, x: Value, w: Value, b: Value | None = None, *, window: Window, depth_multiplier: int,
    fused_activation_function: int,
) -> Value:  # fmt: skip
    """Convolution of each channel on its own, with weights [1, KH, KW, C·m]."""
    image, weights = node.shape(x), node.shape(w)
    if len(weights) != 4:
        raise node.error("its weights must have rank 4 [1, KH, KW, C]", weights)
    properties = window.properties(node, image, (weights[1], weights[2]))
    if depth_multiplier and weights[3] != image[3] * depth_multiplier:
        raise node.error(f"its weights must have {depth_multiplier} outputs for each of {image[3]} channels",
                         str(weights[3]))  # fmt: skip
    return weighted(node, DepthwiseConv2DOp, x, w, b, fused_activation_function, 3, properties)


@converts("FULLY_CONNECTED")
def fully_connected(
    node: TFLiteNode, x: Value, w: Value, b: Value | None = None, *, fused_activation_function: int,
    weights_format: int, keep_num_dims: bool,
) -> Value:  # fmt: skip
    """x · wᵀ + b with weights [O, I], where x is reshaped to rows of I elements."""
    shape, weights = node.shape(x), node.shape(w)
    if weights_format:
        raise UnsupportedError("its weights are shuffled")
    if len(weights) != 2 or not weights[1] or int(np.prod(shape)) % weights[1]:
        raise node.error(f"its weights must be [O, I] for rows of the input {list(shape)}", weights)
    rows = node.reshaped(node.movable(x), (int(np.prod(shape)) // weights[1], weights[1]))
    bias = None if b is None else node.reshaped(b, (int(np.prod(node.shape(b))),))
    y = weighted(node, FullyConnectedOp, rows, w, bias, fused_activation_function, 0)
    if not keep_num_dims:
        return y
    if not shape or shape[-1] != weights[1]:
        raise node.error(f"its input's last dimension must be {weights[1]}", shape)
    return node.reshaped(y, (*shape[:-1], weights[0]))


@converts("BATCH_MATMUL")
def batch_matmul(node: TFLiteNode, lhs: Value, rhs: Value, *, adj_x: bool, adj_y: bool) -> Value:
    """Matrix product of the last two dimensions; `adj_x` and `adj_y` transpose an operand first."""
    if not node.is_quantized(lhs):
        rhs = node.floats(rhs)
    sides = [_adjoint(node, side) if adjoint else side for side, adjoint in ((lhs, adj_x), (rhs, adj_y))]
    return node.pointwise(MatMulOp, sides)


def _adjoint(node: TFLiteNode, x: Value) -> Value:
    rank = node.rank(x)
    if rank < 2:
        raise node.error("its operands must have rank 2 or more", str(rank))
    return node.moved(node.movable(x), (*range(rank - 2), rank - 1, rank - 2))


@converts("TRANSPOSE_CONV")
def transpose_conv(
    node: TFLiteNode, output_shape: Value, w: Value, x: Value, b: Value | None = None, *, window: Window,
    fused_activation_function: int,
) -> Value:  # fmt: skip
    """Transposed convolution, as zeros between the input's elements and then a convolution with reversed weights.

    The output shape has to be known at import. If it is computed at run time, the shape that the file declares for the
    output tensor is used.
    """
    constant = isinstance(output_shape, Constant) or node.tensors[0].dynamic
    out = node.ints(output_shape, "output shape") if constant else node.tensors[0].shape
    image, weights = node.shape(x), node.shape(w)
    strides = window.strides
    if len(out) != 4 or len(image) != 4 or len(weights) != 4 or min(strides) < 1 or min(*out, *image, *weights) < 1:
        raise node.error("its input, weights and output must have rank 4 and its strides be at least 1",
                         f"{list(image)}, {list(weights)}, {list(out)}")  # fmt: skip
    before = [
        same_padding(size, extent, stride)[0] if window.padding == SAME else 0
        for size, extent, stride in zip(out[1:3], weights[1:3], strides, strict=True)
    ]
    y = transposed(node, spread_zeros(node, x, strides), w, b, out, before, fused_activation_function)
    if isinstance(y, OpResult) and (type := node.output_type()) is not None and type.storage_width == 8:
        KERNEL.put(y.op, TRANSPOSED if type.is_signed else TRANSPOSED_UNSIGNED)
    return y


def transposed(
    node: TFLiteNode, spread: Value, w: Value, b: Value | None, out: Sequence[int], before: Sequence[int],
    activation: int = 0,
) -> SSAValue:  # fmt: skip
    """Adds a transposed convolution as a convolution with reversed weights.

    Args:
        node: The node.
        spread: The image with zeros between its elements (`spread_zeros`).
        w: The weights [O, KH, KW, C].
        b: The bias.
        out: The shape of the result.
        before: The rows and columns that are cut off the full result's beginning.
        activation: The code of the fused activation.
    """
    weights, image = node.shape(w), node.shape(spread)
    low, high = [0] * 4, [0] * 4
    for axis, cut in zip((1, 2), before, strict=True):
        low[axis] = weights[axis] - 1 - cut
        high[axis] = out[axis] + weights[axis] - 1 - image[axis] - low[axis]
    if min(*low, *high) < 0:
        raise node.error("its output shape must fit its input, strides and padding", out)
    padded = pad_value(node, spread, low, high, 0.0)
    y = weighted(node, Conv2DOp, padded, node.reversed(w, (1, 2)), b, activation, 0)
    if node.shape(y) != tuple(out):
        raise node.error(f"its output shape must be {list(node.shape(y))}", out)
    return y


def spread_zeros(node: TFLiteNode, x: Value, strides: tuple[int, int]) -> Value:
    """Inserts stride − 1 zeros between the rows and between the columns of an image [N, H, W, C]."""
    (n, rows, columns, channels), (down, right) = node.shape(x), strides
    if strides == (1, 1):
        return x
    value = node.builder.ssa(x) if not node.is_quantized(x) else node.quantized(x)
    split = node.reshaped(value, (n, rows, 1, columns, 1, channels))
    padded = pad_value(node, split, [0] * 6, [0, 0, down - 1, 0, right - 1, 0], 0.0)
    joined = node.reshaped(padded, (n, rows * down, columns * right, channels))
    sizes = (n, (rows - 1) * down + 1, (columns - 1) * right + 1, channels)
    return node.insert(SliceOp, [joined], {"offsets": [0] * 4, "sizes": sizes, "strides": [1] * 4})
