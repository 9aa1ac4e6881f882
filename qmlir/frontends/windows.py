"""Windows of any number of spatial dimensions over images [N, …, C]; nn has two.

One dimension is a row of an image of one row, more are taken apart by who uses the windows (convolution.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import FloatAttr, IntegerAttr, f32
from xdsl.ir import Attribute, SSAValue

from qmlir.dialects.interfaces import element_of
from qmlir.dialects.loops import is_integer
from qmlir.dialects.nn.indexing import SliceOp
from qmlir.dialects.nn.shape import PadOp
from qmlir.dialects.windows import ints
from qmlir.frontends.builder import Node
from qmlir.frontends.values import Ints


@dataclass(frozen=True)
class Geometry:
    """A window over the spatial dimensions, one value for each.

    low, high   padding before and after the image; negative padding crops (`cropped`)
    extra       what `ceil_mode` adds after it so that a last, partial window fits; outside the padded image
    """

    kernel: Ints
    strides: Ints
    dilations: Ints
    low: Ints
    high: Ints
    extra: Ints

    def properties(self) -> dict[str, Attribute]:
        """The properties of a `WindowOp`, for two dimensions; the extra padding counts as padding."""
        bottom, right = (high + extra for high, extra in zip(self.high, self.extra, strict=True))
        return {
            "strides": ints(self.strides),
            "dilations": ints(self.dilations),
            "padding": ints((self.low[0], bottom, self.low[1], right)),
        }

    def spans(self) -> Ints:
        """From a window's first to its last element, for each dimension."""
        return tuple(span(k, d) for k, d in zip(self.kernel, self.dilations, strict=True))

    def along(self, axes: slice) -> "Geometry":
        """The window over some of the dimensions."""
        return Geometry(*(values[axes] for values in self._fields()))

    def of_rows(self) -> "Geometry":
        """A window over one dimension as one over the columns of an image of one row."""
        return Geometry(*((neutral, *own) for neutral, own in zip((1, 1, 1, 0, 0, 0), self._fields(), strict=True)))

    def unpadded(self) -> "Geometry":
        """The window over an image that has its padding already."""
        nothing = (0,) * len(self.kernel)
        return replace(self, low=nothing, high=nothing, extra=nothing)

    def outputs(self, image: Sequence[int]) -> Ints:
        """The size of the result over an image of the given spatial size."""
        padded = (sum(sizes) for sizes in zip(image, self.low, self.high, self.extra, strict=True))
        return tuple((n - s) // step + 1 for n, s, step in zip(padded, self.spans(), self.strides, strict=True))

    def _fields(self) -> tuple[Ints, ...]:
        return self.kernel, self.strides, self.dilations, self.low, self.high, self.extra


def span(extent: int, dilation: int) -> int:
    """From the first to the last element of a window, both included."""
    return (extent - 1) * dilation + 1


def cropped(node: Node, image: SSAValue, windows: Geometry) -> tuple[SSAValue, Geometry]:
    """The image [N, …, C] without what negative padding cuts off, and the windows with the padding that is left."""
    if min(windows.low + windows.high) >= 0:
        return image, windows
    before = [max(-low, 0) for low in windows.low]
    after = [max(-high, 0) for high in windows.high]
    shape = node.shape(image)
    sizes = [n - b - a for n, b, a in zip(shape[1:-1], before, after, strict=True)]
    if min(sizes) < 0:
        raise node.error("its negative padding must leave something of its input", str(list(shape)))
    image = sliced(node, image, [0, *before, 0], [shape[0], *sizes, shape[-1]])
    low, high = (tuple(max(p, 0) for p in side) for side in (windows.low, windows.high))
    return image, replace(windows, low=low, high=high)


def sliced(
    node: Node, x: SSAValue, offsets: Sequence[int], sizes: Sequence[int], strides: Sequence[int] | None = None
) -> SSAValue:
    """`nn.slice`, by default of neighbours; nothing where it takes all."""
    if tuple(sizes) == node.shape(x) and strides is None:
        return x
    steps = [1] * len(sizes) if strides is None else list(strides)
    properties = {"offsets": ints([*offsets]), "sizes": ints([*sizes]), "strides": ints(steps)}
    return node.insert(SliceOp, [x], properties)


def padded(
    node: Node, x: SSAValue, low: Sequence[int], high: Sequence[int], value: float = 0.0, *, integer: int = 0
) -> SSAValue:
    """`nn.pad` with a number, which for integer tensors is `integer`; nothing where there is nothing to add."""
    if not any(low) and not any(high):
        return x
    element = element_of(x)
    fill = IntegerAttr(integer, element) if is_integer(element) else FloatAttr(value, f32)
    return node.insert(PadOp, [x], {"low": ints(list(low)), "high": ints(list(high)), "value": fill})
