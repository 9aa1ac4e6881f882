"""Operators as nodes of simpler ones, by their definitions.

The oracle runs these nodes in the place of operators that onnxruntime lacks, or computes otherwise on some processors.
Those of operators on integers show how near to a tie a result is: onnxruntime rounds the result of floats there, whose
last places decide.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from onnx import TensorProto, numpy_helper

from tests.fuzz.graphs import MICROSOFT, Array, Node

Spelling = Callable[["Nodes", Node, Mapping[str, Array]], str]
"""Writes the nodes of one operator and returns the name of their result."""


class Nodes(list[Node]):
    """Nodes in the place of one, with names that begin with that of its result."""

    def __init__(self, stem: str):
        super().__init__()
        self.stem = stem

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Appends a node with one output; returns that output's name."""
        name = f"{self.stem}.{len(self)}"
        self.append(Node(operator, inputs, (name,), attributes))
        return name

    def constant(self, values: Any, dtype: Any) -> str:
        """Appends a constant."""
        return self.add("Constant", value=numpy_helper.from_array(np.array(values, dtype)))


def spelled(node: Node, operands: Mapping[str, Array], *, every: bool = False) -> list[Node]:
    """A node, or simpler nodes in its place.

    Args:
        node: The node.
        operands: The values of its inputs on one sample.
        every: Whether an operator that onnxruntime has is spelled, too.
    """
    spelling = (ON_INTEGERS.get(node.key) if every else None) or LACKING.get(node.key)
    if spelling is None:
        return [node]
    nodes = Nodes(node.outputs[0])
    result = spelling(nodes, node, operands)
    return [*nodes, Node("Identity", (result,), node.outputs)]


def _quant(nodes: Nodes, node: Node, operands: Mapping[str, Array]) -> str:
    """QONNX's Quant: (clamp(round(x / scale + zero), low, high) − zero) · scale."""
    x, scale, zero, width = node.inputs
    rounding = {"CEIL": "Ceil", "FLOOR": "Floor"}.get(node.attributes.get("rounding_mode", "ROUND"), "Round")
    counted = nodes.add(rounding, nodes.add("Add", nodes.add("Div", x, scale), zero))
    return nodes.add("Mul", nodes.add("Sub", _clamped(nodes, node, counted, int(operands[width])), zero), scale)


def _clamped(nodes: Nodes, node: Node, x: str, bits: int) -> str:
    """Floats between the least and the largest integer of a width, by the node's `signed` and `narrow`."""
    narrow = node.attributes.get("narrow", 0)
    low, high = -(1 << bits - 1) + narrow, (1 << bits - 1) - 1
    if not node.attributes.get("signed", 1):
        low, high = 0, (1 << bits) - 1 - narrow
    limits = [nodes.constant(limit, np.float32) for limit in (low, high)]
    return nodes.add("Min", nodes.add("Max", x, limits[0]), limits[1])


def _bipolar(nodes: Nodes, node: Node, operands: Mapping[str, Array]) -> str:
    """QONNX's BipolarQuant: scale where x ≥ 0, else −scale."""
    x, scale = node.inputs
    up = nodes.add("GreaterOrEqual", x, nodes.constant(0, operands[x].dtype))
    return nodes.add("Where", up, scale, nodes.add("Neg", scale))


def _trunc(nodes: Nodes, node: Node, operands: Mapping[str, Array]) -> str:
    """QONNX's Trunc: the integers round(x / scale + zero), rounded to fewer bits by a power of two.

    By one more input, the width of the output, or by three, its scale, its zero point and its width, which clamps.
    """
    x, scale, zero, width, *outputs = node.inputs
    by_scale, given = len(outputs) == 3, operands[outputs[0]]
    factor = np.exp2(np.rint(np.log2(operands[scale] / given))) if by_scale else np.exp2(given - operands[width])
    mode = node.attributes.get("rounding_mode", "FLOOR")
    whole = nodes.add("Round", nodes.add("Add", nodes.add("Div", x, scale), zero))
    scaled = nodes.add("Mul", whole, nodes.constant(factor, np.float32))
    y = nodes.add({"CEIL": "Ceil", "FLOOR": "Floor"}.get(mode, "Round"), scaled)
    if not by_scale:
        return nodes.add("Mul", nodes.add("Sub", y, zero), scale)
    y = _clamped(nodes, node, y, int(operands[outputs[2]]))
    return nodes.add("Mul", nodes.add("Sub", y, outputs[1]), outputs[0])


