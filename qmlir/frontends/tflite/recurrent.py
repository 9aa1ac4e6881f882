"""Converters of float recurrent layers, unrolled: each step becomes operations (cells.py).

    x [N, T, I], or [T, N, I] if `time_major`; the result has H elements instead of I
    x [N, I], layers that compute one step per call

N is the number of sequences, T of steps, I of input elements and H of state elements. The states are variables of the
model: a call begins where the previous call ended, and with zeros after a reset, as in LiteRT.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from xdsl.ir import SSAValue

from qmlir.dialects.nn.contraction import FullyConnectedOp
from qmlir.dialects.nn.movement import ConcatOp
from qmlir.errors import UnsupportedError
from qmlir.frontends.cells import FUNCTIONS, Cell, Function, LSTMCell, Place, RNNCell, Weights
from qmlir.frontends.function import Constant, Value
from qmlir.frontends.tflite.converters import Table
from qmlir.frontends.tflite.node import TFLiteNode
from qmlir.frontends.windows import sliced

converts = Table()

MOST_STEPS = 1024

ACTIVATIONS = {1: "relu", 4: "tanh"}
"""ActivationFunctionType → the name of the function in cells.py."""


def _function(name: str) -> Function:
    return FUNCTIONS[name][0]()


def _activation(code: int) -> Function:
    if code not in ACTIVATIONS:
        raise UnsupportedError(f"its activation {code} is none that qmlir's cells have")
    return _function(ACTIVATIONS[code])


def _steps(node: TFLiteNode, x: Value, width: int, time_major: bool) -> tuple[SSAValue, int, int]:
    """Returns the input as [T, N, I], the number of steps T and the number of sequences N."""
    if node.is_quantized(x) or node.element(x) != "f32":
        raise UnsupportedError(f"it computes on {'integers' if node.is_quantized(x) else node.element(x)}")
    if node.rank(x) != 3 or node.shape(x)[2] != width:
        raise node.error(f"its input must be sequences [N, T, {width}]", str(list(node.shape(x))))
    first = node.permuted(x, (0, 1, 2) if time_major else (1, 0, 2))
    steps, batch, _ = node.shape(first)
    if not 0 < steps <= MOST_STEPS:
        raise UnsupportedError(f"it would be unrolled into {steps} steps, and qmlir unrolls 1 to {MOST_STEPS}")
    return first, steps, batch


States = Mapping[int, Value | None]
"""The state tensors of a layer in the cell's order, by the number of the input."""


def _begin(node: TFLiteNode, states: States, batch: int, hidden: int) -> list[Value]:
    """Returns the states before the first step."""
    found = list[Value]()
    for number, state in states.items():
        if state is None or node.shape(state) != (batch, hidden) or node.element(state) != "f32":
            got = "none" if state is None else f"{node.element(state)}{list(node.shape(state))}"
            raise node.error(f"its state, input {number}, must be f32[{batch}, {hidden}]", got)
        found.append(state)
    return found


def _stepped(node: TFLiteNode, x: Value, cell: Cell, width: int, states: States) -> Value:
    """Computes one step of a cell on x [N, I] and returns its output [N, H]."""
    if node.rank(x) != 2:
        raise node.error(f"its input must be [N, {width}]", str(list(node.shape(x))))
    y = _unrolled(node, node.reshaped(x, (1, *node.shape(x))), cell, width, True, states)
    return node.reshaped(y, (node.shape(x)[0], cell.hidden))


def _unrolled(node: TFLiteNode, x: Value, cell: Cell, width: int, time_major: bool, states: States) -> Value:
    """Unrolls a cell over a sequence and returns the concatenated outputs of all steps; the states move on."""
    sequence, steps, batch = _steps(node, x, width, time_major)
    place = Place(node, "step")
    rows = node.reshaped(sequence, (steps * batch, width))
    gates = place(FullyConnectedOp, [rows, *cell.inputs], "inputs")
    state = _begin(node, states, batch, cell.hidden)
    found = list[Value]()
    for t in range(steps):
        own = sliced(node, gates, [t * batch, 0], [batch, node.shape(gates)[1]])
        state = [*cell.step(place.at(t), own, state)]
        found.append(node.reshaped(state[0], (1, batch, cell.hidden)))
    for number, last in zip(states, state, strict=True):
        node.update(number, last)
    whole = node.compute(ConcatOp, [found], {"axis": 0}) if steps > 1 else node.builder.ssa(found[0])
    return node.permuted(whole, (0, 1, 2) if time_major else (1, 0, 2))


def _joined(node: TFLiteNode, what: str, parts: Sequence[Value | None], shape: tuple[int, ...]) -> Constant:
    """Concatenates the weights of several gates along the first dimension; each must be a constant of `shape`."""
    arrays = list[np.ndarray]()
    for part in parts:
        array = None if part is None else node.array(part, what)
        if array is None or array.shape != shape:
            raise node.error(f"its {what} must be of shape {list(shape)}",
                             "none" if array is None else str(list(array.shape)))  # fmt: skip
        arrays.append(array.astype(np.float32))
    return Constant(np.concatenate(arrays))


def _sizes(node: TFLiteNode, w: Value | None) -> tuple[int, int]:
    """Returns (H, I) from weights [H, I]: the elements of the state and of a step's input."""
    if w is None or node.rank(w) != 2:
        raise node.error("its weights must be [H, I]", "none" if w is None else str(list(node.shape(w))))
    return node.shape(w)[0], node.shape(w)[1]


