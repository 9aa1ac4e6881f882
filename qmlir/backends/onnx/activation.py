"""Forms of activations, clamps and requantization, as one ONNX node or as several."""

import numpy as np

from qmlir.backends.onnx.exporters import exports
from qmlir.backends.onnx.graph import Tensor
from qmlir.backends.onnx.pointwise import unary
from qmlir.backends.onnx.values import Values
from qmlir.dialects import nn
from qmlir.dialects.nn.pointwise import UnaryOp
from qmlir.dialects.quant.types import UniformType
from qmlir.ir.interfaces import element_of

NAMED: dict[type[UnaryOp], tuple[str, dict[str, str]]] = {
    nn.SigmoidOp: ("Sigmoid", {}),
    nn.TanhOp: ("Tanh", {}),
    nn.HardSigmoidOp: ("HardSigmoid", {"alpha": "alpha", "beta": "beta"}),
    nn.HardSwishOp: ("HardSwish", {}),
    nn.LeakyReluOp: ("LeakyRelu", {"alpha": "alpha"}),
    nn.EluOp: ("Elu", {"alpha": "alpha"}),
    nn.SeluOp: ("Selu", {"alpha": "alpha", "gamma": "gamma"}),
    nn.CeluOp: ("Celu", {"alpha": "alpha"}),
    nn.SoftplusOp: ("Softplus", {}),
    nn.SoftsignOp: ("Softsign", {}),
    nn.MishOp: ("Mish", {}),
    nn.ThresholdedReluOp: ("ThresholdedRelu", {"alpha": "alpha"}),
    nn.ShrinkOp: ("Shrink", {"bias": "bias", "lambd": "threshold"}),
}
"""Operation → (ONNX's operator, its attributes: ONNX's name → the operation's property)."""


@exports(*NAMED)
def named(op: UnaryOp, values: Values) -> None:
    """Writes the operation as one node."""
    kind, attributes = NAMED[type(op)]
    unary(kind, op, values, **{name: getattr(op, own).value.data for name, own in attributes.items()})


@exports(nn.GeluOp)
def gelu(op: nn.GeluOp, values: Values) -> None:
    """Writes Gelu."""
    unary("Gelu", op, values, approximate="tanh" if bool(op.tanh) else None)


@exports(nn.SwishOp)
def swish(op: nn.SwishOp, values: Values) -> None:
    """Writes x · sigmoid(alpha · x) as three nodes: onnxruntime has Sigmoid for more types than Swish."""
    graph, order = values.graph, values.order(op.x)
    x = values.real(op.x, order)
    scaled = graph.node("Mul", x, graph.constant(np.array(op.alpha.value.data, x.dtype)))
    values.define(op.y, graph.node("Mul", x, graph.node("Sigmoid", scaled)), order)


@exports(nn.ReluOp)
def relu(op: nn.ReluOp, values: Values) -> None:
    """Writes Relu, or Identity on unsigned integers."""
    unary("Identity" if op.unsigned else "Relu", op, values)


@exports(nn.ClampOp)
def clamp(op: nn.ClampOp, values: Values) -> None:
    """Writes Clip or Relu, as for a fused clamp."""
    _as_it_is(op, values)


@exports(nn.RequantizeOp)
def requantize(op: nn.RequantizeOp, values: Values) -> None:
    """Writes a requantization as the cast from one quantized type and the cast to the other."""
    _as_it_is(op, values)


def _as_it_is(op: nn.ClampOp | nn.RequantizeOp, values: Values) -> None:
    order = values.order(op.x)
    x = values.real(op.x, order)
    y: Tensor = values.bounded(op.y, x)
    if y is not x:
        values.name(op.y, y)
    if isinstance(element_of(op.y), UniformType):
        values.quantize(op.y, y, order)
    else:
        values.hold(op.y, y, order)
