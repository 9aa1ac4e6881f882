"""Keeps onnxruntime's default optimizations from changing what a file means, or from contradicting themselves.

**Moved bytes.** The default optimizations move a DequantizeLinear past operators that only move or compare elements:
they put a QuantizeLinear and a DequantizeLinear behind such an operator. From operator set 21 on, they state the type
int8 on the new QuantizeLinear. On x86 processors, a later optimization makes unsigned bytes of signed ones, and leaves
that statement as it is, so that onnxruntime refuses the file. Where the pair of operators is in the file, nothing is
put in. The pair computes nothing: a number that is a stored integer's real value is quantized to that integer.

**Float weights.** A layer whose data are dequantized, whose result is quantized and whose weights are floats gets
weights of 8 bits: another optimization quantizes them. Max of one operand, which does nothing, separates such a layer,
which is to stay float, from the QuantizeLinear.
"""

from collections.abc import Sequence

import numpy as np

from qmlir.backends.onnx.graph import Graph, Node, Tensor

STATED_SINCE = 21
"""The first operator set in which QuantizeLinear states its type."""

PASSED = {"MaxPool", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"}
"""Operators that onnxruntime moves a DequantizeLinear past, or a QuantizeLinear to their other side."""


def quantize_moved(graph: Graph, ends: Sequence[Tensor]) -> list[Tensor]:
    """Adds QuantizeLinear and DequantizeLinear behind operators that move dequantized signed bytes, in place.

    Args:
        graph: The graph; nodes stand behind those that they read.
        ends: The tensors of the outputs.

    Returns:
        The tensors of the outputs.
    """
    if graph.opset < STATED_SINCE:
        return list(ends)
    replaced: dict[Tensor, Tensor] = {}
    requantized = {n.inputs[0] for n in graph.nodes if n.kind == "QuantizeLinear"}
    others = {t for n in graph.nodes if n.kind != "QuantizeLinear" for t in n.inputs} | set(ends)
    nodes, graph.nodes = graph.nodes, []
    for node in nodes:
        if node.kind != "QuantizeLinear":
            node.inputs = [t if t is None else replaced.get(t, t) for t in node.inputs]
        graph.nodes.append(node)
        if (source := _moved(node)) is not None and node.outputs[0] in others - requantized:
            replaced[node.outputs[0]] = _again(graph, node, source)
    return [replaced.get(tensor, tensor) for tensor in ends]


LAYERS = {"Conv", "ConvTranspose", "Gemm"}
"""Operators whose float weights onnxruntime quantizes."""

CLAMPS = {"Clip", "Relu"}
"""Operators between a layer and a QuantizeLinear that onnxruntime takes out if they change no integer."""


def keep_float_weights(graph: Graph) -> None:
    """Adds Max of one operand behind layers on floats that stand between casts, in place."""
    readers: dict[Tensor, list[Node]] = {}
    for node in graph.nodes:
        for tensor in node.inputs:
            if tensor is not None:
                readers.setdefault(tensor, []).append(node)
    nodes, graph.nodes = graph.nodes, []
    for node in nodes:
        graph.nodes.append(node)
        if _has_float_weights(graph, node) and _is_quantized_next(node, readers):
            result = node.outputs[0]
            graph.scope = node.wanted or node.kind
            same = graph.node("Max", result)
            same.wanted, result.wanted = result.wanted, f"{result.wanted}/{node.kind}"
            for reader in readers[result]:
                reader.inputs = [same if t is result else t for t in reader.inputs]


def _has_float_weights(graph: Graph, node: Node) -> bool:
    if node.kind not in LAYERS or node.domain:
        return False
    data, weights = node.inputs[:2]
    while data is not None and data.node is not None and data.node.kind in PASSED:
        data = data.node.inputs[0]
    dequantized = data is not None and data.node is not None and data.node.kind == "DequantizeLinear"
    return dequantized and weights in graph.constants


def _is_quantized_next(node: Node, readers: dict[Tensor, list[Node]]) -> bool:
    """Whether the only reader of a node's result, moved and clamped perhaps, is a QuantizeLinear."""
    while len(found := readers.get(node.outputs[0], [])) == 1:
        (node,) = found
        if node.kind not in CLAMPS | PASSED:
            return node.kind == "QuantizeLinear"
    return False


def _moved(node: Node) -> Node | None:
    """Returns the DequantizeLinear whose signed bytes a node moves; None for another node."""
    tensor = node.inputs[0] if node.inputs else None
    source = None if tensor is None else tensor.node
    if node.kind not in PASSED or node.domain or source is None or source.kind != "DequantizeLinear":
        return None
    point = source.inputs[2]
    return source if point is not None and point.dtype == np.int8 and "axis" not in source.attributes else None


def _again(graph: Graph, node: Node, source: Node) -> Tensor:
    """Adds the pair behind a node, with the parameters of the DequantizeLinear in front of it; returns its result."""
    graph.scope = node.wanted or node.kind
    parameters, moved = source.inputs[1:], node.outputs[0]
    stored = graph.node("QuantizeLinear", moved, *parameters, dtype=np.dtype(np.int8))
    result = graph.node("DequantizeLinear", stored, *parameters, dtype=moved.dtype)
    moved.wanted, result.wanted = f"{moved.wanted}/{node.kind}", moved.wanted
    return result
