"""`dense<0.0> : tensor<4294967296xf32>` as one element, where xDSL's attribute would hold 16 GB."""

from itertools import repeat
from math import prod
from typing import Any

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, TensorType
from xdsl.printer import Printer

SPLAT_LIMIT = 1 << 20
"""Constants of one value and more bytes than this are held as that value."""


class _Open:
    """A base that lets a class be derived from an attribute of xDSL, which are final."""

    def __init_subclass__(cls) -> None:
        pass


class Splat(_Open, DenseIntOrFPElementsAttr[Any]):
    """A constant of one value that takes more than `SPLAT_LIMIT` bytes when written out, held as one element.

    Only what asks for all elements (`get_values`, `held_bytes`) makes them. Two constants of one type are equal if
    their elements are: `dense` makes a splat of every buffer that is one.
    """

    @property
    def __class__(self) -> type[DenseIntOrFPElementsAttr[Any]]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """What it is to xDSL, whose constraints look an attribute's class up instead of asking `isinstance`."""
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
        """The constant of one element of that value."""
        return DenseIntOrFPElementsAttr[Any](TensorType(self.get_element_type(), [1]), self.data)

    def print_without_type(self, printer: Printer) -> None:
        self.one().print_without_type(printer)
