"""Attributes of an ONNX node, as arguments of a converter and as MLIR attributes of a `qmlir.opaque` operation."""

import onnx
from xdsl.dialects.builtin import ArrayAttr, FloatAttr, IntegerAttr, StringAttr, f32, i64
from xdsl.ir import Attribute

from qmlir.frontends.onnx.reader import Model
from qmlir.frontends.values import Floats, Ints
from qmlir.ir.interfaces import Array
from qmlir.ir.weights import WeightsAttr

AttributeValue = int | float | str | Ints | Floats | tuple[str, ...] | Array | onnx.GraphProto | onnx.AttributeProto
"""The value of an attribute as a converter takes it; an attribute without a Python form stays a protobuf message."""

_TYPES = onnx.AttributeProto


def attribute_value(attribute: onnx.AttributeProto, model: Model) -> AttributeValue:
    """Returns the value of an attribute.

    Raises:
        FileError: The attribute is a tensor whose data do not match its declared type and shape.
    """
    match attribute.type:
        case _TYPES.INT:
            return attribute.i
        case _TYPES.FLOAT:
            return attribute.f
        case _TYPES.STRING:
            return attribute.s.decode(errors="replace")
        case _TYPES.INTS:
            return tuple(attribute.ints)
        case _TYPES.FLOATS:
            return tuple(attribute.floats)
        case _TYPES.STRINGS:
            return tuple(s.decode(errors="replace") for s in attribute.strings)
        case _TYPES.TENSOR:
            return model.array(attribute.t)
        case _TYPES.SPARSE_TENSOR:
            return model.dense(attribute.sparse_tensor)
        case _TYPES.GRAPH:
            return attribute.g
        case _:
            return attribute


def attribute_ir(value: AttributeValue) -> Attribute:
    """Returns the value of an attribute as an MLIR attribute; a string describes a value that the IR cannot hold."""
    match value:
        case int():
            return IntegerAttr(value, i64)
        case float():
            return FloatAttr(value, f32)
        case str():
            return StringAttr(value)
        case tuple():
            return ArrayAttr(attribute_ir(v) for v in value)
        case onnx.GraphProto():
            return StringAttr("a graph")
        case onnx.AttributeProto():
            return StringAttr(f"a {onnx.AttributeProto.AttributeType.Name(value.type).lower().replace('_', ' ')}")
        case _:
            try:
                weights = WeightsAttr(value)
                weights.type
                return weights
            except KeyError:
                return StringAttr(f"a tensor of {value.dtype} of shape {list(value.shape)}")
