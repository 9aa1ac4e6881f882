"""Operations on bits; those on i1 have other names in ONNX."""

import numpy as np
from xdsl.dialects.builtin import IntegerType

from qmlir.backends.onnx_qdq.elementwise import BOOL
from qmlir.backends.onnx_qdq.exporters import exports
from qmlir.backends.onnx_qdq.graph import Tensor
from qmlir.backends.onnx_qdq.pointwise import several
from qmlir.backends.onnx_qdq.values import Values
from qmlir.dialects import nn
from qmlir.dialects.interfaces import element_of
from qmlir.dialects.nn.pointwise import PointwiseOp

NAMED: dict[type[PointwiseOp], str] = {nn.AndOp: "And", nn.OrOp: "Or", nn.XorOp: "Xor", nn.NotOp: "Not"}
"""Operation → ONNX's operator on booleans; that on integers is called Bitwise… ."""


@exports(*NAMED)
def named(op: PointwiseOp, values: Values) -> None:
    """An operation that is one node."""
    boolean = element_of(op.operands[0]) == IntegerType(1)
    kind = f"{'' if boolean else 'Bitwise'}{NAMED[type(op)]}"
    several(op, values, lambda *x: values.graph.node(kind, *x))


@exports(nn.ShiftLeftOp, nn.ShiftRightOp)
def shift(op: nn.ShiftLeftOp | nn.ShiftRightOp, values: Values) -> None:
    """Of unsigned integers; ONNX says nothing of counts that are no less than the width."""
    graph = values.graph
    direction = "LEFT" if isinstance(op, nn.ShiftLeftOp) else "RIGHT"

    def shifted(x: Tensor, count: Tensor) -> Tensor:
        zero = graph.constant(np.zeros((), x.dtype))
        inside = graph.node("Less", count, graph.constant(np.array(8 * x.dtype.itemsize, x.dtype)), dtype=BOOL)
        moved = graph.node("BitShift", x, graph.node("Where", inside, count, zero, dtype=x.dtype), direction=direction)
        return graph.node("Where", inside, moved, zero, dtype=x.dtype)

    several(op, values, shifted)
