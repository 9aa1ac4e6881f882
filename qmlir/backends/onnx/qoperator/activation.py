"""Forms of activations that onnxruntime has on integers, and of clamps that keep the scale."""

from typing import Any

from qmlir.backends.onnx.graph import MICROSOFT
from qmlir.backends.onnx.qoperator.forms import NoOperator, computes, scale_and_point
from qmlir.backends.onnx.values import StoredValues
from qmlir.dialects import nn
from qmlir.dialects.nn.pointwise import UnaryOp
from qmlir.ir.interfaces import element_of


@computes(nn.SigmoidOp)
def sigmoid(op: nn.SigmoidOp, values: StoredValues) -> None:
    """Writes QLinearSigmoid."""
    _function("QLinearSigmoid", op, values)


@computes(nn.LeakyReluOp)
def leaky_relu(op: nn.LeakyReluOp, values: StoredValues) -> None:
    """Writes QLinearLeakyRelu."""
    _function("QLinearLeakyRelu", op, values, alpha=op.alpha.value.data)


def _function(kind: str, op: UnaryOp, values: StoredValues, **attributes: Any) -> None:
    order = values.order(op.x)
    parameters = (*scale_and_point(op.x, values), *scale_and_point(op.y, values))
    y = values.graph.node(kind, values.real(op.x, order), *parameters, domain=MICROSOFT, **attributes)
    values.define(op.y, y, order)


@computes(nn.ReluOp, nn.ClampOp)
def clamp(op: nn.ReluOp | nn.ClampOp, values: StoredValues) -> None:
    """Writes Clip on the stored integers; raises NoOperator if the quantized type changes."""
    if element_of(op.x) != element_of(op.y):
        raise NoOperator
    graph, order = values.graph, values.order(op.x)
    x = values.real(op.x, order)
    if isinstance(op, nn.ReluOp):
        x = graph.node("Clip", x, graph.constant(values.number(op.y, 0.0).astype(x.dtype)))
    values.define(op.y, x, order)
