"""Pools over windows and over whole images, with any number of spatial dimensions.

nn pools the rows and columns of images. A pool over one dimension pools an image of one row. A pool over more than two
dimensions is split: the innermost two dimensions are pooled first, with the outer dimensions in the batch; then the
outer dimensions are pooled, with the inner two in the channels. So a maximum is a maximum of maxima, and a mean is a
mean of means, since the number of elements in a window is the product of its counts along each dimension.
"""

from dataclasses import dataclass, field
from math import prod

import numpy as np
from xdsl.dialects.builtin import BoolAttr
from xdsl.ir import Attribute, SSAValue

from qmlir.dialects.nn.elementary import AbsOp, SqrtOp
from qmlir.dialects.nn.elementwise import AddOp, DivOp, MulOp, PowOp, SubOp
from qmlir.dialects.nn.pooling import (
    AveragePool2DOp,
    GlobalAveragePoolOp,
    MaxPool2DOp,
    MaxPoolIndices2DOp,
    WindowPoolOp,
)
from qmlir.dialects.windows import ints
from qmlir.frontends.builder import Node
from qmlir.frontends.convolution import convolved
from qmlir.frontends.onnx.converters import converts
from qmlir.frontends.onnx.layout import channels_first, channels_last
from qmlir.frontends.onnx.windows import geometry
from qmlir.frontends.values import Constant, Ints, Refusal, Value, filled
from qmlir.frontends.windows import Geometry, cropped, padded
from qmlir.ir.interfaces import Shape


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
) -> Value | tuple[Value, Value]:
    """Returns the maximum over each window and, if used, its index in the whole tensor.

    With `storage_order` 1 the index counts along columns before rows.
    """
    windows = geometry(
        node, spatial(node, x), kernel_shape, strides=strides, pads=pads, dilations=dilations, auto_pad=auto_pad,
        ceil_mode=bool(ceil_mode),
    )  # fmt: skip
    if _overlooks_image(windows):
        raise Refusal("its padding is as large as its window, which then may see no element")
    wants_places = bool(node.outputs[1:2] and node.outputs[1])
    if wants_places and (len(windows.kernel) > 2 or min(windows.low + windows.high) < 0):
        raise Refusal("the places of its maxima are used, which qmlir gives in one or two dimensions, not cropped")
    image, windows = cropped(node, channels_last(node, x), windows)
    y = channels_first(node, _Pool(node, MaxPool2DOp).over(image, windows))
    if not wants_places:
        return y
    places = channels_first(node, _Pool(node, MaxPoolIndices2DOp).over(image, windows, "places"))
    return y, _counted_through(node, places, node.shape(x), bool(storage_order))


def _counted_through(node: Node, places: SSAValue, shape: Shape, columns_first: bool) -> SSAValue:
    """Converts indices into one image, row · width + column, to indices into the whole tensor [N, C, …]."""

    def number(value: int) -> Constant:
        return Constant(np.array(value, np.int64))

    size = prod(shape[2:])
    if columns_first and len(shape) == 4:
        row = node.insert(DivOp, [places, number(shape[3])])
        column = node.insert(SubOp, [places, node.insert(MulOp, [row, number(shape[3])])])
        places = node.insert(AddOp, [node.insert(MulOp, [column, number(shape[2])]), row])
    before = (
        np.arange(*node.room((shape[0] * shape[1],)), dtype=np.int64).reshape(*shape[:2], *(1 for _ in shape[2:]))
        * size
    )
    return node.compute(AddOp, [places, Constant(before)], output=1)


@converts("LpPool")
def lp_pool(
    node: Node,
    x: Value,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Ints = (),
    kernel_shape: Ints,
    p: int = 2,
    pads: Ints = (),
    strides: Ints = (),
) -> Value:
    """y = (Σ |x|^p)^(1/p) over each window; the sum is a convolution with weights of 1."""
    windows = geometry(
        node, spatial(node, x), kernel_shape, strides=strides, pads=pads, dilations=dilations, auto_pad=auto_pad,
        ceil_mode=bool(ceil_mode),
    )  # fmt: skip
    return _lp_pool(node, x, windows, p)


@converts("GlobalLpPool")
def global_lp_pool(node: Node, x: Value, *, p: int = 2) -> Value:
    """y = (Σ |x|^p)^(1/p) over each image."""
    size = spatial(node, x)
    windows = geometry(node, size, size, strides=(), pads=(), dilations=(), auto_pad="")
    return _lp_pool(node, x, windows, p)


