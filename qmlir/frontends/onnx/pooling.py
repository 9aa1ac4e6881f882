"""Pools over windows, and over the whole image."""

from xdsl.dialects.builtin import BoolAttr, FloatAttr, f32
from xdsl.ir import SSAValue

from qmlir.dialects.nn.pooling import AveragePool2DOp, GlobalAveragePoolOp, MaxPool2DOp
from qmlir.dialects.nn.shape import PadOp
from qmlir.dialects.windows import ints
from qmlir.frontends.onnx.builder import Node
from qmlir.frontends.onnx.converters import converts
from qmlir.frontends.onnx.layout import channels_first, channels_last, image_size
from qmlir.frontends.onnx.values import Ints, Refusal, Value
from qmlir.frontends.onnx.windows import Geometry, geometry


@converts("MaxPool")
def max_pool(
    node: Node,
    x: Value,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Ints = (),
    kernel_shape: Ints,
    pads: Ints = (),
    storage_order: int = 0,
    strides: Ints = (),
) -> Value:
    """The maximum over each window; `storage_order` is about the indices, which qmlir does not give."""
    windows = geometry(
        node, image_size(node, x), kernel_shape, strides=strides, pads=pads, dilations=dilations, auto_pad=auto_pad,
        ceil_mode=bool(ceil_mode),
    )  # fmt: skip
    if _overlooks_image(windows):
        raise Refusal("its padding is as large as its window, which then may see no element")
    y = node.compute(MaxPool2DOp, [channels_last(node, x)], {**windows.properties(), "window": ints(windows.kernel)})
    return channels_first(node, y)


@converts("AveragePool")
def average_pool(
    node: Node,
    x: Value,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    dilations: Ints = (),
    kernel_shape: Ints,
    pads: Ints = (),
    strides: Ints = (),
) -> Value:
    """The mean over each window, of the elements inside the image or, with `count_include_pad`, the padded image."""
    windows = geometry(
        node, image_size(node, x), kernel_shape, strides=strides, pads=pads, dilations=dilations, auto_pad=auto_pad,
        ceil_mode=bool(ceil_mode),
    )  # fmt: skip
    image = channels_last(node, x)
    properties = windows.properties()
    include = bool(count_include_pad) and max(windows.low + windows.high) > 0
    if include and (max(windows.extra) > 0 or _overlooks_image(windows)):
        # What ceil_mode adds never counts, the padding does: let the padding be part of the image.
        image, include = _padded(node, image, windows), False
        properties["padding"] = ints((0, windows.extra[0], 0, windows.extra[1]))
    elif _overlooks_image(windows):
        raise Refusal("its padding is as large as its window, which then may see no element")
    properties |= {"window": ints(windows.kernel), "count_include_pad": BoolAttr.from_bool(include)}
    return channels_first(node, node.compute(AveragePool2DOp, [image], properties))


def _overlooks_image(windows: Geometry) -> bool:
    """Whether some window may lie in the padding alone."""
    return any(
        max(low, high + extra) >= span
        for low, high, extra, span in zip(windows.low, windows.high, windows.extra, windows.spans(), strict=True)
    )


def _padded(node: Node, image: SSAValue, windows: Geometry) -> SSAValue:
    """The image [N, H, W, C] with the windows' explicit padding as zeros."""
    low, high = (0, *windows.low, 0), (0, *windows.high, 0)
    return node.insert(PadOp, [image], {"low": ints(low), "high": ints(high), "value": FloatAttr(0.0, f32)})


@converts("GlobalMaxPool")
def global_max_pool(node: Node, x: Value) -> Value:
    """The maximum of each channel: a pool whose window is the image."""
    size = image_size(node, x)
    return channels_first(node, node.compute(MaxPool2DOp, [channels_last(node, x)], {"window": ints(size)}))


@converts("GlobalAveragePool")
def global_average_pool(node: Node, x: Value) -> Value:
    """The mean of each channel."""
    image_size(node, x)
    return channels_first(node, node.compute(GlobalAveragePoolOp, [channels_last(node, x)]))


@converts("ReduceMean")
def reduce_mean(node: Node, x: Value, *, axes: Ints = (), keepdims: int = 1) -> Value:
    """The mean over axes."""
    return _mean(node, x, axes, bool(keepdims))


@converts("ReduceMean", since=18)
def reduce_mean_axes_input(
    node: Node, x: Value, axes: Value | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
) -> Value:
    """The mean over axes, which are an input."""
    values = () if axes is None else node.ints(axes, "axes")
    return x if not values and noop_with_empty_axes else _mean(node, x, values, bool(keepdims))


def _mean(node: Node, x: Value, axes: Ints, keepdims: bool) -> Value:
    """A global average pool, where the axes are the spatial ones of [N, C, H, W] or of [N, H, W, C]."""
    shape = node.shape(x)
    over = node.axes(axes, len(shape)) or list(range(len(shape)))
    if len(shape) != 4 or over not in ([2, 3], [1, 2]):
        raise Refusal(f"it averages over axes {over} of {len(shape)}, and qmlir over the two of an image")
    image = channels_last(node, x) if over == [2, 3] else x
    y = node.compute(GlobalAveragePoolOp, [image])
    if not keepdims:
        return node.reshaped(y, (shape[0], node.shape(y)[3]))
    return channels_first(node, y) if over == [2, 3] else y
