"""The attributes of ONNX's convolutions and pools: `pads`, `auto_pad` and `ceil_mode` as explicit padding."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

from qmlir.frontends.converters import AttributeGroup
from qmlir.frontends.function import Ints
from qmlir.frontends.onnx.node import ONNXNode
from qmlir.frontends.windows import Geometry, span


@dataclass(frozen=True)
class Window(AttributeGroup):
    """The attributes of a window beside its size; empty ones take their defaults."""

    auto_pad: Literal["NOTSET", "", "VALID", "SAME_UPPER", "SAME_LOWER"] = "NOTSET"
    dilations: Ints = ()
    pads: Ints = ()
    strides: Ints = ()

    def given(self) -> dict[str, Any]:
        """Returns the attributes that are not empty, by name, for another operator."""
        return {name: value for name, value in asdict(self).items() if value}

    def geometry(self, node: ONNXNode, image: Ints, kernel: Ints, *, ceil_mode: bool = False) -> Geometry:
        """Returns the windows of a node over an image of the given spatial size.

        Raises:
            NodeError: An attribute has the wrong number of values or invalid values, or a window exceeds its padded
                image.
        """
        strides, dilations, pads = self.whole(node, kernel, len(image))
        sides = [
            _along(
                node, size, span(kernel[i], dilations[i]), strides[i], pads[i :: len(image)], self.auto_pad, ceil_mode
            )
            for i, size in enumerate(image)
        ]
        low, high, extra = zip(*sides, strict=True)
        return Geometry(kernel, strides, dilations, low, high, extra)

    def whole(self, node: ONNXNode, kernel: Ints, rank: int) -> tuple[Ints, Ints, Ints]:
        """Returns strides, dilations and pads for a spatial rank.

        Raises:
            NodeError: An attribute has the wrong number of values or invalid values.
        """
        for what, values, counts, least in (
            ("kernel_shape", kernel, (rank,), 1),
            ("strides", self.strides, (0, rank), 1),
            ("dilations", self.dilations, (0, rank), 1),
            ("pads", self.pads, (0, 2 * rank), None),
        ):
            if len(values) not in counts or (least is not None and min(values, default=least) < least):
                wanted = f"{counts[-1]} values" + ("" if least is None else f" of at least {least}")
                raise node.error(f"its attribute {what} needs {wanted}", values)
        return self.strides or (1,) * rank, self.dilations or (1,) * rank, self.pads or (0,) * 2 * rank


def _along(
    node: ONNXNode, size: int, window: int, stride: int, pads: Ints, auto_pad: str, ceil_mode: bool
) -> tuple[int, int, int]:
    """Returns the padding (low, high, extra) along one axis; see `Geometry`."""
    if auto_pad.startswith("SAME"):
        total = max((-(-size // stride) - 1) * stride + window - size, 0)
        less, more = total // 2, total - total // 2
        return (less, more, 0) if auto_pad == "SAME_UPPER" else (more, less, 0)
    low, high = (0, 0) if auto_pad == "VALID" else (pads[0], pads[1])
    room = size + low + high - window
    if room < 0:
        raise node.error(f"its window spans {window} and must fit into its padded input", str(size + low + high))
    if not ceil_mode:  # ceil_mode applies to VALID, too, as in onnxruntime and ONNX's reference, unlike ONNX's text
        return low, high, 0
    last = -(-room // stride)
    if last * stride >= size + low:  # a window that would start behind the image is dropped
        last -= 1
    return low, high, max(last * stride - room, 0)
