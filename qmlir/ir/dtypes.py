"""Conversions between MLIR element types and numpy dtypes.

    f32 ↔ float32    i8 ↔ int8    ui8 ↔ uint8    i1 ↔ bool    bf16 ↔ bfloat16    f8E4M3FN ↔ float8_e4m3fn    i4 ↔ int4

The package ml_dtypes provides the floats and integers that numpy lacks; each of their elements takes whole bytes.
"""

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import (
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
    Signedness,
)
from xdsl.ir import Attribute

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


def element_type_of(dtype: npt.DTypeLike) -> Attribute:
    """Returns the MLIR element type of a numpy dtype: float32 → f32, int8 → i8, uint8 → ui8, bool → i1.

    Raises:
        KeyError: No element type is known for the dtype.
    """
    return _ELEMENT_TYPES[np.dtype(dtype).name]


def dtype_of(element: Attribute) -> np.dtype[Any]:
    """Returns the numpy dtype of an MLIR element type; the inverse of `element_type_of`.

    Raises:
        KeyError: No dtype is known for the element type.
    """
    if element not in _DTYPES:
        raise KeyError(f"no numpy dtype for {element}")
    return _DTYPES[element]


def native(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Returns the dtype in this machine's byte order: numpy's built-in dtype object if numpy has the type."""
    return np.dtype(dtype.type) if dtype.isbuiltin == 0 and dtype.kind in "biuf" else dtype


def bits_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Returns the unsigned integer dtype that holds the bits of an element."""
    return np.dtype(f"u{dtype.itemsize}")


def is_numpys_own(dtype: np.dtype[Any]) -> bool:
    """Whether a dtype is built into numpy, so that numpy can compute with it and write it to files.

    A dtype with an explicit byte order is a separate object, which numpy does not count as built in; here it counts.
    """
    return native(dtype).isbuiltin == 1
