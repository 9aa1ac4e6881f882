"""The form of nn.resize: weighted sums of gathered elements.

nn.resize has, for each axis, tables of taps and weights [O, T]: output element o is the weighted sum of T input
elements (its taps).
"""

from qmlir.backends.onnx.exporters import exports
from qmlir.backends.onnx.graph import Graph, Tensor
from qmlir.backends.onnx.values import Values
from qmlir.dialects import nn
from qmlir.ir.interfaces import Array


@exports(nn.ResizeOp)
def resize(op: nn.ResizeOp, values: Values) -> None:
    """Writes Gather, Mul and Add for each tap.

    ONNX's Resize is not used: its modes cannot express all tables, and separate nodes keep the order of the sums.
    """
    order = values.order(op.x)
    y = values.real(op.x, order)
    for axis, taps, weights in op.tables():
        y = along(values.graph, y, order.index(axis), len(order), taps, weights)
    values.define(op.y, y, order)


def along(graph: Graph, x: Tensor, axis: int, rank: int, taps: Array, weights: Array) -> Tensor:
    """Returns x resized along one axis of `rank` by taps and weights [O, T]."""
    total: Tensor | None = None
    for t in range(taps.shape[1]):
        y = graph.node("Gather", x, graph.constant(taps[:, t]), axis=axis)
        if (weights[:, t] != 1).any():
            shape = [1] * rank
            shape[axis] = len(taps)
            y = graph.node("Mul", y, graph.constant(weights[:, t].astype(x.dtype).reshape(shape)))
        total = y if total is None else graph.node("Add", total, y)
    assert total is not None, "no taps"
    return total
