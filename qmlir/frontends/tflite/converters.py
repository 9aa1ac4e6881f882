"""The table of converters: what qmlir knows of TFLite, keyed by builtin operator.

A converter is a plain function whose signature is the operator's:

    @converts("SOFTMAX", options="SoftmaxOptions")
    def softmax(node: TFLiteNode, x: Value, *, beta: float) -> Value: ...

Positional parameters are inputs (optional ones default to None, `*inputs` is variadic), keyword-only parameters are
fields of the operator's options in the schema, in snake case. A field that the signature lacks and that is not at its
default makes the node opaque, so nothing is ever ignored in silence. Results are the outputs in order.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from qmlir.frontends.tflite.node import TFLiteNode
from qmlir.frontends.tflite.reader import Operator, accessors, schema
from qmlir.frontends.values import Refusal, Value
from qmlir.memory import shortage

F = TypeVar("F", bound=Callable[..., object])

UNIMPORTANT = frozenset({"asymmetric_quantize_inputs", "quantized_bias_type", "pot_scale_int16", "values_count", "num"})
"""Options that say how to compute, or again what shapes and types say."""


@dataclass(frozen=True)
class Converter:
    """What a converter takes.

    options   the kind of the operator's options; empty for none that matter
    inputs    how many it takes, `required` at least; `variadic` any number
    fields    the options it takes
    """

    function: Callable[..., Any]
    options: str
    inputs: int
    required: int
    variadic: bool
    fields: tuple[str, ...]

    def __call__(self, node: TFLiteNode, operator: Operator, inputs: Sequence[Value | None]) -> list[Value]:
        """The outputs of an operator.

        Raises:
            NodeError: It lacks an input, or has options of another operator.
            Refusal: It has an input or an option that qmlir does not know.
        """
        for i in range(self.required):
            if i >= len(inputs) or inputs[i] is None:
                raise node.error(f"it needs {self.required} inputs", f"{len([x for x in inputs if x is not None])}")
        if not self.variadic and any(x is not None for x in inputs[self.inputs :]):
            raise Refusal(f"it has {len(inputs)} inputs and qmlir knows {self.inputs}")
        if self.variadic and any(x is None for x in inputs):
            raise node.error("it needs all of its inputs", "some that are left out")
        given = inputs if self.variadic else inputs[: self.inputs]
        try:
            results = self.function(node, *given, **self.values(node, operator))
        except MemoryError:
            raise shortage(f"{node.file}: {node.kind}", node.called()) from None
        return list(cast(tuple[Value, ...], results)) if isinstance(results, tuple) else [results]

    def values(self, node: TFLiteNode, operator: Operator) -> Mapping[str, Any]:
        """The options that the converter takes."""
        found = operator.options if operator.options_kind == self.options else None
        if operator.options is not None and self.options and found is None:
            raise node.error(f"its options must be {self.options}", operator.options_kind)
        if found is None:
            found = defaults(self.options) if self.options else {}
        known = {*self.fields, *UNIMPORTANT}
        if ignored := [name for name, value in found.items() if name not in known and value]:
            raise Refusal(f"qmlir does not know its option {ignored[0]} = {found[ignored[0]]}")
        return {name: found[name] for name in self.fields}


def defaults(kind: str) -> dict[str, Any]:
    """The options of a kind where a file has none: those of an empty table."""
    options = getattr(schema, kind)()
    options.Init(b"\x04\x00\x04\x00\x04\x00\x00\x00", 4)  # a table without fields behind its description
    return {
        name: () if accessor.endswith("AsNumpy") else getattr(options, accessor)()
        for name, accessor in accessors(kind).items()
    }


class Table:
    """Converters by operator."""

    def __init__(self) -> None:
        self.entries: dict[str, Converter] = {}

    def __call__(self, operator: str, *, options: str = "") -> Callable[[F], F]:
        """Registers the decorated function for `operator`."""

        def register(function: F) -> F:
            assert operator not in self.entries, f"{operator} is registered twice"
            parameters = list(inspect.signature(function).parameters.values())[1:]
            inputs = [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
            self.entries[operator] = Converter(
                function,
                options,
                len(inputs),
                sum(p.default is p.empty for p in inputs),
                any(p.kind is p.VAR_POSITIONAL for p in parameters),
                tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY),
            )
            return function

        return register

    def get(self, operator: str) -> Converter | None:
        """The converter of an operator."""
        return self.entries.get(operator)

    def operators(self) -> list[str]:
        """The operators that have one, sorted."""
        return sorted(self.entries)


converts = Table()
"""Converters: (node, *inputs, **options) → the value of each output."""
