"""Operators that are defined by function bodies, which come from the model or from ONNX itself.

A model may define functions of its own. ONNX itself defines many operators by bodies of simpler operators; some of
these bodies depend on the node and the types of its inputs. The walk over the nodes (walk.py) imports an ONNX body in
the node's place if the operator has no converter or the converter refuses the node.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import onnx
from google.protobuf.message import DecodeError
from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from qmlir.frontends.onnx.types import element_code
from qmlir.frontends.values import Constant, Refusal, Value
from qmlir.ir.interfaces import element_of, shape_of

Key = tuple[str, str, str]
"""Domain, operator and overload."""


def local_functions(model: onnx.ModelProto) -> dict[Key, onnx.FunctionProto]:
    """Returns the functions that a model defines."""
    return {(_domain(f.domain), f.name, f.overload): f for f in model.functions}


def key_of(node: onnx.NodeProto) -> Key:
    """Returns the key under which a node's function is found, if its operator is a function."""
    return _domain(node.domain), node.op_type, node.overload


def _domain(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


def onnx_function(node: onnx.NodeProto, version: int, inputs: Sequence[Value | None]) -> onnx.FunctionProto | None:
    """Returns the function body that ONNX defines for a node's operator; None if ONNX defines no body.

    Args:
        node: The node.
        version: The operator set version of the node's domain.
        inputs: The node's inputs, whose types the body may depend on; if a type is unknown, the result is None.

    """
    domain = _domain(node.domain)
    if not version or not onnx.defs.has(node.op_type, version, domain):
        return None
    schema: Any = onnx.defs.get_schema(node.op_type, version, domain)  # onnx's type stubs lack the functions
    if any(a.name not in schema.attributes for a in node.attribute):
        return None  # the body would ignore an attribute that the schema lacks
    try:
        types = [_type(i).SerializeToString() for i in inputs]
        if schema.has_function:
            chosen = _newest(schema.function_opset_versions, version)
            function = onnx.FunctionProto.FromString(schema.get_function_with_opset_version(chosen))
            defaults = (a.default_value for a in schema.attributes.values())
            function.attribute_proto.extend(d for d in defaults if d.type)
            return function
        if schema.has_context_dependent_function:
            chosen = _newest(schema.context_dependent_function_opset_versions, version)
            body = schema.get_context_dependent_function_with_opset_version(chosen, node.SerializeToString(), types)
            return onnx.FunctionProto.FromString(body) if body else None
    except (Refusal, RuntimeError, ValueError, DecodeError):  # ONNX has no body for these types or attributes
        pass
    return None


def _newest(versions: Iterable[int], version: int) -> int:
    """Returns the newest body version up to operator set `version`; the oldest version if all are newer."""
    known = sorted(versions)
    return max((v for v in known if v <= version), default=known[0])


def _type(value: Value | None) -> onnx.TypeProto:
    """Returns the type of an input as an ONNX message; an absent input has an empty type."""
    if value is None:
        return onnx.TypeProto()
    if isinstance(value, SSAValue) and not isinstance(value.type, TensorType):
        raise Refusal("the type of one of its inputs is not known")
    shape = value.array.shape if isinstance(value, Constant) else shape_of(value)
    return onnx.helper.make_tensor_type_proto(
        element_code(value.array.dtype if isinstance(value, Constant) else element_of(value)), shape
    )


def bound_body(function: onnx.FunctionProto, attributes: Mapping[str, onnx.AttributeProto]) -> Sequence[onnx.NodeProto]:
    """Returns a function's nodes with the attributes of a call substituted.

    Args:
        function: The function, which is left as it is.
        attributes: The attributes of the calling node, by name; the function's defaults replace absent attributes.
    """
    given = {a.name: a for a in function.attribute_proto} | dict(attributes)
    return [_bound(node, given) for node in function.node]


def _bound(node: onnx.NodeProto, given: Mapping[str, onnx.AttributeProto]) -> onnx.NodeProto:
    """Returns a node with references to the function's attributes replaced; a reference to an absent one is dropped."""
    bound = onnx.NodeProto()
    bound.CopyFrom(node)
    del bound.attribute[:]
    for attribute in node.attribute:
        if attribute.ref_attr_name:
            if (value := given.get(attribute.ref_attr_name)) is not None:
                bound.attribute.add().CopyFrom(value)
                bound.attribute[-1].name = attribute.name
            continue
        copy = bound.attribute.add()
        copy.CopyFrom(attribute)
        for graph in ([copy.g] if copy.HasField("g") else []) + list(copy.graphs):
            nodes = [_bound(n, given) for n in graph.node]
            del graph.node[:]
            graph.node.extend(nodes)
    return bound
