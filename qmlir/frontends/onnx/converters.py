"""The tables of converters and folds, keyed by operator and version: the ONNX operators that qmlir knows.

A converter is a plain function whose signature is the operator's:

    @converts("Softmax", since=13)
    def softmax(node: Node, x: Value, *, axis: int = -1) -> Value: ...

Positional parameters are inputs (optional ones default to None, `*inputs` is variadic), keyword-only parameters are
attributes with their ONNX defaults, results are the outputs in order. An operator may have several entries: the model
uses the entry with the newest `since` that is not above its operator set. If a node has an attribute that the signature
lacks, the node becomes opaque, so no attribute is ever ignored in silence.

A fold replaces a node whose inputs are all constants. It has the same signature, with the budget of computed constants
in the place of the node, and works on arrays. A result that is larger than its inputs is charged to the budget before
it is computed.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from qmlir.frontends.builder import Node
from qmlir.frontends.function import Refusal

F = TypeVar("F", bound=Callable[..., object])


@dataclass(frozen=True)
class Signature:
    """What a converter or a fold takes.

    since      the first operator set version it serves
    function   called with the inputs, then the attributes by name
    inputs     names of the inputs, without the variadic input
    required   how many of these inputs must be present
    variadic   whether more inputs may follow
    attributes  name → whether it is required
    """

    since: int
    function: Callable[..., Any]
    inputs: tuple[str, ...]
    required: int
    variadic: bool
    attributes: Mapping[str, bool]

    @staticmethod
    def of(function: Callable[..., Any], since: int, skip: int) -> "Signature":
        """Reads a function's parameters, leaving out the first `skip`."""
        parameters = list(inspect.signature(function).parameters.values())[skip:]
        inputs = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        return Signature(
            since,
            function,
            tuple(p.name for p in inputs),
            sum(p.default is p.empty for p in inputs),
            any(p.kind is p.VAR_POSITIONAL for p in parameters),
            {p.name: p.default is p.empty for p in parameters if p.kind is p.KEYWORD_ONLY},
        )

    def check(self, node: Node, inputs: Sequence[object | None], attributes: Mapping[str, object]) -> None:
        """Checks a node against the signature.

        Raises:
            NodeError: The node lacks a required input or attribute.
            Refusal: The node has an input or an attribute that qmlir does not know.
        """
        for i, wanted in enumerate(self.inputs[: self.required]):
            if i >= len(inputs) or inputs[i] is None:
                raise node.error(f'needs its input "{wanted}"', "none")
        for wanted, required in self.attributes.items():
            if required and wanted not in attributes:
                raise node.error(f'needs its attribute "{wanted}"', "none")
        further = inputs[len(self.inputs) :]
        if not self.variadic and any(i is not None for i in further):
            raise Refusal(f"it has {len(inputs)} inputs and qmlir knows {len(self.inputs)}")
        if self.variadic and any(i is None for i in further):
            raise node.error("needs all of its inputs", "some that are left out")
        if unknown := [a for a in attributes if a not in self.attributes]:
            raise Refusal(f'qmlir does not know its attribute "{unknown[0]}"')


class Table:
    """Signatures by (domain, operator), with several versions of each operator."""

    _entries: dict[tuple[str, str], list[Signature]]
    _skip: int

    def __init__(self, skip: int):
        self._entries, self._skip = {}, skip

    def __call__(self, operator: str, *, since: int = 1, domain: str = "") -> Callable[[F], F]:
        """Registers the decorated function for `operator` from version `since` of its domain's operator set on."""

        def register(function: F) -> F:
            self.enter(operator, Signature.of(function, since, self._skip), domain)
            return function

        return register

    def enter(self, operator: str, signature: Signature, domain: str = "") -> None:
        """Registers what an operator takes, and what is called, from a version of its domain's operator set on."""
        entries = self._entries.setdefault((domain, operator), [])
        assert all(e.since != signature.since for e in entries), f"{operator}: {signature.since} is registered twice"
        entries.append(signature)

    def select(self, domain: str, operator: str, version: int) -> Signature | None:
        """Returns the newest entry for an operator in a given operator set; None if the operator has no entry."""
        eligible = [e for e in self._entries.get((domain, operator), ()) if e.since <= version]
        return max(eligible, key=lambda e: e.since, default=None)

    def operators(self) -> list[tuple[str, str, list[int]]]:
        """Lists (domain, operator, first versions of its entries) for every operator, sorted."""
        return sorted((d, o, sorted(e.since for e in entries)) for (d, o), entries in self._entries.items())


converts = Table(skip=1)
"""Converters: (node, *inputs, **attributes) → the value of each output."""

folds = Table(skip=1)
"""Folds: (budget, *arrays, **attributes) → the array of each output."""
