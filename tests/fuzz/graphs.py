"""A random network as plain data, which can be sent to another process, cut, and written as a file."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

Array = npt.NDArray[Any]

MICROSOFT = "com.microsoft"


@dataclass(frozen=True)
class Node:
    """A node of a network; "" among the inputs is an input that is left out."""

    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    domain: str = ""

    def proto(self) -> onnx.NodeProto:
        """The node in ONNX."""
        name = self.outputs[0] if self.outputs else self.operator
        return helper.make_node(
            self.operator, self.inputs, self.outputs, name=f"n_{name}", domain=self.domain, **self.attributes
        )


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
        nodes = [
            Node(
                n.op_type,
                tuple(n.input),
                tuple(n.output),
                {a.name: helper.get_attribute_value(a) for a in n.attribute},
                n.domain,
            )
            for n in model.graph.node
        ]
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
                needed |= {*node.inputs, *_captured(node)}
        return replace(
            self,
            nodes=tuple(reversed(kept)),
            constants={name: a for name, a in self.constants.items() if name in needed},
            samples={name: a for name, a in self.samples.items() if name in needed},
        )


def _captured(node: Node) -> set[str]:
    """Names that the bodies of a node read."""
    bodies = [a for a in node.attributes.values() if isinstance(a, onnx.GraphProto)]
    return {name for body in bodies for inner in body.node for name in inner.input}


def model_of(
    nodes: Iterable[Node],
    constants: Mapping[str, Array],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[str],
    opset: int,
) -> onnx.ModelProto:
    """An ONNX model; the types of its outputs are left to inference."""
    graph = helper.make_graph(
        [node.proto() for node in nodes],
        "fuzz",
        list(inputs),
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)
