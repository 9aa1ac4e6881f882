"""One step of an RNN, GRU or LSTM, written as fully connected layers, activation functions, products and sums.

    W · x_t + Wb       the part of the gates that comes from the input, computed for all steps at once
    R · h + Rb         the part of the gates that comes from the state, computed at each step
    z, r, i, o, f, c   the gates, as ONNX names them
    P                  the peepholes, which are weights from the LSTM's cell state to its gates

The name of a step's result says which output, direction and step it belongs to: `Y.forward.3.hidden`.
"""

import abc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, TypeAlias

from xdsl.ir import SSAValue

from qmlir.dialects.nn.contraction import FullyConnectedOp
from qmlir.dialects.nn.elementwise import AddOp, MulOp, SubOp
from qmlir.dialects.nn.functions import (
    ClampOp,
    EluOp,
    HardSigmoidOp,
    LeakyReluOp,
    ReluOp,
    SigmoidOp,
    SoftplusOp,
    SoftsignOp,
    TanhOp,
    ThresholdedReluOp,
)
from qmlir.frontends.builder import Node, Properties
from qmlir.frontends.function import Value
from qmlir.frontends.windows import sliced
from qmlir.ir.interfaces import TensorOp

Weights: TypeAlias = tuple[Value, Value | None]
"""Weights and bias of a fully connected layer."""


@dataclass(frozen=True)
class Place:
    """A place in the unrolled network, after which the operations added there are named.

    node   the recurrent node
    path   the direction, and the step
    """

    node: Node
    path: str

    def at(self, step: int) -> "Place":
        """Returns the place of a step in this direction."""
        return replace(self, path=f"{self.path}.{step}")

    def __call__(
        self, op_type: type[TensorOp], operands: Sequence[Value | None], what: str,
        properties: Properties | None = None,
    ) -> SSAValue:  # fmt: skip
        """Adds an operation whose result is called `<output>.<path>.<what>`."""
        return self.node.compute(op_type, operands, properties, part=f"{self.path}.{what}")


Function = Callable[[Place, SSAValue, str], SSAValue]
"""An activation function: (place, x, what) → its result, which is called `what` at that place."""


def _plain(op_type: type[TensorOp], *names: str) -> Callable[..., Function]:
    """Makes the factory of an activation function that is one operation, with parameters of these names."""

    def make(*values: float) -> Function:
        properties = dict(zip(names, values, strict=True))
        return lambda place, x, what: place(op_type, [x], what, properties)

    return make


def _affine(alpha: float, beta: float) -> Function:
    """alpha · x + beta."""

    def apply(place: Place, x: SSAValue, what: str) -> SSAValue:
        product = place(MulOp, [x, place.node.number(alpha, x)], f"{what}.scaled")
        return place(AddOp, [product, place.node.number(beta, product)], what)

    return apply


def _scaled_tanh(alpha: float, beta: float) -> Function:
    """alpha · tanh(beta · x)."""

    def apply(place: Place, x: SSAValue, what: str) -> SSAValue:
        inner = place(MulOp, [x, place.node.number(beta, x)], f"{what}.scaled")
        outer = place(TanhOp, [inner], f"{what}.tanh")
        return place(MulOp, [outer, place.node.number(alpha, outer)], what)

    return apply


FUNCTIONS: Mapping[str, tuple[Callable[..., Function], tuple[float, ...], tuple[float, ...]]] = {
    "relu": (_plain(ReluOp), (), ()),
    "tanh": (_plain(TanhOp), (), ()),
    "sigmoid": (_plain(SigmoidOp), (), ()),
    "softsign": (_plain(SoftsignOp), (), ()),
    "softplus": (_plain(SoftplusOp), (), ()),
    "leakyrelu": (_plain(LeakyReluOp, "alpha"), (0.01,), ()),
    "elu": (_plain(EluOp, "alpha"), (1.0,), ()),
    "thresholdedrelu": (_plain(ThresholdedReluOp, "alpha"), (1.0,), ()),
    "hardsigmoid": (_plain(HardSigmoidOp, "alpha", "beta"), (0.2,), (0.5,)),
    "affine": (_affine, (1.0,), (0.0,)),
    "scaledtanh": (_scaled_tanh, (1.0,), (1.0,)),
}
"""Name in lower case → (factory from its parameters, defaults of its alphas, defaults of its betas)."""


Product = Callable[["Place", Value, Weights, str], SSAValue]
"""Computes W · x + b for each row x: (place, rows, weights, what) → a result that is called `what` at that place."""


def fully_connected(at: Place, rows: Value, weights: Weights, what: str) -> SSAValue:
    """Adds a fully connected layer on the rows."""
    return at(FullyConnectedOp, [rows, *weights], what)


