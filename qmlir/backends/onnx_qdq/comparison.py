"""Comparisons, and the choice between two tensors by them."""

from qmlir.backends.onnx_qdq.exporters import exports
from qmlir.backends.onnx_qdq.graph import BOOL, Tensor
from qmlir.backends.onnx_qdq.pointwise import several, unary
from qmlir.backends.onnx_qdq.values import Values
from qmlir.dialects import nn
from qmlir.dialects.nn.comparison import ComparisonOp

NAMED: dict[type[ComparisonOp], str] = {nn.EqualOp: "Equal", nn.LessOp: "Less", nn.LessEqualOp: "LessOrEqual"}
"""Operation → ONNX's operator."""


@exports(*NAMED)
def named(op: ComparisonOp, values: Values) -> None:
    """An operation that is one node."""
    several(op, values, lambda *x: values.graph.node(NAMED[type(op)], *x, dtype=BOOL))


@exports(nn.IsNaNOp)
def is_nan(op: nn.IsNaNOp, values: Values) -> None:
    """IsNaN."""
    unary("IsNaN", op, values)


@exports(nn.IsInfOp)
def is_inf(op: nn.IsInfOp, values: Values) -> None:
    """IsInf; the signs that count are attributes."""
    unary("IsInf", op, values, detect_negative=int(bool(op.negative)), detect_positive=int(bool(op.positive)))


@exports(nn.WhereOp)
def where(op: nn.WhereOp, values: Values) -> None:
    """Where; of booleans, which onnxruntime's does not take, what it says in logic."""
    graph = values.graph

    def choice(condition: Tensor, lhs: Tensor, rhs: Tensor) -> Tensor:
        if lhs.dtype != BOOL:
            return graph.where(condition, lhs, rhs)
        other = graph.node("And", graph.node("Not", condition), rhs)
        return graph.node("Or", graph.node("And", condition, lhs), other)

    several(op, values, choice)
