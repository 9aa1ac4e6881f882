"""RNN, GRU and LSTM, unrolled in each direction: each step becomes operations of its own (cells.py).

T is the number of steps, N the batch, I the input size, H the state size, G the number of gates, D the number of
directions.

    X [T, N, I], or with layout 1 [N, T, I]; W [D, G·H, I], R [D, G·H, H], B [D, 2·G·H]; states [D, N, H]
    Y [T, D, N, H], the last states [D, N, H]; with layout 1 [N, T, D, H] and [N, D, H]

A sequence shorter than T ends at its length: from there on its state does not change and its outputs are zeros. In the
reverse direction it starts at its length.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from qmlir.dialects.nn.contraction import FullyConnectedOp
from qmlir.dialects.nn.elementwise import LessOp, WhereOp
from qmlir.dialects.nn.movement import ConcatOp
from qmlir.errors import UnsupportedError
from qmlir.frontends.cells import FUNCTIONS, Cell, Function, GRUCell, LSTMCell, Place, RNNCell, Weights
from qmlir.frontends.converters import AttributeGroup, Strings, Table
from qmlir.frontends.function import Constant, Floats, Value
from qmlir.frontends.onnx.node import ONNXNode
from qmlir.frontends.windows import sliced

converts = Table()

MOST_STEPS = 1024
"""The most steps of a node, in all its directions together."""

DIRECTIONS = {"forward": ("forward",), "reverse": ("reverse",), "bidirectional": ("forward", "reverse")}


@dataclass(frozen=True)
class Recurrence(AttributeGroup):
    """The attributes of every recurrent operator; activation functions take the alphas and betas in order."""

    activation_alpha: Floats = ()
    activation_beta: Floats = ()
    activations: Strings = ()
    clip: float | None = None
    direction: Literal["forward", "reverse", "bidirectional"] = "forward"
    hidden_size: int | None = None
    layout: bool = False

    def functions(self, node: ONNXNode, cell: type[Cell], direction: int) -> list[Function]:
        """Returns the activation functions of a cell in one direction.

        Raises:
            NodeError: The node names too few functions, or a function that ONNX does not have.
        """
        count = len(cell.FUNCTIONS)
        alphas, betas = iter(self.activation_alpha), iter(self.activation_beta)
        made: list[Function] = []
        for name in self.activations or cell.FUNCTIONS * (direction + 1):
            if name.lower() not in FUNCTIONS:
                raise node.error("its activation functions must be ONNX's", name)
            make, alpha, beta = FUNCTIONS[name.lower()]
            made.append(make(*(next(alphas, a) for a in alpha), *(next(betas, b) for b in beta)))
        if len(made) < count * (direction + 1):
            raise node.error(f"it needs {count} activation functions for each direction", self.activations)
        return made[count * direction : count * (direction + 1)]


@converts("RNN")
def rnn(
    node: ONNXNode, x: Value, w: Value, r: Value, b: Value | None = None, lengths: Value | None = None,
    initial_h: Value | None = None, *, own: Recurrence,
) -> tuple[Value, ...]:  # fmt: skip
    """An RNN: one state, one activation function."""
    layer = _Layer(node, x, (w, r, b), lengths, (initial_h,), own)
    return layer.unrolled([RNNCell(*layer.parts(RNNCell, d)) for d in layer.each()])


@converts("GRU")
def gru(
    node: ONNXNode, x: Value, w: Value, r: Value, b: Value | None = None, lengths: Value | None = None,
    initial_h: Value | None = None, *, own: Recurrence, linear_before_reset: bool = False,
) -> tuple[Value, ...]:  # fmt: skip
    """A GRU: one state, gates z, r and h."""
    layer = _Layer(node, x, (w, r, b), lengths, (initial_h,), own)
    return layer.unrolled([GRUCell(*layer.parts(GRUCell, d), linear_before_reset) for d in layer.each()])


@converts("LSTM")
def lstm(
    node: ONNXNode, x: Value, w: Value, r: Value, b: Value | None = None, lengths: Value | None = None,
    initial_h: Value | None = None, initial_c: Value | None = None, p: Value | None = None, *, own: Recurrence,
    input_forget: bool = False,
) -> tuple[Value, ...]:  # fmt: skip
    """An LSTM: two states, gates i, o, f and c; P [D, 3·H] are the peepholes."""
    layer = _Layer(node, x, (w, r, b), lengths, (initial_h, initial_c), own)
    seen = [[] if p is None else layer.split(p, d, (1, 1, 1)) for d in layer.each()]
    return layer.unrolled([LSTMCell(*layer.parts(LSTMCell, d), seen[d], input_forget) for d in layer.each()])


@dataclass
class _Layer:
    """The tensors of a recurrent node, and their unrolling in each direction."""

    node: ONNXNode
    x: Value
    given: tuple[Value, Value, Value | None]
    lengths: Value | None
    initial: Sequence[Value | None]
    own: Recurrence

    def __post_init__(self) -> None:
        node = self.node
        # Halves are for storage: all steps are computed in f32, as onnxruntime does, and their results rounded once.
        self.half = node.half_of(self.x)
        self.x = node.widened(self.x)
        self.initial = [None if s is None else node.widened(s) for s in self.initial]
        w, r, b = self.given
        w, r, b = self.given = node.widened(w), node.widened(r), None if b is None else node.widened(b)
        if any(node.rank(v) != 3 for v in (self.x, w, r)):
            raise node.error("its input and weights must have rank 3", [node.rank(v) for v in (self.x, w, r)])
        if self.own.layout:
            self.x = node.permuted(self.x, (1, 0, 2))
            self.initial = [None if s is None else node.permuted(s, (1, 0, 2)) for s in self.initial]
        self.hidden = node.shape(r)[2]
        if self.own.hidden_size not in (None, self.hidden):
            raise node.error(f"its hidden_size must be that of its weights, {self.hidden}", str(self.own.hidden_size))
        self.steps, self.batch, width = node.shape(self.x)
        count, rows = len(self.each()), node.shape(w)[1]
        for what, value, wanted in (
            ("W", w, (count, rows, width)),
            ("R", r, (count, rows, self.hidden)),
            ("B", b, (count, 2 * rows)),
            ("sequence_lens", self.lengths, (self.batch,)),
            *(("initial state", s, (count, self.batch, self.hidden)) for s in self.initial),
        ):
            if value is not None and node.shape(value) != wanted:
                raise node.error(f"its {what} must be of shape {list(wanted)}", node.shape(value))
        if not self.steps or self.steps * count > MOST_STEPS:
            raise UnsupportedError(
                f"it would be unrolled into {self.steps * count} steps, and qmlir unrolls 1 to {MOST_STEPS}"
            )

    def each(self) -> range:
        """Returns the indices of the node's directions in the weights' first dimension."""
        return range(len(DIRECTIONS[self.own.direction]))

    def parts(
        self, cell: type[Cell], direction: int
    ) -> tuple[int, Weights, list[Weights], list[Function], float | None]:
        """Returns a direction's H, (W, Wb), (R, Rb) for each part in `cell.PARTS`, its functions and its limit."""
        (w, r, b), gates = self.given, sum(cell.PARTS)
        if self.node.shape(w)[1] != gates * self.hidden:
            raise self.node.error(f"its weights must have {gates} gates of {self.hidden}", self.node.shape(w))
        (inputs,) = self.split(w, direction, (gates,))
        recurrent = self.split(r, direction, cell.PARTS)
        count = 1 + len(cell.PARTS)
        bias, *biases = [None] * count if b is None else self.split(b, direction, (gates, *cell.PARTS))
        functions = self.own.functions(self.node, cell, direction)
        return self.hidden, (inputs, bias), list(zip(recurrent, biases, strict=True)), functions, self.own.clip

    def split(self, value: Value, direction: int, gates: Sequence[int]) -> list[Value]:
        """Splits a direction's gates, in a tensor [D, G·H, …], into parts with the given numbers of gates."""
        node, shape = self.node, self.node.shape(value)
        parts: list[Value] = []
        for first, count in zip(np.cumsum([0, *gates]).tolist(), gates, strict=False):
            begin, size = first * self.hidden, count * self.hidden
            if isinstance(value, Constant):
                parts.append(Constant(value.array[direction, begin : begin + size], value.name))
                continue
            rest = [0] * (len(shape) - 2)
            part = sliced(node, value, [direction, begin, *rest], [1, size, *shape[2:]])
            parts.append(node.reshaped(part, (size, *shape[2:])))
        return parts

    def unrolled(self, cells: Sequence[Cell]) -> tuple[Value, ...]:
        """Unrolls the cells and returns all outputs: Y, and each state after the last step."""
        node, count = self.node, len(cells)
        ways = [self._walk(cell, d) for d, cell in enumerate(cells)]
        steps: list[Value] = [way[0][t] for t in range(self.steps) for way in ways]
        axis = {"axis": 0}
        y = node.reshaped(node.compute(ConcatOp, [steps], axis), (self.steps, count, self.batch, self.hidden))
        results = [node.permuted(y, (2, 0, 1, 3)) if self.own.layout else y]
        for index in range(len(self.initial)):
            if index + 1 >= len(node.outputs) or not node.outputs[index + 1]:
                results.append(y)  # a placeholder, since the output is not used
                continue
            last: list[Value] = [way[1][index] for way in ways]
            joined = last[0] if count == 1 else node.compute(ConcatOp, [last], axis, output=index + 1)
            state = node.reshaped(joined, (count, self.batch, self.hidden))
            results.append(node.permuted(state, (1, 0, 2)) if self.own.layout else state)
        return tuple(results if self.half is None else (node.converted(r, self.half) for r in results))

    def _walk(self, cell: Cell, direction: int) -> tuple[dict[int, SSAValue], list[Value]]:
        """Unrolls one direction; returns the output of each step by its time, and the last state."""
        node, name = self.node, DIRECTIONS[self.own.direction][direction]
        place = Place(node, name)
        state: list[Value] = [self._first(s, direction) for s in self.initial]
        rows = node.reshaped(self.x, (self.steps * self.batch, node.shape(self.x)[2]))
        gates = place(FullyConnectedOp, [rows, *cell.inputs], "inputs")
        outputs: dict[int, SSAValue] = {}
        for t in self._order(name):
            at = place.at(t)
            own = sliced(node, gates, [t * self.batch, 0], [self.batch, node.shape(gates)[1]])
            new = cell.step(at, own, state)
            outputs[t] = new[0]
            if (running := self._running(at, t)) is not None:
                zero = node.number(0, new[0])
                outputs[t] = at(WhereOp, [running, new[0], zero], "output")
                new = [
                    at(WhereOp, [running, n, s], f"state{i}") for i, (n, s) in enumerate(zip(new, state, strict=True))
                ]
            state = list(new)
        return outputs, state

    def _order(self, name: str) -> Iterator[int]:
        steps = range(self.steps)
        return iter(steps if name == "forward" else reversed(steps))

    def _first(self, initial: Value | None, direction: int) -> Value:
        """Returns a direction's state before the first step, [N, H]."""
        if initial is None:
            dtype = self.node.number(0, self.x).array.dtype
            return Constant(np.zeros((self.batch, self.hidden), dtype))
        if isinstance(initial, Constant):
            return Constant(initial.array[direction], initial.name)
        part = sliced(self.node, initial, [direction, 0, 0], [1, self.batch, self.hidden])
        return self.node.reshaped(part, (self.batch, self.hidden))

    def _running(self, at: Place, step: int) -> Value | None:
        """Returns whether each sequence is longer than `step`, i1 [N, 1]; None if all sequences are known to be."""
        if self.lengths is None:
            return None
        if isinstance(self.lengths, Constant):
            running = step < self.lengths.array
            return None if running.all() else Constant(running[:, None])
        lengths = self.node.reshaped(self.node.converted(self.lengths, i32), (self.batch, 1))
        return at(LessOp, [Constant(np.array(step, np.int32)), lengths], "running")
