"""Tables of converters, and operators that are not imported."""

import inspect
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, cast

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

from qmlir.errors import UnsupportedError
from qmlir.formats.tflite import Operator as Row
from qmlir.formats.tflite import options_of
from qmlir.frontends.function import Value
from qmlir.frontends.table import ConverterTable
from qmlir.frontends.tflite.node import TFLiteNode
from qmlir.frontends.tflite.reader import CUSTOM, Operator, Tensor, accessors, schema
from qmlir.ir.memory import shortage
from qmlir.ir.own_operators import OwnOperator
from qmlir.ir.types import element_type_of

# ---------------------------------------------------------------------------------------------------------------
# The table of converters, keyed by TFLite's builtin operator: the operators that qmlir can import.
#
# A converter is a function that translates an operator to nn operations. Its signature is the operator's:
#
#     @converts("SOFTMAX")
#     def softmax(node: TFLiteNode, x: Value, *, beta: float) -> Value: ...
#
# Positional parameters are inputs (an optional input defaults to None, `*inputs` is variadic). Keyword-only parameters
# are fields of the operator's options in the schema, in snake case; one with a default is a field that only some of the
# function's operators have. If a field that the signature lacks is not 0, the node becomes opaque, so no field is
# ignored in silence. A converter returns the outputs in order; its docstring describes the value of the output.
# Operators that are one operation on their inputs have no function: they are rows in formats/tflite.py.


F = TypeVar("F", bound=Callable[..., object])

ACTIVATION = "fused_activation_function"
"""The option that is a clamp of the result."""

UNIMPORTANT = frozenset({"asymmetric_quantize_inputs", "quantized_bias_type", "pot_scale_int16", "values_count", "num"})
"""Options that the importer ignores: they choose how to compute, or repeat what shapes and types state."""


@dataclass(frozen=True)
class Converter:
    """A converter, with the inputs and options that its signature takes.

    function  the decorated function
    options   the schema's name of the operator's options table; empty if the converter reads no options
    inputs    the most inputs that the function takes
    required  the fewest inputs that the function takes
    variadic  whether the function takes any number of inputs
    fields    the names of the options that the function takes
    optional  whether any of a variadic function's inputs may be left out
    """

    function: Callable[..., Any]
    options: str
    inputs: int
    required: int
    variadic: bool
    fields: tuple[str, ...]
    optional: bool = False

    def __call__(self, node: TFLiteNode, operator: Operator, inputs: Sequence[Value | None]) -> list[Value]:
        """Converts an operator and returns its outputs.

        Raises:
            NodeError: The operator lacks an input, or has the options of another operator.
            UnsupportedError: The operator has an input or an option that qmlir does not know.
        """
        for i in range(self.required):
            if i >= len(inputs) or inputs[i] is None:
                raise node.error(f"it needs {self.required} inputs", f"{len([x for x in inputs if x is not None])}")
        if not self.variadic and any(x is not None for x in inputs[self.inputs :]):
            raise UnsupportedError(f"it has {len(inputs)} inputs and qmlir knows {self.inputs}")
        if self.variadic and not self.optional and any(x is None for x in inputs):
            raise node.error("it needs all of its inputs", "some that are left out")
        given = inputs if self.variadic else inputs[: self.inputs]
        try:
            results = self.function(node, *given, **self.values(node, operator))
        except MemoryError:
            raise shortage(f"{node.file}: {node.kind}", node.called()) from None
        return list(cast(tuple[Value, ...], results)) if isinstance(results, tuple) else [results]

    def values(self, node: TFLiteNode, operator: Operator) -> Mapping[str, Any]:
        """Returns the options that the converter takes, by name; raises as calling it does."""
        found = operator.options if operator.options_kind == self.options else None
        if operator.options is not None and self.options and found is None:
            raise node.error(f"its options must be {self.options}", operator.options_kind)
        if found is None:
            found = defaults(self.options) if self.options else {}
        known = {*self.fields, *UNIMPORTANT}
        if ignored := [name for name, value in found.items() if name not in known and value]:
            raise UnsupportedError(f"qmlir does not know its option {ignored[0]} = {found[ignored[0]]}")
        return {name: found[name] for name in self.fields if name in found}


@dataclass(frozen=True)
class CustomConverter(Converter):
    """The converter of a custom operator; options that its signature has a default for may be left out."""

    def values(self, node: TFLiteNode, operator: Operator) -> Mapping[str, Any]:
        given = operator.options
        if given is None:
            raise node.error("its options must be a flexbuffer of names with numbers", "another format, or none")
        wanted = inspect.signature(self.function).parameters
        if lacking := [n for n in self.fields if n not in given and wanted[n].default is inspect.Parameter.empty]:
            raise node.error(f"it needs its option {lacking[0]}", "none")
        if unknown := [n for n in given if n not in self.fields and not n.startswith("_")]:
            raise UnsupportedError(f"qmlir does not know its option {unknown[0]} = {given[unknown[0]]}")
        return {name: given[name] for name in self.fields if name in given}


