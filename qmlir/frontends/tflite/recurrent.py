"""Converters of recurrent layers, unrolled: each step becomes operations (cells.py; on integers integer_lstm.py).

    x [N, T, I], or [T, N, I] if `time_major`; the result has H elements instead of I
    x [N, I], layers that compute one step per call

N is the number of sequences, T of steps, I of input elements and H of state elements. The states are variables of the
model: a call begins where the previous call ended, and with zeros after a reset, as in LiteRT.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.dialects.builtin import i8
from xdsl.ir import SSAValue

from qmlir.dialects import nn
from qmlir.dialects.nn.movement import ConcatOp
from qmlir.errors import UnsupportedError
from qmlir.frontends.builder import Node
from qmlir.frontends.cells import (
    FUNCTIONS,
    Cell,
    Function,
    LSTMCell,
    Place,
    Product,
    RNNCell,
    Weights,
    fully_connected,
)
from qmlir.frontends.converters import Table
from qmlir.frontends.function import Constant, Dequantized, Value
from qmlir.frontends.tflite.integer_lstm import CELL_STATE, LSTM, OUTPUT_STATE, Gate, integer_lstm
from qmlir.frontends.tflite.node import TFLiteNode
from qmlir.frontends.windows import sliced

converts = Table()

# ---------------------------------------------------------------------------------------------------------------
# Products of float rows and weights stored as int8, as LiteRT computes them in its recurrent layers.
#
# Each row x of the data is quantized by its own range at each step, and the sums of integers are scaled back:
#
#     symmetric   s = max|x| / 127,  q = rint(x / s)
#     asymmetric  s = (max − min) / 255 with 0 in the range,  z = rint(−128 − min / s) or rint(127 − max / s), by which
#                 of the two has the smaller terms,  q = clamp(rint(x · (1 / s)) + z, −128, 127) − z
#
#     y = b + (Σ q · w) · (s · s_w)
#
# The integers are computed as floats, which hold them exactly: sums up to 2²⁴, those of 518 elements and more.


LEAST = 1e-30
"""The smallest range by which a row is divided; the products of rows of zeros are 0 under any scale."""


class Stored(Constant):
    """Weights as the integers that a file stores, in float32, and the scale of each output."""

    def __init__(self, integers: np.ndarray, scales: np.ndarray, name: str = ""):
        super().__init__(integers, name)
        self.scales = scales


def is_hybrid(node: TFLiteNode, x: Value, weights: Sequence[Value | None]) -> bool:
    """Whether a layer computes on floats with weights stored as integers.

    Raises:
        UnsupportedError: Some of the weights are floats, or are stored in a way that LiteRT does not compute with.
    """
    given = [w for w in weights if w is not None]
    types = [node.type_of(w) for w in given]
    if node.is_quantized(x) or not any(types):
        return False
    if not all(isinstance(w, Dequantized) for w in given):
        raise UnsupportedError("only some of its weights are integers beside float data, or they are no constants")
    if wrong := [t for t in types if t is None or t.storage != i8 or any(t.zero_points) or t.axis is not None]:
        raise UnsupportedError(f"its weights are stored as {wrong[0]} beside float data, not as int8 with one scale")
    return True


def stored(node: TFLiteNode, what: str, parts: Sequence[Value | None], shape: tuple[int, ...]) -> Stored:
    """Concatenates the stored integers of several gates; each must be a constant of `shape`."""
    arrays, scales = list[np.ndarray](), list[float]()
    for part in parts:
        if not isinstance(part, Dequantized) or part.shape != shape:
            raise node.error(f"its {what} must be of shape {list(shape)}",
                             "none" if part is None else str(list(node.shape(part))))  # fmt: skip
        arrays.append(part.stored.astype(np.float32))
        scales += [part.type.scale] * shape[0]
    return Stored(np.concatenate(arrays), np.array(scales, np.float32))


def product(*, asymmetric: bool) -> Product:
    """Returns the product of rows and stored weights, plus a bias, for cells (`Cell.product`)."""

    def compute(at: Place, rows: Value, weights: Weights, what: str) -> SSAValue:
        matrix, bias = weights
        assert isinstance(matrix, Stored)
        integers, scale = (_asymmetric if asymmetric else _symmetric)(at.node, rows)
        sums = at.node.insert(nn.FullyConnectedOp, [integers, matrix, None])
        scales = at.node.insert(nn.MulOp, [scale, Constant(matrix.scales.reshape(1, prod(matrix.scales.shape)))])
        if bias is None:
            return at(nn.MulOp, [sums, scales], what)
        return at(nn.AddOp, [at.node.insert(nn.MulOp, [sums, scales]), bias], what)

    return compute


def _number(value: float) -> Constant:
    return Constant(np.array(value, np.float32))


def _extreme(node: Node, op_type: type[nn.ReduceMaxOp | nn.ReduceMinOp], x: Value) -> SSAValue:
    return node.insert(op_type, [x], {"axes": [1]})


def _symmetric(node: Node, x: Value) -> tuple[SSAValue, SSAValue]:
    """Returns each row's integers, and its scale [N, 1]."""
    most = node.insert(nn.MaximumOp, [_extreme(node, nn.ReduceMaxOp, node.insert(nn.AbsOp, [x])), _number(LEAST)])
    factor = node.insert(nn.DivOp, [_number(127), most])
    return (
        node.insert(nn.RoundOp, [node.insert(nn.MulOp, [x, factor])]),
        node.insert(nn.DivOp, [most, _number(127)]),
    )


