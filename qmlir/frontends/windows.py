"""Windows over images [N, …, C] with any number of spatial dimensions; windows in nn have two dimensions.

A window over one dimension becomes a window over an image of one row. Windows over more than two dimensions are split
by the operator that uses them (convolution.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import FloatAttr, IntegerAttr, f32
from xdsl.ir import Attribute, SSAValue

from qmlir.dialects.nn.indexing import SliceOp
from qmlir.dialects.nn.shape import PadOp
from qmlir.dialects.windows import ints
from qmlir.frontends.builder import Node
from qmlir.frontends.values import Ints
from qmlir.ir.interfaces import element_of
from qmlir.ir.predicates import is_integer


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

    def properties(self) -> dict[str, Attribute]:
        """Returns the properties of a `WindowOp` in two dimensions; the extra padding counts as padding."""
        bottom, right = (high + extra for high, extra in zip(self.high, self.extra, strict=True))
        return {
            "strides": ints(self.strides),
            "dilations": ints(self.dilations),
            "padding": ints((self.low[0], bottom, self.low[1], right)),
        }

    def spans(self) -> Ints:
        """Returns the span of a window in each dimension (see `span`)."""
        return tuple(span(k, d) for k, d in zip(self.kernel, self.dilations, strict=True))

    def along(self, axes: slice) -> "Geometry":
        """Returns the window over some of its dimensions."""
        return Geometry(*(values[axes] for values in self._fields()))

    def of_rows(self) -> "Geometry":
        """Returns a window over one dimension as a window over the columns of an image of one row."""
        return Geometry(*((neutral, *own) for neutral, own in zip((1, 1, 1, 0, 0, 0), self._fields(), strict=True)))

    def unpadded(self) -> "Geometry":
        """Returns the window without padding, for an image that already contains its padding."""
        nothing = (0,) * len(self.kernel)
        return replace(self, low=nothing, high=nothing, extra=nothing)

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
        raise node.error("its negative padding must leave something of its input", str(list(shape)))
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
    properties = {"offsets": ints([*offsets]), "sizes": ints([*sizes]), "strides": ints(steps)}
    return node.insert(SliceOp, [x], properties)


def padded(
    node: Node, x: SSAValue, low: Sequence[int], high: Sequence[int], value: float = 0.0, *, integer: int = 0
) -> SSAValue:
    """Adds an `nn.pad` with `value`, or `integer` for an integer tensor; returns x itself if all padding is 0."""
    if not any(low) and not any(high):
        return x
    element = element_of(x)
    fill = IntegerAttr(integer, element) if is_integer(element) else FloatAttr(value, f32)
    return node.insert(PadOp, [x], {"low": ints(list(low)), "high": ints(list(high)), "value": fill})
