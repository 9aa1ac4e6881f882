"""Predicates of types, which narrow them for the type checker."""

from typing_extensions import TypeIs
from xdsl.dialects.builtin import IntegerType, MemRefType, VectorType
from xdsl.ir import Attribute


def is_memref(type: Attribute) -> TypeIs[MemRefType[Attribute]]:
    """Whether a type is a ranked memref, of any element type."""
    return isinstance(type, MemRefType)


def is_vector(type: Attribute) -> TypeIs[VectorType[Attribute]]:
    """Whether a type is a vector, of any element type."""
    return isinstance(type, VectorType)


def is_integer(type: Attribute) -> TypeIs[IntegerType]:
    """Whether a type is an integer of any width and signedness; the index type is not."""
    return isinstance(type, IntegerType)
