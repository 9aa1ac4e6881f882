"""A node without meaning in nn as a `qmlir.opaque` operation, its result types as ONNX infers them."""

from collections.abc import Mapping, Sequence
from functools import cached_property

import onnx
from onnx import shape_inference
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IntegerAttr,
    NoneType,
    StringAttr,
    TensorType,
    UnrankedTensorType,
    i64,
)
from xdsl.ir import Attribute

from qmlir.dialects.interfaces import Array, Shape
from qmlir.dialects.qmlir import NAME, NameAttr, OpaqueOp
from qmlir.frontends.builder import Node
from qmlir.frontends.onnx.attributes import AttributeValue, attribute_ir
from qmlir.frontends.onnx.reader import Model
from qmlir.frontends.onnx.types import element_type
from qmlir.frontends.values import Refusal, Value
from qmlir.rewriting import name_hint

_SMALL = 1024
"""Constants up to this many elements may be shapes, whose values matter to inference."""


class InferredTypes:
    """The type of any tensor of a model, as ONNX's own shape inference finds it; it runs when first asked."""

    def __init__(self, model: Model, shapes: Mapping[str, Shape], constants: Mapping[str, Array]):
        """shapes: those of the arguments; constants: inputs bound to values."""
        self._model, self._shapes, self._given = model, shapes, constants

    def of(self, tensor: str) -> Attribute:
        """A tensor type; unranked where the shape is not known."""
        info = self._infos.get(tensor)
        if info is None or not info.type.HasField("tensor_type"):
            return UnrankedTensorType(NoneType())
        kind = info.type.tensor_type
        element = element_type(kind.elem_type)
        sizes = [d.dim_value if d.HasField("dim_value") else -1 for d in kind.shape.dim]
        if not kind.HasField("shape") or min(sizes, default=0) < 0:
            return UnrankedTensorType(element)
        return TensorType(element, sizes)

    @cached_property
    def _infos(self) -> dict[str, onnx.ValueInfoProto]:
        skeleton = self._skeleton()
        try:
            inferred = shape_inference.infer_shapes(skeleton, data_prop=True).graph
        except Exception:  # C++ with exceptions of no common type; without inference the file's own types remain
            inferred = skeleton.graph
        return {i.name: i for i in (*inferred.value_info, *inferred.output)}

    def _skeleton(self) -> onnx.ModelProto:
        """The model with static arguments and without its weights, which are big and do not matter here."""
        source = self._model.proto
        skeleton = onnx.ModelProto(ir_version=source.ir_version)
        skeleton.opset_import.extend(source.opset_import)
        graph = skeleton.graph
        graph.name = source.graph.name or "main"
        graph.node.extend(source.graph.node)
        graph.output.extend(source.graph.output)
        graph.value_info.extend(source.graph.value_info)
        for info in source.graph.input:
            if info.name in self._shapes:
                code = info.type.tensor_type.elem_type
                graph.input.append(onnx.helper.make_tensor_value_info(info.name, code, self._shapes[info.name]))
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


def import_opaque(
    node: Node,
    version: int,
    inputs: Sequence[Value | None],
    input_names: Sequence[str],
    attributes: Mapping[str, AttributeValue],
    types: InferredTypes,
    reason: str,
) -> list[Value]:
    """Adds an opaque operation with all that the node says.

    Its `source` holds the operator set's `version`, the node's `attributes` and the names of its `inputs`, where an
    empty one stands for an input that is left out; constants of types that the IR lacks are named there only.
    """
    operands: list[Value] = []
    for value in inputs:
        try:
            operands += [] if value is None else [node.builder.ssa(value)]
        except Refusal:
            continue
    domain = "" if "." in node.kind else "onnx."
    op = OpaqueOp(
        domain + node.kind,
        [node.builder.ssa(o) for o in operands],
        [types.of(o) if o else UnrankedTensorType(NoneType()) for o in node.outputs],
        reason=reason,
        source={
            "version": IntegerAttr(version, i64),
            "attributes": DictionaryAttr({name: attribute_ir(value) for name, value in attributes.items()}),
            "inputs": ArrayAttr(StringAttr(n) for n in input_names),
        },
    )
    op.attributes[NAME] = NameAttr.of([node.name], node.outputs)
    for result, output in zip(op.results, node.outputs, strict=True):
        result.name_hint = name_hint(output)
    node.add(op)
    return list(op.results)