@dataclass(frozen=True)
class Cell(abc.ABC):
    """A recurrent cell of one direction.

    hidden      H, the number of elements of the state
    inputs      W [G·H, I] and Wb [G·H]; None in the place of Wb stands for zeros
    recurrent   R and Rb in the same form, one pair for each part in `PARTS`
    functions   the activation functions f, g, h
    limit       arguments of activation functions are clamped to [−limit, limit]; None if they are not clamped
    product     computes W · x + Wb and R · h + Rb
    """

    PARTS: ClassVar[tuple[int, ...]] = (1,)
    """The number of gates that each part of R computes."""

    FUNCTIONS: ClassVar[tuple[str, ...]] = ("tanh",)
    """The activation functions of a node that names no functions."""

    STATES: ClassVar[int] = 1
    """The number of tensors that pass from step to step; the first of them is the output."""

    hidden: int
    inputs: Weights
    recurrent: Sequence[Weights]
    functions: Sequence[Function]
    limit: float | None = None
    product: Product = field(default=fully_connected, kw_only=True)

    @abc.abstractmethod
    def step(self, at: Place, gates: SSAValue, state: Sequence[Value]) -> list[SSAValue]:
        """Returns the tensors of the state [N, H] after a step; `gates` [N, G·H] is W · x + Wb of that step."""

    def recalled(self, at: Place, part: int, h: Value, what: str) -> SSAValue:
        """Computes R · h + Rb for one part of R."""
        return self.product(at, h, self.recurrent[part], what)

    def gate(self, at: Place, x: SSAValue, first: int, count: int = 1) -> SSAValue:
        """Slices `count` gates out of x [N, …], from gate `first` on."""
        return sliced(at.node, x, [0, first * self.hidden], [at.node.shape(x)[0], count * self.hidden])

    def applied(self, at: Place, function: int, x: SSAValue, what: str) -> SSAValue:
        """Applies an activation function to x, which is clamped first if there is a limit."""
        if self.limit is not None:
            x = at(ClampOp, [x], f"{what}.clipped", {"min": -self.limit, "max": self.limit})
        return self.functions[function](at, x, what)


@dataclass(frozen=True)
class RNNCell(Cell):
    """h' = f(W·x + R·h)."""

    def step(self, at: Place, gates: SSAValue, state: Sequence[Value]) -> list[SSAValue]:
        total = at(AddOp, [gates, self.recalled(at, 0, state[0], "recurrent")], "sum")
        return [self.applied(at, 0, total, "hidden")]


@dataclass(frozen=True)
class GRUCell(Cell):
    """z, r = f(W·x + R·h); n = g(W·x + R·(r·h)); h' = (1 − z)·n + z·h.

    reset_last   whether n = g(W·x + r · (R·h)) instead
    """

    PARTS: ClassVar[tuple[int, ...]] = (2, 1)
    FUNCTIONS: ClassVar[tuple[str, ...]] = ("sigmoid", "tanh")

    reset_last: bool = False

    def step(self, at: Place, gates: SSAValue, state: Sequence[Value]) -> list[SSAValue]:
        (h,) = state
        total = at(AddOp, [self.gate(at, gates, 0, 2), self.recalled(at, 0, h, "recurrent")], "sum")
        both = self.applied(at, 0, total, "gates")
        update, reset = self.gate(at, both, 0), self.gate(at, both, 1)
        if self.reset_last:
            recalled = at(MulOp, [reset, self.recalled(at, 1, h, "recalled")], "reset")
        else:
            recalled = self.recalled(at, 1, at(MulOp, [reset, h], "reset"), "recalled")
        new = self.applied(at, 1, at(AddOp, [self.gate(at, gates, 2), recalled], "candidate.sum"), "candidate")
        rest = at(SubOp, [at.node.number(1, update), update], "rest")
        kept = at(MulOp, [update, h], "kept")
        return [at(AddOp, [at(MulOp, [rest, new], "taken"), kept], "hidden")]


@dataclass(frozen=True)
class LSTMCell(Cell):
    """i, o, f = f(W·x + R·h + P·c), o with the new c; n = g(W·x + R·h); c' = f·c + i·n; h' = o · h(c').

    peepholes   P of i, o and f, [H] each; empty if the cell has no peepholes
    coupled     whether f = 1 − i
    """

    PARTS: ClassVar[tuple[int, ...]] = (4,)
    FUNCTIONS: ClassVar[tuple[str, ...]] = ("sigmoid", "tanh", "tanh")
    STATES: ClassVar[int] = 2

    peepholes: Sequence[Value] = ()
    coupled: bool = False

    def step(self, at: Place, gates: SSAValue, state: Sequence[Value]) -> list[SSAValue]:
        h, c = state
        total = at(AddOp, [gates, self.recalled(at, 0, h, "recurrent")], "sum")
        if self.peepholes:
            i = self._peeping(at, total, 0, c, "input")
            f = None if self.coupled else self._peeping(at, total, 2, c, "forget")
            o = None  # computed below, since it sees the new cell state
        else:  # one operation computes all three gates
            every = self.applied(at, 0, self.gate(at, total, 0, 3), "gates")
            i, o, f = (self.gate(at, every, n) for n in range(3))
        if f is None or self.coupled:
            f = at(SubOp, [at.node.number(1, i), i], "forget")
        new = self.applied(at, 1, self.gate(at, total, 3), "candidate")
        cell = at(AddOp, [at(MulOp, [f, c], "kept"), at(MulOp, [i, new], "taken")], "cell")
        if o is None:
            o = self._peeping(at, total, 1, cell, "output")
        return [at(MulOp, [o, self.functions[2](at, cell, "shown")], "hidden"), cell]

    def _peeping(self, at: Place, total: SSAValue, gate: int, cell: Value, what: str) -> SSAValue:
        """Computes a gate that sees the cell state through its peephole."""
        seen = at(MulOp, [cell, self.peepholes[gate]], f"{what}.seen")
        return self.applied(at, 0, at(AddOp, [self.gate(at, total, gate), seen], f"{what}.sum"), what)
