"""Forms of bitwise operations on integers and logical operations on i1, for which ONNX has different operators."""

import numpy as np
from xdsl.dialects.builtin import IntegerType

from qmlir.backends.onnx.exporters import exports
from qmlir.backends.onnx.graph import BOOL, Tensor
from qmlir.backends.onnx.pointwise import several
from qmlir.backends.onnx.values import Values
from qmlir.dialects import nn
from qmlir.dialects.nn.pointwise import PointwiseOp
from qmlir.ir.interfaces import element_of

NAMED: dict[type[PointwiseOp], str] = {nn.AndOp: "And", nn.OrOp: "Or", nn.XorOp: "Xor", nn.NotOp: "Not"}
"""Operation → ONNX's operator on booleans; the operator on integers has the prefix Bitwise."""


@exports(*NAMED)
def named(op: PointwiseOp, values: Values) -> None:
    """Writes the operation as one node."""
    boolean = element_of(op.operands[0]) == IntegerType(1)
    kind = f"{'' if boolean else 'Bitwise'}{NAMED[type(op)]}"
    several(op, values, lambda *x: values.graph.node(kind, *x))


@exports(nn.ShiftLeftOp, nn.ShiftRightOp)
def shift(op: nn.ShiftLeftOp | nn.ShiftRightOp, values: Values) -> None:
    """Writes BitShift between casts to and from unsigned integers.

    ONNX's BitShift takes unsigned integers only and does not define counts of the width or more; here they shift in
    zeros. A negative number shifted right is the complement of its shifted complement.
    """
    graph, leftward = values.graph, isinstance(op, nn.ShiftLeftOp)

    def shifted(x: Tensor, count: Tensor) -> Tensor:
        unsigned = np.dtype(f"u{x.dtype.name.lstrip('u')}")
        zero = graph.constant(np.zeros((), unsigned))
        count = graph.cast(count, unsigned)
        inside = graph.node("Less", count, graph.constant(np.array(8 * unsigned.itemsize, unsigned)), dtype=BOOL)
        count = graph.where(inside, count, zero)
        bits = graph.node("BitShift", graph.cast(x, unsigned), count, direction="LEFT" if leftward else "RIGHT")
        return graph.cast(graph.where(inside, bits, zero), x.dtype)

    def with_sign(x: Tensor, count: Tensor) -> Tensor:
        negative = graph.node("Less", x, graph.constant(np.zeros((), x.dtype)), dtype=BOOL)
        positive = graph.where(negative, graph.node("BitwiseNot", x), x)
        moved = shifted(positive, count)
        return graph.where(negative, graph.node("BitwiseNot", moved), moved)

    several(op, values, shifted if leftward or op.unsigned else with_sign)
