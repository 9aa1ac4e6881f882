"""One step of RNN, GRU and LSTM, written as fully connected layers, functions of one element, products and sums.

    gates of a step = W · x_t + Wb, for all steps at once, and R · h + Rb
    z, r, i, o, f, c   what ONNX calls them; P the peepholes from the cell's state to its gates

The steps' results carry the output's name and where they belong: `Y.forward.3.hidden`.
"""

import abc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, TypeAlias

from xdsl.ir import Attribute, SSAValue

from qmlir.dialects.interfaces import TensorOp
from qmlir.dialects.nn.activation import (
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
from qmlir.dialects.nn.base import bound
from qmlir.dialects.nn.contraction import FullyConnectedOp
from qmlir.dialects.nn.elementwise import AddOp, MulOp, SubOp
from qmlir.frontends.builder import Node
from qmlir.frontends.values import Value
from qmlir.frontends.windows import sliced

Weights: TypeAlias = tuple[Value, Value | None]
"""Weights and bias of a fully connected layer."""


@dataclass(frozen=True)
class Place:
    """Where in the unrolled network operations belong, as their names say.

    path   the direction, and the step
    """

    node: Node
    path: str

    def at(self, step: int) -> "Place":
        """A step of a direction."""
        return replace(self, path=f"{self.path}.{step}")

    def __call__(
        self,
        op_type: type[TensorOp],
        operands: Sequence[Value | None],
        what: str,
        properties: Mapping[str, Attribute | None] | None = None,
    ) -> SSAValue:
        """Adds an operation whose result is called after this place and `what` it is."""
        return self.node.compute(op_type, operands, properties, part=f"{self.path}.{what}")


Function = Callable[[Place, SSAValue, str], SSAValue]
"""An activation function: adds its operations at a place, the last result called as told."""


def _plain(op_type: type[TensorOp], *names: str) -> Callable[..., Function]:
    """A function that is an operation, with parameters of these names."""

    def make(*values: float) -> Function:
        properties = {name: bound(value) for name, value in zip(names, values, strict=True)}
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
"""Name in lower case → what makes it of alpha and beta, and the defaults of those that it has."""


@dataclass(frozen=True)
class Cell(abc.ABC):
    """A recurrent cell of one direction.

    hidden      H, elements of the state
    inputs      W [G·H, I] and Wb [G·H], or None for zeros
    recurrent   R and Rb the same way, in as many parts as `PARTS` has
    functions   f, g, h
    limit       what arguments of functions are clamped to, on both sides; None without limit
    """

    PARTS: ClassVar[tuple[int, ...]] = (1,)
    """The gates that each part of R computes."""

    FUNCTIONS: ClassVar[tuple[str, ...]] = ("tanh",)
    """The functions where the node names none."""

    STATES: ClassVar[int] = 1
    """Tensors that go from step to step; the first is the output."""

    hidden: int
    inputs: Weights
    recurrent: Sequence[Weights]
    functions: Sequence[Function]
    limit: float | None = None

    @abc.abstractmethod
    def step(self, at: Place, gates: SSAValue, state: Sequence[Value]) -> list[SSAValue]:
        """The state, [N, H] each, after a step whose W · x + Wb is `gates` [N, G·H]."""

    def recalled(self, at: Place, part: int, h: Value, what: str) -> SSAValue:
        """R · h + Rb of a part."""
        return at(FullyConnectedOp, [h, *self.recurrent[part]], what)

    def gate(self, at: Place, x: SSAValue, first: int, count: int = 1) -> SSAValue:
        """Some of the gates in [N, …]."""
        return sliced(at.node, x, [0, first * self.hidden], [at.node.shape(x)[0], count * self.hidden])

    def applied(self, at: Place, function: int, x: SSAValue, what: str) -> SSAValue:
        """A function of its argument within the limits."""
        if self.limit is not None:
            x = at(ClampOp, [x], f"{what}.clipped", {"min": bound(-self.limit), "max": bound(self.limit)})
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

    peepholes   P of i, o and f, [H] each; none where empty
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
            o = None  # sees the new state
        else:  # one operation for all three
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
        """A gate that sees the cell."""
        seen = at(MulOp, [cell, self.peepholes[gate]], f"{what}.seen")
        return self.applied(at, 0, at(AddOp, [self.gate(at, total, gate), seen], f"{what}.sum"), what)
