"""ONNX's element types as numpy's and as MLIR's."""

from typing import Any

import numpy as np
import onnx
from xdsl.dialects.builtin import NoneType
from xdsl.ir import Attribute

from qmlir.dialects.dtypes import dtype_of, element_type_of
from qmlir.dialects.quant.types import UniformType


def element_dtype(code: int) -> np.dtype[np.generic] | None:
    """The numpy dtype of an ONNX element type; None for one that onnx does not know."""
    try:
        return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(code))
    except (KeyError, ValueError):
        return None


def element_type(code: int) -> Attribute:
    """The MLIR type of an ONNX element type; `none` where MLIR has no such type."""
    dtype = element_dtype(code)
    try:
        return NoneType() if dtype is None else element_type_of(dtype)
    except KeyError:
        return NoneType()


def element_code(element: Attribute | np.dtype[Any]) -> int:
    """ONNX's number of an element type, MLIR's or numpy's; of a quantized one that of what it stands for."""
    if isinstance(element, UniformType):
        element = element.expressed
    return int(onnx.helper.np_dtype_to_tensor_dtype(dtype_of(element) if isinstance(element, Attribute) else element))


def element_name(code: int) -> str:
    """What ONNX calls an element type, for messages."""
    known = code in onnx.TensorProto.DataType.values()
    return onnx.TensorProto.DataType.Name(code).lower() if known else f"ONNX type {code}"
