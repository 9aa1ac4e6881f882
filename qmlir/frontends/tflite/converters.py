"""The options of operators as attributes for their converters, and operators that have no converter.

The attributes of a converter (frontends/converters.py) are fields of its operator's options in the schema, in snake
case; one with a default is a field that only some of the function's operators have. The options of a custom operator
are a flexbuffer of names with numbers; or, if its converter is registered with a `layout`, int32 numbers in order, of
which those at the end may be left out.
"""

import struct
from collections.abc import Mapping, Sequence
from typing import Any

from xdsl.dialects.builtin import NoneType, TensorType, UnrankedTensorType
from xdsl.ir import Attribute as IRAttribute

from qmlir.errors import UnsupportedError
from qmlir.formats.rows import Operator as Row
from qmlir.formats.tflite import options_of
from qmlir.frontends.converters import Attribute, Converter, kind_of
from qmlir.frontends.function import Value
from qmlir.frontends.opaque import attribute_ir
from qmlir.frontends.tflite.node import TFLiteNode
from qmlir.frontends.tflite.reader import CUSTOM, Operator, Tensor, accessors, schema
from qmlir.ir.own_operators import OwnOperator
from qmlir.ir.types import element_type_of

ACTIVATION = "fused_activation_function"
"""The option that is a clamp of the result."""


def options(node: TFLiteNode, operator: Operator, converter: Converter) -> Mapping[str, Any]:
    """Returns the options of an operator by name.

    Raises:
        NodeError: The operator has the options of another operator, or a custom operator has none that can be read.
    """
    if converter.layout:
        count = min(len(operator.data) // 4, len(converter.layout))
        return dict(zip(converter.layout, struct.unpack_from(f"<{count}i", operator.data), strict=False))
    if operator.kind.startswith(CUSTOM):
        if operator.options is None:
            raise node.error("its options must be a flexbuffer of names with numbers", "another format, or none")
        return operator.options
    kind = options_of(operator.kind)
    if not kind:
        return {}
    if operator.options is None:
        return defaults(kind)
    if operator.options_kind != kind:
        raise node.error(f"its options must be {kind}", operator.options_kind)
    return operator.options


def defaults(kind: str) -> dict[str, Any]:
    """Returns the default options of a kind, for an operator without an options table in the file."""
    options = getattr(schema, kind)()
    options.Init(b"\x04\x00\x04\x00\x04\x00\x00\x00", 4)  # a table without fields, behind its vtable
    return {
        name: () if accessor.endswith("AsNumpy") else getattr(options, accessor)()
        for name, accessor in accessors(kind).items()
    }


def options_ir(operator: Operator) -> dict[str, IRAttribute]:
    """Returns an operator's options as MLIR attributes."""
    return {name: attribute_ir(value) for name, value in (operator.options or {}).items()}


def fused(row: Row) -> Mapping[str, Attribute]:
    """Returns the option of an operator that is a fused activation, if its table of options has it."""
    kind = options_of(row.kind)
    return {ACTIVATION: Attribute(kind_of(int))} if kind and ACTIVATION in accessors(kind) else {}


def one_operation(row: Row, node: TFLiteNode, *inputs: Value, **options: Any) -> Value:
    """Converts an operator that is one operation on its inputs."""
    properties = {own: options[name] for name, (own, _) in row.attributes.items()}
    return node.operation(row.operation, inputs, properties, activation=options.get(ACTIVATION, 0))


def import_own(node: TFLiteNode, own: OwnOperator, operator: Operator, inputs: Sequence[Value | None]) -> list[Value]:
    """Adds the call of an operator that the program defines, on floats; results have the types that the file states."""
    types = [tensor_ir(t) if t.type is None else TensorType(t.type.expressed, t.shape) for t in node.tensors]
    if not all(isinstance(type, TensorType) for type in types):
        raise UnsupportedError("a result is of a type that qmlir does not have")
    floats = [None if x is None else node.floats(x) for x in inputs]
    own_results = node.add_own(own, floats, options_ir(operator), types)
    return [node.finished(y, i) for i, y in enumerate(own_results)]


def tensor_ir(tensor: Tensor) -> IRAttribute:
    """Returns a tensor's type in the IR; an unranked tensor of `none` if the IR lacks its element type."""
    if tensor.type is not None:
        return TensorType(tensor.type, tensor.shape)
    if tensor.dtype is None:
        return UnrankedTensorType(NoneType())
    return TensorType(element_type_of(tensor.dtype), tensor.shape)


# ---------------------------------------------------------------------------------------------------------------
# The operators of the schema that have no converter, each with the reason that its `qmlir.opaque` gives.


TABLES = "it is of a table of keys and values, for which qmlir has no type"
STRINGS = "it works on strings, for which qmlir has no type"
COMPLEX = "it works on complex numbers, for which qmlir has no type"
RANDOM = "its result is random"
SHAPELESS = "the shape of its result is known only when it runs"
STABLEHLO = "it is of StableHLO; convert the model to TFLite's own operators"
NO_KERNEL = "LiteRT has no kernel for it"
UNREAD = "its options are of a kind that qmlir does not read"
"""The reason against an operator whose table of options is in the schema's second union, which is not read."""

_BY_REASON: Mapping[str, str] = {
    TABLES: "HASHTABLE HASHTABLE_FIND HASHTABLE_IMPORT HASHTABLE_SIZE",
    STRINGS: "HASHTABLE_LOOKUP LSH_PROJECTION SKIP_GRAM",
    COMPLEX: "COMPLEX_ABS IMAG REAL RFFT2D",
    RANDOM: "MULTINOMIAL RANDOM_STANDARD_NORMAL RANDOM_UNIFORM STABLEHLO_RNG_BIT_GENERATOR",
    SHAPELESS: "EMBEDDING_LOOKUP_SPARSE",
    NO_KERNEL: "CONCAT_EMBEDDINGS",
    "it is a part of a model that a delegate has taken": "DELEGATE",
    "it stands for no operator": "PLACEHOLDER_FOR_GREATER_OP_CODES",
}

UNCONVERTED: Mapping[str, str] = {o: reason for reason, operators in _BY_REASON.items() for o in operators.split()}
"""Operator → the reason why it has no converter."""


def reason_against(operator: str) -> str:
    """Returns the reason why an operator has no converter."""
    if operator.startswith("STABLEHLO_") and operator not in UNCONVERTED:
        return STABLEHLO
    unread = hasattr(schema.BuiltinOptions2, options_of(operator))
    return UNCONVERTED.get(operator, UNREAD if unread else "qmlir has no converter for it")
