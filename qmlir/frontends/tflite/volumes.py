"""Converters of convolutions over volumes [N, D, H, W, C]; TFLite has them on floats only."""

from collections.abc import Sequence

from qmlir.frontends.convolution import convolved, spread
from qmlir.frontends.tflite.converters import converts
from qmlir.frontends.tflite.node import TFLiteNode
from qmlir.frontends.tflite.windows import SAME, VALID, same_padding
from qmlir.frontends.values import Ints, Refusal, Value
from qmlir.frontends.windows import Geometry, span


def _check(node: TFLiteNode, x: Value, w: Value, steps: Sequence[int], padding: int, inputs: int) -> None:
    """Checks that volume, weights and options fit; dimension `inputs` of the weights counts input channels."""
    shape, weights = node.shape(x), node.shape(w)
    if len(shape) != 5 or len(weights) != 5 or not weights[inputs] or shape[-1] % weights[inputs]:
        raise node.error("it needs a volume [N, D, H, W, C] and weights of rank 5 for its channels",
                         f"{list(shape)} and {list(weights)}")  # fmt: skip
    if min(*steps, *shape, *weights) < 1 or padding not in (SAME, VALID):
        raise node.error("its sizes, strides and dilations must be at least 1", str(list(steps)))
    if node.is_quantized(x) or node.element(x) != "f32":
        raise Refusal(f"it computes on {node.element(x)}")


@converts("CONV_3D", options="Conv3DOptions")
def conv_3d(
    node: TFLiteNode, x: Value, w: Value, b: Value | None = None, *, padding: int, stride_d: int, stride_h: int,
    stride_w: int, dilation_d_factor: int, dilation_h_factor: int, dilation_w_factor: int,
    fused_activation_function: int,
) -> Value:  # fmt: skip
    """Convolution with weights [KD, KH, KW, C/G, O]."""
    strides, dilations = (stride_d, stride_h, stride_w), (dilation_d_factor, dilation_h_factor, dilation_w_factor)
    _check(node, x, w, (*strides, *dilations), padding, 3)
    kernel, image = node.shape(w)[:3], node.shape(x)[1:4]
    pads = [(0, 0)] * 3
    if padding == SAME:
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


@converts("CONV_3D_TRANSPOSE", options="Conv3DOptions")
def conv_3d_transpose(
    node: TFLiteNode, output_shape: Value, w: Value, x: Value, b: Value | None = None, *, padding: int, stride_d: int,
    stride_h: int, stride_w: int, dilation_d_factor: int, dilation_h_factor: int, dilation_w_factor: int,
    fused_activation_function: int,
) -> Value:  # fmt: skip
    """Transposed convolution with weights [KD, KH, KW, O, C]."""
    strides, dilations = (stride_d, stride_h, stride_w), (dilation_d_factor, dilation_h_factor, dilation_w_factor)
    _check(node, x, w, (*strides, *dilations), padding, 4)
    out, image, kernel = node.ints(output_shape, "output shape"), node.shape(x)[1:4], node.shape(w)[:3]
    if len(out) != 5 or min(out) < 1 or node.shape(x)[-1] != node.shape(w)[4]:
        raise node.error("it needs an output shape [N, D, H, W, O] and weights for all channels", str(list(out)))
    low, high = list[int](), list[int]()
    for size, n, k, step, dilation in zip(out[1:4], image, kernel, strides, dilations, strict=True):
        before = same_padding(size, k, step, dilation)[0] if padding == SAME else 0
        low.append(span(k, dilation) - 1 - before)
        high.append(size + span(k, dilation) - 1 - n * step - low[-1])
        if -high[-1] >= step and padding == VALID:
            raise node.error("its output shape must fit its input, strides and padding", str(list(out)))
    ones: Ints = (1, 1, 1)
    windows = Geometry(kernel, ones, dilations, tuple(low), tuple(high), (0, 0, 0))
    weights = node.reversed(node.moved(w, (3, 0, 1, 2, 4)), (1, 2, 3))
    y = convolved(node, spread(node, node.builder.ssa(x), strides), weights, b, windows)
    return node.activated(y, fused_activation_function)
