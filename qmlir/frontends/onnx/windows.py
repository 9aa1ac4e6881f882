"""Where the windows of ONNX's convolutions and pools lie: `pads`, `auto_pad` and `ceil_mode` as explicit padding."""

from dataclasses import dataclass

from xdsl.ir import Attribute

from qmlir.dialects.windows import ints
from qmlir.frontends.onnx.builder import Node
from qmlir.frontends.onnx.values import Ints, Refusal

Pair = tuple[int, int]


@dataclass(frozen=True)
class Geometry:
    """A window over rows and columns.

    strides, dilations, kernel   (rows, columns)
    low, high   padding (top, left) and (bottom, right)
    extra       what `ceil_mode` adds at (bottom, right) so that a last, partial window fits; outside the padded image
    """

    kernel: Pair
    strides: Pair
    dilations: Pair
    low: Pair
    high: Pair
    extra: Pair

    def properties(self) -> dict[str, Attribute]:
        """The properties of a `WindowOp`; the extra padding counts as padding."""
        bottom, right = self.high[0] + self.extra[0], self.high[1] + self.extra[1]
        return {
            "strides": ints(self.strides),
            "dilations": ints(self.dilations),
            "padding": ints((self.low[0], bottom, self.low[1], right)),
        }

    def spans(self) -> Pair:
        """The (rows, columns) from a window's first to its last element."""
        return _span(self.kernel[0], self.dilations[0]), _span(self.kernel[1], self.dilations[1])


def geometry(
    node: Node,
    image: Pair,
    kernel: Ints,
    *,
    strides: Ints,
    pads: Ints,
    dilations: Ints,
    auto_pad: str,
    ceil_mode: bool = False,
) -> Geometry:
    """The windows of a node over an image of the given rows and columns; empty attributes have their defaults.

    Raises:
        NodeError: An attribute has the wrong number of values or values that make no sense.
        Refusal: Padding is negative.
    """
    for what, values, count, least in (
        ("kernel_shape", kernel, 2, 1),
        ("strides", strides, 2, 1),
        ("dilations", dilations, 2, 1),
        ("pads", pads, 4, None),
    ):
        if len(values) not in (0, count) or (least is not None and min(values, default=least) < least):
            wanted = f"{count} values" + ("" if least is None else f" of at least {least}")
            raise node.error(f"its attribute {what} needs {wanted}", str(list(values)))
    if min(pads, default=0) < 0:
        raise Refusal("it has negative padding, which crops")
    if auto_pad not in ("NOTSET", "", "VALID", "SAME_UPPER", "SAME_LOWER"):
        raise node.error("its attribute auto_pad must be NOTSET, VALID, SAME_UPPER or SAME_LOWER", auto_pad)
    strides, dilations = strides or (1, 1), dilations or (1, 1)
    rows, columns = (
        _along(node, size, _span(kernel[i], dilations[i]), strides[i], (pads or (0,) * 4)[i::2], auto_pad, ceil_mode)
        for i, size in enumerate(image)
    )
    return Geometry(_pair(kernel), _pair(strides), _pair(dilations), *zip(rows, columns, strict=True))


def _along(
    node: Node, size: int, span: int, stride: int, pads: Ints, auto_pad: str, ceil_mode: bool
) -> tuple[int, int, int]:
    """Padding (low, high, extra) along one axis."""
    if auto_pad.startswith("SAME"):
        total = max((-(-size // stride) - 1) * stride + span - size, 0)
        less, more = total // 2, total - total // 2
        return (less, more, 0) if auto_pad == "SAME_UPPER" else (more, less, 0)
    low, high = (0, 0) if auto_pad == "VALID" else (pads[0], pads[1])
    room = size + low + high - span
    if room < 0:
        raise node.error(f"its window spans {span} and must fit into its padded input", str(size + low + high))
    if not ceil_mode:  # with VALID, ceil_mode counts too: onnxruntime and ONNX's reference differ from ONNX's text
        return low, high, 0
    last = -(-room // stride)
    if last * stride >= size + low:  # a window that would start behind the image is left out
        last -= 1
    return low, high, max(last * stride - room, 0)


def _span(extent: int, dilation: int) -> int:
    return (extent - 1) * dilation + 1


def _pair(values: Ints) -> Pair:
    rows, columns = values
    return rows, columns
