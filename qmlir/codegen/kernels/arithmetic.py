"""Interfaces that parametrize contraction kernels: how they multiply and add, and how they finish accumulators."""

import abc
from collections.abc import Sequence

from xdsl.ir import Attribute

from qmlir.codegen.code import Buffer, Code
from qmlir.codegen.value import Value


class Arithmetic(abc.ABC):
    """How a contraction multiplies and adds; implementations are frozen dataclasses.

    group    channels that one step multiplies; weights are [blocks, KH, KW, C' / group, lanes, group]
    element  element type of the input that `step` reads, and so of a tile (see tile.py)
    """

    group: int
    element: Attribute

    @property
    def keeps(self) -> bool:
        """Whether `prepare` only converts the type and keeps the number."""
        return True

    @abc.abstractmethod
    def prepare(self, x: Value) -> Value:
        """Converts an input element to the form that a tile holds."""

    @abc.abstractmethod
    def start(self, code: Code, bias: Buffer | None, block: Value, lanes: int) -> Value:
        """The initial accumulators of a block of output channels: the bias or zeros."""

    @abc.abstractmethod
    def weights(self, w: Buffer, at: Value, lanes: int) -> Value:
        """Loads the weights of one step; `at` is the number of steps whose weights lie before."""

    @abc.abstractmethod
    def step(self, accumulator: Value, x: Buffer, place: tuple[Value, Value], w: Value) -> Value:
        """Adds the products of one group of inputs, at `place` in `x`, to the accumulators."""


class Epilogue(abc.ABC):
    """The computation on accumulators before they are stored; implementations are frozen dataclasses.

    parameters   how many buffers of per-channel parameters it reads, [blocks · lanes] each
    """

    parameters: int

    @abc.abstractmethod
    def finish(self, accumulator: Value, parameters: Sequence[Value]) -> Value:
        """The result's elements, computed from accumulators and the parameters of their channels, lane by lane."""
