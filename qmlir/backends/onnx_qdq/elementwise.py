"""Arithmetic, comparisons and choices on the elements of several operands."""

import numpy as np
from xdsl.dialects.builtin import AnyFloat

from qmlir.backends.onnx_qdq.exporters import exports
from qmlir.backends.onnx_qdq.graph import Tensor
from qmlir.backends.onnx_qdq.pointwise import result_dtype, several
from qmlir.backends.onnx_qdq.values import Values
from qmlir.dialects import nn
from qmlir.dialects.interfaces import element_of, shape_of
from qmlir.dialects.nn.pointwise import OperandPairOp

BOOL = np.dtype(bool)

NAMED: dict[type[OperandPairOp], str] = {
    nn.AddOp: "Add",
    nn.SubOp: "Sub",
    nn.MulOp: "Mul",
    nn.DivOp: "Div",
    nn.PowOp: "Pow",
    nn.MaximumOp: "Max",
    nn.MinimumOp: "Min",
    nn.EqualOp: "Equal",
    nn.LessOp: "Less",
    nn.LessEqualOp: "LessOrEqual",
}
"""Operation → ONNX's operator."""


@exports(*NAMED)
def named(op: OperandPairOp, values: Values) -> None:
    """An operation that is one node."""
    several(op, values, lambda *x: values.graph.node(NAMED[type(op)], *x, dtype=result_dtype(op)))


@exports(nn.WhereOp)
def where(op: nn.WhereOp, values: Values) -> None:
    """Where."""
    several(op, values, lambda *x: values.graph.node("Where", *x, dtype=result_dtype(op)))


@exports(nn.PReluOp)
def prelu(op: nn.PReluOp, values: Values) -> None:
    """PRelu broadcasts its slopes only."""
    graph = values.graph

    def choice(x: Tensor, slope: Tensor) -> Tensor:
        negative = graph.node("Less", x, graph.constant(np.zeros((), x.dtype)), dtype=BOOL)
        return graph.node("Where", negative, graph.node("Mul", x, slope), x, dtype=x.dtype)

    alike = shape_of(op.lhs) == shape_of(op.y)
    several(op, values, (lambda *x: graph.node("PRelu", *x)) if alike else choice)


@exports(nn.ModOp)
def mod(op: nn.ModOp, values: Values) -> None:
    """Floats have the truncated remainder only; one of another sign than the divisor's is a divisor away."""
    graph = values.graph
    truncated = bool(op.truncated) or isinstance(element_of(op.lhs), AnyFloat)

    def remainder(lhs: Tensor, rhs: Tensor) -> Tensor:
        rest = graph.node("Mod", lhs, rhs, fmod=1 if truncated else None)
        if bool(op.truncated) or not truncated:
            return rest
        zero = graph.constant(np.zeros((), lhs.dtype))
        astray = graph.node("Less", graph.node("Mul", graph.node("Sign", rest), graph.node("Sign", rhs)), zero,
                            dtype=BOOL)  # fmt: skip
        return graph.node("Where", astray, graph.node("Add", rest, rhs), rest, dtype=lhs.dtype)

    several(op, values, remainder)
