"""The walk over nodes: each is folded, converted, replaced by its function's body, or kept as opaque.

    folded     all its inputs are constants and so are its results (conversion.py)
    converted  there is a converter for its operator and version (conversion.py)
    replaced   by the body of a function, the model's own or ONNX's (functions.py), whose nodes are walked in its place
    opaque     none of these, and the reason (opaque.py)

Subgraphs are walked when the converter of their node knows that they run (control.py). Each body has a walk of its own:
other names, for a function other operator sets. What it adds goes to the node that it belongs to, so that a node which
is refused at last leaves nothing behind. Its tensors are called `<output>.<name in the body>`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import onnx
from xdsl.ir import Operation

from qmlir.errors import FileError, QmlirError
from qmlir.frontends.builder import Node
from qmlir.frontends.function import Builder
from qmlir.frontends.onnx.attributes import AttributeValue, attribute_value
from qmlir.frontends.onnx.conversion import convert
from qmlir.frontends.onnx.functions import Key, bound_body, key_of, onnx_function
from qmlir.frontends.onnx.opaque import InferredTypes, import_opaque
from qmlir.frontends.onnx.reader import Model
from qmlir.frontends.values import Constant, Refusal, Value
from qmlir.near_misses import near_misses

_SAVE_AGAIN = "export the model again"

DEEPEST = 64
"""Bodies in bodies; functions that call each other in a circle go deeper."""

MOST_NODES = 5_000
"""Nodes of bodies, all together: some seconds of import. Loops in loops soon have more."""


class _TooMuch(Refusal):
    """A refusal that goes through to the node of the graph: what is below it is without end."""


@dataclass
class _Shared:
    """What all walks of an import share."""

    model: Model
    builder: Builder
    types: InferredTypes
    functions: Mapping[Key, onnx.FunctionProto]
    walked: int = 0
    operators: int = 0


@dataclass
class Walk:
    """A walk over the nodes of a graph, a subgraph or a function.

    opsets   operator set versions by domain
    values   the tensors known so far; None is an input of a function that the call leaves out
    outer    whose tensors a subgraph sees too
    add      takes the operations of a node
    names    what outputs of a body are called outside
    prefix   what stands before the names of other tensors
    node     the name of the node that a body stands for
    strict   whether a node without meaning is refused, rather than kept as opaque
    """

    shared: _Shared
    opsets: Mapping[str, int]
    add: Callable[[Sequence[Operation]], object]
    values: dict[str, Value | None] = field(default_factory=dict[str, Value | None])
    outer: "Walk | None" = None
    names: Mapping[str, str] = field(default_factory=dict[str, str])
    prefix: str = ""
    node: str = ""
    strict: bool = False
    depth: int = 0

    @staticmethod
    def of(model: Model, builder: Builder, types: InferredTypes, functions: Mapping[Key, onnx.FunctionProto]) -> "Walk":
        """The walk over a model's graph."""
        return Walk(_Shared(model, builder, types, functions), model.opsets, builder.block.add_ops)

    def run(self, nodes: Sequence[onnx.NodeProto], outputs: Sequence[str]) -> list[Value]:
        """Imports every node that an output needs; returns the outputs."""
        needed = _needed(nodes, outputs)
        for proto in nodes:
            if any(o in needed for o in proto.output):
                self._import(proto, needed)
        return [self._needed_value(o, f'output "{o}"') for o in outputs]

    def define(self, name: str, value: Value | None) -> None:
        """Gives a tensor its name."""
        if name in self.values:
            raise FileError(
                self.shared.model.file, f'the tensor "{name}" must be defined once', got="several times",
                remedy=_SAVE_AGAIN,
            )  # fmt: skip
        self.values[name] = value

    def value(self, name: str, reader: str) -> Value | None:
        """The tensor of a name, here or outside; None for one that a function's call leaves out."""
        walk: Walk | None = self
        while walk is not None:
            if name in walk.values:
                return walk.values[name]
            walk = walk.outer
        later = any(name in n.output for n in self.shared.model.proto.graph.node)
        raise FileError(
            self.shared.model.file,
            f'{reader} reads the tensor "{name}", which must be defined before it',
            got="a definition after it" if later else "none",
            remedy=(None if later else near_misses(name, self.values)) or _SAVE_AGAIN,
        )

    def _needed_value(self, name: str, reader: str) -> Value:
        value = self.value(name, reader)
        if value is None:
            raise Refusal(f"{reader} is an input that is left out")
        return value

    # ------------------------------------------------------------------------------------------------------------
    # A node

    def _import(self, proto: onnx.NodeProto, needed: set[str]) -> None:
        """Imports one node and defines its outputs."""
        if self.depth:
            self.shared.walked += 1
            if self.shared.walked > MOST_NODES:
                raise _TooMuch(f"what it stands for has more than {MOST_NODES} nodes")
        domain = "" if proto.domain == "ai.onnx" else proto.domain
        outputs = list(proto.output)
        while outputs and not outputs[-1]:
            outputs.pop()
        kind = f"{domain}.{proto.op_type}" if domain else proto.op_type
        # An output beyond the first that nobody reads is as good as left out: no converter need compute it.
        called = [self.names.get(o, self.prefix + o) if o in needed or not i else "" for i, o in enumerate(outputs)]
        name = self.node if self.depth else proto.name
        node = Node(kind, name, called, self.shared.builder, self.shared.model.file)
        node.bodies = _Bodies(self, node)
        names = list(proto.input)
        while names and not names[-1]:
            names.pop()
        inputs = [self.value(n, f'{node.kind} "{node.called()}"') if n else None for n in names]
        version = self.opsets.get(domain, 0)
        attributes = {a.name: attribute_value(a, self.shared.model) for a in proto.attribute}
        _check_schema(proto, node, domain, version)
        try:
            used = [o in needed for o in outputs]
            results = self._meaning(proto, node, domain, version, inputs, attributes, used)
        except Refusal as refusal:
            node.discard()
            if self.strict or (self.depth and isinstance(refusal, _TooMuch)):
                raise
            results = import_opaque(node, version, inputs, names, attributes, self.shared.types, refusal.reason)
        except QmlirError:  # a body may be tried: nothing of it stays
            node.discard()
            raise
        node.commit(results, self.add, rename=not self.depth)
        for output, value in zip(outputs, results, strict=False):
            if output:
                self.define(output, value)

    def _meaning(
        self,
        proto: onnx.NodeProto,
        node: Node,
        domain: str,
        version: int,
        inputs: Sequence[Value | None],
        attributes: Mapping[str, AttributeValue],
        used: Sequence[bool],
    ) -> Sequence[Value]:
        """The value of each output, at least of those used: folded, converted, or those of a function's body."""
        function = self.shared.functions.get(key_of(proto))
        if function is not None:
            return self._call(proto, node, function, inputs, used, strict=self.strict)
        try:
            results = convert(node, domain, proto.op_type, version, inputs, attributes)
            if any(used[len(results) :]):
                missing = node.outputs[used.index(True, len(results))]
                raise Refusal(f'its output "{missing}" is used, which qmlir does not give')
            return results
        except _TooMuch:
            raise
        except Refusal as refusal:
            node.discard()
            function = onnx_function(proto, version, inputs)
            if function is None:
                raise
            try:
                return self._call(proto, node, function, inputs, used, strict=True)
            except _TooMuch:
                raise
            except (Refusal, QmlirError) as inner:
                why = inner.reason if isinstance(inner, Refusal) else str(inner)
                raise Refusal(f"{refusal.reason}, nor what it stands for ({why})") from None

    def _call(
        self,
        proto: onnx.NodeProto,
        node: Node,
        function: onnx.FunctionProto,
        inputs: Sequence[Value | None],
        used: Sequence[bool],
        *,
        strict: bool,
    ) -> Sequence[Value]:
        """The outputs of a function's body, whose nodes are imported in the place of the node that calls it.

        The body of an operator may lack outputs that the node leaves out; those that are not used are some constant.
        """
        if len(inputs) > len(function.input):
            raise node.error(f"the function has {len(function.input)} inputs", str(len(inputs)))
        opsets = dict(self.opsets) | {
            "" if o.domain == "ai.onnx" else o.domain: o.version for o in function.opset_import
        }
        body = self._body(node, function.output, step="", strict=strict, opsets=opsets)
        given = [*inputs, *[None] * (len(function.input) - len(inputs))]
        for name, value in zip(function.input, given, strict=True):
            body.define(name, value)
        # A body need not define the outputs that its node leaves out.
        wanted = [o for o, name in zip(function.output, node.outputs, strict=False) if name]
        nodes = bound_body(function, {a.name: a for a in proto.attribute})
        results = dict(zip(wanted, body.run(nodes, wanted), strict=True))
        return [results.get(o, results[wanted[0]]) for o, _ in zip(function.output, node.outputs, strict=False)]

    def _body(
        self, node: Node, outputs: Iterable[str], *, step: str, strict: bool, opsets: Mapping[str, int]
    ) -> "Walk":
        """A walk over a body that stands for a node; the last step's outputs are the node's."""
        if self.depth >= DEEPEST:
            raise FileError(
                self.shared.model.file, f'{node.kind} "{node.called()}": functions must not call themselves',
                got=f"more than {DEEPEST} calls in one another", remedy=_SAVE_AGAIN,
            )  # fmt: skip
        names = {} if step else {o: n for o, n in zip(outputs, node.outputs, strict=False) if n}
        first = next(filter(None, node.outputs), node.name)
        return Walk(
            self.shared, opsets, node.pending.extend, names=names, prefix=f"{first}.{step}", node=node.name,
            strict=strict, depth=self.depth + 1,
        )  # fmt: skip

    def subgraph(self, node: Node, graph: onnx.GraphProto, arguments: Sequence[Value], step: str) -> list[Value]:
        """The outputs of a subgraph that runs with these arguments; see `Bodies`."""
        if len(arguments) != len(graph.input):
            raise node.error(f"its subgraph must take {len(arguments)} inputs", str(len(graph.input)))
        walk = self._body(
            node, (o.name for o in graph.output), step=step, strict=self.strict, opsets=self.opsets
        )  # fmt: skip
        walk.outer = self
        for info, value in zip(graph.input, arguments, strict=True):
            walk.define(info.name, value)
        for name, array in self.shared.model.initializers(graph):
            if name not in walk.values:
                walk.define(name, Constant(array, walk.prefix + name))
        return walk.run(graph.node, [o.name for o in graph.output])

    def operator(
        self, node: Node, operator: str, inputs: Sequence[Value], attributes: Mapping[str, Any], version: int
    ) -> Value:
        """The output of an operator of ONNX; see `Bodies`."""
        names = [f"input{i}" for i in range(len(inputs))]
        self.shared.operators += 1
        step = f"{operator}{self.shared.operators}."
        walk = self._body(node, (), step=step, strict=True, opsets={"": version})
        walk.values.update(zip(names, inputs, strict=True))
        (result,) = walk.run([onnx.helper.make_node(operator, names, ["output"], **attributes)], ["output"])
        return result


