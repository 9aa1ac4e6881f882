"""Forms of reductions, arg-max and arg-min, whose axes stay as dimensions of size 1, and of cumulative operations."""

import numpy as np

from qmlir.backends.onnx.exporters import exports
from qmlir.backends.onnx.graph import INDEX
from qmlir.backends.onnx.values import Values
from qmlir.dialects import nn
from qmlir.dialects.nn.reduction import ArgumentOp, CumulativeOp, ReductionOp

REDUCTIONS: dict[type[ReductionOp], tuple[str, int]] = {
    nn.ReduceSumOp: ("ReduceSum", 13),
    nn.ReduceMeanOp: ("ReduceMean", 18),
    nn.ReduceProdOp: ("ReduceProd", 18),
    nn.ReduceMaxOp: ("ReduceMax", 18),
    nn.ReduceMinOp: ("ReduceMin", 18),
}
"""Operation → (ONNX's operator, the first opset in which its axes are an input)."""

ARGUMENTS: dict[type[ArgumentOp], str] = {nn.ArgMaxOp: "ArgMax", nn.ArgMinOp: "ArgMin"}

CUMULATIVE: dict[type[CumulativeOp], str] = {nn.CumulativeSumOp: "CumSum", nn.CumulativeProductOp: "CumProd"}


@exports(*REDUCTIONS)
def reduce(op: ReductionOp, values: Values) -> None:
    """Writes one node; without axes Identity, because ONNX takes an empty list for all axes."""
    order, graph = values.order(op.x), values.graph
    kind, since = REDUCTIONS[type(op)]
    axes = [order.index(a) for a in op.axes.get_values()]
    x = values.real(op.x, order)
    if not axes:
        values.define(op.y, graph.node("Identity", x), order)
    elif graph.opset >= since:
        values.define(op.y, graph.node(kind, x, graph.indices(axes)), order)
    else:
        values.define(op.y, graph.node(kind, x, axes=axes), order)


@exports(*ARGUMENTS)
def argument(op: ArgumentOp, values: Values) -> None:
    """Writes ArgMax or ArgMin."""
    order = values.order(op.x)
    last = 1 if bool(op.last) else None
    axis = order.index(op.axis.value.data)
    x = values.real(op.x, order)
    y = values.graph.node(ARGUMENTS[type(op)], x, dtype=INDEX, axis=axis, select_last_index=last)
    values.define(op.y, y, order)


@exports(*CUMULATIVE)
def cumulate(op: CumulativeOp, values: Values) -> None:
    """Writes CumSum or CumProd."""
    order, graph = values.order(op.x), values.graph
    axis = graph.constant(np.array(order.index(op.axis.value.data), INDEX))
    exclusive, reverse = (1 if bool(flag) else None for flag in (op.exclusive, op.reverse))
    y = graph.node(CUMULATIVE[type(op)], values.real(op.x, order), axis, exclusive=exclusive, reverse=reverse)
    values.define(op.y, y, order)
