"""Element types: predicates, numpy's dtypes for them, and tensors of other elements."""

from abc import ABC, abstractmethod
from functools import lru_cache
from typing import Any, cast

import ml_dtypes
import numpy as np
import numpy.typing as npt
from typing_extensions import TypeIs
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    BFloat16Type,
    Float4E2M1FNType,
    Float8E4M3FNType,
    Float8E4M3FNUZType,
    Float8E5M2FNUZType,
    Float8E5M2Type,
    Float8E8M0FNUType,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
    MemRefType,
    Signedness,
    TensorType,
    UnrankedTensorType,
    VectorType,
)
from xdsl.ir import Attribute

from qmlir.numerics import native

# ---------------------------------------------------------------------------------------------------------------
# Predicates of types, which narrow them for the type checker.


def is_memref(type: Attribute) -> TypeIs[MemRefType[Attribute]]:
    """Whether a type is a ranked memref, of any element type."""
    return isinstance(type, MemRefType)


def is_vector(type: Attribute) -> TypeIs[VectorType[Attribute]]:
    """Whether a type is a vector, of any element type."""
    return isinstance(type, VectorType)


def is_integer(type: Attribute) -> TypeIs[IntegerType]:
    """Whether a type is an integer of any width and signedness; the index type is not."""
    return isinstance(type, IntegerType)


# ---------------------------------------------------------------------------------------------------------------
# Types that kernels need thousands of times. A type is built and verified once: that takes longer than an operation.


@lru_cache(1024)
def vector_of(element: Attribute, lanes: int) -> VectorType[Attribute]:
    """The type of a vector."""
    return VectorType(element, [lanes])


@lru_cache(1024)
def row_of(element: Attribute) -> MemRefType[Attribute]:
    """The type of a row of elements whose number is not known: `memref<?xT>`."""
    return MemRefType(element, [DYNAMIC_INDEX])


# ---------------------------------------------------------------------------------------------------------------
# Conversions between MLIR element types and numpy dtypes.
#
#     f32 ↔ float32    i8 ↔ int8    ui8 ↔ uint8    i1 ↔ bool    bf16 ↔ bfloat16    f8E4M3FN ↔ float8_e4m3fn    i4 ↔ int4
#
# The package ml_dtypes provides the floats and integers that numpy lacks; each of their elements takes whole bytes.


_ELEMENT_TYPES: dict[str, Attribute] = {
    "float16": Float16Type(),
    "float32": Float32Type(),
    "float64": Float64Type(),
    "bool": IntegerType(1),
    **{f"int{n}": IntegerType(n) for n in (2, 4, 8, 16, 32, 64)},
    **{f"uint{n}": IntegerType(n, Signedness.UNSIGNED) for n in (2, 4, 8, 16, 32, 64)},
    "bfloat16": BFloat16Type(),
    "float8_e4m3fn": Float8E4M3FNType(),
    "float8_e4m3fnuz": Float8E4M3FNUZType(),
    "float8_e5m2": Float8E5M2Type(),
    "float8_e5m2fnuz": Float8E5M2FNUZType(),
    "float8_e8m0fnu": Float8E8M0FNUType(),
    "float4_e2m1fn": Float4E2M1FNType(),
}

_DTYPES: dict[Attribute, np.dtype[Any]] = {
    element: np.dtype(getattr(ml_dtypes, name, name)) for name, element in _ELEMENT_TYPES.items()
}


class UnknownElementError(KeyError):
    """Raised for an element type that MLIR has and numpy lacks, or that numpy has and MLIR lacks."""


def element_type_of(dtype: npt.DTypeLike) -> Attribute:
    """Returns the MLIR element type of a numpy dtype: float32 → f32, int8 → i8, uint8 → ui8, bool → i1.

    Raises:
        UnknownElementError: No element type is known for the dtype.
    """
    name = np.dtype(dtype).name
    if name not in _ELEMENT_TYPES:
        raise UnknownElementError(name)
    return _ELEMENT_TYPES[name]


def dtype_of(element: Attribute) -> np.dtype[Any]:
    """Returns the numpy dtype of an MLIR element type; the inverse of `element_type_of`.

    Raises:
        UnknownElementError: No dtype is known for the element type.
    """
    if element not in _DTYPES:
        raise UnknownElementError(f"no numpy dtype for {element}")
    return _DTYPES[element]


def bits_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Returns the unsigned integer dtype that holds the bits of an element."""
    return np.dtype(f"u{dtype.itemsize}")


def is_numpys_own(dtype: np.dtype[Any]) -> bool:
    """Whether a dtype is built into numpy, so that numpy can compute with it and write it to files.

    A dtype with an explicit byte order is a separate object, which numpy does not count as built in; here it counts.
    """
    return native(dtype).isbuiltin == 1


# ---------------------------------------------------------------------------------------------------------------
# Element types of tensors, and types with the same shape but other elements, as before and after a cast.
#
# Code that must not know the quant dialect, such as the interface of tensor operations, sees a quantized type as a
# `QuantizedElement`, and a type of stored integers as an `IntegerElement`.


class QuantizedElement(ABC):
    """An element type whose values are stored as values of another type."""

    @property
    @abstractmethod
    def storage_type(self) -> Attribute:
        """The type of the stored values; `NoneAttr` if there is none."""


class IntegerElement(QuantizedElement, ABC):
    """An element type stored as integers, with one scale or with one for each index along an axis."""

    @property
    @abstractmethod
    def numpy_dtype(self) -> np.dtype[Any]:
        """The narrowest numpy integer that holds a stored integer."""

    @property
    @abstractmethod
    def axis(self) -> int | None:
        """The axis along which each index has a scale of its own; None for one scale."""

    @property
    @abstractmethod
    def scales(self) -> tuple[float, ...]:
        """The scale of each index along `axis`, in order; a single scale if `axis` is None."""

    @property
    @abstractmethod
    def zero_points(self) -> tuple[int, ...]:
        """The stored integer of each index along `axis` that is the number 0; a single one if `axis` is None."""


def element_type(type: Attribute) -> Attribute:
    """Returns a tensor's element type, or a scalar type itself."""
    if isinstance(type, TensorType | UnrankedTensorType):
        return cast(TensorType[Attribute], type).element_type
    return type


def with_element(type: Attribute, element: Attribute) -> Attribute:
    """Returns a type with the shape of `type` and elements of type `element`; for a scalar, `element` itself."""
    if isinstance(type, TensorType):
        tensor = cast(TensorType[Attribute], type)
        return TensorType(element, tensor.get_shape(), tensor.encoding)
    return UnrankedTensorType(element) if isinstance(type, UnrankedTensorType) else element


def stored_type(type: Attribute) -> Attribute:
    """Returns a quantized scalar or tensor type with its storage type as elements; other types unchanged.

    The elements are `NoneAttr` if the quantized type has no storage type (`!quant.calibrated`).
    """
    element = element_type(type)
    return with_element(type, element.storage_type) if isinstance(element, QuantizedElement) else type
