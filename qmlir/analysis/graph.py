"""Draws a network as a graph in the DOT language, which Graphviz lays out.

An operation is a box with its node's name and its kind, filled by what was decided about it; a tensor is an edge with
its name, if it has one, and its type. Constants are left out.
"""

from collections.abc import Iterator
from typing import cast

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from qmlir.compiler import loaded, main_function
from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.quant.types import quantized_element
from qmlir.errors import printable
from qmlir.ir.interfaces import element_of, shape_of
from qmlir.ir.rewriting import node_name, tensor_name
from qmlir.policies.ledger import decision_of
from qmlir.settings.arguments import Network

FILLS = {"quantized": "#cfe8d5", "float": "#f8d9c4"}
"""The colours of boxes by outcome; boxes without a decision are white."""


def dot_text(network: Network) -> str:
    """Returns the text of a DOT file that draws a network.

    Args:
        network: A network on the nn or the qint level, or its path; it stays unchanged.
    """
    function = main_function(loaded(network))
    block = function.body.block
    lines = ["digraph network {", "  rankdir=TB;", '  node [shape=box, style="rounded,filled", fillcolor=white];']
    names: dict[object, str] = {}
    for argument in block.args:
        names[argument] = f"n{len(names)}"
        lines.append(f"  {names[argument]} [label={_quoted(tensor_name(argument) or 'input')}, shape=oval];")
    for op in block.ops:
        if isinstance(op, ConstantOp):
            continue
        names[op] = f"n{len(names)}"
        lines.append(f"  {names[op]} [label={_quoted(*_title(op))}, fillcolor={_quoted(_fill(op))}];")
        lines += [
            f"  {names[source]} -> {names[op]} [label={_quoted(*_edge(value))}];"
            for value, source in _read(op)
            if source in names
        ]
    return "\n".join([*lines, "}"]) + "\n"


def _title(op: Operation) -> tuple[str, ...]:
    if op.name == "func.return":
        return ("results",)
    name = node_name(op)
    return (name, op.name) if name and name != op.name else (op.name,)


def _edge(value: SSAValue) -> tuple[str, ...]:
    name, type = tensor_name(value), _type_text(value)
    return (name, type) if name else (type,)


def _read(op: Operation) -> Iterator[tuple[SSAValue, object]]:
    """The operands of an operation, each with the operation or the argument it comes from."""
    for value in op.operands:
        yield value, value if isinstance(value, BlockArgument) else value.owner


def _fill(op: Operation) -> str:
    decision = decision_of(op)
    return FILLS.get(decision.outcome.data, "white") if decision is not None else "white"


def _type_text(value: SSAValue) -> str:
    """A tensor's shape and element type, such as `1x8x8x4 i8`; a quantized type is that of its storage."""
    type = value.type
    if not isinstance(type, TensorType):
        return str(type)
    element = quantized_element(cast(Attribute, type))
    stored = element.storage_type if element is not None else element_of(value)
    return f"{'x'.join(map(str, shape_of(value)))} {stored}".strip()


def _quoted(*lines: str) -> str:
    """Lines of text as one string of the DOT language."""
    escaped = [printable(line).replace("\\", "\\\\").replace('"', '\\"') for line in lines]
    return '"' + "\\n".join(escaped) + '"'
