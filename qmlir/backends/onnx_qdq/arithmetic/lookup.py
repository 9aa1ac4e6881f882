"""Tables of 256 entries."""

import numpy as np
from xdsl.dialects.builtin import i8

from qmlir.backends.forms import NoForm
from qmlir.backends.onnx_qdq.arithmetic.forms import INT32, cast, computes
from qmlir.backends.onnx_qdq.values import Values
from qmlir.dialects import qint
from qmlir.dialects.interfaces import element_of


@computes(qint.LookupOp)
def lookup(op: qint.LookupOp, values: Values) -> None:
    """Gather, whose negative indices count from the end: the table begins with the entry of 0."""
    if element_of(op.x) != i8:
        raise NoForm("must look up bytes", str(element_of(op.x)), "quantize to 8 bits")
    graph, order = values.graph, values.order(op.x)
    table = graph.constant(np.roll(op.table.array, -op.half))
    y = graph.node("Gather", table, cast(graph, values.stored(op.x, order), INT32))
    values.define(op.y, y, order)
