"""What the frontends share about detection: places whose number depends on the data, and kept boxes."""

from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import FloatAttr, f32, i64
from xdsl.ir import SSAValue

from qmlir.dialects import nn
from qmlir.frontends.builder import Node, Properties
from qmlir.frontends.counted import Counted
from qmlir.frontends.function import Constant, Value
from qmlir.frontends.windows import sliced

ZERO, NONE = Constant(np.array(0, np.int64)), Constant(np.array(-1, np.int64))
"""Numbers that indices are compared with: −1 stands where there is none."""


def are_places(node: Node, indices: Value) -> SSAValue:
    """Returns which indices are places, and not the −1 behind the last."""
    return node.insert(nn.LessEqualOp, [ZERO, indices])


def number_of(node: Node, chosen: SSAValue) -> SSAValue:
    """Returns how many truth values are true, as an i64 scalar."""
    ones = node.reshaped(node.converted(chosen, i64), (int(np.prod(node.shape(chosen))),))
    return node.builder.ssa(node.reshaped(node.insert(nn.ReduceSumOp, [ones], {"axes": [0]}), ()))


def non_zero_places(node: Node, x: Value, part: str | None = None) -> SSAValue:
    """Returns the indices of the elements that are not zero, [rank, at most all elements]; axis 1 is counted."""
    places = node.compute(nn.NonZeroOp, [x], part=part)
    first = sliced(node, places, (0, 0), (1, node.shape(places)[1]))
    node.builder.counted[places] = Counted(1, number_of(node, are_places(node, first)))
    return places


def first_ones(node: Node, x: Value, number: Value, axis: int) -> Value:
    """Returns x, of which only the first elements along an axis count, as many as `number` says."""
    value, size = node.builder.ssa(x), node.shape(x)[axis]
    count = node.insert(nn.MinimumOp, [number, Constant(np.array(size, np.int64))])
    node.builder.counted[value] = Counted(axis, node.insert(nn.MaximumOp, [count, ZERO]))
    return value


@dataclass(frozen=True)
class Suppression:
    """How boxes are kept; see nn.non_max_suppression for what the thresholds mean.

    count                the most boxes that are kept for an image and a class
    overlap              the threshold of overlaps
    score                the threshold of scores; None if there is none
    keep_equal_scores    whether a score that equals the threshold is enough
    drop_equal_overlaps  whether an overlap that equals the threshold is too much
    """

    count: int
    overlap: float
    score: float | None
    keep_equal_scores: bool = False
    drop_equal_overlaps: bool = False

    def properties(self) -> Properties:
        """Returns the properties of nn.non_max_suppression."""
        least = None if self.score is None else FloatAttr(float(np.float32(self.score)), f32)
        return {
            "count": self.count,
            "iou_threshold": FloatAttr(float(np.float32(self.overlap)), f32),
            "score_threshold": least,
            "keep_equal_scores": self.keep_equal_scores,
            "drop_equal_overlaps": self.drop_equal_overlaps,
        }

    def kept(self, node: Node, boxes: Value, scores: Value, part: str | None = "kept") -> SSAValue:
        """Returns the indices of the boxes that are kept, [N, C, count]; −1 stands behind the last."""
        return node.compute(nn.NonMaxSuppressionOp, [boxes, scores], self.properties(), part=part)
