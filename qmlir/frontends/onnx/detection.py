"""ONNX operators whose results have as many elements as the data say: NonZero, NonMaxSuppression, Compress."""

from math import prod

import numpy as np
from xdsl.ir import SSAValue

from qmlir.dialects import nn
from qmlir.errors import UnsupportedError
from qmlir.frontends.converters import Table
from qmlir.frontends.detection import NONE, Suppression, are_places, non_zero_places
from qmlir.frontends.function import Constant, Value, computed
from qmlir.frontends.onnx.movement import gather, gather_known, known_places
from qmlir.frontends.onnx.node import ONNXNode
from qmlir.frontends.windows import sliced

converts = Table()


@converts("NonZero", since=9)
def non_zero(node: ONNXNode, x: Value) -> Value:
    """Returns the coordinates of the elements that are not zero, [rank, count]."""
    if isinstance(x, Constant):
        return Constant(np.array(np.nonzero(np.atleast_1d(x.array)), np.int64))
    if not node.shape(x):
        x = node.reshaped(x, (1,))
    return non_zero_places(node, x)


@converts("Compress", since=9)
def compress(node: ONNXNode, x: Value, condition: Value, *, axis: int | None = None) -> Value:
    """Picks the elements, or the rows along an axis, for which the condition is true."""
    shape = node.shape(x)
    if axis is None:
        x, shape, axis = node.reshaped(x, (prod(shape),)), (prod(shape),), 0
    axis = node.axis(axis, len(shape))
    if isinstance(condition, Constant):
        return gather_known(node, x, known_places(node, np.flatnonzero(condition.array), shape[axis]), axis)
    if node.rank(condition) != 1 or node.shape(condition)[0] > shape[axis]:
        raise node.error(f"its condition must be at most {shape[axis]} values", node.shape(condition))
    places = non_zero_places(node, condition, "places")
    return gather(node, x, node.reshaped(places, node.shape(condition)), axis=axis)


@converts("NonMaxSuppression", since=10)
def non_max_suppression(
    node: ONNXNode, boxes: Value, scores: Value, max_output_boxes_per_class: Value | None = None,
    iou_threshold: Value | None = None, score_threshold: Value | None = None, *, center_point_box: int = 0,
) -> Value:  # fmt: skip
    """Returns [count, 3], the batch, class and box index of each box with a high score and little overlap."""
    most = _number(node, max_output_boxes_per_class, "max_output_boxes_per_class")
    overlap, least = _number(node, iou_threshold, "iou_threshold"), _number(node, score_threshold, "score_threshold")
    if node.rank(boxes) != 3 or node.rank(scores) != 3:
        raise node.error("its boxes and scores must have three dimensions", node.shape(scores))
    images, classes, count = node.shape(scores)
    if not count:
        raise UnsupportedError("there are no boxes")
    if not most or most < 0:
        return Constant(np.zeros((0, 3), np.int64))
    corners = _corners(node, boxes) if center_point_box else boxes
    rule = Suppression(min(int(most), count), overlap or 0.0, least)
    kept = rule.kept(node, corners, scores)
    if isinstance(boxes, Constant) and isinstance(scores, Constant):
        return _rows(node, kept)
    places = non_zero_places(node, are_places(node, kept), "places")
    rows = node.permuted(places, [1, 0])
    box = node.reshaped(node.insert(nn.GatherNDOp, [kept, rows]), (images * classes * rule.count, 1))
    most_rows = node.shape(rows)[0]
    listed = node.insert(nn.ConcatOp, [[sliced(node, rows, (0, 0), (most_rows, 2)), box]], {"axis": 1})
    counts = are_places(node, sliced(node, rows, (0, 0), (most_rows, 1)))
    return node.compute(nn.WhereOp, [counts, listed, NONE])


def _rows(node: ONNXNode, kept: SSAValue) -> Constant:
    """Computes the result for constant boxes and scores, in the place of the operations that were added for it."""
    known = computed(node.pending)
    assert known is not None
    boxes = known[kept]
    node.discard()
    return Constant(np.concatenate([np.argwhere(boxes >= 0)[:, :2], boxes[boxes >= 0][:, None]], axis=1))


def _number(node: ONNXNode, value: Value | None, what: str) -> float | None:
    """Returns the value of an input that must be a number and known at import; None if it is left out."""
    if value is None:
        return None
    array = node.array(value, what)
    if array.size != 1:
        raise node.error(f"its {what} must be one value", f"{array.size} values")
    return array.reshape(-1)[0].item()


def _corners(node: ONNXNode, boxes: Value) -> Value:
    """Returns boxes (x, y, width, height) around their centers as (y, x, y, x) of opposite corners."""
    images, count, _ = node.shape(boxes)

    def column(index: int) -> Value:
        return sliced(node, node.builder.ssa(boxes), (0, 0, index), (images, count, 1))

    x, y, width, height = map(column, range(4))
    ends: list[Value] = []
    for op in (nn.SubOp, nn.AddOp):
        for center, size in ((y, height), (x, width)):
            half = node.insert(nn.DivOp, [size, node.number(2, size)])
            ends.append(node.insert(op, [center, half]))
    return node.insert(nn.ConcatOp, [ends], {"axis": 2})
