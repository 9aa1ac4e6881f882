"""The form of softmax: exponentials from a table, and one integer division."""

import numpy as np

from qmlir.backends.forms import NoForm
from qmlir.backends.onnx.integer.forms import INT32, INT64, cast, computes, minus, number
from qmlir.backends.onnx.values import Values, stored_dtype
from qmlir.dialects import qint
from qmlir.dialects.qint.normalization import FRACTION


@computes(qint.SoftmaxOp)
def softmax(op: qint.SoftmaxOp, values: Values) -> None:
    """Writes floor((2·e·unit + S') / 2S') with S' = Σ e · 2^FRACTION; Div rounds down, as no number is negative."""
    if op.division.data != "exact":
        raise NoForm("must divide exactly", op.division.data, "follow other numerics")
    graph, order = values.graph, values.order(op.x)
    x, axis = cast(graph, values.stored(op.x, order), INT32), order.index(op.axis.value.data)
    largest = graph.node("ReduceMax", x, graph.indices([axis]))
    table = graph.constant(op.table.array.astype(np.int64))
    e = graph.node("Gather", table, graph.node("Sub", largest, x), dtype=INT64)
    total = graph.node("Mul", graph.node("ReduceSum", e, graph.indices([axis])), number(graph, 1 << FRACTION, INT64))
    shares = graph.node("Add", graph.node("Mul", e, number(graph, 2 * op.unit.value.data, INT64)), total)
    y = graph.node("Div", shares, graph.node("Mul", total, number(graph, 2, INT64)))
    y = minus(graph, cast(graph, y, INT32), -op.zero_point.value.data)
    y = graph.node("Clip", y, number(graph, op.lower.value.data, INT32), number(graph, op.upper.value.data, INT32))
    values.define(op.y, cast(graph, y, stored_dtype(op.y)), order)
