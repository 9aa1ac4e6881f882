"""TFLite operators of detection: NON_MAX_SUPPRESSION_V4 and V5, TFLite_Detection_PostProcess, and WHERE.

Their results have static sizes and zeros behind what counts, as LiteRT's kernels give them; WHERE has as many rows as
the data say (counted.py).
"""

from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import f32, f64, i32
from xdsl.ir import SSAValue

from qmlir.dialects import nn
from qmlir.errors import UnsupportedError
from qmlir.frontends.builder import Properties
from qmlir.frontends.converters import Table
from qmlir.frontends.detection import ZERO, Suppression, are_places, non_zero_places, number_of
from qmlir.frontends.function import Constant, Value
from qmlir.frontends.tflite.node import TFLiteNode
from qmlir.frontends.windows import sliced
from qmlir.ir.interfaces import TensorOp, element_of
from qmlir.ir.types import dtype_of

converts = Table()


@converts("WHERE")
def where(node: TFLiteNode, condition: Value) -> Value:
    """The indices [count, rank] of the elements that are not zero."""
    if isinstance(condition, Constant):
        return Constant(np.argwhere(condition.array).astype(np.int64))
    if node.is_quantized(condition):
        condition = node.stored(condition)
    if not node.shape(condition):
        raise UnsupportedError("its condition is a scalar")
    return node.permuted(non_zero_places(node, condition, "places"), [1, 0])


# ---------------------------------------------------------------------------------------------------------------
# Non-maximum suppression of one image and one class


@converts("NON_MAX_SUPPRESSION_V4")
def non_max_suppression(
    node: TFLiteNode, boxes: Value, scores: Value, most: Value, overlap: Value, least: Value
) -> tuple[Value, ...]:
    """The indices of the boxes that are kept, best first, zeros behind them, and how many there are."""
    kept = _kept_of_one(node, boxes, scores, most, overlap, least)
    valid = are_places(node, kept)
    return node.converted(node.insert(nn.MaximumOp, [kept, ZERO]), i32), node.converted(number_of(node, valid), i32)


@converts("NON_MAX_SUPPRESSION_V5")
def non_max_suppression_with_scores(
    node: TFLiteNode, boxes: Value, scores: Value, most: Value, overlap: Value, least: Value, sigma: Value
) -> tuple[Value, ...]:
    """The same with the scores of the boxes that are kept, zeros behind them, as the second result."""
    if node.array(sigma, "sigma").reshape(-1)[:1].any():
        raise UnsupportedError("its sigma is not 0: it lowers scores instead of dropping boxes")
    kept = _kept_of_one(node, boxes, scores, most, overlap, least)
    valid, places = are_places(node, kept), node.insert(nn.MaximumOp, [kept, ZERO])
    found = node.insert(nn.GatherOp, [node.floats(scores), places], {"axis": 0})
    chosen = node.compute(nn.WhereOp, [valid, found, _zero(found)], output=1)
    return node.converted(places, i32), node.finished(chosen, 1), node.converted(number_of(node, valid), i32)


def _kept_of_one(node: TFLiteNode, boxes: Value, scores: Value, most: Value, overlap: Value, least: Value) -> SSAValue:
    """Returns the indices of the boxes [B, 4] with scores [B] that are kept, −1 behind the last."""
    if any(node.is_quantized(x) for x in (boxes, scores)):
        raise UnsupportedError("its boxes and scores are stored as integers, in which LiteRT computes overlaps")
    shapes = node.shape(boxes), node.shape(scores)
    if len(shapes[0]) != 2 or len(shapes[1]) != 1:
        raise node.error("it must have boxes [B, 4] and scores [B]", f"{list(shapes[0])} and {list(shapes[1])}")
    limits = [
        node.array(v, w) for v, w in ((most, "max_output_size"), (overlap, "iou_threshold"), (least, "score_threshold"))
    ]
    if any(limit.size != 1 for limit in limits) or limits[0].item() < 0:
        raise node.error("its limits must be one number each", [limit.tolist() for limit in limits])
    count, *thresholds = (limit.reshape(-1)[0].item() for limit in limits)
    rule = Suppression(int(count), *thresholds, drop_equal_overlaps=True)
    one, single = node.reshaped(boxes, (1, *shapes[0])), node.reshaped(scores, (1, 1, *shapes[1]))
    kept = rule.kept(node, one, single)
    return node.builder.ssa(node.reshaped(kept, (rule.count,)))


# ---------------------------------------------------------------------------------------------------------------
# TFLite_Detection_PostProcess: boxes from encodings and anchors, suppression, and the best detections.
#
# LiteRT decodes boxes in float64 and rounds their centers and half sizes to float32. What it leaves in memory behind
# the detections that it finds is 0 here.


