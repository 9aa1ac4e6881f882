"""Samples of the operations on detections, enrolled in tests/ops/samples.py."""

from xdsl.dialects.builtin import BoolAttr, FloatAttr, IntegerAttr, f32, i64
from xdsl.ir import Attribute

from qmlir.dialects import nn
from tests.ops.sample import Sample, f, i
from tests.ops.samples_pointwise import d, truth

TRUE = BoolAttr.from_bool(True)


def kept(count: int, iou: float, score: float | None = None) -> dict[str, Attribute | None]:
    """The properties of nn.non_max_suppression."""
    least = None if score is None else FloatAttr(score, f32)
    return {"count": IntegerAttr(count, i64), "iou_threshold": FloatAttr(iou, f32), "score_threshold": least}


FLOAT_SAMPLES = (
    Sample(nn.NonMaxSuppressionOp, "of one class", (f(1, 40, 4), f(1, 1, 40)), kept(12, 0.3)),
    Sample(nn.NonMaxSuppressionOp, "above a score", (f(2, 30, 4), f(2, 3, 30)), kept(8, 0.1, 0.25)),
    Sample(nn.NonMaxSuppressionOp, "few", (f(1, 9, 4), f(1, 2, 9)), kept(2, 0.5, -3.0)),
    Sample(nn.NonMaxSuppressionOp, "more than there are", (f(1, 5, 4), f(1, 2, 5)), kept(9, 0.9)),
    Sample(nn.NonZeroOp, "all", (f(3, 4, 2),)),
)

OTHER_SAMPLES = (
    Sample(nn.NonMaxSuppressionOp, "and equal ones", (f(1, 20, 4), f(1, 1, 20)),
           {**kept(6, 0.0, 0.25), "keep_equal_scores": TRUE, "drop_equal_overlaps": TRUE}),
    Sample(nn.NonMaxSuppressionOp, "none", (f(1, 6, 4), f(1, 2, 6)), kept(4, 0.5, 9.0)),
    Sample(nn.NonZeroOp, "i1", (truth(5, 7),)),
    Sample(nn.NonZeroOp, "i8", (i(8, 2, 3, 40, most=1),)),
    Sample(nn.NonZeroOp, "f64", (d(3, 5),)),
    Sample(nn.NonZeroOp, "of no element", (d(3, 0),)),
)  # fmt: skip
"""Of elements that are not f32, and what onnxruntime does not have."""
