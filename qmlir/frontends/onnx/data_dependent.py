"""Operators whose result shape depends on the values of their inputs: computed at import, on constant inputs only.

All shapes in the IR are static. On constant inputs such an operator gives a constant. On other inputs it is refused,
and the reason says which input must be constant.
"""

import numpy as np

from qmlir.frontends.builder import Node
from qmlir.frontends.onnx.converters import converts
from qmlir.frontends.onnx.folding import arange, constant_of_shape
from qmlir.frontends.values import Constant, Value
from qmlir.ir.interfaces import Array


@converts("Range", since=11)
def known_range(node: Node, start: Value, limit: Value, delta: Value) -> Value:
    """Returns start, start + delta, … up to but not including limit."""
    numbers = (node.array(v, w) for v, w in ((start, "start"), (limit, "limit"), (delta, "delta")))
    return Constant(arange(node.builder.budget, *numbers))


@converts("ConstantOfShape", since=9)
def known_constant(node: Node, shape: Value, *, value: Array | None = None) -> Value:
    """Returns a tensor of the given shape with one value everywhere."""
    return Constant(constant_of_shape(node.builder.budget, node.array(shape, "shape"), value=value))


@converts("NonZero", since=9)
def non_zero(node: Node, x: Value) -> Value:
    """Returns the coordinates of the nonzero elements, [rank, count]."""
    return Constant(np.array(np.nonzero(np.atleast_1d(node.array(x, "input"))), np.int64))


@converts("Unique", since=11)
def unique(node: Node, x: Value, *, axis: int | None = None, sorted: int = 1) -> tuple[Value, ...]:
    """Returns the distinct elements, or distinct slices along an axis, with indices and counts.

    The further outputs are the first position of each distinct element, the index of the distinct element that each
    element of the input equals, and the number of occurrences of each distinct element.
    """
    array = node.array(x, "input")
    over = None if axis is None else node.axis(axis, array.ndim)
    values, first, which, counts = np.unique(array, True, True, True, axis=over)
    if not sorted:
        order = np.argsort(first)
        values = values[order] if over is None else np.take(values, order, axis=over)
        first, counts, which = first[order], counts[order], np.argsort(order)[which]
    return Constant(values), *(Constant(v.reshape(-1).astype(np.int64)) for v in (first, which, counts))


@converts("NonMaxSuppression", since=10)
def non_max_suppression(
    node: Node,
    boxes: Value,
    scores: Value,
    max_output_boxes_per_class: Value | None = None,
    iou_threshold: Value | None = None,
    score_threshold: Value | None = None,
    *,
    center_point_box: int = 0,
) -> Value:
    """Returns [count, 3], the batch, class and box index of each box with a high score and little overlap."""
    known, values = node.array(boxes, "boxes"), node.array(scores, "scores")
    most, overlap, least = (
        default if v is None else node.array(v, w).reshape(-1)[0].item()
        for v, w, default in (
            (max_output_boxes_per_class, "max_output_boxes_per_class", 0),
            (iou_threshold, "iou_threshold", 0.0),
            (score_threshold, "score_threshold", -np.inf),
        )
    )
    found = [
        (batch, kind, box)
        for batch, kind in np.ndindex(*values.shape[:2])
        for box in _selected(
            _corners(known[batch], bool(center_point_box)), values[batch, kind], int(most), overlap, least
        )
    ]
    return Constant(np.array(found, np.int64).reshape(-1, 3))


def _corners(boxes: Array, centred: bool) -> Array:
    """Returns boxes [N, 4] as y0, x0, y1, x1 with y0 ≤ y1 and x0 ≤ x1."""
    if centred:
        x, y, width, height = boxes.T
        return np.stack([y - height / 2, x - width / 2, y + height / 2, x + width / 2], -1)
    ends = boxes.reshape(-1, 2, 2)
    return np.concatenate([ends.min(axis=1), ends.max(axis=1)], -1)


def _selected(boxes: Array, scores: Array, most: int, overlap: float, least: float) -> list[int]:
    """Selects the boxes with scores above `least`, best first; two selected boxes overlap by at most `overlap`."""
    areas = np.prod(boxes[:, 2:] - boxes[:, :2], axis=1)
    chosen: list[int] = []
    for box in np.argsort(-scores, kind="stable"):
        if len(chosen) == most or scores[box] <= least:
            break
        low, high = np.maximum(boxes[box, :2], boxes[chosen, :2]), np.minimum(boxes[box, 2:], boxes[chosen, 2:])
        common = np.prod(np.maximum(high - low, 0), axis=1)
        united = areas[box] + areas[chosen] - common
        if not np.any(common > overlap * united):
            chosen.append(int(box))
    return chosen
