"""What onnxruntime computes of a network, node by node: values, how sensitive they are, and what rounding costs."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnxruntime
from onnx import helper

from tests.fuzz.graphs import Array, Graph, Node, model_of
from tests.fuzz.spelled import spelled

Change = Callable[[str, Array], Array]
"""Name and value of a tensor → the value that its readers get."""


def session(model: Any, *, optimized: bool = False) -> onnxruntime.InferenceSession:
    """A model in onnxruntime on one thread, as it is written or with the default optimizations."""
    levels = onnxruntime.GraphOptimizationLevel
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimized else levels.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    data = model if isinstance(model, str) else model.SerializeToString()
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


class NodeSession:
    """A node in onnxruntime by itself, its constant operands among its inputs as constants."""

    def __init__(self, node: Node, operands: Mapping[str, Array], constants: Mapping[str, Array], opset: int):
        self.node = node
        held = {n: constants[n] for n in node.reads if n in constants}
        self.names = [n for n in node.reads if n not in held]
        inputs = [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(operands[n].dtype), operands[n].shape)
            for n in self.names
        ]
        self.outputs = [name for name in node.outputs if name]
        self.session = session(model_of(spelled(node, operands), held, inputs, self.outputs, opset))

    def run(self, values: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs by name."""
        found = self.session.run(None, {n: np.asarray(values[n]) for n in self.names})
        return {name: np.asarray(y) for name, y in zip(self.outputs, found, strict=True)}


class Oracle:
    """A network in onnxruntime, one session for each node, so that tensors can be changed on the way.

    Args:
        graph: The network.
        spells: Whether operators on integers are their definition's nodes, between which floats can be changed.
    """

    def __init__(self, graph: Graph, *, spells: bool = False):
        self.graph = graph
        self.sessions = list[NodeSession]()
        values = {**graph.constants, **graph.feeds()[0]}
        for node in graph.nodes:
            for part in spelled(node, values, every=True) if spells else [node]:
                self.sessions.append(NodeSession(part, values, graph.constants, graph.opset))
                values |= self.sessions[-1].run(values)

    def run(self, feed: Mapping[str, Array], change: Change | None = None) -> dict[str, Array]:
        """The value of every tensor that is computed or fed.

        Args:
            feed: The inputs by name.
            change: What becomes of each floating-point value before it is read.
        """

        def changed(name: str, value: Array) -> Array:
            return change(name, value) if change is not None and value.dtype.kind == "f" else value

        values = {name: changed(name, value) for name, value in feed.items()}
        for own in self.sessions:
            values |= {name: changed(name, value) for name, value in own.run(values).items()}
        return values
