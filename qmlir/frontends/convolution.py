"""Convolutions of any number of spatial dimensions as convolutions over the rows and columns of images.

    one dimension   the columns of an image of one row
    two             as they are
    more            one dimension less at a time: the taps of the outermost dimension become channels, and its output
                    positions become part of the batch

A tap is one element of a convolution's window. Padding, slices and concatenations move elements and compute nothing,
so all of these forms quantize as convolutions do.
"""

from math import prod

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import SSAValue

from qmlir.dialects.nn.contraction import Conv2DOp, DepthwiseConv2DOp
from qmlir.dialects.nn.shape import ConcatOp
from qmlir.frontends.builder import Node
from qmlir.frontends.values import Ints, Value
from qmlir.frontends.windows import Geometry, cropped, padded, sliced


def convolved(
    node: Node,
    image: SSAValue,
    weights: Value,
    bias: Value | None,
    windows: Geometry,
    groups: int = 1,
    *,
    part: str | None = None,
) -> SSAValue:
    """Adds the convolution that computes a node's output, or a `part` of it.

    The image is [N, …, C], the weights are [O, …, C/groups], the result is [N, …, O].
    """
    image, windows = cropped(node, image, windows)
    rank = len(windows.kernel)
    if rank == 1:
        (batch, columns, channels), (outputs, extent, inputs) = node.shape(image), node.shape(weights)
        row = node.builder.ssa(node.reshaped(image, (batch, 1, columns, channels)))
        of_row = node.reshaped(weights, (outputs, 1, extent, inputs))
        y = convolved(node, row, of_row, bias, windows.of_rows(), groups, part=part)
        return node.builder.ssa(node.reshaped(y, (batch, *node.shape(y)[2:])))
    if rank > 2:
        batch, outermost = node.shape(image)[0], windows.outputs(node.shape(image)[1:-1])[0]
        image, weights = _outermost_as_channels(node, image, weights, windows.along(slice(1)), groups)
        y = convolved(node, image, weights, bias, windows.along(slice(1, None)), groups, part=part)
        return node.builder.ssa(node.reshaped(y, (batch, outermost, *node.shape(y)[1:])))
    properties = windows.properties()
    if groups > 1 and node.shape(weights)[3] == 1:
        return node.compute(DepthwiseConv2DOp, [image, node.moved(weights, (3, 1, 2, 0)), bias], properties, part=part)
    if groups > 1:
        properties["groups"] = IntegerAttr(groups, i64)
    return node.compute(Conv2DOp, [image, weights, bias], properties, part=part)


def _outermost_as_channels(
    node: Node, image: SSAValue, weights: Value, windows: Geometry, groups: int
) -> tuple[SSAValue, Value]:
    """Moves the outermost spatial dimension of a convolution into the batch and the channels.

    The image [N, D, …, C] becomes [N·D', …, K·C]: the channels of a group hold the K taps of a window along D, one tap
    after another. The weights [O, K, …, C/groups] become [O, …, K·C/groups].
    """
    (taps,), (stride,), (dilation,) = windows.kernel, windows.strides, windows.dilations
    batch, size, *others, channels = node.shape(image)
    (outputs,) = windows.outputs([size])
    rest = [0] * (len(others) + 1)
    image = padded(node, image, [0, *windows.low, *rest], [0, windows.high[0] + windows.extra[0], *rest])
    sizes, steps = [batch, outputs, *others, channels], [1, stride, *(1 for _ in rest)]
    parts: list[Value] = [
        node.reshaped(
            sliced(node, image, [0, tap * dilation, *rest], sizes, steps if stride > 1 else None),
            (batch * outputs, *others, groups, channels // groups),
        )
        for tap in range(taps)
    ]
    axis = {"axis": IntegerAttr(node.rank(parts[0]) - 1, i64)}
    gathered = parts[0] if taps == 1 else node.insert(ConcatOp, [parts], axis)
    image = node.builder.ssa(node.reshaped(gathered, (batch * outputs, *others, taps * channels)))
    of, _, *kernel, inputs = node.shape(weights)
    last = len(kernel) + 2
    by_tap = node.moved(weights, (0, *range(2, last), 1, last))
    return image, node.reshaped(by_tap, (of, *kernel, prod((taps, inputs))))


def spread(node: Node, image: SSAValue, strides: Ints) -> SSAValue:
    """Inserts `stride` − 1 zeros after each element of each spatial dimension of the image [N, …, C]."""
    if max(strides) == 1:
        return image
    batch, *sizes, channels = node.shape(image)
    apart = node.builder.ssa(node.reshaped(image, (batch, *(n for size in sizes for n in (size, 1)), channels)))
    zeros = [0, *(n for step in strides for n in (0, step - 1)), 0]
    wide = padded(node, apart, [0] * len(zeros), zeros)
    shape = (batch, *(size * step for size, step in zip(sizes, strides, strict=True)), channels)
    return node.builder.ssa(node.reshaped(wide, shape))
