"""Subgraphs with control flow, and the model's own functions."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from qmlir.errors import UnsupportedError
from qmlir.frontends.converters import AttributeGroup, Table
from qmlir.frontends.function import Constant, Ints, Value
from qmlir.frontends.onnx.node import ONNXNode
from qmlir.frontends.onnx.types import element_code
from qmlir.ir.interfaces import element_of, shape_of
from qmlir.ir.types import UnknownElementError

converts = Table()

# ---------------------------------------------------------------------------------------------------------------
# If, Loop and Scan whose control flow is known at import: the taken branch is inlined, a loop's body is unrolled.


MOST_RUNS = 10_000
"""The most runs of a body; each run adds another copy of the body to the network."""


@converts("If")
def if_then_else(
    node: ONNXNode, condition: Value, *, then_branch: onnx.GraphProto, else_branch: onnx.GraphProto
) -> tuple[Value, ...]:
    """Imports the branch that the constant condition selects, and returns its outputs."""
    taken = then_branch if node.truth(condition, "condition") else else_branch
    return tuple(node.run(taken, []))


@converts("Loop")
def loop(
    node: ONNXNode, count: Value | None = None, condition: Value | None = None, *carried: Value, body: onnx.GraphProto
) -> tuple[Value, ...]:
    """Runs the body `count` times or until its condition is false.

    The body's inputs are the number of the run, the condition and the carried values. Its outputs are the condition,
    the carried values, and the values to be collected over all runs.
    """
    runs = None if count is None else int(node.array(count, "trip count").reshape(()))
    collected: list[list[Value]] = [[] for _ in range(len(body.output) - 1 - len(carried))]
    if len(body.output) < 1 + len(carried):
        raise node.error(f"its body must have at least {1 + len(carried)} outputs", len(body.output))
    going = condition is None or node.truth(condition, "condition")
    values, run = list(carried), 0
    while going and (runs is None or run < runs):
        if run == MOST_RUNS:
            raise UnsupportedError(f"it runs more than {MOST_RUNS} times")
        arguments = [Constant(np.array(run, np.int64)), Constant(np.array(True)), *values]
        again, *outputs = node.run(body, arguments, f"{run}.")
        going = node.truth(again, "condition after a run")
        values = outputs[: len(carried)]
        for found, value in zip(collected, outputs[len(carried) :], strict=True):
            found.append(value)
        run += 1
    if run == 0 and collected:
        return (*values, *_nothing(node, body, values))
    return (*values, *(_stacked(node, found) for found in collected))


def _nothing(node: ONNXNode, body: onnx.GraphProto, carried: list[Value]) -> list[Value]:
    """Returns the collected outputs of a body that never runs: empty, of the shapes and types that a run would give."""
    arguments = [Constant(np.array(0, np.int64)), Constant(np.array(True)), *carried]
    outputs = node.run(body, arguments, "0.")[1 + len(carried) :]
    empty: list[Value] = [Constant(np.empty((0, *node.shape(o)), node.dtype(o))) for o in outputs]
    node.discard()
    return empty


@dataclass(frozen=True)
class Axes(AttributeGroup):
    """The axes and the directions along which a Scan reads its inputs and writes its outputs."""

    scan_input_axes: Ints = ()
    scan_input_directions: Ints = ()
    scan_output_axes: Ints = ()
    scan_output_directions: Ints = ()


@converts("Scan", since=9)
def scan(node: ONNXNode, *inputs: Value, body: onnx.GraphProto, num_scan_inputs: int, axes: Axes) -> tuple[Value, ...]:
    """Runs the body for each slice of the scanned inputs."""
    return _scanned(node, "", inputs, body, num_scan_inputs, axes)


def _scanned(
    node: ONNXNode, step: str, inputs: Sequence[Value], body: onnx.GraphProto, num_scan_inputs: int, given: Axes
) -> tuple[Value, ...]:
    """Imports one scan; `step` prefixes its names, to tell it from other scans of the node."""
    if not 1 <= num_scan_inputs <= len(inputs):
        raise node.error(f"its attribute num_scan_inputs must lie in [1, {len(inputs)}]", str(num_scan_inputs))
    states, scanned = list(inputs[:-num_scan_inputs]), inputs[-num_scan_inputs:]
    count = len(body.output) - len(states)
    if count < 0:
        raise node.error(f"its body must have at least {len(states)} outputs", len(body.output))
    into = _each(node, given.scan_input_axes, num_scan_inputs, "axes of the inputs")
    backwards = _each(node, given.scan_input_directions, num_scan_inputs, "directions of the inputs")
    axes = [node.axis(a, node.rank(x)) for a, x in zip(into, scanned, strict=True)]
    lengths = {node.shape(x)[a] for a, x in zip(axes, scanned, strict=True)}
    if len(lengths) != 1:
        raise node.error("its scanned inputs must be of one length", str(sorted(lengths)))
    (length,) = lengths
    if not 0 < length <= MOST_RUNS:
        raise UnsupportedError(f"it runs {length} times, and qmlir takes 1 to {MOST_RUNS}")
    collected: list[list[Value]] = [[] for _ in range(count)]
    for run in range(length):
        slices = [
            _taken(node, x, length - 1 - run if back else run, axis)
            for x, axis, back in zip(scanned, axes, backwards, strict=True)
        ]
        outputs = node.run(body, [*states, *slices], f"{step}{run}.")
        states = outputs[: len(states)]
        for found, value in zip(collected, outputs[len(states) :], strict=True):
            found.append(value)
    out_of = _each(node, given.scan_output_axes, count, "axes of the outputs")
    reverse = _each(node, given.scan_output_directions, count, "directions of the outputs")
    stacked = [
        _stacked(node, found[::-1] if back else found, axis)
        for found, axis, back in zip(collected, out_of, reverse, strict=True)
    ]
    return (*states, *stacked)


@converts("Scan", since=8)
def scan_batches(
    node: ONNXNode, lengths: Value | None = None, *inputs: Value, body: onnx.GraphProto, num_scan_inputs: int,
    directions: Ints = (),
) -> tuple[Value, ...]:  # fmt: skip
    """Scans each element of a batch; the first axis of every input and output is the batch, the second is scanned."""
    if lengths is not None:
        raise UnsupportedError("its sequences have lengths of their own")
    sizes = {node.shape(x)[:1] for x in inputs}
    if len(sizes) != 1 or sizes & {(), (0,)}:
        raise node.error("its inputs must have a first axis of one size", str(sorted(sizes)))
    ((batch,),) = sizes
    found: list[tuple[Value, ...]] = []
    for each in range(batch):
        part = [_taken(node, x, each, 0) for x in inputs]
        found.append(_scanned(node, f"{each}.", part, body, num_scan_inputs, Axes(scan_input_directions=directions)))
    return tuple(_stacked(node, list(values)) for values in zip(*found, strict=True))


def _taken(node: ONNXNode, x: Value, index: int, axis: int) -> Value:
    """Returns the slice of a value at an index along an axis."""
    return node.operator("Gather", x, Constant(np.array(index, np.int64)), since=13, axis=axis)


def _each(node: ONNXNode, values: Ints, count: int, what: str) -> Ints:
    """Returns an attribute's values for `count` inputs or outputs; if the attribute is empty, zeros."""
    if len(values) not in (0, count):
        raise node.error(f"its {what} need {count} values", len(values))
    return values or (0,) * count


def _stacked(node: ONNXNode, values: list[Value], axis: int = 0) -> Value:
    """Stacks values of one shape along a new axis."""
    axes = Constant(np.array([axis], np.int64))
    parts = [node.operator("Unsqueeze", v, axes, since=13) for v in values]
    return node.operator("Concat", *parts, since=13, axis=axis)


# ---------------------------------------------------------------------------------------------------------------
# Operators that are defined by function bodies, which come from the model or from ONNX itself.
#
# A model may define functions of its own. ONNX itself defines many operators by bodies of simpler operators; some of
# these bodies depend on the node and the types of its inputs. The walk over the nodes (walk.py) imports an ONNX body in
# the node's place if the operator has no converter or the converter refuses the node.


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
    except (
        UnsupportedError,
        UnknownElementError,
        RuntimeError,
        ValueError,
        DecodeError,
    ):  # ONNX has no body for these types or attributes
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
        raise UnsupportedError("the type of one of its inputs is not known")
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