@dataclass(frozen=True)
class _PostProcess:
    """The options of an operator, and what it works on.

    detections   the most boxes in the result
    classes      the classes, without the background
    per_box      the most classes in the result for a box
    per_class    with regular suppression, the most boxes that are kept of a class
    """

    node: TFLiteNode
    boxes: Value
    scores: Value
    detections: int
    classes: int
    per_box: int
    per_class: int
    overlap: float
    score: float

    def compute(self, op_type: type[TensorOp], operands: list[Value], properties: Properties | None = None) -> SSAValue:
        return self.node.insert(op_type, operands, properties)

    def chosen(self, valid: SSAValue, x: SSAValue, output: int, shape: tuple[int, ...]) -> SSAValue:
        """Returns an output: x where there is a detection, else 0; and zeros up to the shape of the output."""
        node, rank = self.node, self.node.rank(x)
        x = node.converted(x, f32)
        y = node.insert(nn.WhereOp, [node.reshaped(valid, (*node.shape(valid), *[1] * (rank - 1))), x, _zero(x)])
        more = [size - own for size, own in zip(shape, node.shape(y), strict=True)]
        return node.compute(nn.PadOp, [y], {"low": [0] * rank, "high": more, "value": 0.0}, output=output)

    def results(self, valid: SSAValue, *found: SSAValue) -> tuple[Value, ...]:
        """Returns the outputs: boxes, classes and scores [1, N, …], and how many there are."""
        node, most = self.node, self.detections * self.per_box
        shapes = ((self.detections, self.per_box, 4), (self.detections, self.per_box), (self.detections, self.per_box))
        made = [self.chosen(valid, x, i, s) for i, (x, s) in enumerate(zip(found, shapes, strict=True))]
        boxes, classes, scores = (node.reshaped(y, (1, most, *node.shape(y)[2:])) for y in made)
        number = node.converted(node.reshaped(number_of(node, valid), (1,)), f32)
        return boxes, classes, scores, number

    def fast(self) -> tuple[Value, ...]:
        """Suppression among the boxes, each with its best class."""
        node, count, wanted = self.node, self.node.shape(self.scores)[1], min(self.per_box, self.classes)
        order = self.compute(nn.TopKOp, [self.scores], {"axis": 2, "k": wanted})
        best = self.compute(nn.ReduceMaxOp, [self.scores], {"axes": [2]})
        rule = Suppression(self.detections, self.overlap, self.score, keep_equal_scores=True)
        kept = rule.kept(node, self.boxes, node.reshaped(best, (1, 1, count)))
        kept = node.builder.ssa(node.reshaped(kept, (self.detections,)))
        valid, places = are_places(node, kept), self.compute(nn.MaximumOp, [kept, ZERO])
        classes = self.compute(nn.GatherOp, [node.reshaped(order, (count, wanted)), places], {"axis": 0})
        rows = node.reshaped(self.scores, (count, self.classes))
        boxes = self.compute(nn.GatherOp, [node.reshaped(self.boxes, (count, 4)), places], {"axis": 0})
        shape = (self.detections, wanted)
        spread = self.compute(nn.BroadcastOp, [node.reshaped(places, (self.detections, 1))], {"shape": shape})
        pairs = [node.reshaped(x, (*shape, 1)) for x in (spread, classes)]
        scores = self.compute(nn.GatherNDOp, [rows, node.insert(nn.ConcatOp, [pairs], {"axis": 2})])
        each = self.compute(nn.BroadcastOp, [node.reshaped(boxes, (self.detections, 1, 4))], {"shape": (*shape, 4)})
        return self.results(valid, each, classes, scores)

    def regular(self) -> tuple[Value, ...]:
        """Suppression among the boxes of each class, and then the best boxes of all classes."""
        node, count = self.node, self.node.shape(self.scores)[1]
        by_class = node.permuted(self.scores, [0, 2, 1])
        most = min(self.per_class, count)
        rule = Suppression(most, self.overlap, self.score, keep_equal_scores=True)
        kept = node.builder.ssa(node.reshaped(rule.kept(node, self.boxes, by_class), (self.classes * most,)))
        valid, places = are_places(node, kept), self.compute(nn.MaximumOp, [kept, ZERO])
        classes = Constant(np.repeat(np.arange(*node.room((self.classes,)), dtype=np.int64), most))
        pairs = [node.reshaped(x, (self.classes * most, 1)) for x in (classes, places)]
        rows = node.reshaped(by_class, (self.classes, count))
        scores = self.compute(nn.GatherNDOp, [rows, node.insert(nn.ConcatOp, [pairs], {"axis": 1})])
        none = Constant(np.array(-np.inf, np.float32))
        ranked = self.compute(nn.WhereOp, [valid, scores, none])
        first = self.compute(nn.TopKOp, [ranked], {"axis": 0, "k": min(self.detections, self.classes * most)})
        found = [self.compute(nn.GatherOp, [x, first], {"axis": 0}) for x in (places, classes, scores)]
        chosen = self.compute(nn.GatherOp, [valid, first], {"axis": 0})
        boxes = self.compute(nn.GatherOp, [node.reshaped(self.boxes, (count, 4)), found[0]], {"axis": 0})
        size = node.shape(first)[0]
        # One detection has one class here, whatever the number of classes for a box; the rest of the output is 0.
        flat = _PostProcess(node, self.boxes, self.scores, self.detections * self.per_box, self.classes, 1, 0, 0.0, 0.0)
        columns = [node.builder.ssa(node.reshaped(x, (size, 1, *node.shape(x)[1:]))) for x in (boxes, *found[1:])]
        return flat.results(chosen, *columns)


