"""Attributes of properties that are given as Python values."""

from collections.abc import Sequence

from xdsl.dialects.builtin import BoolAttr, FloatAttr, IntegerAttr, StringAttr, f32, i64
from xdsl.ir import Attribute

from qmlir.dialects.windows import ints


def attribute_of(value: Attribute | bool | float | str | Sequence[int] | None) -> Attribute | None:
    """Makes the attribute of a property: i1, i64, f32, a string, or an array of i64; None is an absent property."""
    match value:
        case None | Attribute():
            return value
        case bool():
            return BoolAttr.from_bool(value)
        case int():
            return IntegerAttr(value, i64)
        case float():
            return FloatAttr(value, f32)
        case str():
            return StringAttr(value)
        case _:
            return ints(list(value))