def _asymmetric(node: Node, x: Value) -> tuple[SSAValue, SSAValue]:
    """Returns each row's integers without its zero point, and its scale [N, 1]."""
    low = node.insert(nn.MinimumOp, [_extreme(node, nn.ReduceMinOp, x), _number(0)])
    high = node.insert(nn.MaximumOp, [_extreme(node, nn.ReduceMaxOp, x), _number(0)])
    range = node.insert(nn.MaximumOp, [node.insert(nn.SubOp, [high, low]), _number(LEAST)])
    scale = node.insert(nn.DivOp, [range, _number(255)])
    lows, highs = (node.insert(nn.DivOp, [end, scale]) for end in (low, high))
    from_low = node.insert(nn.SubOp, [_number(-128), lows])
    from_high = node.insert(nn.SubOp, [_number(127), highs])
    smaller = node.insert(nn.LessOp, [
        node.insert(nn.AddOp, [node.insert(nn.AbsOp, [lows]), _number(128)]),
        node.insert(nn.AddOp, [node.insert(nn.AbsOp, [highs]), _number(127)]),
    ])  # fmt: skip
    nearest = node.insert(nn.RoundOp, [node.insert(nn.WhereOp, [smaller, from_low, from_high])])
    zero = node.insert(nn.ClampOp, [nearest], {"min": -128.0, "max": 127.0})
    steps = node.insert(nn.RoundOp, [node.insert(nn.MulOp, [x, node.insert(nn.DivOp, [_number(1), scale])])])
    integers = node.insert(nn.ClampOp, [node.insert(nn.AddOp, [steps, zero])], {"min": -128.0, "max": 127.0})
    return node.insert(nn.SubOp, [integers, zero]), scale


# ---------------------------------------------------------------------------------------------------------------
# Layers


MOST_STEPS = 1024

ACTIVATIONS = {1: "relu", 4: "tanh"}
"""ActivationFunctionType → the name of the function in cells.py."""


def _function(name: str) -> Function:
    return FUNCTIONS[name][0]()


def _activation(code: int) -> Function:
    if code not in ACTIVATIONS:
        raise UnsupportedError(f"its activation {code} is none that qmlir's cells have")
    return _function(ACTIVATIONS[code])


