"""Forms of comparisons, and of the selection between two tensors by a condition."""

from qmlir.backends.onnx.exporters import exports
from qmlir.backends.onnx.graph import BOOL, Tensor
from qmlir.backends.onnx.pointwise import several, unary
from qmlir.backends.onnx.values import Values
from qmlir.dialects import nn
from qmlir.dialects.nn.comparison import ComparisonOp

NAMED: dict[type[ComparisonOp], str] = {nn.EqualOp: "Equal", nn.LessOp: "Less", nn.LessEqualOp: "LessOrEqual"}
"""Operation → ONNX's operator."""


@exports(*NAMED)
def named(op: ComparisonOp, values: Values) -> None:
    """Writes the operation as one node."""
    several(op, values, lambda *x: values.graph.node(NAMED[type(op)], *x, dtype=BOOL))


@exports(nn.IsNaNOp)
def is_nan(op: nn.IsNaNOp, values: Values) -> None:
    """Writes IsNaN."""
    unary("IsNaN", op, values)


@exports(nn.IsInfOp)
def is_inf(op: nn.IsInfOp, values: Values) -> None:
    """Writes IsInf; its attributes select the signs."""
    unary("IsInf", op, values, detect_negative=int(bool(op.negative)), detect_positive=int(bool(op.positive)))


@exports(nn.WhereOp)
def where(op: nn.WhereOp, values: Values) -> None:
    """Writes Where; on booleans, which onnxruntime's Where does not take, And, Not and Or."""
    graph = values.graph

    def choice(condition: Tensor, lhs: Tensor, rhs: Tensor) -> Tensor:
        if lhs.dtype != BOOL:
            return graph.where(condition, lhs, rhs)
        other = graph.node("And", graph.node("Not", condition), rhs)
        return graph.node("Or", graph.node("And", condition, lhs), other)

    several(op, values, choice)