@converts("UNIDIRECTIONAL_SEQUENCE_RNN")
def sequence_rnn(
    node: TFLiteNode, x: Value, w: Value, r: Value, b: Value, state: Value | None = None, *, time_major: bool,
    fused_activation_function: int,
) -> Value:  # fmt: skip
    """Simple recurrent layer: h' = f(W·x + R·h + b)."""
    cell, width = _rnn_cell(node, w, r, b, fused_activation_function)
    return _unrolled(node, x, cell, width, time_major, {4: state})


@converts("RNN")
def rnn(
    node: TFLiteNode, x: Value, w: Value, r: Value, b: Value, state: Value | None = None, *,
    fused_activation_function: int,
) -> Value:  # fmt: skip
    """One step of a simple recurrent layer."""
    cell, width = _rnn_cell(node, w, r, b, fused_activation_function)
    return _stepped(node, x, cell, width, {4: state})


def _rnn_cell(node: TFLiteNode, w: Value, r: Value, b: Value, activation: int) -> tuple[RNNCell, int]:
    """Returns the cell of a simple recurrent layer and the number of its input elements."""
    hidden, width = _sizes(node, w)
    inputs = (_joined(node, "weights", [w], (hidden, width)), _joined(node, "bias", [b], (hidden,)))
    recurrent = (_joined(node, "recurrent weights", [r], (hidden, hidden)), None)
    return RNNCell(hidden, inputs, [recurrent], [_activation(activation)]), width


@converts("UNIDIRECTIONAL_SEQUENCE_LSTM")
def sequence_lstm(
    node: TFLiteNode, x: Value,
    wi: Value | None = None, wf: Value | None = None, wc: Value | None = None, wo: Value | None = None,
    ri: Value | None = None, rf: Value | None = None, rc: Value | None = None, ro: Value | None = None,
    pi: Value | None = None, pf: Value | None = None, po: Value | None = None,
    bi: Value | None = None, bf: Value | None = None, bc: Value | None = None, bo: Value | None = None,
    projection: Value | None = None, projection_bias: Value | None = None,
    state: Value | None = None, cell_state: Value | None = None,
    ni: Value | None = None, nf: Value | None = None, nc: Value | None = None, no: Value | None = None, *,
    fused_activation_function: int, cell_clip: float, proj_clip: float, time_major: bool,
) -> Value:  # fmt: skip
    """LSTM with gates i, f, c, o; each has weights w and r, a bias b and optionally a peephole p."""
    parts = ((wi, wo, wf, wc), (ri, ro, rf, rc), (pi, po, pf), (bi, bo, bf, bc))
    _check_lstm(node, wi, (projection, projection_bias), (ni, nf, nc, no), cell_clip, proj_clip)
    cell, width = _lstm_cell(node, parts, fused_activation_function)
    return _unrolled(node, x, cell, width, time_major, {18: state, 19: cell_state})


@converts("LSTM")
def lstm(
    node: TFLiteNode, x: Value,
    wi: Value | None = None, wf: Value | None = None, wc: Value | None = None, wo: Value | None = None,
    ri: Value | None = None, rf: Value | None = None, rc: Value | None = None, ro: Value | None = None,
    pi: Value | None = None, pf: Value | None = None, po: Value | None = None,
    bi: Value | None = None, bf: Value | None = None, bc: Value | None = None, bo: Value | None = None,
    projection: Value | None = None, projection_bias: Value | None = None,
    state: Value | None = None, cell_state: Value | None = None,
    ni: Value | None = None, nf: Value | None = None, nc: Value | None = None, no: Value | None = None, *,
    fused_activation_function: int, cell_clip: float, proj_clip: float, kernel_type: int,
) -> Value:  # fmt: skip
    """One step of an LSTM; see `sequence_lstm`."""
    if kernel_type:
        raise UnsupportedError("it is of LiteRT's kernel for unsigned bytes, whose weights are one matrix")
    parts = ((wi, wo, wf, wc), (ri, ro, rf, rc), (pi, po, pf), (bi, bo, bf, bc))
    _check_lstm(node, wi, (projection, projection_bias), (ni, nf, nc, no), cell_clip, proj_clip)
    cell, width = _lstm_cell(node, parts, fused_activation_function)
    return _stepped(node, x, cell, width, {18: state, 19: cell_state})


def _check_lstm(
    node: TFLiteNode, wi: Value | None, projection: Sequence[Value | None], norms: Sequence[Value | None],
    cell_clip: float, proj_clip: float,
) -> None:  # fmt: skip
    """Refuses what of LiteRT's LSTM is not imported."""
    beyond = {
        "projects its state": any(p is not None for p in projection),
        "normalizes its gates": any(n is not None for n in norms),
        "has no input gate": wi is None,
        "clips its states": bool(cell_clip or proj_clip),
    }
    if found := [what for what, so in beyond.items() if so]:
        raise UnsupportedError(f"it {found[0]}")


def _lstm_cell(node: TFLiteNode, parts: Sequence[Sequence[Value | None]], code: int) -> tuple[LSTMCell, int]:
    """Returns the cell of an LSTM and the number of its input elements.

    Args:
        node: The layer.
        parts: Weights, recurrent weights and peepholes of the gates i, o, f and c, in this order, and their biases.
        code: The code of the activation.
    """
    weights, recurrent_weights, peeps, biases = parts
    hidden, width = _sizes(node, weights[2])
    inputs: Weights = (
        _joined(node, "weights", weights, (hidden, width)),
        _joined(node, "biases", biases, (hidden,)),
    )
    recurrent: Weights = _joined(node, "recurrent weights", recurrent_weights, (hidden, hidden)), None
    peepholes = [] if peeps[2] is None else [_joined(node, "peepholes", [p], (hidden,)) for p in peeps]
    functions = [_function("sigmoid"), _activation(code), _activation(code)]
    return LSTMCell(hidden, inputs, [recurrent], functions, None, peepholes), width