def _swish(nodes: Nodes, node: Node, operands: Mapping[str, Array]) -> str:
    """x · sigmoid(alpha · x), times another tensor if there is one."""
    x, *others = node.inputs
    alpha = nodes.constant(node.attributes.get("alpha", 1.0), operands[x].dtype)
    y = nodes.add("Mul", x, nodes.add("Sigmoid", nodes.add("Mul", x, alpha)))
    return nodes.add("Mul", y, *others) if others else y


def _unsigned(nodes: Nodes, node: Node, operands: Mapping[str, Array]) -> str:
    """The operator with its weights and their zero point as unsigned integers, 128 more each, beside unsigned data.

    Products mean the same. Without VNNI onnxruntime adds pairs of products of u8 by s8 in 16 bits, which saturate.
    """
    weights, point = SIGNED_WEIGHTS[node.key]
    inputs = [*node.inputs, *[""] * (point + 1 - len(node.inputs))]
    unsigned = operands[inputs[0]].dtype in (np.uint8, np.float32)  # floats become bytes without a sign
    if unsigned and operands[inputs[weights]].dtype == np.int8:
        inputs[weights] = _raised(nodes, inputs[weights])
        inputs[point] = _raised(nodes, inputs[point]) if inputs[point] else nodes.constant(128, np.uint8)
    nodes.append(replace(node, inputs=tuple(inputs), outputs=(f"{nodes.stem}.{len(nodes)}",)))
    return nodes[-1].outputs[0]


def _raised(nodes: Nodes, x: str) -> str:
    """Signed bytes, 128 more each."""
    more = nodes.add("Add", nodes.add("Cast", x, to=TensorProto.INT32), nodes.constant(128, np.int32))
    return nodes.add("Cast", more, to=TensorProto.UINT8)


def _between_casts(nodes: Nodes, node: Node, operands: Mapping[str, Array]) -> str:
    """The operator on floats between casts; inputs are triples of data, scale and zero point."""
    operator, inputs = node.operator.removeprefix("QLinear"), [*node.inputs]
    condition = [inputs.pop(0)] if operator == "Where" else []
    target = inputs[:2] if operator == "Concat" else inputs[-2:]
    inputs = inputs[2:] if operator == "Concat" else inputs[:-2]
    reals = [nodes.add("DequantizeLinear", *inputs[i : i + 3]) for i in range(0, len(inputs), 3)]
    attributes = {k: v for k, v in node.attributes.items() if k not in ("channels_last", "opset", "axes")}
    if "axes" in node.attributes:
        reals.append(nodes.constant(node.attributes["axes"], np.int64))
    shape = operands[inputs[0]].shape
    rank = len(shape)
    if node.attributes.get("channels_last"):
        reals = [nodes.add("Transpose", x, perm=[0, rank - 1, *range(1, rank - 1)]) for x in reals]
    flat = operator == "Softmax" and node.attributes["opset"] < 13
    if flat:
        rows = int(np.prod(shape[: attributes["axis"] % rank]))
        reals, attributes = [nodes.add("Reshape", reals[0], nodes.constant([rows, -1], np.int64))], {"axis": 1}
    y = nodes.add(operator, *condition, *reals, **attributes)
    if flat:
        y = nodes.add("Reshape", y, nodes.constant(shape, np.int64))
    if node.attributes.get("channels_last"):
        y = nodes.add("Transpose", y, perm=[0, *range(2, rank), 1])
    return nodes.add("QuantizeLinear", y, *target)


def _flex_attention(nodes: Nodes, node: Node, operands: Mapping[str, Array]) -> str:
    """softmax(q · kᵀ · scale) · v, with subgraphs of the model's own before and after the softmax."""
    q, k, v = node.inputs
    group = operands[q].shape[1] // operands[k].shape[1]
    k, v = (_repeated(nodes, x, operands[x].shape, group) for x in (k, v))
    scale = node.attributes.get("scale", 1 / np.sqrt(operands[q].shape[3]))
    products = nodes.add("MatMul", q, nodes.add("Transpose", k, perm=[0, 1, 3, 2]))
    scores = nodes.add("Mul", products, nodes.constant(scale, operands[q].dtype))
    scores = _inlined(nodes, node.attributes.get("score_mod"), scores)
    shares = _inlined(nodes, node.attributes.get("prob_mod"), nodes.add("Softmax", scores, axis=-1))
    return nodes.add("MatMul", shares, v)