def _lp_pool(node: Node, x: Value, windows: Geometry, p: int) -> Value:
    if p < 1:
        raise node.error("its attribute p must be at least 1", str(p))
    image, channels = channels_last(node, x), node.shape(x)[1]
    match p:
        case 1:
            powers = node.compute(AbsOp, [image], part="powers")
        case 2:
            powers = node.compute(MulOp, [image, image], part="powers")
        case _:
            size = node.insert(AbsOp, [image])
            powers = node.compute(PowOp, [size, node.number(p, size)], part="powers")
    ones = filled((channels, *windows.kernel, 1), node.number(1, powers).array)
    sums = convolved(node, powers, ones, None, windows, channels, part=None if p == 1 else "sums")
    match p:
        case 1:
            y = sums
        case 2:
            y = node.compute(SqrtOp, [sums])
        case _:
            y = node.compute(PowOp, [sums, node.number(1 / p, sums)])
    if p > 1:
        node.mark_powers(p)
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
    """The mean over each window; padding counts as elements only if `count_include_pad` is set."""
    windows = geometry(
        node, spatial(node, x), kernel_shape, strides=strides, pads=pads, dilations=dilations, auto_pad=auto_pad,
        ceil_mode=bool(ceil_mode),
    )  # fmt: skip
    image, windows = cropped(node, channels_last(node, x), windows)
    include = bool(count_include_pad) and max(windows.low + windows.high) > 0
    if include and (max(windows.extra) > 0 or _overlooks_image(windows)):
        # Padding counts but what ceil_mode adds never does, so the padding becomes part of the image.
        image, include = padded(node, image, (0, *windows.low, 0), (0, *windows.high, 0)), False
        nothing = (0,) * len(windows.low)
        windows = Geometry(windows.kernel, windows.strides, windows.dilations, nothing, nothing, windows.extra)
    elif _overlooks_image(windows):
        raise Refusal("its padding is as large as its window, which then may see no element")
    pool = _Pool(node, AveragePool2DOp, {"count_include_pad": BoolAttr.from_bool(include)})
    return channels_first(node, pool.over(image, windows))


def spatial(node: Node, x: Value) -> Ints:
    """Returns the spatial sizes of an input [N, C, …].

    Raises:
        NodeError: The input has no spatial dimension.
    """
    shape = node.shape(x)
    if len(shape) < 3:
        raise node.error("its input must have at least one spatial dimension", str(list(shape)))
    return shape[2:]


def _overlooks_image(windows: Geometry) -> bool:
    """Whether some window may lie entirely in the padding."""
    return any(
        max(low, high + extra) >= span
        for low, high, extra, span in zip(windows.low, windows.high, windows.extra, windows.spans(), strict=True)
    )


@dataclass(frozen=True)
class _Pool:
    """A pooling operation of a node, for channels-last images of any rank.

    node        the node
    op_type     the nn operation
    properties  properties of the operation besides its window
    """

    node: Node
    op_type: type[WindowPoolOp]
    properties: dict[str, Attribute] = field(default_factory=dict[str, Attribute])

    def over(self, image: SSAValue, windows: Geometry, part: str | None = None) -> SSAValue:
        """Pools [N, …, C] → [N, …, C]; if `part` is given, as an intermediate tensor of that name."""
        batch, *sizes, channels = self.node.shape(image)
        match len(sizes):
            case 1:
                y = self.over(self._seen_as(image, (batch, 1, *sizes, channels)), windows.of_rows(), part)
                return self._seen_as(y, (batch, self.node.shape(y)[2], channels))
            case 2:
                properties = {**windows.properties(), "window": ints(windows.kernel), **self.properties}
                return self.node.compute(self.op_type, [image], properties, part=part)
            case _:
                *outer, rows, columns = sizes
                planes = self._seen_as(image, (batch * prod(outer), rows, columns, channels))
                planes = self.over(planes, windows.along(slice(-2, None)), f"{part}.planes" if part else "planes")
                inner = self.node.shape(planes)[1:]
                stack = self._seen_as(planes, (batch, *outer, prod(inner)))
                y = self.over(stack, windows.along(slice(-2)), part)
                return self._seen_as(y, (batch, *self.node.shape(y)[1:-1], *inner))

    def _seen_as(self, x: SSAValue, shape: tuple[int, ...]) -> SSAValue:
        return self.node.builder.ssa(self.node.reshaped(x, shape))


@converts("GlobalMaxPool")
def global_max_pool(node: Node, x: Value) -> Value:
    """The maximum of each channel of each image: a pool whose window is the whole image."""
    image, rank = _pixels(node, x)
    y = node.compute(MaxPool2DOp, [image], {"window": ints(node.shape(image)[1:3])})
    return _of_rank(node, y, rank)


@converts("GlobalAveragePool")
def global_average_pool(node: Node, x: Value) -> Value:
    """The mean of each channel of each image."""
    image, rank = _pixels(node, x)
    return _of_rank(node, node.compute(GlobalAveragePoolOp, [image]), rank)


def _pixels(node: Node, x: Value) -> tuple[SSAValue, int]:
    """Returns the input [N, C, …] as images [N, H, W, C], of one row unless it has two dimensions; and its rank."""
    sizes, image = spatial(node, x), channels_last(node, x)
    if len(sizes) != 2:
        batch, channels = node.shape(x)[:2]
        image = node.builder.ssa(node.reshaped(image, (batch, 1, prod(sizes), channels)))
    return image, len(sizes) + 2


def _of_rank(node: Node, y: SSAValue, rank: int) -> Value:
    """Converts a result [N, 1, 1, C] to [N, C, 1, …] of the given rank."""
    batch, _, _, channels = node.shape(y)
    return channels_first(node, node.builder.ssa(node.reshaped(y, (batch, *(1,) * (rank - 2), channels))))
