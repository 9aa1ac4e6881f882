"""Reductions along axes, which stay as dimensions of size 1, and what is gathered up on the way."""

from qmlir.backends.forms import NoForm
from qmlir.backends.tflite.exporters import exports
from qmlir.backends.tflite.graph import BOOL
from qmlir.backends.tflite.values import Values
from qmlir.dialects import nn
from qmlir.dialects.interfaces import shape_of
from qmlir.dialects.nn.reduction import ArgumentOp, CumulativeOp, ReductionOp

REDUCTIONS: dict[type[ReductionOp], str] = {
    nn.ReduceSumOp: "SUM",
    nn.ReduceMeanOp: "MEAN",
    nn.ReduceProdOp: "REDUCE_PROD",
    nn.ReduceMaxOp: "REDUCE_MAX",
    nn.ReduceMinOp: "REDUCE_MIN",
}
"""Operation → TFLite's operator."""

OF_BOOLEANS = {"REDUCE_MAX": "REDUCE_ANY", "REDUCE_MIN": "REDUCE_ALL"}

ARGUMENTS: dict[type[ArgumentOp], str] = {nn.ArgMaxOp: "ARG_MAX", nn.ArgMinOp: "ARG_MIN"}

INT64 = 4
"""In the schema."""


@exports(*REDUCTIONS)
def reduce(op: ReductionOp, values: Values) -> None:
    """One operator; none where there is no axis."""
    x, kind = values.stored(op.x), REDUCTIONS[type(op)]
    if not op.axes.get_values():
        values.hold(op.y, x)
        return
    if 0 in x.shape:
        raise NoForm("needs elements to reduce", str(list(x.shape)), "TFLite leaves open what none of them are")
    kind = OF_BOOLEANS.get(kind, kind) if x.dtype == BOOL else kind
    values.compute(op, kind, [op.x], {"KeepDims": True}, [values.graph.indices(op.axes.get_values())])


@exports(*ARGUMENTS)
def argument(op: ArgumentOp, values: Values) -> None:
    """One operator, which drops the axis; the last of several is the first backwards."""
    graph, x, axis = values.graph, values.stored(op.x), op.axis.value.data
    if bool(op.last):
        x = graph.operator("REVERSE_V2", [x, graph.indices([axis])], x.form)
    form = values.form(op.y)
    dropped = form.shaped((*form.shape[:axis], *form.shape[axis + 1 :]))
    found = graph.operator(ARGUMENTS[type(op)], [x, graph.index(axis)], dropped, {"OutputType": INT64})
    if bool(op.last):
        found = graph.pointwise("SUB", graph.number(shape_of(op.x)[axis] - 1, found), found)
    values.hold(op.y, graph.reshaped(found, form.shape))


@exports(nn.CumulativeSumOp)
def cumulative_sum(op: nn.CumulativeSumOp, values: Values) -> None:
    """CUMSUM."""
    x, axis = values.stored(op.x), values.graph.indices([op.axis.value.data])
    options = {"Exclusive": bool(op.exclusive), "Reverse": bool(op.reverse)}
    values.hold(op.y, values.graph.operator("CUMSUM", [x, axis], values.form(op.y), options))


@exports(nn.CumulativeProductOp)
def cumulative_product(op: CumulativeOp, values: Values) -> None:
    """TFLite has none."""
    raise NoForm("must be an operation that TFLite has", op.name, "rewrite the model without it")
