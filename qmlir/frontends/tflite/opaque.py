"""Imports an operator that nn cannot express as `qmlir.opaque`, with the result types that the file states."""

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    NoneType,
    StringAttr,
    TensorType,
    UnrankedTensorType,
    f64,
    i64,
)
from xdsl.ir import Attribute

from qmlir.dialects.qmlir import OpaqueOp
from qmlir.frontends.tflite.node import TFLiteNode
from qmlir.frontends.tflite.reader import Operator, Tensor
from qmlir.frontends.values import Refusal, Value
from qmlir.ir.dtypes import element_type_of
from qmlir.ir.names import NAME, NameAttr
from qmlir.ir.rewriting import name_hint


def import_opaque(
    node: TFLiteNode, operator: Operator, inputs: Sequence[Value | None], input_names: Sequence[str], reason: str
) -> list[Value]:
    """Adds an opaque operation that records the operator's version and options, its inputs' names and the reason."""
    operands: list[Value] = []
    for value in inputs:
        try:
            operands += [] if value is None else [node.builder.ssa(value)]
        except Refusal:  # a constant of a type that the IR lacks: it appears in `input_names` only
            continue
    op = OpaqueOp(
        f"tflite.{operator.kind}",
        [node.builder.ssa(o) for o in operands],
        [tensor_ir(t) for t in node.tensors],
        reason=reason,
        source={
            "version": IntegerAttr(operator.version, i64),
            "attributes": DictionaryAttr({k: _attribute(v) for k, v in (operator.options or {}).items()}),
            "inputs": ArrayAttr(StringAttr(n) for n in input_names),
        },
    )
    op.attributes[NAME] = NameAttr.of([], node.outputs)
    for result, output in zip(op.results, node.outputs, strict=True):
        result.name_hint = name_hint(output)
    node.add(op)
    return list(op.results)


def tensor_ir(tensor: Tensor) -> Attribute:
    """Returns a tensor's type in the IR; an unranked tensor of `none` if the IR lacks its element type."""
    if tensor.type is not None:
        return TensorType(tensor.type, tensor.shape)
    if tensor.dtype is None:
        return UnrankedTensorType(NoneType())
    return TensorType(element_type_of(tensor.dtype), tensor.shape)


def _attribute(value: Any) -> Attribute:
    if isinstance(value, tuple):
        return ArrayAttr([_attribute(v) for v in value])  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, bytes):
        return StringAttr(value.decode(errors="replace"))
    if isinstance(value, float):
        return FloatAttr(value, f64)
    return IntegerAttr(value, i64) if isinstance(value, int) else StringAttr(type(value).__name__)
