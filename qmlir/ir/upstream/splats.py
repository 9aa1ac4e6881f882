"""Large splat constants, such as `dense<0.0> : tensor<4294967296xf32>`, held as a single element instead of 16 GB."""

from itertools import repeat
from math import prod
from typing import Any

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, TensorType
from xdsl.printer import Printer

SPLAT_LIMIT = 1 << 20
"""The size in bytes above which a constant with equal elements is held as a single element."""


class _Open:
    """A base that allows a class to derive from an xDSL attribute class, which is final."""

    def __init_subclass__(cls) -> None:
        pass


class Splat(_Open, DenseIntOrFPElementsAttr[Any]):
    """A constant with equal elements that take more than `SPLAT_LIMIT` bytes, held as a single element.

    Only functions that return all elements (`get_values`, `held_bytes`) create them. Constants of the same type are
    equal if and only if their elements are equal, because `dense` turns every such buffer into a `Splat`.
    """

    @property
    def __class__(self) -> type[DenseIntOrFPElementsAttr[Any]]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The class that xDSL sees: its constraints compare an attribute's class instead of calling `isinstance`."""
        return DenseIntOrFPElementsAttr

    def __len__(self) -> int:
        return prod(self.get_shape())

    def iter_values(self) -> Any:
        return repeat(self.get_element_type().unpack(self.data.data, 1)[0], len(self))

    def iter_attrs(self) -> Any:
        return repeat(self.one().get_attrs()[0], len(self))

    def get_values(self) -> Any:
        return tuple(self.iter_values())

    def get_attrs(self) -> Any:
        return tuple(self.iter_attrs())

    def is_splat(self) -> bool:
        return True

    def one(self) -> DenseIntOrFPElementsAttr[Any]:
        """Returns the constant with a single element of the same value."""
        return DenseIntOrFPElementsAttr[Any](TensorType(self.get_element_type(), [1]), self.data)

    def print_without_type(self, printer: Printer) -> None:
        self.one().print_without_type(printer)
