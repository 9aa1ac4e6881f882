"""Tables of converters, and operators that are not imported.

A converter is a function that translates an operator to nn operations. Its signature is the operator's:

    @converts("Flatten", "Int8Flatten")
    def flatten(node: Caffe2Node, x: Value, *, axis: int = 1) -> Value: ...

Positional parameters are inputs (an optional input defaults to None, `*inputs` is variadic). Keyword-only parameters
are arguments with Caffe2's defaults; their annotations are the types that the arguments must have. A parameter of type
`Window` gathers the arguments of a window. If an operator has an argument that the signature lacks, the node becomes
opaque, so no argument is ever ignored in silence. A converter returns the outputs in order. Operators that are one
operation on their inputs have no function: they are rows in formats/caffe2.py.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, cast

import numpy as np
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    NoneType,
    StringAttr,
    UnrankedTensorType,
    f64,
    i64,
)
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from qmlir.errors import UnsupportedError
from qmlir.formats.caffe2 import Operator as Row
from qmlir.frontends.caffe2.node import SCALE, ZERO_POINT, Caffe2Node
from qmlir.frontends.caffe2.reader import Operator
from qmlir.frontends.caffe2.windows import WINDOW_ARGUMENTS, Window
from qmlir.frontends.function import Floats, Ints, Value
from qmlir.frontends.table import ConverterTable
from qmlir.ir.memory import shortage

F = TypeVar("F", bound=Callable[..., object])

UNIMPORTANT = frozenset(
    """allow_broadcast_fastpath cudnn_exhaustive_search deterministic_mode engine exhaustive_search is_gradient_op
    init_params net_name op_version order shared_buffer shared_ws_nbytes_limit use_cudnn ws_nbytes_limit""".split()
)
"""Arguments that the importer ignores: they choose how to compute.