def _steps(node: TFLiteNode, x: Value, time_major: bool | None) -> tuple[Value, int, int]:
    """Returns the input as rows [T · N, I], step by step, the number of steps T and the number of sequences N.

    `time_major` is None for a layer that computes one step per call.
    """
    rank = 2 if time_major is None else 3
    if node.rank(x) != rank:
        raise node.error(f"its input must have {rank} dimensions", node.shape(x))
    if time_major is None:
        return x, 1, node.shape(x)[0]
    first = node.permuted(node.movable(x), (0, 1, 2) if time_major else (1, 0, 2))
    steps, batch, width = node.shape(first)
    if not 0 < steps <= MOST_STEPS:
        raise UnsupportedError(f"it would be unrolled into {steps} steps, and qmlir unrolls 1 to {MOST_STEPS}")
    return node.reshaped(first, (steps * batch, width)), steps, batch


def _sequence(node: TFLiteNode, found: Sequence[Value], time_major: bool | None, direction: str = "") -> Value:
    """Returns the outputs [N, H] of all steps as the layer's output, or as that of one direction."""
    if time_major is None:
        return found[0]
    rows = [node.reshaped(y, (1, *node.shape(y))) for y in found]
    whole = node.builder.ssa(rows[0])
    if len(rows) > 1:
        whole = node.compute(ConcatOp, [rows], {"axis": 0}, part=direction or None)
    return node.permuted(whole, (0, 1, 2) if time_major else (1, 0, 2))


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


def _unrolled(
    node: TFLiteNode, x: Value, cell: Cell, width: int, time_major: bool | None, states: States, direction: str = ""
) -> Value:
    """Unrolls a cell of floats over a sequence and returns the outputs of all steps; the states move on.

    `direction` is empty, or `forward` or `backward` for one of a layer's two directions.
    """
    if node.element(x) != "f32":
        raise UnsupportedError(f"it computes on {node.element(x)}")
    rows, steps, batch = _steps(node, x, time_major)
    if node.shape(rows)[1] != width:
        raise node.error(f"its input must have {width} elements", str(node.shape(rows)[1]))
    place = Place(node, f"{direction}.step" if direction else "step")
    gates = cell.product(place, rows, cell.inputs, "inputs")
    state = _begin(node, states, batch, cell.hidden)
    found = dict[int, Value]()
    for t in range(steps)[::-1] if direction == BACKWARD else range(steps):
        own = sliced(node, gates, [t * batch, 0], [batch, node.shape(gates)[1]])
        state = [*cell.step(place.at(t), own, state)]
        found[t] = state[0]
    for number, last in zip(states, state, strict=True):
        node.update(number, last)
    return _sequence(node, [found[t] for t in range(steps)], time_major, direction)


FORWARD, BACKWARD = "forward", "backward"


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


@converts("RNN")
@converts("UNIDIRECTIONAL_SEQUENCE_RNN")
def rnn(
    node: TFLiteNode, x: Value, w: Value, r: Value, b: Value, state: Value | None = None, *,
    fused_activation_function: int, asymmetric_quantize_inputs: bool, time_major: bool | None = None,
) -> Value:  # fmt: skip
    """Simple recurrent layer: h' = f(W·x + R·h + b)."""
    products = _Products.of(node, x, [w, r], asymmetric=asymmetric_quantize_inputs)
    cell, width = _rnn_cell(node, (w, r, b), fused_activation_function, products)
    return _unrolled(node, x, cell, width, time_major, {4: state})


def _rnn_cell(
    node: TFLiteNode, parts: Sequence[Value | None], activation: int, products: "_Products"
) -> tuple[RNNCell, int]:
    """Returns the cell of a simple recurrent layer of weights, recurrent weights and a bias, and its input elements."""
    w, r, b = parts
    hidden, width = _sizes(node, w)
    inputs = (products.joined(node, "weights", [w], (hidden, width)), _joined(node, "bias", [b], (hidden,)))
    recurrent = (products.joined(node, "recurrent weights", [r], (hidden, hidden)), None)
    return RNNCell(hidden, inputs, [recurrent], [_activation(activation)], product=products.product), width


