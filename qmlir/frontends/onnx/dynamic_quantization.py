"""DynamicQuantizeLinear: quantization with the parameters that data have at run time.

ONNX defines it as a graph, whose scale is 0 for data that are all 0. onnxruntime takes a scale of 1 there, so that no
quotient is NaN; so does qmlir.
"""

from collections.abc import Sequence

import onnx
from onnx import TensorProto
from onnx.helper import make_graph, make_node, make_tensor
from xdsl.ir import OpResult

from qmlir.frontends.converters import Table
from qmlir.frontends.function import Value
from qmlir.frontends.onnx.node import ONNXNode
from qmlir.ir.facts import PARAMETER
from qmlir.ir.traversal import reached

converts = Table()

STEPS = (
    make_node("ReduceMin", ["x"], ["x_least"], keepdims=0),
    make_node("Min", ["x_least", "zero"], ["least"]),
    make_node("ReduceMax", ["x"], ["x_greatest"], keepdims=0),
    make_node("Max", ["x_greatest", "zero"], ["greatest"]),
    make_node("Sub", ["greatest", "least"], ["range"]),
    make_node("Equal", ["range", "zero"], ["is_zero"]),
    make_node("Where", ["is_zero", "levels", "range"], ["width"]),
    make_node("Div", ["width", "levels"], ["scale"]),
    make_node("Div", ["least", "scale"], ["least_in_steps"]),
    make_node("Sub", ["zero", "least_in_steps"], ["place"]),
    make_node("Clip", ["place", "zero", "levels"], ["clipped"]),
    make_node("Round", ["clipped"], ["rounded"]),
    make_node("Cast", ["rounded"], ["zero_point"], to=TensorProto.UINT8),
    make_node("QuantizeLinear", ["x", "scale", "zero_point"], ["stored"]),
)
"""stored = clamp(round(x / scale) + zero_point, 0, 255): the scale is a 255th of the range of x and 0, and the zero
point is where 0 lies in it, rounded."""

NUMBERS = (make_tensor("zero", TensorProto.FLOAT, [], [0.0]), make_tensor("levels", TensorProto.FLOAT, [], [255.0]))

OUTPUTS = ("stored", "scale", "zero_point")


@converts("DynamicQuantizeLinear", since=11)
def dynamic_quantize_linear(node: ONNXNode, x: Value) -> tuple[Value, ...]:
    """Returns the stored integers, the scale and the zero point."""
    return tuple(quantized_by_its_range(node, x))


def quantized_by_its_range(node: ONNXNode, x: Value, step: str = "") -> list[Value]:
    """The same as a part of another operator's node; `step` begins the names of what is computed.

    The operations that compute the scale and the zero point are marked, so that the quantizer leaves them float.
    """
    results = [onnx.ValueInfoProto(name=name) for name in OUTPUTS]
    graph = make_graph(STEPS, "dynamic", [onnx.ValueInfoProto(name="x")], results, NUMBERS)
    stored, *parameters = node.run(graph, [x], step)

    def computed(values: Sequence[Value]) -> list[OpResult]:
        return [v for v in values if isinstance(v, OpResult) and v is not x]

    for value in reached(computed(parameters), lambda v: computed(v.op.operands)):
        PARAMETER.put(value.op)
    return [stored, *parameters]
