"""Padding of sliding windows as TFLite computes it: SAME and VALID; SAME puts an odd element at the end."""

from qmlir.dialects.windows import ints
from qmlir.frontends.builder import Node
from qmlir.frontends.tflite.node import Properties

SAME, VALID = 0, 1
"""The codes of the schema's enumeration Padding."""


def same_padding(size: int, window: int, stride: int, dilation: int = 1) -> tuple[int, int]:
    """Returns the elements to pad before and after an axis so that ceil(size / stride) windows fit."""
    outputs = -(-size // stride)
    total = max((outputs - 1) * stride + (window - 1) * dilation + 1 - size, 0)
    return total // 2, total - total // 2


def window_properties(
    node: Node,
    image: tuple[int, ...],
    window: tuple[int, int],
    strides: tuple[int, int],
    padding: int,
    dilations: tuple[int, int] = (1, 1),
) -> Properties:
    """Returns the properties strides, padding and dilations of an operation on [N, H, W, C].

    Raises:
        NodeError: The input is not of rank 4, a number is below 1, or no window fits.
    """
    if len(image) != 4:
        raise node.error("its input must have rank 4 [N, H, W, C]", str(list(image)))
    if min(*window, *strides, *dilations) < 1:
        raise node.error("its window, strides and dilations must be at least 1", str((window, strides, dilations)))
    if padding not in (SAME, VALID):
        raise node.error("its padding must be SAME or VALID", str(padding))
    pads = [(0, 0), (0, 0)]
    if padding == SAME:
        pads = [same_padding(*axis) for axis in zip(image[1:3], window, strides, dilations, strict=True)]
    else:
        for size, extent, dilation in zip(image[1:3], window, dilations, strict=True):
            _require_fit(node, size, (extent - 1) * dilation + 1)
    return {
        "strides": ints(list(strides)),
        "padding": ints([p for pair in pads for p in pair]),
        "dilations": ints(list(dilations)),
    }


def _require_fit(node: Node, size: int, span: int) -> None:
    """Raises NodeError if a window is larger than an input that is not padded.

    LiteRT does not report such windows: it yields a result without elements. If the window exceeds the input by more
    than a stride, it fails to prepare the operator. XNNPACK pools the existing elements by rules of its own.
    """
    if span > size:
        raise node.error(
            "its window must fit into its input, which VALID does not pad; LiteRT yields a result without elements",
            f"a window over {span} of {size}",
        )
