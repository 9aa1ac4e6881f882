"""Levels: which integers the weights of a constant are, and in how few bits they are stored.

A constant of weights always holds plain integers, which any consumer may multiply. `Levels` states what these integers
have in common, so that files, memory and machine code hold fewer bits. Each form of levels is a class:

    Even      integers of few bits
    Groups    integers of few bits times a multiplier of 8 bits for each group of a row (groups.py)
    Codebook  entries of a table, stored as their places in it (codebooks.py)
    Affine    floats that are integers of few bits times a scale plus an offset, by blocks (affine.py)
    Blocks    floats that the source model stores as integers with a scale for each block

A form says everything about itself: how it is fitted to weights, what rounding may choose, what it costs, and its name
in messages. The attribute `#qmlir.levels` (ir/levels.py) holds it in the IR. A new form is a class like these, an entry
in `ir.levels.FORMS`, and a value of a setting that asks for it; machine code stores its weights in 8 bits until
`codegen/kernels/packed_weights.py` packs them.

A quantizer that rounds weights asks levels for `Choices`: what each real number may become.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import ClassVar, Protocol

import numpy as np

from qmlir.numerics import Array, Float64s
from qmlir.numerics.packing import BYTE, packed_bytes


class Choices(Protocol):
    """What numbers [g, m, k] are rounded to; the choices for one number may differ from those for another."""

    def nearest(self, real: Array) -> Array:
        """The nearest choice for each number, [g, m, k] float64."""
        ...

    def nearest_at(self, real: Array, column: int) -> Array:
        """The nearest choice for each number of a column, [g, m] float64."""
        ...

    def in_order(self, order: Array) -> "Choices":
        """The choices for numbers whose columns are put in another order, [g, k], for each g."""
        ...

    def in_rows(self, rows: slice) -> "Choices":
        """The choices for the numbers of some rows, of all g."""
        ...


@dataclass(frozen=True)
class Multiples:
    """Integers within limits, or multiples by these integers.

    limits  the least and the greatest integer
    steps   positive integers, [g, m, k]: each number is a multiple of its own; None for ones
    """

    limits: tuple[int, int]
    steps: Array | None = None

    def nearest(self, real: Array) -> Array:
        return self._rounded(real, self.steps)

    def nearest_at(self, real: Array, column: int) -> Array:
        return self._rounded(real, None if self.steps is None else self.steps[:, :, column])

    def in_order(self, order: Array) -> "Multiples":
        return self if self.steps is None else replace(self, steps=np.take_along_axis(self.steps, order[:, None], 2))

    def in_rows(self, rows: slice) -> "Multiples":
        return self if self.steps is None else replace(self, steps=self.steps[:, rows])

    def _rounded(self, real: Array, steps: Array | None) -> Array:
        if steps is None:
            return np.clip(np.rint(real), *self.limits)
        return np.clip(np.rint(real / steps), *self.limits) * steps


@dataclass(frozen=True)
class Entries:
    """The entries of a table, integers in ascending order."""

    table: Array

    def nearest(self, real: Array) -> Array:
        between = (self.table[1:].astype(np.float64) + self.table[:-1]) / 2
        return self.table[np.searchsorted(between, real)].astype(np.float64)

    def nearest_at(self, real: Array, column: int) -> Array:
        return self.nearest(real)

    def in_order(self, order: Array) -> "Entries":
        return self

    def in_rows(self, rows: slice) -> "Entries":
        return self


Shape = tuple[int, ...]
Arrange = Callable[[Array], Array]


class Levels(ABC):
    """What the integers of a constant have in common.

    The fields of a subclass are whole numbers and arrays, which the attribute `#qmlir.levels` writes by their names.
    """

    BITS: ClassVar[range] = range(2, BYTE)
    """The bits of stored integers that a quantizer may ask for."""

    LEARNED: ClassVar[bool] = True
    """Whether a rounding that learns to round each weight up or down, AdaRound, knows these levels."""

    OF_FLOATS: ClassVar[bool] = False
    """Whether the constant holds floats: the levels say nothing of the integers that a quantizer makes of them."""

    UNKNOWN: ClassVar[str] = ""
    """What a rounding that does not know these levels does not know; empty if all know them."""

    UNKNOWN_REMEDY: ClassVar[str] = ""
    """What to ask for in place of such a rounding."""

    bits: int
    """The bits of a stored integer."""

    @abstractmethod
    def need(self) -> str:
        """What the fields have to be and are not; empty if they are valid."""

    @classmethod
    def fitted(
        cls, rows: Array, bits: int, limits: tuple[int, int], *, size: int, powers_of_two: bool, zero: bool
    ) -> "tuple[Float64s, Callable[[Float64s], Levels]]":
        """Fits levels of this form to weights.

        Args:
            rows: The weights, finite, [O, K]; a scale for each row.
            bits: The bits of a stored integer.
            limits: The least and the greatest integer of so many bits.
            size: The weights of a group, for levels that have groups.
            powers_of_two: Whether scales are powers of two.
            zero: Whether 0 has to be a level, because kernels fill their steps with zeros.

        Returns:
            The scales that suit the weights, [O], and a function that gives the levels for those scales or wider ones.
        """
        raise NotImplementedError

    def span(self, limits: tuple[int, int]) -> tuple[int, int]:
        """The least and the greatest of all levels, given the limits of a stored integer."""
        return limits

    def choices(self, limits: tuple[int, int], shape: Shape, arrange: Arrange = np.asarray) -> Choices:
        """What weights may become.

        Args:
            limits: The range of the constant's quantized type, `span` of what was asked for.
            shape: The constant's shape.
            arrange: Puts numbers in the shape of the constant into the order [g, m, k] in which they are rounded.
        """
        return Multiples(limits)

    def refitted(self, choices: Choices) -> "Levels":
        """The levels after a rounding that may have changed what the weights can become."""
        return self

    @property
    def plain_bits(self) -> int:
        """The bits of each integer of the constant, if it is stored as it is."""
        return BYTE

    def bytes(self, weights: int, width: int) -> int:
        """The bytes of so many weights, of a type of `width` bits, with all that is stored beside them."""
        return packed_bytes(weights, width)

    def described(self, storage: str, per: str) -> str:
        """What weights of a storage type with a scale per channel or tensor are, for the ledger."""
        return f"{storage} weights per {per}"


@dataclass(frozen=True)
class Even(Levels):
    """Every integer of so many bits."""

    bits: int

    def need(self) -> str:
        return "" if self.bits in self.BITS else f"even levels have 2 to 7 bits, got {self.bits}"

    @property
    def plain_bits(self) -> int:
        return self.bits


@dataclass(frozen=True)
class Blocks(Levels):
    """States about floats that the source model stores them as integers with a scale for each block of `size`.

    bits  those of a float, which the constant holds
    """

    OF_FLOATS: ClassVar[bool] = True

    size: int
    bits: int = field(default=32, init=False)

    def need(self) -> str:
        return "" if self.size >= 1 else f"blocks have 1 weight or more, got {self.size}"
