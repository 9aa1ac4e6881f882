"""The table of operations in qint: class → what makes nodes of one.

@computes(qint.LookupOp)
def lookup(op: qint.LookupOp, values: Values) -> None: ...
"""

from typing import Any

import numpy as np
from xdsl.ir import Operation

from qmlir.backends.forms import Forms, NoForm
from qmlir.backends.onnx_qdq.exporters import EXPORTS
from qmlir.backends.onnx_qdq.graph import Graph, Tensor, tensor_type
from qmlir.backends.onnx_qdq.values import Values
from qmlir.dialects.qint import QINT

computes: Forms[Values] = Forms()
"""Enters a function into the table."""

INT32, INT64 = np.dtype(np.int32), np.dtype(np.int64)


def spelled_out() -> Forms[Values]:
    """The table of the forms of nn with those of qint; what has none is refused."""
    table: Forms[Values] = Forms()
    table.entries.update(EXPORTS)
    table.entries.update({op: _refuse for op in QINT.operations})
    table.entries.update(computes.entries)
    return table


def _refuse(op: Operation, values: Values) -> None:
    raise NoForm("must have a form in ONNX's operators", op.name, "follow other numerics, or export as onnx-qdq")


def cast(graph: Graph, x: Tensor, dtype: np.dtype[Any]) -> Tensor:
    """A tensor of another type; no node if it is of that."""
    return x if x.dtype == dtype else graph.node("Cast", x, to=tensor_type(dtype), dtype=dtype)


def number(graph: Graph, value: float, dtype: np.dtype[Any]) -> Tensor:
    """A constant of one element."""
    return graph.constant(np.array(value, dtype))


def minus(graph: Graph, x: Tensor, point: int) -> Tensor:
    """A tensor less a zero point; no node for 0."""
    return graph.node("Sub", x, number(graph, point, x.dtype)) if point else x