@dataclass(frozen=True)
class PackedConverter(Converter):
    """The converter of a custom operator whose options are int32 numbers in order; those at the end may be left out.

    layout  the names of the numbers
    """

    layout: tuple[str, ...] = ()

    def values(self, node: TFLiteNode, operator: Operator) -> Mapping[str, Any]:
        count = min(len(operator.data) // 4, len(self.layout))
        found = dict(zip(self.layout, struct.unpack_from(f"<{count}i", operator.data), strict=False))
        wanted = inspect.signature(self.function).parameters
        if lacking := [n for n in self.fields if n not in found and wanted[n].default is inspect.Parameter.empty]:
            raise node.error(f"its options must be {len(self.layout)} numbers, among them {lacking[0]}", f"{count}")
        return found


def defaults(kind: str) -> dict[str, Any]:
    """Returns the default options of a kind, for an operator without an options table in the file."""
    options = getattr(schema, kind)()
    options.Init(b"\x04\x00\x04\x00\x04\x00\x00\x00", 4)  # a table without fields, behind its vtable
    return {
        name: () if accessor.endswith("AsNumpy") else getattr(options, accessor)()
        for name, accessor in accessors(kind).items()
    }


class Table(ConverterTable[Converter]):
    """A table whose converters are registered by decorators."""

    def __call__(self, operator: str, *, layout: tuple[str, ...] = ()) -> Callable[[F], F]:
        """Returns a decorator that registers a function as the converter of `operator`.

        Args:
            operator: The operator's kind.
            layout: The names of a custom operator's options, if these are numbers in order (`PackedConverter`).
        """

        def register(function: F) -> F:
            parameters = list(inspect.signature(function).parameters.values())[1:]
            inputs = [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
            is_custom = operator.startswith(CUSTOM)
            kind = partial(PackedConverter, layout=layout) if layout else CustomConverter if is_custom else Converter
            converter = kind(
                function,
                "" if is_custom else options_of(operator),
                len(inputs),
                sum(p.default is p.empty for p in inputs),
                any(p.kind is p.VAR_POSITIONAL for p in parameters),
                tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY),
                any(p.kind is p.VAR_POSITIONAL and p.annotation == (Value | None) for p in parameters),
            )
            self.add(operator, converter)
            return function

        return register


def operator_table(operators: Iterable[Row]) -> Table:
    """Returns the converters of operators that are one operation on their inputs."""
    table = Table()
    for operator in operators:
        options = options_of(operator.kind)
        fused = [ACTIVATION] if options and ACTIVATION in accessors(options) else []
        table.entries[operator.kind] = Converter(
            partial(_one_operation, operator), options, operator.inputs, operator.inputs, False,
            (*operator.attributes, *fused),
        )  # fmt: skip
    return table


def _one_operation(operator: Row, node: TFLiteNode, *inputs: Value, **options: Any) -> Value:
    properties = {own: type(options[name]) for name, (own, type) in operator.attributes.items()}
    return node.operation(operator.operation, inputs, properties, activation=options.get(ACTIVATION, 0))


# ---------------------------------------------------------------------------------------------------------------
# Imports an operator that nn cannot express as `qmlir.opaque`, with the result types that the file states.


def import_opaque(
    node: TFLiteNode, operator: Operator, inputs: Sequence[Value | None], input_names: Sequence[str], reason: str
) -> list[Value]:
    """Adds an opaque operation that records the operator's version and options, its inputs' names and the reason."""
    return node.add_opaque(
        f"tflite.{operator.kind}",
        inputs,
        [tensor_ir(t) for t in node.tensors],
        reason,
        {
            "version": IntegerAttr(operator.version, i64),
            "attributes": DictionaryAttr({k: _attribute(v) for k, v in (operator.options or {}).items()}),
            "inputs": ArrayAttr(StringAttr(n) for n in input_names),
        },
    )


def import_own(node: TFLiteNode, own: OwnOperator, operator: Operator, inputs: Sequence[Value | None]) -> list[Value]:
    """Adds the call of an operator that the program defines, on floats; results have the types that the file states."""
    types = [tensor_ir(t) if t.type is None else TensorType(t.type.expressed, t.shape) for t in node.tensors]
    if not all(isinstance(type, TensorType) for type in types):
        raise UnsupportedError("a result is of a type that qmlir does not have")
    floats = [None if x is None else node.floats(x) for x in inputs]
    options = {name: _attribute(value) for name, value in (operator.options or {}).items()}
    return [node.finished(y, i) for i, y in enumerate(node.add_own(own, floats, options, types))]


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
