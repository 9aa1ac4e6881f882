"""Forms of activations, clamps and requantization, as one TFLite operator or as several."""

from collections.abc import Callable

from qmlir.backends.tflite.clamps import Bounds, activated, stored_bounds
from qmlir.backends.tflite.exporters import exports
from qmlir.backends.tflite.graph import BOOL, Graph, Tensor
from qmlir.backends.tflite.kernels import takes
from qmlir.backends.tflite.pointwise import one, several
from qmlir.backends.tflite.values import INT8, Values
from qmlir.dialects import nn
from qmlir.dialects.nn.pointwise import UnaryOp
from qmlir.ir.interfaces import element_of
from qmlir.ir.marks import INTEGER_OPERATOR, ON_FLOATS

NAMED: dict[type[UnaryOp], str] = {
    nn.SigmoidOp: "LOGISTIC",
    nn.TanhOp: "TANH",
    nn.HardSwishOp: "HARD_SWISH",
}
"""Operation → TFLite's operator."""

CLAMPS: dict[Bounds, str] = {(0.0, 6.0): "RELU6", (-1.0, 1.0): "RELU_N1_TO_1", (0.0, None): "RELU"}
"""Bounds of a clamp → TFLite's operator."""


@exports(*NAMED)
def named(op: UnaryOp, values: Values) -> None:
    """Writes the operation as one operator."""
    one(NAMED[type(op)], op, values)


@exports(nn.GeluOp)
def gelu(op: nn.GeluOp, values: Values) -> None:
    """Writes GELU."""
    one("GELU", op, values, {"Approximate": bool(op.tanh)})


@exports(nn.LeakyReluOp)
def leaky_relu(op: nn.LeakyReluOp, values: Values) -> None:
    """Writes LEAKY_RELU."""
    one("LEAKY_RELU", op, values, {"Alpha": op.alpha.value.data})


@exports(nn.EluOp)
def elu(op: nn.EluOp, values: Values) -> None:
    """Writes ELU if alpha is 1, which TFLite's operator implies, else several operators."""
    if op.alpha.value.data == 1:
        one("ELU", op, values)
    else:
        several(op, values, _elu, op.alpha.value.data)


@exports(nn.ReluOp)
def relu(op: nn.ReluOp, values: Values) -> None:
    """Writes RELU; types without a RELU kernel get MAXIMUM with 0, unsigned integers no operator."""
    x = values.stored(op.x)
    if takes("RELU", x.dtype, x.form.parameters is not None):
        one("RELU", op, values)
    elif op.unsigned:
        values.hold(op.y, x)
    else:
        values.hold(op.y, values.graph.pointwise("MAXIMUM", x, values.graph.number(0, x)))


@exports(nn.ClampOp)
def clamp(op: nn.ClampOp, values: Values) -> None:
    """Writes one of TFLite's clamps if it yields the same integers, else a change of scale, MAXIMUM and MINIMUM."""
    if ON_FLOATS in op.attributes:
        values.define(op.y, values.bounded(values.real(op.x), op.bounds()))
        return
    x, form, bounds = values.stored(op.x), values.form(op.y), op.bounds()
    kind = CLAMPS.get(bounds)
    exact = activated(form, bounds) == stored_bounds(element_of(op.y), form, bounds)
    if kind is not None and exact and takes(kind, x.dtype, x.form.parameters is not None):
        values.hold(op.y, values.graph.operator(kind, [x], form))
    else:
        values.define(op.y, x, bounds)


@exports(nn.RequantizeOp)
def requantize(op: nn.RequantizeOp, values: Values) -> None:
    """Writes QUANTIZE, or a CONCATENATION for a part of an imported concatenation: the two round differently."""
    form = values.form(op.y)
    if INTEGER_OPERATOR in op.attributes and form.dtype == values.form(op.x).dtype != INT8:
        values.hold(op.y, values.graph.operator("CONCATENATION", [values.stored(op.x)], form, {"Axis": 0}))
        return
    values.define(op.y, values.real(op.x) if ON_FLOATS in op.attributes else values.stored(op.x))


# ---------------------------------------------------------------------------------------------------------------
# Several operators on floats


def _elu(graph: Graph, x: Tensor, alpha: float) -> Tensor:
    """Returns max(x, 0) + alpha · elu(min(x, 0))."""
    below = graph.pointwise("ELU", graph.pointwise("MINIMUM", x, graph.number(0, x)))
    scaled = graph.pointwise("MUL", below, graph.number(alpha, x))
    return graph.pointwise("ADD", graph.pointwise("RELU", x), scaled)


