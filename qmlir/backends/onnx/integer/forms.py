"""The table of forms of qint operations: operation class → the function that writes such an operation as ONNX nodes.

@computes(qint.LookupOp)
def lookup(op: qint.LookupOp, values: Values) -> None: ...
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.dialects.builtin import i8, i16
from xdsl.ir import Operation, SSAValue

from qmlir.backends.forms import Forms, NoForm
from qmlir.backends.onnx.contraction import IMAGES
from qmlir.backends.onnx.exporters import EXPORTS
from qmlir.backends.onnx.graph import Graph, Tensor
from qmlir.backends.onnx.values import Values
from qmlir.dialects.qint import QINT
from qmlir.ir.interfaces import element_of

computes: Forms[Values] = Forms()
"""The table; used as a decorator, it enters a form."""

INT8, INT32, INT64 = np.dtype(np.int8), np.dtype(np.int32), np.dtype(np.int64)

BYTE = 1 << 8
"""The number of values of a byte."""


def spelled_out() -> Forms[Values]:
    """Returns the table of the forms of nn and qint; qint operations without a form raise NoForm."""
    table: Forms[Values] = Forms()
    table.entries.update(EXPORTS)
    table.entries.update({op: _refuse for op in QINT.operations})
    table.entries.update(computes.entries)
    return table


def _refuse(op: Operation, values: Values) -> None:
    raise NoForm("must have a form in ONNX's operators", op.name, "follow other numerics, or export as onnx-qdq")


def cast(graph: Graph, x: Tensor, dtype: np.dtype[Any]) -> Tensor:
    """Casts a tensor; adds no node if it has the type already."""
    return graph.cast(x, dtype)


def number(graph: Graph, value: float, dtype: np.dtype[Any]) -> Tensor:
    """Returns a constant scalar."""
    return graph.constant(np.array(value, dtype))


def minus(graph: Graph, x: Tensor, point: int) -> Tensor:
    """Subtracts a zero point from a tensor; adds no node for 0."""
    return graph.node("Sub", x, number(graph, point, x.dtype)) if point else x


def zero_point(values: Values, x: SSAValue, point: int) -> Tensor | None:
    """Returns the zero point of data of 8 bits as a tensor; None for 0.

    Raises:
        NoForm: The data are not bytes, or int8 cannot hold the zero point.
    """
    require_bytes(x)
    if not -128 <= point < 128:
        raise NoForm("must have zero points that int8 holds", str(point), "choose parameters within the storage")
    return number(values.graph, point, np.dtype(np.int8)) if point else None


def sums_of_bytes(values: Values, x: SSAValue, point: int, summed: Callable[[Tensor, Tensor | None], Tensor]) -> Tensor:
    """Returns int32 sums over windows of images, of 8-bit data or of 16-bit data split into two bytes.

    x − z = 256 · (h − z_h) + (l − z_l), where h is the upper byte and l the lower byte less 128. Each byte is padded
    with its own zero point.

    Args:
        values: The values of the function.
        x: The data.
        point: The data's zero point.
        summed: Adds the nodes that sum an int8 image with a zero point; None is a zero point of 0.

    Raises:
        NoForm: The data are wider than 16 bits, or their type cannot hold the zero point.
    """
    if element_of(x) != i16:
        return summed(values.stored(x, IMAGES), zero_point(values, x, point))
    if not -(1 << 15) <= point < 1 << 15:
        raise NoForm("must have zero points that int16 holds", str(point), "choose parameters within the storage")
    graph = values.graph
    wide = cast(graph, values.stored(x, IMAGES), INT32)
    lower = graph.node("Mod", wide, number(graph, BYTE, INT32))  # Mod has the divisor's sign: never negative
    upper = graph.node("Div", graph.node("Sub", wide, lower), number(graph, BYTE, INT32))
    parts = [(upper, point // BYTE), (minus(graph, lower, BYTE // 2), point % BYTE - BYTE // 2)]
    high, low = (summed(cast(graph, part, INT8), number(graph, z, INT8) if z else None) for part, z in parts)
    return graph.node("Add", graph.node("Mul", high, number(graph, BYTE, INT32)), low)


def require_bytes(value: SSAValue) -> None:
    """Raises NoForm unless a value has elements of i8."""
    if element_of(value) != i8:
        raise NoForm("must multiply bytes", str(element_of(value)), "quantize to 8 bits")