@dataclass(frozen=True)
class _Bodies:
    """What a converter may do with the subgraphs of its node."""

    walk: Walk
    node: Node

    def run(self, graph: onnx.GraphProto, arguments: Sequence[Value], step: str = "") -> list[Value]:
        """Imports a subgraph in the place of its node; `step` tells one run of several apart."""
        return self.walk.subgraph(self.node, graph, arguments, step)

    def operator(self, operator: str, inputs: Sequence[Value], *, since: int, **attributes: Any) -> Value:
        """Imports a node of an operator as it is in operator set `since`."""
        return self.walk.operator(self.node, operator, inputs, attributes, since)


def _check_schema(proto: onnx.NodeProto, node: Node, domain: str, version: int) -> None:
    """Checks a node against ONNX's own description of its operator, where there is one.

    Raises:
        NodeError: It has too few or too many inputs or outputs, or an attribute of another type.
    """
    if not version or not onnx.defs.has(proto.op_type, version, domain):
        return
    schema = onnx.defs.get_schema(proto.op_type, version, domain)
    for what, count, least, most in (
        ("inputs", len(proto.input), schema.min_input, schema.max_input),
        ("outputs", len(proto.output), schema.min_output, schema.max_output),
    ):
        if not least <= count <= most:
            raise node.error(f"it must have {least} to {most} {what}", str(count))
    for attribute in proto.attribute:
        declared = schema.attributes.get(attribute.name)
        given = onnx.AttributeProto.AttributeType.Name(attribute.type)
        if declared is not None and declared.type != getattr(onnx.defs.OpSchema.AttrType, given, None):
            wanted = str(declared.type).removeprefix("AttrType.")
            raise node.error(f"its attribute {attribute.name} must be {wanted}", given)


def _needed(nodes: Sequence[onnx.NodeProto], outputs: Iterable[str]) -> set[str]:
    """The tensors that some output depends on."""
    needed = set(outputs)
    for node in reversed(nodes):
        if any(o in needed for o in node.output):
            needed.update(_reads(node))
    return needed - {""}


def _reads(node: onnx.NodeProto) -> Iterator[str]:
    """The tensors that a node reads, those of its subgraphs included."""
    yield from node.input
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            yield from (o.name for o in graph.output)
            for inner in graph.node:
                yield from _reads(inner)