@exports(nn.SeluOp)
def selu(op: nn.SeluOp, values: Values) -> None:
    """Writes gamma · (max(x, 0) + alpha · elu(min(x, 0)))."""

    def form(graph: Graph, x: Tensor) -> Tensor:
        return graph.pointwise("MUL", _elu(graph, x, op.alpha.value.data), graph.number(op.gamma.value.data, x))

    several(op, values, form)


@exports(nn.CeluOp)
def celu(op: nn.CeluOp, values: Values) -> None:
    """Writes max(x, 0) + alpha · elu(min(x, 0) / alpha)."""
    alpha = op.alpha.value.data

    def form(graph: Graph, x: Tensor) -> Tensor:
        scaled = graph.pointwise("MUL", x, graph.number(1 / alpha, x))
        below = graph.pointwise("ELU", graph.pointwise("MINIMUM", scaled, graph.number(0, x)))
        return graph.pointwise("ADD", graph.pointwise("RELU", x), graph.pointwise("MUL", below, graph.number(alpha, x)))

    several(op, values, form)


@exports(nn.HardSigmoidOp)
def hard_sigmoid(op: nn.HardSigmoidOp, values: Values) -> None:
    """Writes max(0, min(1, alpha · x + beta))."""

    def form(graph: Graph, x: Tensor) -> Tensor:
        scaled = graph.pointwise("MUL", x, graph.number(op.alpha.value.data, x))
        shifted = graph.pointwise("ADD", scaled, graph.number(op.beta.value.data, x))
        return graph.pointwise("RELU", graph.pointwise("MINIMUM", shifted, graph.number(1, x)))

    several(op, values, form)


@exports(nn.SwishOp)
def swish(op: nn.SwishOp, values: Values) -> None:
    """Writes x · sigmoid(alpha · x)."""

    def form(graph: Graph, x: Tensor) -> Tensor:
        scaled = graph.pointwise("MUL", x, graph.number(op.alpha.value.data, x))
        return graph.pointwise("MUL", x, graph.pointwise("LOGISTIC", scaled))

    several(op, values, form)


def _softplus(graph: Graph, x: Tensor) -> Tensor:
    """Returns max(x, 0) + log(1 + e^−|x|)."""
    rest = graph.pointwise("EXP", graph.pointwise("NEG", graph.pointwise("ABS", x)))
    logarithm = graph.pointwise("LOG", graph.pointwise("ADD", rest, graph.number(1, x)))
    return graph.pointwise("ADD", graph.pointwise("RELU", x), logarithm)


def _softsign(graph: Graph, x: Tensor) -> Tensor:
    """Returns x / (1 + |x|)."""
    return graph.pointwise("DIV", x, graph.pointwise("ADD", graph.pointwise("ABS", x), graph.number(1, x)))


def _mish(graph: Graph, x: Tensor) -> Tensor:
    """Returns x · tanh(log(1 + e^x))."""
    return graph.pointwise("MUL", x, graph.pointwise("TANH", _softplus(graph, x)))


COMPOSED: dict[type[UnaryOp], Callable[[Graph, Tensor], Tensor]] = {
    nn.SoftplusOp: _softplus,
    nn.SoftsignOp: _softsign,
    nn.MishOp: _mish,
}
"""Operation → the function that adds its operators."""


@exports(*COMPOSED)
def composed(op: UnaryOp, values: Values) -> None:
    """Writes the operation as several operators."""
    several(op, values, COMPOSED[type(op)])


@exports(nn.ThresholdedReluOp)
def thresholded_relu(op: nn.ThresholdedReluOp, values: Values) -> None:
    """Writes x where x is above alpha, else 0."""

    def form(graph: Graph, x: Tensor) -> Tensor:
        above = graph.pointwise("LESS", graph.number(op.alpha.value.data, x), x, dtype=BOOL)
        return graph.pointwise("SELECT_V2", above, x, graph.number(0, x))

    several(op, values, form)


@exports(nn.ShrinkOp)
def shrink(op: nn.ShrinkOp, values: Values) -> None:
    """Writes x − bias above the threshold, x + bias below its negative, and 0 between."""
    bias, threshold = op.bias.value.data, op.threshold.value.data

    def form(graph: Graph, x: Tensor) -> Tensor:
        above = graph.pointwise("LESS", graph.number(threshold, x), x, dtype=BOOL)
        below = graph.pointwise("LESS", x, graph.number(-threshold, x), dtype=BOOL)
        lowered = graph.pointwise("SUB", x, graph.number(bias, x))
        raised = graph.pointwise("ADD", x, graph.number(bias, x))
        high = graph.pointwise("SELECT_V2", above, lowered, graph.number(0, x))
        return graph.pointwise("SELECT_V2", below, raised, high)

    several(op, values, form)
