"""Conversions between the element types of ONNX, numpy and MLIR."""

from typing import Any

import numpy as np
import onnx
from xdsl.dialects.builtin import NoneType
from xdsl.ir import Attribute

from qmlir.dialects.quant.types import UniformType
from qmlir.ir.dtypes import dtype_of, element_type_of


def element_dtype(code: int) -> np.dtype[np.generic] | None:
    """Returns the numpy dtype of an ONNX element type; None if onnx does not know the type."""
    try:
        return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(code))
    except (KeyError, ValueError):
        return None


def element_type(code: int) -> Attribute:
    """Returns the MLIR type of an ONNX element type; `none` if MLIR has no such type."""
    dtype = element_dtype(code)
    try:
        return NoneType() if dtype is None else element_type_of(dtype)
    except KeyError:
        return NoneType()


def element_code(element: Attribute | np.dtype[Any]) -> int:
    """Returns ONNX's number of an MLIR or numpy element type; for a quantized type, of its expressed (float) type."""
    if isinstance(element, UniformType):
        element = element.expressed
    return int(onnx.helper.np_dtype_to_tensor_dtype(dtype_of(element) if isinstance(element, Attribute) else element))


def element_name(code: int) -> str:
    """Returns ONNX's name of an element type, for messages."""
    known = code in onnx.TensorProto.DataType.values()
    return onnx.TensorProto.DataType.Name(code).lower() if known else f"ONNX type {code}"
