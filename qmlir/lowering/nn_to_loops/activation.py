"""Float activations."""

from xdsl.dialects.builtin import f32, f64

from qmlir.dialects.nn.activation import ClampOp, ReluOp, RequantizeOp, SigmoidOp, TanhOp, UnaryOp
from qmlir.lowering.kernel import MainLowering, Rule, Rules
from qmlir.lowering.kernels.elementwise import Formula, lower_elementwise
from qmlir.lowering.nn_to_loops import exponential
from qmlir.lowering.nn_to_loops.contraction import clamp_of
from qmlir.lowering.value import Value

F64_WIDTHS = (8,)
"""Lanes where a formula computes in f64: 16 would leave no registers for its intermediate values."""


def relu(x: Value) -> Value:
    """max(x, 0)."""
    return x.maximum(0.0)


def sigmoid(x: Value) -> Value:
    """In f64, rounded once."""
    return exponential.sigmoid(x.to(f64)).to(f32)


def tanh(x: Value) -> Value:
    """In f64, rounded once."""
    return exponential.tanh(x.to(f64)).to(f32)


def _unary(name: str, formula: Formula, widths: tuple[int, ...]) -> Rule:
    def lower(state: MainLowering, op: UnaryOp) -> None:
        lower_elementwise(state, name, formula, [state.buffer(op.x)], op.y, widths)

    return lower


def _clamp(state: MainLowering, op: ClampOp) -> None:
    lower_elementwise(state, "nn_clamp", clamp_of(op.bounds()), [state.buffer(op.x)], op.y)


def _same(state: MainLowering, op: RequantizeOp) -> None:
    state.replace(op.y, state.buffer(op.x))


RULES: Rules = {
    ReluOp: _unary("nn_relu", relu, (16, 8)),
    ClampOp: _clamp,
    SigmoidOp: _unary("nn_sigmoid", sigmoid, F64_WIDTHS),
    TanhOp: _unary("nn_tanh", tanh, F64_WIDTHS),
    RequantizeOp: _same,
}
