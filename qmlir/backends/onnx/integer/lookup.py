"""The form of table lookups, with tables of 256 or 65,536 entries."""

import numpy as np

from qmlir.backends.onnx.integer.forms import INT32, cast, computes
from qmlir.backends.onnx.values import Values
from qmlir.dialects import qint


@computes(qint.LookupOp)
def lookup(op: qint.LookupOp, values: Values) -> None:
    """Writes Gather. Its negative indices count from the end, so the table is rotated to begin with the entry of 0."""
    graph, order = values.graph, values.order(op.x)
    table = graph.constant(np.roll(op.table.array, -op.half))
    y = graph.node("Gather", table, cast(graph, values.stored(op.x, order), INT32))
    values.define(op.y, y, order)
