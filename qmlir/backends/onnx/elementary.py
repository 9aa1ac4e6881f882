"""Forms of elementary functions."""

import numpy as np

from qmlir.backends.onnx.exporters import exports
from qmlir.backends.onnx.pointwise import unary, within_domain
from qmlir.backends.onnx.values import Values
from qmlir.dialects import nn
from qmlir.dialects.nn.pointwise import UnaryOp

NAMED: dict[type[UnaryOp], str] = {
    nn.AbsOp: "Abs",
    nn.SignOp: "Sign",
    nn.FloorOp: "Floor",
    nn.CeilOp: "Ceil",
    nn.RoundOp: "Round",
    nn.SqrtOp: "Sqrt",
    nn.ReciprocalOp: "Reciprocal",
    nn.ExpOp: "Exp",
    nn.LogOp: "Log",
    nn.ErfOp: "Erf",
    nn.SinOp: "Sin",
    nn.CosOp: "Cos",
    nn.TanOp: "Tan",
    nn.AsinOp: "Asin",
    nn.AcosOp: "Acos",
    nn.AtanOp: "Atan",
    nn.SinhOp: "Sinh",
    nn.CoshOp: "Cosh",
    nn.AsinhOp: "Asinh",
    nn.AcoshOp: "Acosh",
    nn.AtanhOp: "Atanh",
}
"""Operation → ONNX's operator."""


@exports(*NAMED)
def named(op: UnaryOp, values: Values) -> None:
    """Writes the operation as one node."""
    unary(NAMED[type(op)], op, values)


@exports(nn.RsqrtOp)
def rsqrt(op: nn.RsqrtOp, values: Values) -> None:
    """Writes Sqrt and Reciprocal."""
    graph, order = values.graph, values.order(op.x)
    x = within_domain(op, values, values.real(op.x, order))
    values.define(op.y, graph.node("Reciprocal", graph.node("Sqrt", x)), order)


@exports(nn.NegOp)
def neg(op: nn.NegOp, values: Values) -> None:
    """Writes Neg, or 0 − x on unsigned integers, which wraps around."""
    if not op.unsigned:
        unary("Neg", op, values)
        return
    graph, order = values.graph, values.order(op.x)
    x = values.real(op.x, order)
    values.define(op.y, graph.node("Sub", graph.constant(np.zeros((), x.dtype)), x), order)
