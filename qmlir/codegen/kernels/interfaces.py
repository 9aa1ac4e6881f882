"""What parametrizes kernels that sum products: how they multiply and add, and how they finish accumulators."""

import abc
from collections.abc import Sequence
from typing import ClassVar

from xdsl.ir import Attribute

from qmlir.codegen.code import Buffer, Code
from qmlir.codegen.lowering import Kernel
from qmlir.codegen.value import Value
from qmlir.ir.interfaces import Array


class Arithmetic(abc.ABC):
    """How a contraction multiplies and adds; implementations are frozen dataclasses.

    group        channels that one step multiplies; weights are [blocks, KH, KW, C' / group, lanes, group]
    element      element type of the input that `step` reads, and so of a tile (packing.py)
    sums         element type of the accumulators
    zero_point   what `prepare` subtracts
    outside      the number in a tile at positions outside the image
    by_channel   whether a step adds to scalar sums, one for each channel of a block, whose weights are the `parts`;
                 one output is computed at a time, because sums take the registers of addresses
    """

    group: int
    element: Attribute
    sums: Attribute
    zero_point: int
    outside: int = 0
    by_channel: ClassVar[bool] = False

    @property
    def keeps(self) -> bool:
        """Whether `prepare` only converts the type and keeps the number."""
        return True

    @property
    def prepared(self) -> "Arithmetic":
        """The arithmetic of the steps alone, on prepared elements: what differs in `prepare` only is equal."""
        return self

    @abc.abstractmethod
    def prepare(self, x: Value, zero_point: Value | None = None) -> Value:
        """Converts an input element to the form that a tile holds.

        `zero_point` is subtracted instead of the arithmetic's own; it is of the type `element`.
        """

    @abc.abstractmethod
    def start(self, code: Code, bias: Buffer | None, block: Value, lanes: int) -> Value:
        """The initial accumulators of a block of output channels: the bias or zeros."""

    def arranged(self, weights: Array) -> Array:
        """Packed weights, groups behind groups, in the order in which steps take those of a group."""
        return weights

    @abc.abstractmethod
    def weights(self, w: Buffer, at: Value, lanes: int) -> Value:
        """Loads the weights of one step; `at` is the number of steps whose weights lie before."""

    @abc.abstractmethod
    def step(self, accumulator: Value, x: Buffer, place: Value, w: Value) -> Value:
        """Adds the products of one group of inputs, from element `place` of `x` on, to the accumulators."""


class ArithmeticOfParts(Arithmetic):
    """An arithmetic whose steps add to sums of i32, one for each part of the weights, and not to the accumulators.

    most_steps  the steps whose products these sums hold; 0 where they hold all, as those by channel do
    shared      the sums over the same steps that depend on weights alone, so that all outputs share them
    """

    most_steps: ClassVar[int] = 0
    shared: ClassVar[int] = 0

    @abc.abstractmethod
    def parts(self, w: Value) -> Sequence[Value]:
        """The parts of the weights of one step; the products of each are summed by themselves."""

    @abc.abstractmethod
    def add_shared(self, sums: Sequence[Value], parts: Sequence[Value]) -> Sequence[Value]:
        """Adds what all outputs share of one step to the `shared` sums; `parts` are those of the step's weights."""

    @abc.abstractmethod
    def joined(self, accumulator: Value, sums: Sequence[Value]) -> Value:
        """Adds the sums of the parts of weights, over at most `most_steps` steps if there are, to the accumulators.

        Behind those of the parts come the sums that are `shared`.
        """


class QuadArithmetic(Arithmetic):
    """An arithmetic that multiplies four bytes, which need not be channels, and adds the products to a sum."""

    @property
    @abc.abstractmethod
    def prepared(self) -> "QuadArithmetic":
        """The arithmetic of the steps alone; see `Arithmetic`."""

    @abc.abstractmethod
    def multiply_add(self, accumulator: Value, x: Value, w: Value) -> Value:
        """Adds Σ_{j<4} x[4i + j] · w[4i + j] to lane i of the accumulators; x and w are vectors."""


class TapArithmetic(abc.ABC):
    """How a depthwise convolution multiplies and adds; implementations are frozen dataclasses.

    group        the taps that a step multiplies, 1 or 2; two taps are neighbouring rows of one column
    element      the type of the ring's elements; i16 if `group` is 2
    sums         the type of the accumulators
    zero_point   the zero point of the data
    outside      the number in the ring at positions outside the image
    """

    group: int
    element: Attribute
    sums: Attribute
    zero_point: int
    outside: int

    @property
    def prepared(self) -> "TapArithmetic":
        """The arithmetic without `outside`: what differs in that number only is equal."""
        return self

    @abc.abstractmethod
    def prepare(self, x: Value) -> Value:
        """Converts input elements to the form that the ring holds."""

    @abc.abstractmethod
    def weights(self, w: Value) -> Value:
        """Converts weights to the form that a step multiplies."""

    @abc.abstractmethod
    def start(self, code: Code, bias: Buffer | None, channel: Value, lanes: int | None) -> Value:
        """The initial accumulators of the channels from `channel` on: the bias or zeros."""

    @abc.abstractmethod
    def multiply_add(self, accumulator: Value, x: Value, w: Value) -> Value:
        """Adds the products of one step; x and w hold the `group` taps of a channel as neighbours."""


class Epilogue(abc.ABC):
    """The computation on accumulators before they are stored; implementations are frozen dataclasses.

    parameters   how many buffers of per-channel parameters it reads, [blocks · lanes] each
    """

    parameters: int

    @abc.abstractmethod
    def finish(self, accumulator: Value, parameters: Sequence[Value]) -> Value:
        """The result's elements, computed from accumulators and the parameters of their channels, lane by lane."""


class Finished:
    """What sums products with weights, starts with a bias if there is one, and finishes by an epilogue.

    Buffers: the data, the weights, the bias if `has_bias`, the epilogue's parameters, the result.
    """

    DATA: ClassVar[Sequence[str]] = ("x", "w")
    """Name hints of data and weights."""

    name: str
    epilogue: Epilogue
    has_bias: bool

    @property
    def symbol(self) -> str:
        """The name of the function without its number."""
        return self.name

    @property
    def buffers(self) -> Sequence[str]:
        """Name hints of the buffers."""
        names = [*self.DATA, *(["bias"] if self.has_bias else [])]
        return [*names, *(f"p{i}" for i in range(self.epilogue.parameters)), "y"]

    def roles(self, buffers: Sequence[Buffer]) -> tuple[Buffer, Buffer, Buffer | None, Sequence[Buffer], Buffer]:
        """Returns the buffers as data, weights, bias, parameters and result."""
        x, w, *rest = buffers
        bias = rest.pop(0) if self.has_bias else None
        *parameters, y = rest
        return x, w, bias, parameters, y


class FinishedKernel(Finished, Kernel):
    """A kernel that sums products with weights and finishes the sums."""

    def arguments(self, count: int) -> Sequence[str]:
        return self.buffers
