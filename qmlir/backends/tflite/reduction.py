"""Forms of reductions, whose axes stay as dimensions of size 1, of arg-max and arg-min, and of cumulative sums."""

from math import prod

import numpy as np

from qmlir.backends.forms import NoForm
from qmlir.backends.tflite.exporters import exports
from qmlir.backends.tflite.graph import BOOL, Parameters, Tensor
from qmlir.backends.tflite.values import INT8, UINT8, Values
from qmlir.backends.tflite.windows import VALID
from qmlir.dialects import nn
from qmlir.dialects.nn.reduction import ArgumentOp, CumulativeOp, ReductionOp
from qmlir.ir.interfaces import shape_of

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

ONES = (INT8, UINT8)
"""Types whose quantized sums are written as convolutions with weights of 1."""

INT64 = 4
"""The schema's TensorType INT64."""


@exports(*REDUCTIONS)
def reduce(op: ReductionOp, values: Values) -> None:
    """Writes one operator, no operator if there are no axes, and a convolution for sums of quantized bytes."""
    x, kind = values.stored(op.x), REDUCTIONS[type(op)]
    if not op.axes.get_values():
        values.hold(op.y, x)
        return
    if 0 in x.shape:
        raise NoForm("needs elements to reduce", str(list(x.shape)), "leave the reduction of an empty tensor out")
    if kind == "SUM" and x.form.parameters is not None and x.dtype in ONES and values.form(op.y).dtype == x.dtype:
        values.define(op.y, values.graph.reshaped(_sum_of_bytes(op, x, values), shape_of(op.y)))
        return
    kind = OF_BOOLEANS.get(kind, kind) if x.dtype == BOOL else kind
    values.compute(op, kind, [op.x], {"KeepDims": True}, [values.graph.indices(op.axes.get_values())])


def _sum_of_bytes(op: ReductionOp, x: Tensor, values: Values) -> Tensor:
    """Adds a sum of quantized bytes as a DEPTHWISE_CONV_2D with weights of 1 and returns its result.

    The image is [kept before, reduced, 1, kept after], where each part joins dimensions of x, and the weights are
    [1, reduced, 1, kept after]. LiteRT's SUM does not give the sum of the real numbers: its reference kernel adds the
    stored signed bytes and wraps around.
    """
    graph, axes = values.graph, op.axes.get_values()
    before = [axis for axis in range(axes[0])]
    after = [axis for axis in range(axes[0], len(x.shape)) if axis not in axes]
    parts = [prod(x.shape[axis] for axis in group) for group in (before, axes, after)]
    image = graph.reshaped(graph.transposed(x, [*before, *axes, *after]), (parts[0], parts[1], 1, parts[2]))
    assert x.form.parameters is not None, "numbers have a SUM"
    ones = graph.constant(np.ones((1, parts[1], 1, parts[2]), x.dtype), Parameters((1.0,), (0,)))
    none = graph.constant(np.zeros(parts[2], np.int32), Parameters((x.form.parameters.scale,), (0,)))
    options = {"StrideH": 1, "StrideW": 1, "DepthMultiplier": 1, "Padding": VALID}
    form = values.form(op.y).shaped((parts[0], 1, 1, parts[2]))
    return graph.operator("DEPTHWISE_CONV_2D", [image, ones, none], form, options)


@exports(*ARGUMENTS)
def argument(op: ArgumentOp, values: Values) -> None:
    """Writes one operator, which removes the axis, and a reshape; for the last of equal extremes, on reversed data."""
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
    """Writes CUMSUM."""
    x, axis = values.stored(op.x), values.graph.indices([op.axis.value.data])
    options = {"Exclusive": bool(op.exclusive), "Reverse": bool(op.reverse)}
    values.hold(op.y, values.graph.operator("CUMSUM", [x, axis], values.form(op.y), options))


@exports(nn.CumulativeProductOp)
def cumulative_product(op: CumulativeOp, values: Values) -> None:
    """Raises NoForm: TFLite has no cumulative product."""
    raise NoForm("must be an operation that TFLite has", op.name, "rewrite the model without it")
