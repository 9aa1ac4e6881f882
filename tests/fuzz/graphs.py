"""A random network as plain data, which can be sent to another process, cut, and written as a file."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

Array = npt.NDArray[Any]

ML = "ai.onnx.ml"
MICROSOFT = "com.microsoft"


@dataclass(frozen=True)
class Node:
    """A node of a network; "" among the inputs is an input that is left out."""

    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    domain: str = ""

    @staticmethod
    def of(proto: onnx.NodeProto) -> "Node":
        """A node from ONNX."""
        attributes = {a.name: helper.get_attribute_value(a) for a in proto.attribute}
        return Node(proto.op_type, tuple(proto.input), tuple(proto.output), attributes, proto.domain)

    def proto(self) -> onnx.NodeProto:
        """The node in ONNX."""
        name = self.outputs[0] if self.outputs else self.operator
        return helper.make_node(
            self.operator, self.inputs, self.outputs, name=f"n_{name}", domain=self.domain, **self.attributes
        )

    @property
    def key(self) -> str:
        """The operator's name behind that of its domain, as OPERATORS.md writes it."""
        return f"{self.domain}.{self.operator}" if self.domain else self.operator

    @property
    def bodies(self) -> list[onnx.GraphProto]:
        """The subgraphs of an If, a Loop or a Scan."""
        return [a for a in self.attributes.values() if isinstance(a, onnx.GraphProto)]

    @property
    def reads(self) -> list[str]:
        """The tensors that the node needs: its inputs, and those that its subgraphs read from outside."""
        inner = [name for body in self.bodies for name in captured(body)]
        return [name for name in dict.fromkeys((*self.inputs, *inner)) if name]


def captured(body: onnx.GraphProto) -> list[str]:
    """The tensors that a subgraph reads from outside."""
    nodes = [Node.of(node) for node in body.node]
    own = {v.name for v in body.input} | {t.name for t in body.initializer} | {o for n in nodes for o in n.outputs}
    read = [*(name for node in nodes for name in node.reads), *(v.name for v in body.output)]
    return [name for name in dict.fromkeys(read) if name not in own]


@dataclass(frozen=True)
class Graph:
    """A network.

    nodes      in an order in which they can be computed
    constants  name → array
    samples    name of an input → an array for each sample
    outputs    names
    opset      version of ONNX's operators
    """

    nodes: tuple[Node, ...]
    constants: Mapping[str, Array]
    samples: Mapping[str, tuple[Array, ...]]
    outputs: tuple[str, ...]
    opset: int

    @staticmethod
    def of(model: onnx.ModelProto, samples: Mapping[str, tuple[Array, ...]]) -> "Graph":
        """A network from a model and samples of its inputs."""
        nodes = [Node.of(node) for node in model.graph.node]
        constants = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
        (opset,) = [o.version for o in model.opset_import if not o.domain]
        return Graph(tuple(nodes), constants, samples, tuple(o.name for o in model.graph.output), opset)

    def feeds(self) -> list[dict[str, Array]]:
        """The inputs of each sample by name."""
        count = min((len(arrays) for arrays in self.samples.values()), default=1)
        return [{name: arrays[i] for name, arrays in self.samples.items()} for i in range(count)]

    def model(self) -> onnx.ModelProto:
        """The network as an ONNX model."""
        inputs = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a[0].dtype), a[0].shape)
            for name, a in self.samples.items()
        ]
        return model_of(self.nodes, self.constants, inputs, self.outputs, self.opset)

    def without_unused(self) -> "Graph":
        """The network without nodes, constants and inputs that no output depends on."""
        needed, kept = set(self.outputs), list[Node]()
        for node in reversed(self.nodes):
            if needed & {name for name in node.outputs if name}:
                kept.append(node)
                needed |= {*node.reads}
        return replace(
            self,
            nodes=tuple(reversed(kept)),
            constants={name: a for name, a in self.constants.items() if name in needed},
            samples={name: a for name, a in self.samples.items() if name in needed},
        )


def model_of(
    nodes: Iterable[Node],
    constants: Mapping[str, Array],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[str],
    opset: int,
) -> onnx.ModelProto:
    """An ONNX model; the types of its outputs are left to inference."""
    nodes = list(nodes)
    graph = helper.make_graph(
        [node.proto() for node in nodes],
        "fuzz",
        list(inputs),
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    domains = [*dict.fromkeys((MICROSOFT, *(d for node in nodes for d in domains_of(node.proto()) if d)))]
    versions = {ML: 5}
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, versions.get(d, 1)) for d in domains)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def domains_of(node: onnx.NodeProto) -> list[str]:
    """The domains of a node and of the nodes in its subgraphs."""
    return [node.domain, *(d for body in Node.of(node).bodies for inner in body.node for d in domains_of(inner))]