@dataclass(frozen=True)
class _Products:
    """How a layer on floats multiplies by its weights.

    joined   concatenates the weights of several gates: (node, what, parts, shape of each)
    product  multiplies rows by such weights
    """

    joined: Callable[[TFLiteNode, str, Sequence[Value | None], tuple[int, ...]], Constant]
    product: Product

    @staticmethod
    def of(node: TFLiteNode, x: Value, weights: Sequence[Value | None], *, asymmetric: bool) -> "_Products":
        """Returns the products of a layer with these weights.

        Raises:
            UnsupportedError: The data are integers, or only some of the weights are.
        """
        if node.is_quantized(x):
            raise UnsupportedError("LiteRT computes it on floats only")
        if is_hybrid(node, x, weights):
            return _Products(stored, product(asymmetric=asymmetric))
        return _Products(_joined, fully_connected)


@converts("LSTM")
@converts("UNIDIRECTIONAL_SEQUENCE_LSTM")
def lstm(
    node: TFLiteNode, x: Value,
    wi: Value | None = None, wf: Value | None = None, wc: Value | None = None, wo: Value | None = None,
    ri: Value | None = None, rf: Value | None = None, rc: Value | None = None, ro: Value | None = None,
    pi: Value | None = None, pf: Value | None = None, po: Value | None = None,
    bi: Value | None = None, bf: Value | None = None, bc: Value | None = None, bo: Value | None = None,
    projection: Value | None = None, projection_bias: Value | None = None,
    state: Value | None = None, cell_state: Value | None = None,
    ni: Value | None = None, nf: Value | None = None, nc: Value | None = None, no: Value | None = None, *,
    fused_activation_function: int, cell_clip: float, proj_clip: float, asymmetric_quantize_inputs: bool,
    time_major: bool | None = None, kernel_type: int = 0,
) -> Value:  # fmt: skip
    """LSTM with gates i, f, c, o; each has weights w and r, a bias b, and optionally a peephole p and norms n."""
    if kernel_type:
        raise UnsupportedError("it is of LiteRT's kernel for unsigned bytes, whose weights are one matrix")
    gates = {
        "i": Gate(wi, ri, pi, bi, ni), "f": Gate(wf, rf, pf, bf, nf), "c": Gate(wc, rc, None, bc, nc),
        "o": Gate(wo, ro, po, bo, no),
    }  # fmt: skip
    clips = cell_clip, proj_clip
    layer = LSTM(gates, (projection, projection_bias), (state, cell_state), clips, fused_activation_function)
    if node.is_quantized(x):
        return _integers(node, x, layer, time_major)
    cell, width = _lstm_cell(node, x, layer, asymmetric=asymmetric_quantize_inputs)
    return _unrolled(node, x, cell, width, time_major, {OUTPUT_STATE: state, CELL_STATE: cell_state})


def _integers(node: TFLiteNode, x: Value, layer: LSTM, time_major: bool | None) -> Value:
    """Unrolls an LSTM on integers."""
    rows, steps, batch = _steps(node, x, time_major)
    found, last = integer_lstm(node, rows, layer, steps, batch, time_major=time_major is not False)
    node.update(OUTPUT_STATE, found[-1])
    node.update(CELL_STATE, last)
    return node.retyped(node.builder.ssa(_sequence(node, found, time_major)), node.output_type())


