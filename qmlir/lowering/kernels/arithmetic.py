"""What a contraction kernel leaves open: how it multiplies and adds, and what becomes of its accumulators."""

import abc
from collections.abc import Sequence

from xdsl.ir import Attribute

from qmlir.lowering.code import Buffer, Code
from qmlir.lowering.value import Value


class Arithmetic(abc.ABC):
    """How a contraction multiplies and adds: a frozen dataclass.

    group    channels that one step takes; weights are [blocks, KH, KW, C' / group, lanes, group]
    element  type of the input's elements as `step` wants them: a tile's
    """

    group: int
    element: Attribute

    @property
    def keeps(self) -> bool:
        """Whether `prepare` changes nothing but the type."""
        return True

    @abc.abstractmethod
    def prepare(self, x: Value) -> Value:
        """An input element as a tile holds it."""

    @abc.abstractmethod
    def start(self, code: Code, bias: Buffer | None, block: Value, lanes: int) -> Value:
        """The accumulators of a block before the first step."""

    @abc.abstractmethod
    def weights(self, w: Buffer, at: Value, lanes: int) -> Value:
        """The weights of one step, of which `at` counts those before."""

    @abc.abstractmethod
    def step(self, accumulator: Value, x: Buffer, place: tuple[Value, Value], w: Value) -> Value:
        """The accumulators with the products of one group of inputs added."""


class Epilogue(abc.ABC):
    """What happens to accumulators before they are stored: a frozen dataclass.

    parameters   how many of the kernel's buffers it reads, [blocks · lanes] each
    """

    parameters: int

    @abc.abstractmethod
    def finish(self, accumulator: Value, parameters: Sequence[Value]) -> Value:
        """The result's elements from accumulators and their channels' parameters, as many lanes."""
