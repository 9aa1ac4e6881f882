"""An LSTM on integers, as LiteRT keeps it: data and output state of int8, cell state and gates of int16.

    x [N, I] int8, output state h [N, O] int8, cell state c [N, C] int16 with a scale that is a power of two
    W [C, I] and R [C, O] int8, b [C] int32, and the peepholes P [C] int16, for each of the gates i, f, g and o

    gate = sat16(sat16(S(W·x + b)) + S(R·h)), with peepholes sat16(gate + S(P·c)), in steps of 2^−12
    i, f, o = sigmoid(gate) and g = tanh(gate), in steps of 2^−15
    c' = sat16(f·c + i·g), clipped;  i = 1 − f if the gates are coupled
    h' = o · tanh(c');  if it is projected, h' = Q·(o · tanh(c')) + q, clipped, with Q [O, C] int8 and q [O] int32

A gate that is normalized has a scale of its own before that, and b is added behind: gate = norm(…) · n + b, with n [C]
int16, computed on plain integers.

S brings sums to the gate's scale. It rounds twice, and only the sum of both terms saturates at 16 bits: S(R·h) has 32.
A product rounds once, half away from zero, but o · tanh(c') twice. The mark `qmlir.kernel` says so
(policies/runtimes.py), and sigmoid and tanh are gemmlowp's of 16 bits (numerics/elementary/gemmlowp.py).

LiteRT's three ways share this arithmetic. With data of int16, for which only LiteRT for Microcontrollers has a kernel,
biases are int64, S(R·h) has 16 bits, products round twice, and sigmoid and tanh are those of other layers of int16.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from xdsl.dialects.builtin import IntegerType, i8, i16, i32, i64
from xdsl.ir import OpResult, SSAValue

from qmlir.dialects.nn.contraction import FullyConnectedOp
from qmlir.dialects.nn.elementwise import AddOp, DivOp, LessOp, MulOp, SubOp, WhereOp
from qmlir.dialects.nn.functions import RequantizeOp, SigmoidOp, TanhOp
from qmlir.dialects.nn.normalization import RootQuotientOp
from qmlir.dialects.nn.reduction import ReduceSumOp
from qmlir.dialects.quant.ops import StorageCastOp
from qmlir.dialects.quant.types import UniformType
from qmlir.errors import UnsupportedError
from qmlir.frontends.builder import Properties
from qmlir.frontends.function import Constant, Dequantized, Value
from qmlir.frontends.tflite.node import TFLiteNode
from qmlir.frontends.windows import sliced
from qmlir.ir.facts import KERNEL
from qmlir.ir.interfaces import Shape, TensorOp

TANH = 4
"""The code of the activation that LiteRT computes on integers, whatever the file says."""

GATE = UniformType.per_tensor(i16, 2.0**-12, 0)
"""The type of a gate before its function."""

FRACTION = UniformType.per_tensor(i16, 2.0**-15, 0)
"""The type of what sigmoid and tanh return."""

ONE = Dequantized(np.full((1, 1), (1 << 15) - 1, np.int16), FRACTION)
"""What LiteRT takes for 1, from which a coupled gate is subtracted."""

CELL_EXPONENTS = range(-15, -8)
"""The exponents k of a cell state's scale 2^k for which LiteRT has a tanh."""

HIDDEN = 4
"""The number of the intermediate tensor that is o · tanh(c')."""

INTERMEDIATES = 5
"""The number of intermediate tensors of LiteRT's kernel with gates of 16 bits; its kernel with 8 bits has 12."""

OUTPUT_STATE, CELL_STATE = 18, 19
"""The numbers of the inputs that are states."""


@dataclass(frozen=True)
class Gate:
    """The tensors of a gate; None for one that is left out.

    w, r  weights [C, I] and recurrent weights [C, O]
    p     the peephole [C]
    b     the bias [C]
    n     the coefficients of a layer normalization [C]
    """

    w: Value | None
    r: Value | None
    p: Value | None
    b: Value | None
    n: Value | None

    @property
    def is_absent(self) -> bool:
        """Whether the gate is left out altogether, as the input gate of an LSTM with coupled gates."""
        return all(value is None for value in (self.w, self.r, self.p, self.b, self.n))


@dataclass(frozen=True)
class LSTM:
    """What LiteRT's LSTM reads beside its data.

    gates       by their letters: i, f, c and o
    projection  the projection's weights [O, C] and its bias [O]
    states      the output state [N, O] and the cell state [N, C]
    clips       the bounds of the cell state and of the projection; 0 for none
    activation  the code of the activation of cell and output
    """

    gates: Mapping[str, Gate]
    projection: tuple[Value | None, Value | None]
    states: tuple[Value | None, Value | None]
    clips: tuple[float, float]
    activation: int