@converts("CUSTOM.TFLite_Detection_PostProcess")
def detection_post_process(
    node: TFLiteNode, encodings: Value, scores: Value, anchors: Value, *, max_detections: float,
    max_classes_per_detection: float, num_classes: float, nms_score_threshold: float, nms_iou_threshold: float,
    y_scale: float, x_scale: float, h_scale: float, w_scale: float, detections_per_class: float = 100,
    use_regular_nms: float = 0,
) -> tuple[Value, ...]:  # fmt: skip
    """The boxes [1, N, 4], classes [1, N] and scores [1, N] of the best detections, and how many boxes there are."""
    encodings, scores, anchors = (node.floats(x) for x in (encodings, scores, anchors))
    shapes = [node.shape(x) for x in (encodings, scores, anchors)]
    count, classes = shapes[0][1] if len(shapes[0]) == 3 else 0, int(num_classes)
    listed = shapes[1][2] if len(shapes[1]) == 3 else 0
    if (
        not count or shapes[0][0] != 1 or shapes[0][2] < 4 or shapes[1][:2] != (1, count) or shapes[2] != (count, 4)
        or classes < 1 or listed not in (classes, classes + 1)
    ):  # fmt: skip
        need = (
            f"its inputs must be encodings [1, B, 4 or more], scores [1, B, {classes} or {classes + 1}], anchors [B, 4]"
        )
        raise node.error(need, " and ".join(str(list(s)) for s in shapes))
    most, per_box, per_class = int(max_detections), int(max_classes_per_detection), int(detections_per_class)
    if min(most, per_box) < 1 or (use_regular_nms and per_class < 1):
        raise node.error("it must find at least one detection, of at least one class", f"{most} and {per_box}")
    corners = _decoded(node, encodings, anchors, (y_scale, x_scale), (h_scale, w_scale))
    # The background is the first class where there is one.
    shown = sliced(node, node.builder.ssa(scores), (0, 0, listed - classes), (1, count, classes))
    work = _PostProcess(node, corners, shown, most, classes, per_box, per_class, nms_iou_threshold, nms_score_threshold)
    return work.regular() if use_regular_nms else work.fast()


def _decoded(
    node: TFLiteNode, encodings: Value, anchors: Value, places: tuple[float, float], sizes: tuple[float, float]
) -> SSAValue:
    """Returns boxes as opposite corners (y, x, y, x), [1, B, 4].

    Args:
        node: The node.
        encodings: (y, x, h, w, …) relative to the anchors, [1, B, 4 or more].
        anchors: (y, x, h, w), [B, 4].
        places: What centers are scaled by, (y, x).
        sizes: What sizes are scaled by, (h, w).
    """
    count = node.shape(encodings)[1]
    wide = node.converted(encodings, f64)
    known = node.converted(node.reshaped(anchors, (1, count, 4)), f64)

    def pair(x: SSAValue, first: int) -> SSAValue:
        return sliced(node, x, (0, 0, first), (1, count, 2))

    def scale(numbers: tuple[float, float]) -> Constant:
        return Constant(np.array(numbers, np.float32).astype(np.float64))

    moved = node.insert(nn.MulOp, [node.insert(nn.DivOp, [pair(wide, 0), scale(places)]), pair(known, 2)])
    center = node.converted(node.insert(nn.AddOp, [moved, pair(known, 0)]), f32)
    grown = node.insert(nn.ExpOp, [node.insert(nn.DivOp, [pair(wide, 2), scale(sizes)])])
    half = node.insert(nn.MulOp, [node.insert(nn.MulOp, [Constant(np.array(0.5)), grown]), pair(known, 2)])
    half = node.converted(half, f32)
    ends = [node.insert(op, [center, half]) for op in (nn.SubOp, nn.AddOp)]
    return node.compute(nn.ConcatOp, [ends], {"axis": 2}, part="corners")


def _zero(like: SSAValue) -> Constant:
    """Returns 0 in the element type of a value."""
    return Constant(np.array(0, dtype_of(element_of(like))))
