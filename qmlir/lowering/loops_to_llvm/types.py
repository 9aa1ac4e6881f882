"""The LLVM types of loops-level types.

    index → i64      memref<…> → ptr      vector<Nxindex> → vector<Nxi64>      iN, fN, vector<N×…> → themselves

A lowered memref is a bare pointer to its first element; shapes and strides are static, and become part of addresses.
"""

from math import prod

from xdsl.dialects import llvm
from xdsl.dialects.builtin import (
    AnyFloat,
    IndexType,
    IntegerType,
    MemRefType,
    NoneAttr,
    Signedness,
    StridedLayoutAttr,
    VectorType,
    i64,
)
from xdsl.ir import Attribute

from qmlir.ir.predicates import is_integer, is_memref, is_vector

POINTER = llvm.LLVMPointerType()

STORED_WIDTHS = (1, 8, 16, 32, 64)
"""Integer widths in bits that memory holds unpacked; an i1 takes a byte."""


class UnsupportedType(Exception):
    """Raised for a type without an LLVM form; the caller turns it into a LoweringError that names the operation."""


def lowered_type(type: Attribute) -> Attribute:
    """The LLVM type of a loops-level type.

    Raises:
        UnsupportedType: The type is a tensor, a dynamic or multi-dimensional vector, or has no LLVM form.
    """
    if is_integer(type):
        return type if type.signedness.data is Signedness.SIGNLESS else IntegerType(type.width.data)
    if isinstance(type, IndexType):
        return i64
    if is_memref(type):
        return POINTER
    if is_vector(type):
        if type.get_num_dims() != 1 or type.get_num_scalable_dims():
            raise UnsupportedType(f"vectors must have one static dimension, got {type}")
        element = lowered_type(type.element_type)
        return type if element is type.element_type else VectorType(element, type.get_shape())
    if isinstance(type, AnyFloat):
        return type
    raise UnsupportedType(f"type {type} has no LLVM form")


def element_bits(type: Attribute) -> int:
    """The width in bits of a scalar type; an index has 64 bits.

    Raises:
        UnsupportedType: The type is not a scalar.
    """
    if isinstance(type, IndexType):
        return 64
    if is_integer(type):
        return type.width.data
    if isinstance(type, AnyFloat):
        return type.bitwidth
    raise UnsupportedType(f"type {type} has no width")


def element_bytes(type: Attribute) -> int:
    """The bytes that one element takes in memory.

    Raises:
        UnsupportedType: Memory does not hold elements of this width.
    """
    bits = element_bits(type)
    if bits not in STORED_WIDTHS:
        raise UnsupportedType(f"memory holds elements of {STORED_WIDTHS} bits, got {type}")
    return max(1, bits // 8)


def static_strides(type: MemRefType[Attribute]) -> tuple[int, ...]:
    """The strides of a memref: the distance in elements between neighbours along each dimension.

    Raises:
        UnsupportedType: A size or a stride is dynamic, or the layout is an affine map.
    """
    shape = type.get_shape()
    if any(size < 0 for size in shape):
        raise UnsupportedType(f"memrefs must have static shapes, got {type}")
    if isinstance(type.layout, NoneAttr):
        return tuple(prod(shape[i + 1 :]) for i in range(len(shape)))
    strides = type.layout.get_strides() if isinstance(type.layout, StridedLayoutAttr) else None
    if strides is None or any(s is None for s in strides):
        raise UnsupportedType(f"memrefs must have static strides, got {type}")
    return tuple(s for s in strides if s is not None)


def is_contiguous(type: MemRefType[Attribute]) -> bool:
    """Whether the elements lie row-major without gaps (dimensions of size 1 may have any stride)."""
    expected = 1
    for size, stride in zip(reversed(type.get_shape()), reversed(static_strides(type)), strict=True):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def byte_size(type: MemRefType[Attribute]) -> int:
    """The bytes that a contiguous memref spans."""
    return prod(type.get_shape()) * element_bytes(type.element_type)
