"""Images of another size: each axis as a table of neighbours and their weights."""

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, i64
from xdsl.ir import SSAValue

from qmlir.dialects.interfaces import Array
from qmlir.dialects.nn.indexing import GatherOp
from qmlir.dialects.nn.resize import ResizeOp
from qmlir.dialects.weights import WeightsAttr
from qmlir.dialects.windows import ints
from qmlir.frontends.tflite.converters import converts
from qmlir.frontends.tflite.node import TFLiteNode
from qmlir.frontends.values import Constant, Value, bounded


def _sizes(node: TFLiteNode, x: Value, size: Value) -> list[tuple[int, int, int]]:
    """(axis, how long it is, how long it becomes) of rows and columns."""
    wanted = node.ints(size, "size")
    if node.rank(x) != 4 or len(wanted) != 2 or min(*wanted, *node.shape(x)[1:3]) < 1:
        raise node.error("it needs an image [N, H, W, C] and a size [rows, columns], none of them 0",
                         f"{list(node.shape(x))} and {list(wanted)}")  # fmt: skip
    bounded((node.shape(x)[0], *wanted, node.shape(x)[3]))
    return [(axis, node.shape(x)[axis], n) for axis, n in zip((1, 2), wanted, strict=True)]


def _scale(length: int, size: int, align_corners: bool) -> np.float32:
    """Steps of the operand for one of the result, rounded as TFLite does."""
    if align_corners and size > 1:
        return np.float32(length - 1) / np.float32(size - 1)
    return np.float32(length) / np.float32(size)


@converts("RESIZE_BILINEAR", options="ResizeBilinearOptions")
def resize_bilinear(node: TFLiteNode, x: Value, size: Value, *, align_corners: bool, half_pixel_centers: bool) -> Value:
    """Each pixel from the four around its place."""
    tables = [_linear(*axis, align_corners, half_pixel_centers) for axis in _sizes(node, x, size)]
    properties = {
        "axes": ints([1, 2]),
        "taps": ArrayAttr([WeightsAttr(taps) for taps, _ in tables]),
        "weights": ArrayAttr([WeightsAttr(weights) for _, weights in tables]),
    }
    return node.pointwise(ResizeOp, [x], properties)


def _linear(axis: int, length: int, size: int, align: bool, half: bool) -> tuple[Array, Array]:
    """Two neighbours of each place and their weights, [O, 2] each."""
    places = np.arange(size, dtype=np.float32)
    scale = _scale(length, size, align)
    at = (places + np.float32(0.5)) * scale - np.float32(0.5) if half else places * scale
    low = np.floor(at)
    fraction = (at - low).astype(np.float64)
    taps = np.stack([np.clip(low + i, 0, length - 1) for i in (0, 1)], axis=1).astype(np.int64)
    return taps, np.stack([1 - fraction, fraction], axis=1)


@converts("RESIZE_NEAREST_NEIGHBOR", options="ResizeNearestNeighborOptions")
def resize_nearest_neighbor(
    node: TFLiteNode, x: Value, size: Value, *, align_corners: bool, half_pixel_centers: bool
) -> Value:
    """Each pixel from the one nearest to its place."""
    y: SSAValue = node.quantized(x)
    for axis, length, wanted in _sizes(node, x, size):
        places = np.arange(wanted, dtype=np.float32) + np.float32(0.5 if half_pixel_centers else 0)
        at = places * _scale(length, wanted, align_corners)
        # Half away from zero where corners are aligned.
        near = np.floor(at + np.float32(0.5)) if align_corners else np.floor(at)
        taps = Constant(np.clip(near, 0, length - 1).astype(np.int64))
        write = node.insert if axis == 1 else node.compute
        y = write(GatherOp, [y, taps], {"axis": IntegerAttr(axis, i64)})
    return node.retyped(y, node.output_type())