@dataclass(frozen=True)
class _Cell:
    """The cell of an integer LSTM, whose operands are checked.

    node        the layer
    path        the step, after which operations are named
    gates       the gates that are there
    types       the types of the gates before their function, or before their normalization
    peepholes   the weights with which each element of the cell state is seen; empty without peepholes
    projection  weights and bias of the projection; None without one
    hidden      the type of o · tanh(c')
    output      the type of the output state
    cell        the type of the cell state
    clips       the stored bounds of cell and output; 0 for none
    words       whether the data are int16
    """

    node: TFLiteNode
    path: str
    gates: Mapping[str, Gate]
    types: Mapping[str, UniformType]
    peepholes: Mapping[str, Value]
    projection: tuple[Value, Value | None] | None
    hidden: UniformType
    output: UniformType
    cell: UniformType
    clips: tuple[int, int]
    words: bool

    def add(
        self, op_type: type[TensorOp], operands: Sequence[Value | None], what: str, type: UniformType,
        properties: Properties | None = None, *, kernel: str = "LSTM",
    ) -> SSAValue:  # fmt: skip
        """Adds an operation of LiteRT's kernel, whose result has a quantized type."""
        kernel = "LSTM of words" if self.words else kernel
        stored = [None if value is None else self.node.quantized(value) for value in operands]
        result = self.node.compute(op_type, stored, properties, part=f"{self.path}.{what}", element=type)
        assert isinstance(result, OpResult)
        KERNEL.put(result.op, kernel)
        return result

    def step(self, inputs: Mapping[str, SSAValue], h: SSAValue, c: SSAValue) -> tuple[SSAValue, SSAValue]:
        """Returns the states behind a step; `inputs` are W·x + b of each gate [N, C]."""
        f = self.add(SigmoidOp, [self._gate("f", inputs["f"], h, c)], "forget", FRACTION)
        g = self.add(TanhOp, [self._gate("c", inputs["c"], h, c)], "candidate", FRACTION)
        if "i" in self.gates:
            i = self.add(SigmoidOp, [self._gate("i", inputs["i"], h, c)], "input", FRACTION)
        else:
            i = self.add(SubOp, [ONE, f], "input", FRACTION)
        kept, taken = self.add(MulOp, [f, c], "kept", self.cell), self.add(MulOp, [i, g], "taken", self.cell)
        new = self.add(AddOp, [kept, taken], "cell", self.cell, _bounds(self.clips[0], self.cell))
        o = self.add(SigmoidOp, [self._gate("o", inputs["o"], h, new)], "output", FRACTION)
        shown = self.add(TanhOp, [new], "shown", FRACTION)
        hidden = self.add(MulOp, [o, shown], "hidden", self.hidden, kernel="LSTM hidden")
        if self.projection is None:
            return hidden, new
        bounds = _bounds(self.clips[1], self.output)
        return self.add(FullyConnectedOp, [hidden, *self.projection], "projected", self.output, bounds), new

    def _gate(self, name: str, own: SSAValue, h: SSAValue, c: SSAValue) -> SSAValue:
        """Adds to W·x + b what a gate recalls of the states, and normalizes it."""
        gate, type = self.gates[name], self.types[name]
        own = self._added(own, type, FullyConnectedOp, [h, gate.r], f"{name}.recurrent")
        if name in self.peepholes:
            own = self._added(own, type, MulOp, [c, self.peepholes[name]], f"{name}.seen")
        return own if gate.n is None else self._normalized(own, gate, name)

    def _added(
        self, own: SSAValue, type: UniformType, op_type: type[TensorOp], operands: Sequence[Value | None], what: str
    ) -> SSAValue:
        """Adds sums of products to a gate of a type; they have 32 bits until the gate saturates."""
        scales = [t.scale for v in operands if v is not None and (t := self.node.type_of(v)) is not None]
        factors = [*operands, None] if op_type is FullyConnectedOp else operands
        if self.words:
            return self.add(AddOp, [own, self.add(op_type, factors, what, type)], f"{what}.added", type)
        sums = self.add(op_type, factors, f"{what}.sums", _wide(math.prod(scales)))
        scaled = self.add(RequantizeOp, [sums], what, _wide(type.scale))
        return self.add(AddOp, [own, scaled], f"{what}.added", type)

    def _normalized(self, own: SSAValue, gate: Gate, name: str) -> SSAValue:
        """Normalizes a gate [N, C] over its elements, scales it by n and adds b.

        The mean has steps of 2^−10, cut off towards 0, and so has the gate less its mean, divided by the root of the
        variance. The variance is a whole number, 2^−20 · (v · Σ x²) − mean² with v = 2^20 / C cut off, in steps of the
        gate before it is normalized; instead of 0 or less it is a bound that depends on the scale of n.
        """
        insert, n, bias = self.node.insert, cast("Dequantized", gate.n), cast("Constant", gate.b)
        cells, guard = n.shape[0], max(1, int(np.float32(10000) * np.float32(n.type.scale)))

        def number(value: int, dtype: type[np.int32 | np.int64] = np.int64) -> Constant:
            return Constant(np.array(value, dtype))

        def total(x: SSAValue) -> SSAValue:
            return insert(ReduceSumOp, [x], {"axes": [1]})

        x = self.node.stored(own)
        wide, words = self.node.converted(x, i64), self.node.converted(x, i32)
        mean = insert(DivOp, [insert(MulOp, [total(wide), number(1024)]), number(cells)])
        squares = insert(MulOp, [total(insert(MulOp, [wide, wide])), number((1 << 20) // cells)])
        variance = insert(DivOp, [insert(SubOp, [squares, insert(MulOp, [mean, mean])]), number(1 << 20)])
        variance = self.node.converted(variance, i32)
        small = insert(LessOp, [variance, number(1, np.int32)])
        variance = insert(WhereOp, [small, number(guard, np.int32), variance])
        less_mean = insert(SubOp, [insert(MulOp, [words, number(1024, np.int32)]), self.node.converted(mean, i32)])
        whole = insert(RootQuotientOp, [less_mean, variance])
        scaled = insert(MulOp, [whole, Constant(n.stored.astype(np.int32))])
        biased = insert(AddOp, [scaled, _integers(self.node, bias, (cells,), words=False)])
        fine = self.node.cast(StorageCastOp, biased, _wide(n.type.scale / 1024))
        coarse = self.add(RequantizeOp, [fine], f"{name}.norm.steps", _wide(n.type.scale), kernel="LSTM norm")
        return self.add(RequantizeOp, [coarse], f"{name}.norm", GATE)


def integer_lstm(
    node: TFLiteNode, x: Value, layer: LSTM, steps: int, batch: int, *, time_major: bool
) -> tuple[list[SSAValue], SSAValue]:
    """Unrolls an LSTM over the steps of a sequence.

    Args:
        node: The layer.
        x: The data of all steps [steps · batch, I], step by step.
        layer: The layer's weights and states.
        steps: The number of steps.
        batch: The number of sequences.
        time_major: Whether the sequences lie step by step in the file, which decides what peepholes see (`_seen`).

    Returns:
        The output state behind each step, and the last cell state.

    Raises:
        UnsupportedError: LiteRT has no such LSTM on integers, or qmlir does not follow it.
        NodeError: The operands' shapes do not fit each other.
    """
    _check_kernel(node, x, layer)
    words = _is_stored(node, x, i16)
    cell = _cell(node, layer, batch, time_major=time_major, words=words)
    cells, width = _sizes(node, layer.gates["o"].w)
    if node.shape(x)[1] != width:
        raise node.error(f"its input must have {width} elements", str(node.shape(x)[1]))
    inputs = {
        name: cell.add(FullyConnectedOp, [x, gate.w, bias], name, cell.types[name])
        for name, gate in cell.gates.items()
        for bias in [_integers(node, gate.b, (cells,), words=words) if gate.n is None else None]
    }
    h, c = (node.quantized(state) for state in layer.states if state is not None)
    found = list[SSAValue]()
    for t in range(steps):
        own = {name: sliced(node, value, [t * batch, 0], [batch, cells]) for name, value in inputs.items()}
        h, c = replace(cell, path=f"step.{t}").step(own, h, c)
        found.append(h)
    return found, c


def _wide(scale: float) -> UniformType:
    """Returns the type of sums that do not saturate.

    Raises:
        UnsupportedError: The scale is not one that float32 holds.
    """
    if not np.finfo(np.float32).tiny <= scale <= np.finfo(np.float32).max:
        raise UnsupportedError(f"its sums of products have the scale {scale:g}, which float32 does not hold")
    return UniformType.per_tensor(i32, scale, 0)


def _bounds(clip: int, type: UniformType) -> Properties:
    """Returns the bounds of a clamp of stored integers to [−clip, clip], as real numbers; none for 0."""
    if not clip:
        return {}
    low, high = ((q - type.zero_point) * type.scale for q in (-clip, clip))
    return {"min": low, "max": high}


# ---------------------------------------------------------------------------------------------------------------
# Checks that LiteRT's kernel takes a layer


def _check_kernel(node: TFLiteNode, x: Value, layer: LSTM) -> None:
    """Refuses a layer for which LiteRT has no kernel on integers, or one that qmlir does not follow."""
    words, bytes = (_is_stored(node, x, storage) for storage in (i16, i8))
    type = node.type_of(x)
    if not (words or bytes) or type is None or (words and (node.kind == "LSTM" or type.zero_point)):
        raise UnsupportedError(
            "LiteRT computes it on floats or on data stored as int8 with one scale only, a layer on sequences also on "
            "int16 without a zero point"
        )
    if bytes and len(node.inner) != INTERMEDIATES:
        raise UnsupportedError(
            f"it has {len(node.inner)} intermediate tensors, and LiteRT's kernel with gates of 16 bits has "
            f"{INTERMEDIATES}"
        )
    if layer.activation != TANH:
        raise UnsupportedError("LiteRT computes it on integers with the activation TANH only")
    extra = [layer.projection[0], *(value for gate in layer.gates.values() for value in (gate.p, gate.n))]
    if words and (layer.gates["i"].is_absent or any(value is not None for value in extra)):
        raise UnsupportedError(
            "LiteRT computes it on int16 without peepholes, normalizations, projections and coupled gates only"
        )


def _cell(node: TFLiteNode, layer: LSTM, batch: int, *, time_major: bool, words: bool) -> _Cell:
    """Returns the cell of a layer whose operands fit LiteRT's kernel."""
    gates = {name: gate for name, gate in layer.gates.items() if name != "i" or not gate.is_absent}
    (cells, width), (_, outputs) = _sizes(node, gates["o"].w), _sizes(node, gates["o"].r)
    peepholes, types = dict[str, Value](), dict[str, UniformType]()
    for name, gate in gates.items():
        _check(node, gate.w, "weights", i8, (cells, width))
        _check(node, gate.r, "recurrent weights", i8, (cells, outputs))
        if name != "c" and any(other.p is not None for other in gates.values()):
            peepholes[name] = _seen(_check(node, gate.p, "peepholes", i16, (cells,)), batch, outputs, time_major)
        types[name] = GATE
        if any(other.n is not None for other in gates.values()):
            _check(node, gate.n, "normalization", i16, (cells,))
            types[name] = UniformType.per_tensor(i16, _inner(node, "ifco".index(name)).scale, 0)
    output = _state(node, layer.states[0], OUTPUT_STATE, i16 if words else i8, (batch, outputs))
    cell = _state(node, layer.states[1], CELL_STATE, i16, (batch, cells))
    fraction, exponent = math.frexp(cell.scale)
    if cell.zero_point or fraction != 0.5 or exponent - 1 not in CELL_EXPONENTS:
        raise UnsupportedError(
            f"its cell state has the scale {cell.scale:g} and the zero point {cell.zero_point}, and LiteRT computes "
            f"with 2^{CELL_EXPONENTS[0]} to 2^{CELL_EXPONENTS[-1]}, and 0"
        )
    if words and output.zero_point:
        raise UnsupportedError("its output state of int16 has a zero point")
    weights, bias = layer.projection
    hidden, projection = output if words else _hidden(node, output, projected=weights is not None), None
    if weights is not None:
        _check(node, weights, "projection", i8, (outputs, cells))
        projection = weights, None if bias is None else _integers(node, bias, (outputs,), words=words)
    elif cells != outputs:
        raise node.error(f"its output state must have {cells} elements", str(outputs))
    precision = np.float64 if words else np.float32
    clips = _clip(layer.clips[0], cell, precision), 0
    if projection is not None:
        clips = clips[0], _clip(layer.clips[1], output, precision)
    return _Cell(node, "step", gates, types, peepholes, projection, hidden, output, cell, clips, words)


def _hidden(node: TFLiteNode, output: UniformType, *, projected: bool) -> UniformType:
    """Returns the type of o · tanh(c'), of which the file states an intermediate tensor.

    LiteRT stores what it projects less the zero point that the file states, not more.
    """
    found = _inner(node, HIDDEN)
    if projected and found.zero_point == -128:
        raise UnsupportedError("it projects integers with the zero point −128, of which LiteRT stores the negative")
    if not projected and (found.scale, found.zero_point) != (output.scale, output.zero_point):
        raise UnsupportedError(
            f"its output has the scale {found.scale:g} and the zero point {found.zero_point} as an intermediate "
            f"tensor, and {output.scale:g} and {output.zero_point} as a state"
        )
    return UniformType.per_tensor(i8, found.scale, -found.zero_point if projected else found.zero_point)


def _inner(node: TFLiteNode, number: int) -> UniformType:
    """Returns the type of an intermediate tensor."""
    inner = node.inner[number]
    if inner is None or inner.type is None or inner.type.is_per_axis:
        raise node.error(f"its intermediate tensor {number} must have a scale", "none, or several")
    return inner.type


def _clip(bound: float, stored: UniformType, dtype: type[np.float32 | np.float64]) -> int:
    """Returns the stored integer of a bound, divided in `dtype` and rounded toward 0; 0 if there is none."""
    with np.errstate(over="ignore"):
        steps = dtype(bound) / dtype(stored.scale)
    return int(min(steps, stored.storage_max)) if bound > 0 else 0


def _seen(peephole: Dequantized, batch: int, outputs: int, time_major: bool) -> Dequantized:
    """Returns the peepholes of each element of the cell state, [C] or [N, C].

    LiteRT takes the size of the output state for that of the cell state. If it is smaller, only as many elements see
    their cell: the first of each sequence, or, if all sequences are computed at once, the first of all sequences. The
    others have peepholes of 0 here.
    """
    cells = peephole.shape[0]
    if outputs == cells:
        return peephole
    if outputs > cells:
        raise UnsupportedError("its peepholes are projected to more elements, beyond which LiteRT reads")
    rows = batch if time_major else 1
    seen = np.zeros(rows * cells, np.int16)
    seen[: rows * outputs] = np.tile(peephole.stored[:outputs], rows)
    return Dequantized(seen.reshape(rows, cells), peephole.type, peephole.name)


def _sizes(node: TFLiteNode, weights: Value | None) -> tuple[int, int]:
    """Returns the shape of weights, which must have two dimensions."""
    if weights is None or node.rank(weights) != 2:
        raise node.error("its weights must have two dimensions", _got(node, weights))
    return node.shape(weights)[0], node.shape(weights)[1]


def _check(node: TFLiteNode, value: Value | None, what: str, storage: IntegerType, shape: Shape) -> Dequantized:
    """Returns weights that LiteRT's kernel takes; `what` names them in errors."""
    if value is None or node.shape(value) != shape:
        raise node.error(f"its {what} must be of shape {list(shape)}", _got(node, value))
    if not isinstance(value, Dequantized) or not _is_stored(node, value, storage) or value.type.zero_point:
        raise UnsupportedError(
            f"its {what} are not constants stored as int{storage.width.data} with one scale and the zero point 0"
        )
    return value


def _integers(node: TFLiteNode, bias: Value | None, shape: Shape, *, words: bool) -> Constant:
    """Returns the integers of a bias, which LiteRT adds to the sums whatever scale the file states."""
    wanted = np.dtype(np.int64 if words else np.int32)
    if bias is None or node.shape(bias) != shape:
        raise node.error(f"its biases must be of shape {list(shape)}", _got(node, bias))
    stored = bias.stored if isinstance(bias, Dequantized) else node.array(bias, "bias")
    if stored.dtype != wanted:
        raise UnsupportedError(f"its biases are {stored.dtype.name}, and LiteRT adds {wanted.name}")
    return Constant(stored, bias.name if isinstance(bias, Constant) else "")


def _state(node: TFLiteNode, state: Value | None, number: int, storage: IntegerType, shape: Shape) -> UniformType:
    """Returns the type of a state."""
    if state is None or node.shape(state) != shape:
        raise node.error(f"its state, input {number}, must be of shape {list(shape)}", _got(node, state))
    type = node.type_of(state)
    if type is None or not _is_stored(node, state, storage):
        raise UnsupportedError(f"its state, input {number}, is not stored as int{storage.width.data} with one scale")
    return type


def _is_stored(node: TFLiteNode, value: Value, storage: IntegerType) -> bool:
    """Whether a value is stored as integers of a type, with one scale."""
    type = node.type_of(value)
    return type is not None and not type.is_per_axis and type.storage == storage


def _got(node: TFLiteNode, value: Value | None) -> str:
    """Describes an operand in errors."""
    return "none" if value is None else str(list(node.shape(value)))