def _lstm_cell(node: TFLiteNode, x: Value, layer: LSTM, *, asymmetric: bool) -> tuple[LSTMCell, int]:
    """Returns the cell of an LSTM on floats and the number of its input elements."""
    gates = [layer.gates[name] for name in "iofc"]
    beyond = {
        "projects its state": any(p is not None for p in layer.projection),
        "normalizes its gates": any(gate.n is not None for gate in gates),
        "has no input gate": gates[0].w is None,
        "clips its states": any(layer.clips),
    }
    if found := [what for what, so in beyond.items() if so]:
        raise UnsupportedError(f"it {found[0]}, which qmlir takes on integers only")
    hidden, width = _sizes(node, gates[2].w)
    products = _Products.of(node, x, [part for gate in gates for part in (gate.w, gate.r)], asymmetric=asymmetric)
    inputs: Weights = (
        products.joined(node, "weights", [gate.w for gate in gates], (hidden, width)),
        _joined(node, "biases", [gate.b for gate in gates], (hidden,)),
    )
    recurrent: Weights = products.joined(node, "recurrent weights", [gate.r for gate in gates], (hidden, hidden)), None
    seen = [] if gates[2].p is None else [_joined(node, "peepholes", [gate.p], (hidden,)) for gate in gates[:3]]
    functions = [_function("sigmoid"), _activation(layer.activation), _activation(layer.activation)]
    return LSTMCell(hidden, inputs, [recurrent], functions, None, seen, product=products.product), width


# ---------------------------------------------------------------------------------------------------------------
# Layers of two directions: the second reads the sequence from its end. Both are computed as layers of one direction.


def _both(node: TFLiteNode, found: Sequence[Value], *, merge: bool) -> Value | tuple[Value, ...]:
    """Returns the outputs of both directions, or one output that joins them."""
    return node.compute(ConcatOp, [found], {"axis": 2}) if merge else tuple(found)


@converts("BIDIRECTIONAL_SEQUENCE_RNN")
def bidirectional_rnn(
    node: TFLiteNode, x: Value, *inputs: Value | None, fused_activation_function: int, time_major: bool,
    merge_outputs: bool, asymmetric_quantize_inputs: bool,
) -> Value | tuple[Value, ...]:  # fmt: skip
    """Two simple recurrent layers, each with weights, recurrent weights, a bias and a state."""
    own = [*inputs, *[None] * (11 - len(inputs))]
    _refuse_linked(own[8:])
    found = list[Value]()
    for direction, first in ((FORWARD, 0), (BACKWARD, 4)):
        *parts, state = own[first : first + 4]
        products = _Products.of(node, x, parts[:2], asymmetric=asymmetric_quantize_inputs)
        cell, width = _rnn_cell(node, parts, fused_activation_function, products)
        found.append(_unrolled(node, x, cell, width, time_major, {first + 4: state}, direction))
    return _both(node, found, merge=merge_outputs)


@converts("BIDIRECTIONAL_SEQUENCE_LSTM")
def bidirectional_lstm(
    node: TFLiteNode, x: Value, *inputs: Value | None, fused_activation_function: int, cell_clip: float,
    proj_clip: float, time_major: bool, merge_outputs: bool, asymmetric_quantize_inputs: bool,
) -> Value | tuple[Value, ...]:  # fmt: skip
    """Two LSTMs; the inputs are the tensors of each, then the states of each."""
    own = [*inputs, *[None] * (47 - len(inputs))]
    _refuse_linked(own[38:])
    found = list[Value]()
    for direction, first, states in ((FORWARD, 0, 34), (BACKWARD, 17, 36)):
        w, r, (pi, pf, po), b = own[first:][:4], own[first + 4 :][:4], own[first + 8 :][:3], own[first + 11 :][:4]
        peepholes = {"i": pi, "f": pf, "c": None, "o": po}
        gates = {name: Gate(w[i], r[i], peepholes[name], b[i], None) for i, name in enumerate("ifco")}
        held = own[states], own[states + 1]
        projection = own[first + 15], own[first + 16]
        layer = LSTM(gates, projection, held, (cell_clip, proj_clip), fused_activation_function)
        cell, width = _lstm_cell(node, x, layer, asymmetric=asymmetric_quantize_inputs)
        numbers = dict(zip((states + 1, states + 2), held, strict=True))
        found.append(_unrolled(node, x, cell, width, time_major, numbers, direction))
    return _both(node, found, merge=merge_outputs)


def _refuse_linked(auxiliary: Sequence[Value | None]) -> None:
    """Refuses a layer with a second input, which stacked layers of two directions hand to each other."""
    if any(x is not None for x in auxiliary):
        raise UnsupportedError("it has an auxiliary input")
