"""What divides by a computed number, or computes a scale, stays float between integers, too."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import qmlir
from qmlir.ir.facts import PARAMETER
from tests.frontends.onnx.agreement import floats, load, model, node


@pytest.mark.parametrize("reader", [node("Tanh", "z"), node("Sub", "z a")], ids=["tanh", "sub"])
@pytest.mark.parametrize(
    "divisor", [[node("Exp", "x", "e")], [node("ReduceMax", "x axes", "m"), node("Exp", "m", "e")]]
)
def test_a_computed_divisor(divisor: list[onnx.NodeProto], reader: onnx.NodeProto) -> None:
    """Operands and result have scales, since integer operations make and read them: the division does not."""
    nodes = [node("Abs", "x", "a"), *divisor, node("Div", "a e", "z"), reader]
    module = load(model(nodes, {"x": [4]}, {"axes": np.array([0])}))
    quantized = qmlir.quantize(module, data=[4 * floats(4, seed=i) for i in range(20)])
    (entry,) = [e for e in qmlir.decisions(quantized) if e.operation == "nn.div"]
    assert entry.outcome == "float"
    assert entry.reason.startswith("its divisor is computed at run time, and may come near 0")
    x = 4 * floats(4, seed=30)
    np.testing.assert_array_equal(qmlir.compile(quantized)(x), qmlir.reference(quantized)(x))


@pytest.mark.parametrize("rules", [[], [{"glob": "*", "schema": "symmetric_with_power2_scale"}]], ids=["", "rule"])
@pytest.mark.parametrize("schema", ["asymmetric", "symmetric_with_power2_scale"])
def test_parameters_that_are_computed(schema: Any, rules: list[dict[str, str]]) -> None:
    """The zero point was 255 for all data, since a scale near 0 had been rounded to 0."""
    nodes = [
        node("DynamicQuantizeLinear", "x", "q scale y"),
        node("Tanh", "x", "t"),
    ]  # a rule needs an integer operation
    proto = model(nodes, {"x": [1, 2]}, outputs=["scale", "t"])
    proto.graph.output.append(helper.make_tensor_value_info("y", TensorProto.UINT8, []))
    module = load(proto)
    data = np.stack([floats(1, 2, seed=i) for i in range(8)])
    quantized = qmlir.quantize(module, data=data, schema=schema, policy={"rules": rules})
    for op in quantized.walk():
        assert not PARAMETER.on(op) or "!quant" not in str([v.type for v in (*op.operands, *op.results)])
    for x in data:
        found, exact = qmlir.reference(quantized)(x), qmlir.reference(module)(x)
        for name in ("scale", "y"):
            np.testing.assert_array_equal(found[name], exact[name])
