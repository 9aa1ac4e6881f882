"""Where the windows of ONNX's convolutions and pools lie: `pads`, `auto_pad` and `ceil_mode` as explicit padding.

Of any number of spatial dimensions; nn has two. One dimension is a row of an image of one row, more are taken apart by
who uses the windows (convolution.py, pooling.py).
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

AUTO_PADS = ("NOTSET", "", "VALID", "SAME_UPPER", "SAME_LOWER")


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


def geometry(
    node: Node,
    image: Ints,
    kernel: Ints,
    *,
    strides: Ints,
    pads: Ints,
    dilations: Ints,
    auto_pad: str,
    ceil_mode: bool = False,
) -> Geometry:
    """The windows of a node over an image of the given spatial size; empty attributes have their defaults.

    Raises:
        NodeError: An attribute has the wrong number of values or values that make no sense.
    """
    rank = len(image)
    check_window(node, rank, kernel, strides=strides, pads=pads, dilations=dilations, auto_pad=auto_pad)
    strides, dilations, pads = strides or (1,) * rank, dilations or (1,) * rank, pads or (0,) * 2 * rank
    sides = [
        _along(node, size, span(kernel[i], dilations[i]), strides[i], pads[i::rank], auto_pad, ceil_mode)
        for i, size in enumerate(image)
    ]
    low, high, extra = zip(*sides, strict=True)
    return Geometry(kernel, strides, dilations, low, high, extra)


def check_window(
    node: Node, rank: int, kernel: Ints, *, strides: Ints, pads: Ints, dilations: Ints, auto_pad: str
) -> None:
    """Raises NodeError unless the attributes of a window have as many values as they need, and ones that make sense."""
    for what, values, counts, least in (
        ("kernel_shape", kernel, (rank,), 1),
        ("strides", strides, (0, rank), 1),
        ("dilations", dilations, (0, rank), 1),
        ("pads", pads, (0, 2 * rank), None),
    ):
        if len(values) not in counts or (least is not None and min(values, default=least) < least):
            wanted = f"{counts[-1]} values" + ("" if least is None else f" of at least {least}")
            raise node.error(f"its attribute {what} needs {wanted}", str(list(values)))
    if auto_pad not in AUTO_PADS:
        raise node.error("its attribute auto_pad must be NOTSET, VALID, SAME_UPPER or SAME_LOWER", auto_pad)


def _along(
    node: Node, size: int, window: int, stride: int, pads: Ints, auto_pad: str, ceil_mode: bool
) -> tuple[int, int, int]:
    """Padding (low, high, extra) along one axis."""
    if auto_pad.startswith("SAME"):
        total = max((-(-size // stride) - 1) * stride + window - size, 0)
        less, more = total // 2, total - total // 2
        return (less, more, 0) if auto_pad == "SAME_UPPER" else (more, less, 0)
    low, high = (0, 0) if auto_pad == "VALID" else (pads[0], pads[1])
    room = size + low + high - window
    if room < 0:
        raise node.error(f"its window spans {window} and must fit into its padded input", str(size + low + high))
    if not ceil_mode:  # with VALID, ceil_mode counts too: onnxruntime and ONNX's reference differ from ONNX's text
        return low, high, 0
    last = -(-room // stride)
    if last * stride >= size + low:  # a window that would start behind the image is left out
        last -= 1
    return low, high, max(last * stride - room, 0)


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
