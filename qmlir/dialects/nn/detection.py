"""Detection: which boxes of a detector are kept, and where a tensor is not zero.

How many elements their results have depends on the data. A result therefore has as many elements as there can be, and
−1 stands behind the last of them.
"""

from collections.abc import Sequence
from math import prod
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import BoolAttr, Float32Type, FloatAttr, IntegerAttr, TensorType, i64
from xdsl.ir import Attribute
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.nn.base import Elements, NNOp
from qmlir.dialects.nn.indexing import order_keys
from qmlir.dialects.nn.quantizable import ALL_STORAGES
from qmlir.ir.interfaces import Array, Shape, UnaryTensorOp, shape_of

WHY_FLOAT = "it is detection post-processing, which is computed on floats"
"""Why operations on the boxes and scores of detections have no integer form."""


@irdl_op_definition
class NonMaxSuppressionOp(NNOp):
    """The i64 indices of the boxes that are kept: boxes [N, B, 4] and scores [N, C, B] → [N, C, K].

    A box is two opposite corners, (y, x, y, x). For each image and class, the box with the best score is kept, all that
    overlap it too much are dropped, and so on with what is left, until K boxes are kept. Of equal scores the first
    counts. Indices stand in the order in which their boxes are kept; −1 stands behind the last of them.

    count              K, the most boxes that are kept for an image and a class
    iou_threshold      a box is dropped if its overlap exceeds this share of the area that both boxes cover
    score_threshold    only boxes with greater scores are kept; absent if all may be
    keep_equal_scores  whether a score that equals its threshold is kept too
    drop_equal_overlaps  whether an overlap that equals its threshold is dropped too

    The overlap of boxes without a common area is 0.

    (C1) boxes are [N, B, 4] and scores are [N, C, B], with at least one box, and K is not negative
    (C2) the thresholds are not NaN
    """

    name = "nn.non_max_suppression"
    WHY_FLOAT: ClassVar[str] = WHY_FLOAT
    ELEMENTS: ClassVar[Elements] = Elements.F32

    boxes = operand_def(TensorType)
    scores = operand_def(TensorType)
    count = prop_def(IntegerAttr.constr(i64))
    iou_threshold = prop_def(FloatAttr[Float32Type])
    score_threshold = opt_prop_def(FloatAttr[Float32Type])
    keep_equal_scores = prop_def(BoolAttr, default_value=BoolAttr.from_bool(False))
    drop_equal_overlaps = prop_def(BoolAttr, default_value=BoolAttr.from_bool(False))
    y = result_def(TensorType)

    assembly_format = "$boxes `,` $scores attr-dict `:` type($boxes) `,` type($scores) `->` type($y)"

    def infer_shapes(self) -> Sequence[Shape]:
        boxes, scores, count = shape_of(self.boxes), shape_of(self.scores), self.count.value.data
        fit = len(boxes) == len(scores) == 3 and boxes[2] == 4 and (boxes[0], boxes[1]) == (scores[0], scores[2])
        if not fit or not boxes[1] or count < 0:  # C1
            raise VerifyException(
                f"'{self.name}' needs boxes [N, B, 4] and scores [N, C, B], got {list(boxes)} and {list(scores)}, and "
                f"keeps {count}"
            )
        return [(*scores[:2], count)]

    def result_element(self, data: Attribute) -> Attribute:
        return i64

    def verify_(self) -> None:
        super().verify_()
        given = [self.iou_threshold, *([] if self.score_threshold is None else [self.score_threshold])]
        if any(np.isnan(t.value.data) for t in given):  # C2
            raise VerifyException(f"'{self.name}' needs thresholds that are numbers")

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        boxes, scores = inputs
        kept = np.full((*scores.shape[:2], self.count.value.data), -1, np.int64)
        for image, corners in enumerate(boxes):
            sides = np.stack([np.minimum(corners[:, :2], corners[:, 2:]), np.maximum(corners[:, :2], corners[:, 2:])])
            for row, each in zip(kept[image], scores[image], strict=True):
                self._keep(sides, each, row)
        return (kept,)

    def _keep(self, sides: Array, scores: Array, kept: Array) -> None:
        """Writes the boxes that are kept of one class.

        Args:
            sides: The lower and the upper corners of all boxes, [2, B, 2].
            scores: The scores of the class, [B].
            kept: Receives the indices.
        """
        left = np.arange(len(scores))
        if self.score_threshold is not None:
            least = np.float32(self.score_threshold.value.data)
            left = left[scores >= least if bool(self.keep_equal_scores) else scores > least]
        keys, most = order_keys(scores), np.float32(self.iou_threshold.value.data)
        for at in range(len(kept)):
            if not len(left):
                break
            best = left[np.argmax(keys[left])]
            kept[at] = best
            overlaps = _overlaps(sides, best, left)
            dropped = overlaps >= most if bool(self.drop_equal_overlaps) else overlaps > most
            left = left[~(dropped | (left == best))]


def _overlaps(sides: Array, box: int, others: Array) -> Array:
    """Returns the shares of common area of a box and others, 0 without a common area."""
    low, high = sides
    with np.errstate(all="ignore"):
        areas = np.prod(high - low, axis=1)
        common = np.maximum(np.minimum(high[others], high[box]) - np.maximum(low[others], low[box]), np.float32(0))
        shared = common[:, 0] * common[:, 1]
        covered = areas[box] + areas[others] - shared
        some = (shared > 0) & (areas[box] > 0) & (areas[others] > 0) & (covered > 0)
        return np.where(some, shared / covered, np.float32(0))


@irdl_op_definition
class NonZeroOp(UnaryTensorOp, NNOp):
    """The i64 indices of the elements that are not zero, in row-major order: x of rank r and n elements → [r, n].

    Column j holds the index along each dimension of the j-th such element; the columns behind the last of them hold −1.
    NaN is not zero.

    (C1) x has at least one dimension
    """

    name = "nn.non_zero"
    ELEMENTS: ClassVar[Elements] = Elements.PLAIN | Elements.QUANTIZED

    INTEGER_FORM: ClassVar[tuple[str, ...]] = ALL_STORAGES

    YIELDS: ClassVar[Attribute | None] = i64

    def infer_shapes(self) -> Sequence[Shape]:
        shape = shape_of(self.x)
        if not shape:  # C1
            raise VerifyException(f"'{self.name}' needs at least one dimension, got a scalar")
        return [(len(shape), prod(shape))]

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        found = np.stack(np.nonzero(inputs[0]))
        places = np.full((inputs[0].ndim, inputs[0].size), -1, np.int64)
        places[:, : found.shape[1]] = found
        return (places,)
