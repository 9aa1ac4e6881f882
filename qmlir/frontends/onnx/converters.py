"""Tables of converters and folds, keyed by operator and version: the ONNX operators that qmlir knows.

Each file of operators has a table, and walk.py joins these tables. A converter is a plain function whose signature is
the operator's:

    converts = Table()

    @converts("Flatten")
    def flatten(node: Node, x: Value, *, axis: int = 1) -> Value: ...

Positional parameters are inputs (optional ones default to None, `*inputs` is variadic), keyword-only parameters are
attributes with their ONNX defaults, results are the outputs in order. An operator may have several entries: the model
uses the entry with the newest `since` that is not above its operator set. If a node has an attribute that the signature
lacks, the node becomes opaque, so no attribute is ever ignored in silence. Operators that are one operation on their
inputs have no function: they are rows in formats/onnx.py. A function also serves an older version that has some inputs
as attributes:

    @converts("Squeeze", since=13, attributes=["axes"])
    def squeeze(node: Node, x: Value, axes: Value | None = None) -> Value: ...

A fold replaces a node whose inputs are all constants. It has the same signature, with the budget of computed constants
in the place of the node, and works on arrays. A result that is larger than its inputs is charged to the budget before
it is computed.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any, TypeVar

import numpy as np

from qmlir.errors import UnsupportedError
from qmlir.formats.onnx import AXIS, Operator
from qmlir.frontends.builder import Node
from qmlir.frontends.function import Constant, Value
from qmlir.ir.interfaces import Array

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
    def of(function: Callable[..., Any], since: int) -> "Signature":
        """Reads a function's parameters, leaving out the first: the node or the budget."""
        parameters = list(inspect.signature(function).parameters.values())[1:]
        inputs = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        return Signature(
            since,
            function,
            tuple(p.name for p in inputs),
            sum(p.default is p.empty for p in inputs),
            any(p.kind is p.VAR_POSITIONAL for p in parameters),
            {p.name: p.default is p.empty for p in parameters if p.kind is p.KEYWORD_ONLY},
        )

    def before(self, since: int, names: Sequence[str], value: Callable[[Array], object]) -> "Signature":
        """Returns the signature of an older version, which has some inputs, and no input after them, as attributes.

        Args:
            since: The first operator set version of the older form.
            names: The names of these inputs.
            value: Makes the input of the values that an attribute has.
        """
        index = min(self.inputs.index(name) for name in names)

        @wraps(self.function)
        def convert(first: object, *inputs: object, **given: Any) -> Any:
            listed = [given.pop(name, None) for name in names]
            read = [None if v is None else value(np.asarray(v, None if v else np.int64)) for v in listed]
            return self.function(first, *inputs, *read, **given)

        moved = {name: self.inputs.index(name) < self.required for name in names}
        required = min(self.required, index)
        return Signature(since, convert, self.inputs[:index], required, False, {**moved, **self.attributes})

    def check(self, node: Node, inputs: Sequence[object | None], attributes: Mapping[str, object]) -> None:
        """Checks a node against the signature.

        Raises:
            NodeError: The node lacks a required input or attribute.
            UnsupportedError: The node has an input or an attribute that qmlir does not know.
        """
        for i, wanted in enumerate(self.inputs[: self.required]):
            if i >= len(inputs) or inputs[i] is None:
                raise node.error(f'needs its input "{wanted}"', "none")
        for wanted, required in self.attributes.items():
            if required and wanted not in attributes:
                raise node.error(f'needs its attribute "{wanted}"', "none")
        further = inputs[len(self.inputs) :]
        if not self.variadic and any(i is not None for i in further):
            raise UnsupportedError(f"it has {len(inputs)} inputs and qmlir knows {len(self.inputs)}")
        if self.variadic and any(i is None for i in further):
            raise node.error("needs all of its inputs", "some that are left out")
        if unknown := [a for a in attributes if a not in self.attributes]:
            raise UnsupportedError(f'qmlir does not know its attribute "{unknown[0]}"')


class Table:
    """Signatures by (domain, operator), with several versions of each operator."""

    def __init__(self, value: Callable[[Array], object] = Constant) -> None:
        """value: Makes an input of the values of an attribute."""
        self._entries: dict[tuple[str, str], list[Signature]] = {}
        self._value = value

    @staticmethod
    def of(*families: "Table") -> "Table":
        """Returns a table with the entries of all families; none may have another's operator and version."""
        table = Table()
        for family in families:
            for (domain, operator), entries in family._entries.items():
                for signature in entries:
                    table.enter(operator, signature, domain)
        return table

    def __call__(
        self, operator: str, *, since: int = 1, domain: str = "", attributes: Sequence[str] = (), before: int = 1
    ) -> Callable[[F], F]:
        """Registers the decorated function for `operator` from version `since` of its domain's operator set on.

        If `attributes` names inputs, these were attributes from version `before` until `since`.
        """

        def register(function: F) -> F:
            signature = Signature.of(function, since)
            self.enter(operator, signature, domain)
            if attributes:
                self.enter(operator, signature.before(before, attributes, self._value), domain)
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

    def without(self, others: "Table") -> "Table":
        """Returns the table without the operators and versions that another table has."""
        table = Table()
        for (domain, operator), entries in self._entries.items():
            known = {e.since for e in others._entries.get((domain, operator), ())}
            table._entries[domain, operator] = [e for e in entries if e.since not in known]
        return table


def operator_table(operators: Iterable[Operator]) -> Table:
    """Returns the converters of operators that are one operation on their inputs."""
    table = Table()
    for operator in operators:
        given = dict.fromkeys(operator.attributes, False)
        signature = Signature(
            operator.since, partial(_one_operation, operator), operator.inputs, len(operator.inputs), False, given
        )
        table.enter(operator.kind, signature, operator.domain)
    return table


def _one_operation(operator: Operator, node: Node, *inputs: Value, **given: float) -> Value:
    properties = {own: type(default)(given.get(name, default)) for name, (own, default) in operator.attributes.items()}
    if AXIS in properties:
        properties[AXIS] = node.axis(int(properties[AXIS]), node.rank(inputs[0]))
    return node.compute(operator.operation, inputs[::-1] if operator.exchanged else inputs, properties)


# ---------------------------------------------------------------------------------------------------------------
# Converters that spell an operator out in other ONNX operators.


SPELLED = 18
"""The operator set of the operators that others are spelled out in."""


def spelled(node: Node, operator: str, *inputs: Value, **attributes: Any) -> Value:
    """Imports an ONNX operator of operator set 18 in the place of a node, and returns its output."""
    assert node.bodies is not None
    return node.bodies.operator(operator, inputs, since=SPELLED, **attributes)
