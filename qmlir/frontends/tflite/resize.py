"""Converters of image resizing: each axis gets a table of source positions (taps) and their weights."""

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, i64
from xdsl.ir import SSAValue

from qmlir.dialects.nn.indexing import GatherOp
from qmlir.dialects.nn.resize import ResizeOp
from qmlir.dialects.places import Places
from qmlir.dialects.windows import ints
from qmlir.frontends.tflite.converters import converts
from qmlir.frontends.tflite.node import TFLiteNode
from qmlir.frontends.values import Constant, Value
from qmlir.ir.weights import WeightsAttr


def _sizes(node: TFLiteNode, x: Value, size: Value) -> list[tuple[int, int, int]]:
    """Returns (axis, input length, output length) for rows and columns."""
    wanted = node.ints(size, "size")
    if node.rank(x) != 4 or len(wanted) != 2 or min(*wanted, *node.shape(x)[1:3]) < 1:
        raise node.error("it needs an image [N, H, W, C] and a size [rows, columns], none of them 0",
                         f"{list(node.shape(x))} and {list(wanted)}")  # fmt: skip
    node.room((sum(wanted), 4))
    return [(axis, node.shape(x)[axis], n) for axis, n in zip((1, 2), wanted, strict=True)]


@converts("RESIZE_BILINEAR", options="ResizeBilinearOptions")
def resize_bilinear(node: TFLiteNode, x: Value, size: Value, *, align_corners: bool, half_pixel_centers: bool) -> Value:
    """Bilinear interpolation: each output pixel from the four input pixels around its place."""
    tables = [
        Places(length, wanted, bool(align_corners), bool(half_pixel_centers)).linear()
        for _, length, wanted in _sizes(node, x, size)
    ]
    properties = {
        "axes": ints([1, 2]),
        "taps": ArrayAttr([WeightsAttr(taps) for taps, _ in tables]),
        "weights": ArrayAttr([WeightsAttr(weights) for _, weights in tables]),
    }
    return node.pointwise(ResizeOp, [x], properties)


@converts("RESIZE_NEAREST_NEIGHBOR", options="ResizeNearestNeighborOptions")
def resize_nearest_neighbor(
    node: TFLiteNode, x: Value, size: Value, *, align_corners: bool, half_pixel_centers: bool
) -> Value:
    """Nearest neighbour: each output pixel from the input pixel nearest to its place."""
    y: SSAValue = node.quantized(x)
    for axis, length, wanted in _sizes(node, x, size):
        places = np.arange(wanted, dtype=np.float32) + np.float32(0.5 if half_pixel_centers else 0)
        at = places * Places(length, wanted, bool(align_corners), False).step()
        # With aligned corners places are rounded, half away from zero; else they are rounded down.
        near = np.floor(at + np.float32(0.5)) if align_corners else np.floor(at)
        taps = Constant(np.clip(near, 0, length - 1).astype(np.int64))
        write = node.insert if axis == 1 else node.compute
        y = write(GatherOp, [y, taps], {"axis": IntegerAttr(axis, i64)})
    return node.retyped(y, node.output_type())
