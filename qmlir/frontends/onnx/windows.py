"""Window attributes of ONNX's convolutions and pools: `pads`, `auto_pad` and `ceil_mode` as explicit padding."""

from qmlir.frontends.builder import Node
from qmlir.frontends.values import Ints
from qmlir.frontends.windows import Geometry, span

AUTO_PADS = ("NOTSET", "", "VALID", "SAME_UPPER", "SAME_LOWER")


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
    """Returns the windows of a node over an image of the given spatial size; empty attributes take their defaults.

    Raises:
        NodeError: An attribute has the wrong number of values or invalid values, or a window exceeds its padded image.
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
    """Checks that the attributes of a window have valid values, and as many as the spatial rank requires.

    Raises:
        NodeError: An attribute has the wrong number of values or invalid values.
    """
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
