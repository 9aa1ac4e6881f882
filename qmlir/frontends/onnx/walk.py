"""Imports a graph in one walk in its order, and converts each of its nodes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import onnx
from xdsl.ir import Operation, SSAValue

from qmlir.errors import FileError, QmlirError, UnsupportedError, near_misses
from qmlir.formats.onnx import AXIS, OPERATORS
from qmlir.formats.rows import Operator
from qmlir.formats.unknown import hint
from qmlir.frontends.converters import NEWEST, Converter, Table, row_table
from qmlir.frontends.counted import refuse_constants
from qmlir.frontends.function import Blocked, Builder, Constant, Dequantized, Value
from qmlir.frontends.onnx import (
    attention,
    blocks,
    contraction,
    control,
    detection,
    draws,
    dynamic_quantization,
    einsum,
    elementwise,
    folding,
    fused,
    ml,
    movement,
    normalization,
    qonnx,
    qoperator,
    quantization,
    recurrent,
    reduction,
    resize,
    sequences,
    spectra,
    training,
    unique,
    vectorizer,
)
from qmlir.frontends.onnx.control import Key, bound_body, key_of, onnx_function
from qmlir.frontends.onnx.folding import evaluated
from qmlir.frontends.onnx.ml import Labels
from qmlir.frontends.onnx.node import ONNXNode
from qmlir.frontends.onnx.opaque import NO_TYPE, AttributeValue, InferredTypes, attribute_value, attributes_ir
from qmlir.frontends.onnx.ordering import reads
from qmlir.frontends.onnx.quantization import RESHAPING, prepared
from qmlir.frontends.onnx.reader import Model
from qmlir.frontends.onnx.rounded import Rounded, followed
from qmlir.frontends.onnx.sequences import Listed
from qmlir.frontends.walk import BodiesError, Budgeted, imported
from qmlir.ir.own_operators import own_operator

# ---------------------------------------------------------------------------------------------------------------
# Imports one node by qmlir's own tables of operators: by a fold if all inputs are constant, else by a converter.
#
# A fold computes the outputs with numpy; a converter adds nn operations. Both return the value of each output; the
# operations that a converter adds wait in the node.


FAMILIES = (
    attention, blocks, contraction, control, detection, draws, dynamic_quantization, einsum, elementwise, folding,
    fused, ml, movement, normalization, qonnx, qoperator, quantization, recurrent, reduction, resize, sequences,
    spectra, training, unique, vectorizer,
)  # fmt: skip
"""The files of converters, each with a table of its own."""


def _one_operation(row: Operator, node: ONNXNode, *inputs: Value, **given: float) -> Value:
    properties = {own: given.get(name, default) for name, (own, default) in row.attributes.items()}
    if AXIS in properties:
        properties[AXIS] = node.axis(int(properties[AXIS]), node.rank(inputs[0]))
    return node.compute(row.operation, inputs[::-1] if row.exchanged else inputs, properties)


CONVERTERS = Table.of(*(family.converts for family in FAMILIES), rows=row_table(OPERATORS, _one_operation))
"""The converters of all operators; the row of an operator in formats/onnx.py counts if no family has a converter."""

FOLDS = folding.folds

QUANTIZED = frozenset(family.__name__ for family in (qonnx, qoperator, quantization))
"""Modules whose converters take tensors of quantized types; other converters take the inputs from `prepared`."""


def convert(
    node: ONNXNode, domain: str, operator: str, version: int, inputs: Sequence[Value | None],
    attributes: Mapping[str, AttributeValue],
) -> Sequence[Value]:  # fmt: skip
    """Folds or converts a node, and returns the value of each output.

    If the model imports no operator set of the domain, the version is 0 and stands for the newest.

    Raises:
        UnsupportedError: The operator has no converter, or the converter refuses the node.
        NodeError: The node breaks a rule of ONNX.
    """
    if inputs and isinstance(text := inputs[0], Labels) and ml.moves(operator, attributes):
        if operator == "Cast":
            return [text]
        moved = convert(node, domain, operator, version, [text.indices, *inputs[1:]], attributes)
        return [Labels(each, text.texts) for each in moved]
    constant = bool(inputs) and all(i is None or (type(i) is not Labels and isinstance(i, Constant)) for i in inputs)
    if constant and (folded := _folded(node, domain, operator, version, inputs, attributes)) is not None:
        return [followed(operator, inputs, c) if isinstance(c, Constant) else c for c in folded]
    converter = CONVERTERS.select(domain, operator, version or NEWEST)
    if converter is None:
        older = CONVERTERS.select(domain, operator, NEWEST)
        said = f" of operator set {version}" if older else _hint(operator, domain)
        raise UnsupportedError(f"qmlir knows no {node.kind}{said}")
    for x in inputs:
        if isinstance(x, SSAValue):
            node.shape(x)
    if converter.function.__module__ not in QUANTIZED:
        inputs = prepared(node, operator, inputs)
    results = converter(node, inputs, attributes)
    if any(isinstance(result, Listed | Labels) for result in results):
        return results  # its tensors are computed by the operations that wait
    if operator != "Shape":
        refuse_constants(inputs, results, node.builder.counted)
    if constant:
        chain = any(isinstance(i, Rounded) for i in inputs)
        known = evaluated(node.pending, results, node.outputs, node.builder.budget, of_any_size=chain)
        if known is not None:
            node.discard()
            results = known
        return [followed(operator, inputs, c) if isinstance(c, Constant) else c for c in results]
    return results


def _folded(
    node: ONNXNode, domain: str, operator: str, version: int, inputs: Sequence[Value | None],
    attributes: Mapping[str, AttributeValue],
) -> Sequence[Value] | None:  # fmt: skip
    """Computes the outputs of a node on constants by its fold; None if the operator has no fold or the fold refuses."""
    fold = FOLDS.select(domain, operator, version or NEWEST)
    if fold is None:
        return None
    try:
        if (moved := _move_stored(fold, node, operator, inputs, attributes)) is not None:
            return [moved]
        arrays = [i.array if isinstance(i, Constant) else None for i in inputs]
        results = [np.asarray(a) for a in fold(node, arrays, attributes, node.builder.budget)]
        for result in results:
            if result.base is None and not any(result is a for a in arrays):
                result.flags.writeable = False  # no other code holds the array, so the IR need not copy it
        return [Constant(a, o) for a, o in zip(results, node.outputs, strict=False)]
    except UnsupportedError:
        return None


def _hint(operator: str, domain: str) -> str:
    """What may be done about an operator without a converter; empty for operators of ONNX itself."""
    if onnx.defs.has(operator, domain=domain):
        return ""
    return hint("ONNX", operator, [(d, o) for d, o, _ in CONVERTERS.versions()], domain)


def _move_stored(
    fold: Converter, node: ONNXNode, operator: str, inputs: Sequence[Value | None],
    attributes: Mapping[str, AttributeValue],
) -> Constant | None:  # fmt: skip
    """Reshapes or transposes a constant as its stored integers; None for other constants or operators."""
    first = inputs[0]
    if not isinstance(first, Dequantized | Blocked) or operator not in (*RESHAPING, "Transpose"):
        return None
    # The fold only checks the node and computes the new shape, so it need not see the elements.
    like = np.broadcast_to(np.int8(0), first.shape)
    rest = [i.array if isinstance(i, Constant) else None for i in inputs[1:]]
    moved = np.asarray(fold(node, [like, *rest], attributes, node.builder.budget)[0])
    if operator in RESHAPING:
        return first.reshaped(moved.shape)
    permutation = cast(Sequence[int], attributes.get("perm", range(like.ndim)[::-1]))
    return first.transposed(permutation)


# ---------------------------------------------------------------------------------------------------------------
# The walk over a model's nodes, which folds, converts or replaces each node, or keeps it as opaque.
#
#     folded     all inputs are constants, and so are the results
#     converted  a converter for the operator and version adds nn operations
#     replaced   the body of a function, from the model or from ONNX (functions.py), is walked in the node's place
#     opaque     nothing else applies; the `qmlir.opaque` operation holds the reason (opaque.py)
#
# A body is the graph of a function, of a branch or of a loop. A converter walks a subgraph if it knows at import that
# the subgraph runs (control.py). Each body has a walk of its own, with its own tensor names and, for a function, its
# own operator sets. The operations of a body are added to the node that the body stands for, so a node that is refused
# in the end leaves nothing behind. Tensors of a body are called `<output>.<name in the body>`.


_SAVE_AGAIN = "export the model again"

DEEPEST = 64
"""The most levels of nested bodies; functions that call each other in a circle exceed it."""


@dataclass
class _Shared(Budgeted):
    """The state that all walks of an import share."""

    model: Model
    builder: Builder
    types: InferredTypes
    functions: Mapping[Key, onnx.FunctionProto]
    operators: int = 0


@dataclass
class Walk:
    """A walk over the nodes of a graph, a subgraph or a function.

    shared   the state that all walks of the import share
    opsets   operator set versions by domain
    add      takes the operations of a node
    values   the tensors known so far; None is an input of a function that the call leaves out
    outer    the walk of the enclosing graph, whose tensors a subgraph sees too
    names    the names that the body's outputs have outside the body
    prefix   prefix of the names of the body's other tensors
    node     the name of the node that a body stands for
    strict   whether a node that cannot be imported is refused, rather than kept as opaque
    depth    the number of bodies around the nodes; 0 for the model's graph
    begins   tensors at which a cut network begins: they are arguments, whatever node computes them in the file
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
    begins: frozenset[str] = frozenset()

    @staticmethod
    def of(model: Model, builder: Builder, types: InferredTypes, functions: Mapping[Key, onnx.FunctionProto]) -> "Walk":
        """Makes the walk over a model's graph."""
        return Walk(_Shared(model, builder, types, functions), model.opsets, builder.block.add_ops)

    def run(self, nodes: Sequence[onnx.NodeProto], outputs: Sequence[str]) -> list[Value]:
        """Imports every node that an output needs, and returns the outputs."""
        needed = needed_tensors(nodes, outputs, self.begins) - self.begins
        for number, proto in enumerate(nodes, 1):
            if any(o in needed for o in proto.output):
                self._import(proto, needed, number)
        return [self._needed_value(o, f'output "{o}"') for o in outputs]

    def define(self, name: str, value: Value | None) -> None:
        """Defines the tensor of a name; a second definition is a FileError."""
        if name in self.values:
            raise FileError(
                self.shared.model.file, f'the tensor "{name}" must be defined once', got="several times",
                remedy=_SAVE_AGAIN,
            )  # fmt: skip
        self.values[name] = value

    def value(self, name: str, reader: str) -> Value | None:
        """Returns the tensor of a name, from this walk or an outer one; None for a function input that is left out."""
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
            raise UnsupportedError(f"{reader} is an input that is left out")
        return value

    # ------------------------------------------------------------------------------------------------------------
    # A node

    def _import(self, proto: onnx.NodeProto, needed: set[str], number: int) -> None:
        """Imports one node, the `number`th of its graph, and defines its outputs."""
        if self.depth:
            self.shared.count("nodes")
        domain = "" if proto.domain == "ai.onnx" else proto.domain
        outputs = list(proto.output)
        while outputs and not outputs[-1]:
            outputs.pop()
        kind = f"{domain}.{proto.op_type}" if domain else proto.op_type
        # An unused output beyond the first counts as left out, so that no converter need compute it.
        called = [self.names.get(o, self.prefix + o) if o in needed or not i else "" for i, o in enumerate(outputs)]
        name = self.node if self.depth else proto.name
        node = ONNXNode(kind, name, called, self.shared.builder, self.shared.model.file, number, walk=self)
        names = list(proto.input)
        while names and not names[-1]:
            names.pop()
        inputs = [self.value(n, f'{node.kind} "{node.called()}"') if n else None for n in names]
        version = self.opsets.get(domain, 0)
        attributes = {a.name: attribute_value(a, self.shared.model) for a in proto.attribute}
        _check_schema(proto, node, domain, version)
        used = [o in needed for o in outputs]

        def opaque(reason: str) -> list[Value]:
            types = [self.shared.types.of(o) if o else NO_TYPE for o in node.outputs]
            kind = node.kind if "." in node.kind else f"onnx.{node.kind}"
            return node.add_opaque(kind, inputs, names, attributes_ir(attributes), version, types, reason)

        results = imported(
            node, lambda: self._meaning(proto, node, domain, version, inputs, attributes, used), opaque, self.add,
            within=bool(self.depth), refuses=self._refuses,
        )  # fmt: skip
        for output, value in zip(outputs, results, strict=False):
            if output and output not in self.begins:
                self.define(output, value)

    def _refuses(self, why: UnsupportedError) -> bool:
        """Whether a node that cannot be imported is refused, rather than kept as opaque."""
        return self.strict or (self.depth > 0 and isinstance(why, BodiesError))

    def _meaning(
        self, proto: onnx.NodeProto, node: ONNXNode, domain: str, version: int, inputs: Sequence[Value | None],
        attributes: Mapping[str, AttributeValue], used: Sequence[bool],
    ) -> Sequence[Value]:  # fmt: skip
        """Folds, converts or replaces a node; returns its outputs' values, at least up to the last used output."""
        function = self.shared.functions.get(key_of(proto))
        if function is not None:
            return self._call(proto, node, function, inputs, used, strict=self.strict)
        try:
            results = convert(node, domain, proto.op_type, version, inputs, attributes)
            if any(used[len(results) :]):
                missing = node.outputs[used.index(True, len(results))]
                raise UnsupportedError(f'its output "{missing}" is used, which qmlir does not give')
            return results
        except BodiesError:
            raise
        except UnsupportedError as refusal:
            node.discard()
            function = onnx_function(proto, version, inputs)
            if function is None:
                own = own_operator(domain, proto.op_type)
                if own is None or CONVERTERS.select(domain, proto.op_type, NEWEST) is not None:
                    raise
                return node.add_own(own, inputs, attributes_ir(attributes))
            try:
                return self._call(proto, node, function, inputs, used, strict=True)
            except BodiesError:
                raise
            except QmlirError as inner:
                why = inner.need if isinstance(inner, UnsupportedError) else str(inner)
                raise UnsupportedError(f"{refusal.need}, nor what it stands for ({why})") from None

    def _call(
        self, proto: onnx.NodeProto, node: ONNXNode, function: onnx.FunctionProto, inputs: Sequence[Value | None],
        used: Sequence[bool], *, strict: bool,
    ) -> Sequence[Value]:  # fmt: skip
        """Imports a function's body in the place of the node that calls it, and returns the outputs.

        The body of an operator may lack outputs that the node leaves out; such an output gets the first wanted value.
        """
        if len(inputs) > len(function.input):
            raise node.error(f"the function has {len(function.input)} inputs", len(inputs))
        opsets = dict(self.opsets) | {
            "" if o.domain == "ai.onnx" else o.domain: o.version for o in function.opset_import
        }
        body = self._body(node, function.output, step="", strict=strict, opsets=opsets)
        given = [*inputs, *[None] * (len(function.input) - len(inputs))]
        for name, value in zip(function.input, given, strict=True):
            body.define(name, value)
        # A body need not define outputs that its node leaves out.
        wanted = [o for o, name in zip(function.output, node.outputs, strict=False) if name]
        nodes = bound_body(function, {a.name: a for a in proto.attribute})
        results = dict(zip(wanted, body.run(nodes, wanted), strict=True))
        return [results.get(o, results[wanted[0]]) for o, _ in zip(function.output, node.outputs, strict=False)]

    def _body(
        self, node: ONNXNode, outputs: Iterable[str], *, step: str, strict: bool, opsets: Mapping[str, int]
    ) -> "Walk":
        """Makes the walk over a body that stands for a node; without a `step`, the body's outputs are the node's."""
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

    def subgraph(self, node: ONNXNode, graph: onnx.GraphProto, arguments: Sequence[Value], step: str) -> list[Value]:
        """Imports a subgraph that runs with these arguments, and returns its outputs."""
        if len(arguments) != len(graph.input):
            raise node.error(f"its subgraph must take {len(arguments)} inputs", len(graph.input))
        walk = self._body(node, (o.name for o in graph.output), step=step, strict=self.strict, opsets=self.opsets)
        walk.outer = self
        for info, value in zip(graph.input, arguments, strict=True):
            walk.define(info.name, value)
        for name, array in self.shared.model.initializers(graph):
            if name not in walk.values:
                walk.define(name, Constant(array, walk.prefix + name))
        return walk.run(graph.node, [o.name for o in graph.output])

    def operator(
        self, node: ONNXNode, operator: str, inputs: Sequence[Value], attributes: Mapping[str, Any], version: int
    ) -> Value:
        """Imports an ONNX operator, as an operator set defines it, and returns its output."""
        names = [f"input{i}" for i in range(len(inputs))]
        self.shared.operators += 1
        step = f"{operator}{self.shared.operators}."
        walk = self._body(node, (), step=step, strict=True, opsets={"": version})
        walk.values.update(zip(names, inputs, strict=True))
        (result,) = walk.run([onnx.helper.make_node(operator, names, ["output"], **attributes)], ["output"])
        return result

    def newest(
        self, node: ONNXNode, operator: str, inputs: Sequence[Value | None], attributes: Mapping[str, Any]
    ) -> Value:
        """Converts inputs by the newest converter of an ONNX operator, and returns its output."""
        converter = CONVERTERS.get(operator)
        if converter is None:
            raise UnsupportedError(f"qmlir knows no {operator}")
        return converter(node, inputs, attributes)[0]


def _check_schema(proto: onnx.NodeProto, node: ONNXNode, domain: str, version: int) -> None:
    """Checks a node against ONNX's schema of its operator, if ONNX has a schema.

    Raises:
        NodeError: The node has too few or too many inputs or outputs, or an attribute of another type.
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


def needed_tensors(
    nodes: Sequence[onnx.NodeProto], outputs: Iterable[str], begins: frozenset[str] = frozenset()
) -> set[str]:
    """Returns the names of the tensors that some output depends on, including the outputs.

    What the tensors of `begins` depend on is left out.
    """
    needed = set(outputs)
    for node in reversed(nodes):
        if any(o in needed and o not in begins for o in node.output):
            needed.update(reads(node))
    return needed - {""}
