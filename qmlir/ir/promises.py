"""Promises: attributes by which an operation states a property of everything inside it; the verifier checks them."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from xdsl.ir import Operation, SSAValue

SCALES = "qmlir.scales"
"""The attribute key of a promise about all quantized types inside a function, a module or any other operation."""


@dataclass(frozen=True)
class Broken:
    """A value that lacks a property which the enclosing operation states.

    op     the operation to report: the operation that defines the value, or whose block argument the value is
    value  the value
    got    what the value has instead
    """

    op: Operation
    value: SSAValue
    got: str


class Promise(ABC):
    """An attribute that states a property of everything inside the operation that has it."""

    STATES: ClassVar[str]
    """The property in words, such as `scales that are powers of two`."""

    @abstractmethod
    def broken(self, scope: Operation) -> Iterator[Broken]:
        """Yields the values inside an operation, including its results, that lack the property."""
