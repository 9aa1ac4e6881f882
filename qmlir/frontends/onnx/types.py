"""Element types, attributes and dimension orders of ONNX."""

from typing import Any

import numpy as np
import onnx
from xdsl.dialects.builtin import NoneType
from xdsl.ir import Attribute, SSAValue

from qmlir.dialects.quant.types import UniformType
from qmlir.frontends.function import Value
from qmlir.frontends.onnx.node import ONNXNode
from qmlir.ir.interfaces import Array
from qmlir.ir.types import dtype_of, element_type_of

MICROSOFT = "com.microsoft"
"""The domain of onnxruntime's own operators."""

# ---------------------------------------------------------------------------------------------------------------
# Conversions between the element types of ONNX, numpy and MLIR.


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


def integers_of(array: Array) -> Array:
    """Converts an array of integers to an integer type of numpy itself, such as int4 to int8."""
    if array.dtype.kind in "iu":
        return array
    return array.astype(np.uint8 if array.dtype.name.startswith("u") else np.int8)


def element_name(code: int) -> str:
    """Returns ONNX's name of an element type, for messages."""
    known = code in onnx.TensorProto.DataType.values()
    return onnx.TensorProto.DataType.Name(code).lower() if known else f"ONNX type {code}"


# ---------------------------------------------------------------------------------------------------------------
# The transposes between ONNX's channels-first layout and nn's channels-last layout.
#
# ONNX stores images as [N, C, H, W], nn as [N, H, W, C]. Converters put one transpose before each spatial operation and
# one behind it; a later pass cancels transposes that meet.


def channels_last(node: ONNXNode, x: Value) -> SSAValue:
    """Moves the channels to the end: [N, C, …] → [N, …, C], of any rank."""
    return node.permuted(x, (0, *range(2, node.rank(x)), 1))


def channels_first(node: ONNXNode, y: SSAValue) -> SSAValue:
    """Moves the channels behind the batch: [N, …, C] → [N, C, …], of any rank."""
    rank = node.rank(y)
    return node.permuted(y, (0, rank - 1, *range(1, rank - 1)))