Nets give the `order` of images to sums and functions of elements, too, which compute the same in every order. The
converters of operators that compute by the order take it.
"""


@dataclass(frozen=True)
class Kind:
    """What values an argument of a type may have.

    words  the type in an error
    read   makes the value that a converter takes; None if the value is of another type
    """

    words: str
    read: Callable[[Any], Any]


def _int(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _float(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _str(value: Any) -> str | None:
    try:
        return value.decode() if isinstance(value, bytes) else None
    except UnicodeDecodeError:
        return None


def _ints(value: Any) -> Ints | None:
    if not isinstance(value, tuple):
        return None
    items = cast(tuple[Any, ...], value)
    return items if all(isinstance(v, int) for v in items) else None


def _floats(value: Any) -> Floats | None:
    if not isinstance(value, tuple):
        return None
    items = cast(tuple[Any, ...], value)
    return tuple(float(v) for v in items) if all(isinstance(v, int | float) for v in items) else None


def _flag(value: Any) -> bool | None:
    return None if (number := _int(value)) is None else bool(number)


KINDS: Mapping[Any, Kind] = {
    int: Kind("an integer", _int),
    float: Kind("a number", _float),
    bool: Kind("0 or 1", _flag),
    str: Kind("text", _str),
    Ints: Kind("integers", _ints),
    Floats: Kind("numbers", _floats),
    Any: Kind("a value", lambda value: value),
}
"""Annotation of a parameter → what its argument may be; a parameter that may be None has one of these, too."""


def _kind(annotation: Any) -> Kind:
    for known, kind in KINDS.items():
        if annotation == known or annotation == known | None:
            return kind
    raise AssertionError(f"no argument is of type {annotation}")


@dataclass(frozen=True)
class Converter:
    """A converter, with the inputs and arguments that its signature takes.

    function   the decorated function
    inputs     the most inputs that the function takes
    required   the fewest inputs that the function takes
    variadic   whether the function takes any number of inputs
    arguments  argument → (what it may be, whether it is required)
    window     whether the function takes a `Window`
    """

    function: Callable[..., Any]
    inputs: int
    required: int
    variadic: bool
    arguments: Mapping[str, tuple[Kind, bool]]
    window: bool

    @staticmethod
    def of(function: Callable[..., Any]) -> "Converter":
        """Reads a function's parameters, leaving out the first: the node."""
        parameters = list(inspect.signature(function).parameters.values())[1:]
        inputs = [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
        named = [p for p in parameters if p.kind is p.KEYWORD_ONLY]
        return Converter(
            function,
            len(inputs),
            sum(p.default is p.empty for p in inputs),
            any(p.kind is p.VAR_POSITIONAL for p in parameters),
            {p.name: (_kind(p.annotation), p.default is p.empty) for p in named if p.annotation is not Window},
            any(p.annotation is Window for p in named),
        )

    def __call__(self, node: Caffe2Node, inputs: Sequence[Value]) -> list[Value]:
        """Converts an operator and returns its outputs.

        Raises:
            NodeError: The operator lacks an input or an argument, or has an argument of another type.
            UnsupportedError: The operator has an input or an argument that qmlir does not know.
        """
        if len(inputs) < self.required:
            raise node.error(f"it needs {self.required} inputs", str(len(inputs)))
        if not self.variadic and len(inputs) > self.inputs:
            raise UnsupportedError(f"it has {len(inputs)} inputs and qmlir knows {self.inputs}")
        given = self._given(node)
        try:
            results = self.function(node, *inputs, **given)
        except MemoryError:
            raise shortage(f"{node.file}: {node.kind}", node.called()) from None
        except (VerifyException, ValueError, IndexError, TypeError, ArithmeticError) as error:
            raise node.error("its inputs and arguments must fit", " ".join(str(error).split())) from None
        return list(cast(tuple[Value, ...], results)) if isinstance(results, tuple) else [results]

    def _given(self, node: Caffe2Node) -> dict[str, Any]:
        """Returns the arguments that the function takes, by name; raises as calling it does."""
        given: dict[str, Any] = {}
        if self.window:
            given["window"] = Window.of(node)
        for name, value in node.arguments.items():
            if name in self.arguments:
                kind, _ = self.arguments[name]
                if (read := kind.read(value)) is None:
                    raise node.error(f"its argument {name} must be {kind.words}", shown(value))
                given[name] = read
            elif not (name in UNIMPORTANT or (self.window and name in WINDOW_ARGUMENTS)) and not (
                name in (SCALE, ZERO_POINT) and node.kind.startswith("Int8")
            ):
                raise UnsupportedError(f'qmlir does not know its argument "{name}"')
        for name, (kind, required) in self.arguments.items():
            if required and name not in given:
                raise node.error(f"it needs its argument {name}, {kind.words}", "none")
        return given


def shown(value: Any) -> str:
    """Returns an argument's value for an error."""
    return " ".join(repr(value).split())[:80]


class Table(ConverterTable[Converter]):
    """A table whose converters are registered by decorators."""

    def __call__(self, *operators: str) -> Callable[[F], F]:
        """Returns a decorator that registers a function as the converter of these operators."""

        def register(function: F) -> F:
            for operator in operators:
                self.add(operator, Converter.of(function))
            return function

        return register


def operator_table(rows: Iterable[Row]) -> Table:
    """Returns the converters of operators that are one operation on their inputs."""
    table = Table()
    for row in rows:
        arguments = {name: (KINDS[type(default)], False) for name, (_, default) in row.attributes.items()}
        table.entries[row.kind] = Converter(
            partial(_one_operation, row), row.inputs, row.inputs, False, arguments, False
        )
    return table


def _one_operation(row: Row, node: Caffe2Node, *inputs: Value, **given: Any) -> Value:
    properties = {own: given.get(name, default) for name, (own, default) in row.attributes.items()}
    if row.on_integers:
        node.require_quantized(*inputs)
        node.stated_type()
        return node.pointwise(row.operation, inputs, properties)
    return node.compute(row.operation, [node.real(x) for x in inputs], properties)


# ---------------------------------------------------------------------------------------------------------------
# Imports an operator that nn cannot express as `qmlir.opaque`; the shapes of its results are not known.


def import_opaque(node: Caffe2Node, operator: Operator, inputs: Sequence[Value | None], reason: str) -> list[Value]:
    """Adds an opaque operation that records the operator's arguments, its inputs' names and the reason."""
    return node.add_opaque(
        f"caffe2.{operator.kind}",
        inputs,
        [UnrankedTensorType(NoneType()) for _ in node.outputs],
        reason,
        {
            "version": IntegerAttr(1, i64),
            "attributes": DictionaryAttr({k or "_": _attribute(v) for k, v in operator.arguments.items()}),
            "inputs": ArrayAttr(StringAttr(n) for n in operator.inputs),
        },
    )


MOST_SHOWN = 64
"""The most elements of an argument that an opaque operation records."""


def _attribute(value: Any) -> Attribute:
    match value:
        case tuple():
            items = cast(tuple[Any, ...], value)
            return ArrayAttr([_attribute(v) for v in items[:MOST_SHOWN]])
        case np.ndarray():
            return StringAttr(f"{value.size} values")
        case bytes():
            return StringAttr(value[:MOST_SHOWN].decode(errors="replace"))
        case float():
            return FloatAttr(value, f64)
        case int():
            return IntegerAttr(value, i64)
        case _:
            return StringAttr(type(value).__name__)


# ---------------------------------------------------------------------------------------------------------------
# Operators that have no converter, each with the reason that its `qmlir.opaque` gives.


RANDOM = "its result is random"
SHAPELESS = "the shape of its result is known only when it runs"
SUBNETS = "it runs another net, and qmlir imports nets without branches and loops"
STRINGS = "it works on strings, for which qmlir has no type"
BOXES = "it computes on boxes, as many as the data say"
STATE = "it reads or writes what lives from call to call"

_BY_REASON: Mapping[str, str] = {
    RANDOM: "RandomFill UniformIntFill UniqueUniformFill",
    SHAPELESS: "BatchSparseToDenseV2 BooleanMask BoxWithNMSLimit CollectAndDistributeFpnRpnProposals "
    "CollectRpnProposals DistributeFpnProposals Find GenerateProposals NonZero Unique Where2",
    BOXES: "BBoxTransform RoIAlign RoIAlignRotated RoIPool",
    SUBNETS: "AsyncIf Do For If ONNXWhile RecurrentNetwork While",
    STRINGS: "GivenTensorStringFill StringEndsWith StringEquals StringJoin StringPrefix StringStartsWith StringSuffix",
    STATE: "AtomicIter BlobsQueue CreateCounter CreateMutex DequeueBlobs EnqueueBlobs Iter Load Print Save",
}

UNCONVERTED: Mapping[str, str] = {o: reason for reason, operators in _BY_REASON.items() for o in operators.split()}
"""Operator → the reason why it has no converter."""


def reason_against(operator: str) -> str:
    """Returns the reason why an operator has no converter."""
    return UNCONVERTED.get(operator, f"qmlir knows no {operator}")
