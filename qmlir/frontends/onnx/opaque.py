"""Operators that are not imported, and attributes of nodes as arguments and as MLIR attributes."""

from collections.abc import Mapping
from functools import cached_property

import onnx
from onnx import shape_inference
from xdsl.dialects.builtin import (
    NoneType,
    StringAttr,
    TensorType,
    UnrankedTensorType,
    f32,
)
from xdsl.ir import Attribute

from qmlir.frontends.function import Floats, Ints
from qmlir.frontends.onnx.reader import Model
from qmlir.frontends.onnx.types import element_type
from qmlir.frontends.opaque import attribute_ir
from qmlir.ir.interfaces import Array, Shape
from qmlir.ir.weights import WeightsAttr

# ---------------------------------------------------------------------------------------------------------------
# Attributes of an ONNX node, as arguments of a converter and as MLIR attributes of a `qmlir.opaque` operation.


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


def attributes_ir(attributes: Mapping[str, AttributeValue]) -> dict[str, Attribute]:
    """Returns a node's attributes as MLIR attributes; a string describes a value that the IR cannot hold."""
    return {name: attribute_ir(value, real=f32, other=_other) for name, value in attributes.items()}


def _other(value: Array | onnx.GraphProto | onnx.AttributeProto) -> Attribute:
    match value:
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


# ---------------------------------------------------------------------------------------------------------------
# Imports a node that nn cannot express as a `qmlir.opaque` operation, with result types that ONNX infers.


_SMALL = 1024
"""The most elements of a constant that shape inference gets by value, since it may be a shape."""


NO_TYPE = UnrankedTensorType(NoneType())
"""The type of a tensor of which nothing is known."""


class InferredTypes:
    """The types of a model's tensors, as ONNX's shape inference finds them; the inference runs at first use."""

    def __init__(self, model: Model, shapes: Mapping[str, Shape], constants: Mapping[str, Array]):
        """shapes: The shapes of the file's inputs, by name; constants: The values bound to inputs, by name.

        The shape of another input is what the file states.
        """
        self._model, self._shapes, self._given = model, shapes, constants

    def of(self, tensor: str) -> Attribute:
        """Returns the type of a tensor by its name; unranked if the shape is unknown."""
        info = self.info(tensor)
        if info is None or not info.type.HasField("tensor_type"):
            return NO_TYPE
        kind = info.type.tensor_type
        element = element_type(kind.elem_type)
        sizes = [d.dim_value if d.HasField("dim_value") else -1 for d in kind.shape.dim]
        if not kind.HasField("shape") or min(sizes, default=0) < 0:
            return UnrankedTensorType(element)
        return TensorType(element, sizes)

    def info(self, tensor: str) -> onnx.ValueInfoProto | None:
        """Returns what is known about a tensor by its name; dimensions may have symbols."""
        return self._infos.get(tensor)

    @cached_property
    def _infos(self) -> dict[str, onnx.ValueInfoProto]:
        skeleton = self._skeleton()
        try:
            inferred = shape_inference.infer_shapes(skeleton, data_prop=True).graph
        except Exception:  # C++ exceptions have no common type; without inference the file's own types remain
            inferred = skeleton.graph
        return {i.name: i for i in (*inferred.value_info, *inferred.output)}

    def _skeleton(self) -> onnx.ModelProto:
        """Returns the model with static argument shapes and without its weights, which do not matter to inference."""
        source = self._model.proto
        skeleton = onnx.ModelProto(ir_version=source.ir_version)
        skeleton.opset_import.extend(source.opset_import)
        graph = skeleton.graph
        graph.name = source.graph.name or "main"
        graph.node.extend(source.graph.node)
        graph.output.extend(source.graph.output)
        graph.value_info.extend(source.graph.value_info)
        weights = {tensor.name for tensor in source.graph.initializer}
        for info in source.graph.input:
            if info.name in self._shapes and info.type.HasField("tensor_type"):
                code = info.type.tensor_type.elem_type
                graph.input.append(onnx.helper.make_tensor_value_info(info.name, code, self._shapes[info.name]))
            elif info.name not in self._given and info.name not in weights:
                graph.input.append(info)
        for name, array in self._given.items():
            graph.initializer.append(onnx.numpy_helper.from_array(array, name))
        for tensor in source.graph.initializer:
            size = 1
            for dim in tensor.dims:
                size *= dim
            if size <= _SMALL and tensor.data_location != onnx.TensorProto.EXTERNAL:
                graph.initializer.append(tensor)
            else:
                graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
        return skeleton
