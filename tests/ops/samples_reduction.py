"""Samples of reductions and of sums with signs."""

from xdsl.dialects.builtin import BoolAttr, IntegerAttr, i64
from xdsl.ir import Attribute

from qmlir.dialects import nn
from qmlir.dialects.windows import ints
from tests.ops.sample import Sample, axis, f, i
from tests.ops.samples_pointwise import d, truth, u

TRUE = BoolAttr.from_bool(True)
REDUCTIONS = (nn.ReduceSumOp, nn.ReduceMeanOp, nn.ReduceProdOp, nn.ReduceMaxOp, nn.ReduceMinOp)
ARGUMENTS = (nn.ArgMaxOp, nn.ArgMinOp)
CUMULATIVE = (nn.CumulativeSumOp, nn.CumulativeProductOp)


def over(*axes: int) -> dict[str, Attribute | None]:
    """The axes that are reduced."""
    return {"axes": ints(axes)}


FLOAT_SAMPLES = (
    *(Sample(op, "rows", (f(3, 50),), over(1)) for op in REDUCTIONS),
    *(Sample(op, "columns", (f(2, 5, 19),), over(0, 1)) for op in REDUCTIONS),
    *(Sample(op, "alternate", (f(3, 2, 5, 4),), over(0, 2)) for op in REDUCTIONS),
    *(Sample(op, "all", (f(3, 4),), over(0, 1)) for op in REDUCTIONS),
    *(Sample(op, "nothing", (f(3, 4),), over()) for op in REDUCTIONS),
    *(Sample(op, "middle", (f(3, 7, 4),), axis(1)) for op in ARGUMENTS),
    *(Sample(op, "middle", (f(3, 7, 10),), axis(1)) for op in CUMULATIVE),
    Sample(nn.HadamardOp, "of six", (f(3, 6),), {"block": IntegerAttr(2, i64)}),
    Sample(nn.HadamardOp, "of 128", (f(2, 2, 256),), {"block": IntegerAttr(128, i64)}),
    Sample(nn.HadamardOp, "of 512", (f(3, 512),), {"block": IntegerAttr(512, i64)}),
)

OTHER_SAMPLES = (
    *(Sample(op, "f64", (d(3, 50),), over(1)) for op in REDUCTIONS),
    *(Sample(op, "i32", (i(32, 3, 50),), over(0)) for op in REDUCTIONS if op is not nn.ReduceMeanOp),
    *(Sample(op, "ui8", (u(8, 3, 50),), over(1)) for op in REDUCTIONS if op is not nn.ReduceMeanOp),
    *(Sample(op, "i1", (truth(9, 2),), over(1)) for op in (nn.ReduceMaxOp, nn.ReduceMinOp)),
    *(Sample(op, "of no element", (d(3, 0, 2),), over(1)) for op in REDUCTIONS),
    *(Sample(op, "last of equals", (i(8, 3, 40, most=2),), axis(1) | {"last": TRUE}) for op in ARGUMENTS),
    *(Sample(op, "ui8", (u(8, 3, 40),), axis(1)) for op in ARGUMENTS),
    Sample(nn.HadamardOp, "f64", (d(3, 64),), {"block": IntegerAttr(16, i64)}),
    Sample(nn.HadamardOp, "i32", (i(32, 3, 1024),), {"block": IntegerAttr(1024, i64)}),
    Sample(nn.HadamardOp, "i64", (i(64, 3, 32),), {"block": IntegerAttr(4, i64)}),
    *(Sample(op, "exclusive", (f(3, 7, 10),), axis(1) | {"exclusive": TRUE}) for op in CUMULATIVE),
    *(Sample(op, "from the end", (i(32, 3, 9),), axis(1) | {"reverse": TRUE}) for op in CUMULATIVE),
)
"""Of elements that are not f32, and what onnxruntime does not have."""