def _repeated(nodes: Nodes, x: str, shape: tuple[int, ...], times: int) -> str:
    """A tensor whose heads are there so many times each."""
    if times == 1:
        return x
    batch, heads, length, size = shape
    apart = nodes.add("Unsqueeze", x, nodes.constant([2], np.int64))
    spread = nodes.add("Expand", apart, nodes.constant([batch, heads, times, length, size], np.int64))
    return nodes.add("Reshape", spread, nodes.constant([batch, heads * times, length, size], np.int64))


def _inlined(nodes: Nodes, body: Any, argument: str) -> str:
    """The result of a subgraph of one input and one output."""
    if body is None:
        return argument
    nodes.append(Node("Identity", (argument,), (body.input[0].name,)))
    nodes += [Node("Constant", (), (t.name,), {"value": t}) for t in body.initializer]
    nodes += [Node.of(inner) for inner in body.node]
    return str(body.output[0].name)


def _gemm(nodes: Nodes, node: Node, operands: Mapping[str, Array]) -> str:
    """QGemm: α · (a · b + c), where c has the scale of the products, on real numbers."""
    a, a_scale, a_zero, b, b_scale, b_zero, c, y_scale, y_zero = (*node.inputs, *[""] * (9 - len(node.inputs)))
    transposed = {key: node.attributes.get(key, 0) for key in ("transA", "transB")}
    alpha = node.attributes.get("alpha", 1.0)
    factors = [
        nodes.add("DequantizeLinear", a, a_scale, a_zero),
        nodes.add("DequantizeLinear", b, b_scale, b_zero, axis=1 - transposed["transB"]),
    ]
    if c:
        whole = nodes.add("Cast", c, to=TensorProto.FLOAT)
        factors.append(nodes.add("Mul", whole, nodes.add("Mul", a_scale, b_scale)))
    y = nodes.add("Gemm", *factors, alpha=alpha, beta=alpha, **transposed)
    return nodes.add("QuantizeLinear", y, y_scale, y_zero) if y_scale else y


SIGNED_WEIGHTS = {"MatMulInteger": (1, 3), f"{MICROSOFT}.QGemm": (3, 5), f"{MICROSOFT}.MatMulIntegerToFloat": (1, 5),
                  f"{MICROSOFT}.DynamicQuantizeMatMul": (1, 3), f"{MICROSOFT}.QAttention": (1, 7)}  # fmt: skip
"""Operator that takes signed weights beside unsigned data → which inputs the weights and their zero point are."""

QONNX = ("qonnx.custom_op.general", "onnx.brevitas", "finn.custom_op.general")
"""The domains of QONNX's operators."""

QUANT = [f"{domain}.{operator}" for domain in QONNX for operator in ("Quant", "IntQuant")]
BIPOLAR = [f"{domain}.BipolarQuant" for domain in QONNX]
TRUNC = [f"{domain}.Trunc" for domain in QONNX]

LACKING: Mapping[str, Spelling] = {
    **dict.fromkeys(QUANT, _quant),
    **dict.fromkeys(BIPOLAR, _bipolar),
    **dict.fromkeys(TRUNC, _trunc),
    f"{MICROSOFT}.QLinearReduceMean": _between_casts,
    "Swish": _swish,
    "SwiGLU": _swish,
    "ai.onnx.preview.FlexAttention": _flex_attention,
    **dict.fromkeys(SIGNED_WEIGHTS, _unsigned),
}
"""Operators of which onnxruntime has no kernel, or none that is exact on every processor."""

ON_INTEGERS: Mapping[str, Spelling] = {
    f"{MICROSOFT}.QLinear{operator}": _between_casts
    for operator in ("Add", "Mul", "Sigmoid", "LeakyRelu", "Softmax", "Where", "Concat", "AveragePool",
                     "GlobalAveragePool")
} | {f"{MICROSOFT}.QGemm": _gemm}  # fmt: skip
"""Operators that onnxruntime computes in floats of its own order."""
