"""The form of resizing: weighted sums of neighbouring elements in 32 bits."""

from qmlir.backends.onnx.integer.forms import INT32, cast, computes, minus
from qmlir.backends.onnx.resize import along
from qmlir.backends.onnx.values import Values
from qmlir.dialects import qint


@computes(qint.ResizeOp)
def resize(op: qint.ResizeOp, values: Values) -> None:
    """Writes Gather, Mul and Add for each tap (a neighbour that an output element reads)."""
    graph, order = values.graph, values.order(op.x)
    y = minus(graph, cast(graph, values.stored(op.x, order), INT32), op.zero_point.value.data)
    for axis, taps, weights in op.tables():
        y = along(graph, y, order.index(axis), len(order), taps, weights)
    values.define(op.acc, y, order)
