"""Windows and convolutions over images with any number of spatial dimensions; nn's have two."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import SSAValue

from qmlir.dialects.nn.contraction import Conv2DOp, DepthwiseConv2DOp
from qmlir.dialects.nn.movement import ConcatOp, PadOp, SliceOp
from qmlir.frontends.builder import Node, Properties
from qmlir.frontends.function import Ints, Value
from qmlir.ir.interfaces import element_of
from qmlir.ir.types import is_integer

# ---------------------------------------------------------------------------------------------------------------
# Windows over images [N, …, C] with any number of spatial dimensions; windows in nn have two dimensions.
#
# A window over one dimension becomes a window over an image of one row. Windows over more than two dimensions are split
# by the operator that uses them.


@dataclass(frozen=True)
class Geometry:
    """The geometry of a window: each field has one value for each spatial dimension.

    low, high   padding before and after the image; negative padding crops the image (`cropped`)
    extra       padding that `ceil_mode` adds after `high` so that a last, partial window fits; it does not belong to
                the padded image
    """

    kernel: Ints
    strides: Ints
    dilations: Ints
    low: Ints
    high: Ints
    extra: Ints

    def properties(self) -> Properties:
        """Returns the properties of a `WindowOp` in two dimensions; the extra padding counts as padding."""
        bottom, right = (high + extra for high, extra in zip(self.high, self.extra, strict=True))
        padding = self.low[0], bottom, self.low[1], right
        return {"strides": self.strides, "dilations": self.dilations, "padding": padding}

    def is_pointwise(self) -> bool:
        """Whether each window is one element of the image, in order, without padding."""
        ones, padding = {*self.kernel, *self.strides}, {*self.low, *self.high, *self.extra}
        return ones <= {1} and padding <= {0}

    def spans(self) -> Ints:
        """Returns the span of a window in each dimension (see `span`)."""
        return tuple(span(k, d) for k, d in zip(self.kernel, self.dilations, strict=True))

    def along(self, axes: slice) -> "Geometry":
        """Returns the window over some of its dimensions."""
        return Geometry(*(values[axes] for values in self._fields()))

    def of_rows(self) -> "Geometry":
        """Returns a window over one dimension as a window over the columns of an image of one row."""
        return Geometry(*((neutral, *own) for neutral, own in zip((1, 1, 1, 0, 0, 0), self._fields(), strict=True)))

    def outputs(self, image: Sequence[int]) -> Ints:
        """Returns the spatial size of the result over an image of the given spatial size."""
        padded = (sum(sizes) for sizes in zip(image, self.low, self.high, self.extra, strict=True))
        return tuple((n - s) // step + 1 for n, s, step in zip(padded, self.spans(), self.strides, strict=True))

    def _fields(self) -> tuple[Ints, ...]:
        return self.kernel, self.strides, self.dilations, self.low, self.high, self.extra


def span(extent: int, dilation: int) -> int:
    """Returns the number of elements from the first to the last element of a window, both included."""
    return (extent - 1) * dilation + 1


def cropped(node: Node, image: SSAValue, windows: Geometry) -> tuple[SSAValue, Geometry]:
    """Crops the image [N, …, C] by its negative padding; returns it, and the windows with their other padding."""
    if min(windows.low + windows.high) >= 0:
        return image, windows
    before = [max(-low, 0) for low in windows.low]
    after = [max(-high, 0) for high in windows.high]
    shape = node.shape(image)
    sizes = [n - b - a for n, b, a in zip(shape[1:-1], before, after, strict=True)]
    if min(sizes) < 0:
        raise node.error("its negative padding must leave something of its input", shape)
    image = sliced(node, image, [0, *before, 0], [shape[0], *sizes, shape[-1]])
    low, high = (tuple(max(p, 0) for p in side) for side in (windows.low, windows.high))
    return image, replace(windows, low=low, high=high)


def sliced(
    node: Node, x: SSAValue, offsets: Sequence[int], sizes: Sequence[int], strides: Sequence[int] | None = None
) -> SSAValue:
    """Adds an `nn.slice`, with strides of 1 by default; returns x itself if a slice without strides takes all of it."""
    if tuple(sizes) == node.shape(x) and strides is None:
        return x
    steps = [1] * len(sizes) if strides is None else list(strides)
    properties = {"offsets": [*offsets], "sizes": [*sizes], "strides": steps}
    return node.insert(SliceOp, [x], properties)


def padded(
    node: Node, x: SSAValue, low: Sequence[int], high: Sequence[int], value: float = 0.0, *, integer: int = 0
) -> SSAValue:
    """Adds an `nn.pad` with `value`, or `integer` for an integer tensor; returns x itself if all padding is 0."""
    if not any(low) and not any(high):
        return x
    element = element_of(x)
    fill = IntegerAttr(integer, element) if is_integer(element) else value
    return node.insert(PadOp, [x], {"low": low, "high": high, "value": fill})


# ---------------------------------------------------------------------------------------------------------------
# Convolutions of any number of spatial dimensions as convolutions over the rows and columns of images.
#
#     one dimension   the columns of an image of one row
#     two             as they are
#     more            one dimension less at a time: the taps of the outermost dimension become channels, and its output
#                     positions become part of the batch
#
# A tap is one element of a convolution's window. Padding, slices and concatenations move elements and compute nothing,
# so all of these forms quantize as convolutions do.


def convolved(
    node: Node, image: SSAValue, weights: Value, bias: Value | None, windows: Geometry, groups: int = 1, *,
    part: str | None = None,
) -> SSAValue:  # fmt: skip
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
        properties = {**properties, "groups": groups}
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
    axis = {"axis": node.rank(parts[0]) - 1}
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
