"""Samples of reductions."""

from xdsl.dialects.builtin import BoolAttr
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
)

OTHER_SAMPLES = (
    *(Sample(op, "f64", (d(3, 50),), over(1)) for op in REDUCTIONS),
    *(Sample(op, "i32", (i(32, 3, 50),), over(0)) for op in REDUCTIONS if op is not nn.ReduceMeanOp),
    *(Sample(op, "ui8", (u(8, 3, 50),), over(1)) for op in REDUCTIONS if op is not nn.ReduceMeanOp),
    *(Sample(op, "i1", (truth(9, 2),), over(1)) for op in (nn.ReduceMaxOp, nn.ReduceMinOp)),
    *(Sample(op, "of no element", (d(3, 0, 2),), over(1)) for op in REDUCTIONS),
    *(Sample(op, "last of equals", (i(8, 3, 40, most=2),), axis(1) | {"last": TRUE}) for op in ARGUMENTS),
    *(Sample(op, "ui8", (u(8, 3, 40),), axis(1)) for op in ARGUMENTS),
    *(Sample(op, "exclusive", (f(3, 7, 10),), axis(1) | {"exclusive": TRUE}) for op in CUMULATIVE),
    *(Sample(op, "from the end", (i(32, 3, 9),), axis(1) | {"reverse": TRUE}) for op in CUMULATIVE),
)
"""Of elements that are not f32, and what onnxruntime does not have."""
