"""An ONNX node as its converter sees it: a frontend node that can stand for other ONNX operators and for subgraphs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import onnx

from qmlir.frontends.builder import Node
from qmlir.frontends.function import Value

SPELLED = 18
"""The operator set of the operators that others are spelled out in."""


class Walking(Protocol):
    """What imports operators and subgraphs in the place of a node (walk.py)."""

    def subgraph(self, node: "ONNXNode", graph: onnx.GraphProto, arguments: Sequence[Value], step: str) -> list[Value]:
        """Imports a subgraph that runs with these arguments, and returns its outputs."""
        ...

    def operator(
        self, node: "ONNXNode", operator: str, inputs: Sequence[Value], attributes: Mapping[str, Any], version: int
    ) -> Value:
        """Imports an ONNX operator, and returns its output."""
        ...

    def newest(
        self, node: "ONNXNode", operator: str, inputs: Sequence[Value | None], attributes: Mapping[str, Any]
    ) -> Value:
        """Converts inputs by the newest converter of an ONNX operator, and returns its output."""
        ...


@dataclass
class ONNXNode(Node):
    """A node of an ONNX graph.

    walk  the walk over the graph
    """

    NAMES_INPUTS: ClassVar[bool] = True
    NAMES_ARGUMENTS: ClassVar[bool] = True

    walk: "Walking | None" = None

    def run(self, graph: onnx.GraphProto, arguments: Sequence[Value], step: str = "") -> list[Value]:
        """Imports a subgraph in the node's place, and returns its outputs.

        `step` begins the names of what is computed in a run, to tell runs apart.
        """
        assert self.walk is not None
        return self.walk.subgraph(self, graph, arguments, step)

    def operator(self, operator: str, *inputs: Value, since: int = SPELLED, **attributes: Any) -> Value:
        """Imports an ONNX operator, as operator set `since` defines it, in the node's place; returns its output."""
        assert self.walk is not None
        return self.walk.operator(self, operator, inputs, attributes, since)

    def newest(self, operator: str, *inputs: Value | None, **attributes: Any) -> Value:
        """Converts inputs by the newest converter of an ONNX operator; its output is a part of the node."""
        assert self.walk is not None
        return self.walk.newest(self, operator, inputs, attributes)
