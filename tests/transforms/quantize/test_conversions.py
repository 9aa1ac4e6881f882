"""Conversions of plain integers to floats, which are computed in integers, under numerics that store signed bytes."""

import numpy as np

import qmlir
from qmlir.policies.ledger import decisions
from qmlir.policies.runtimes import follow
from tests.frontends.onnx.agreement import load, model, node


def test_sums_that_are_converted_beside_unsigned_bytes() -> None:
    """The decision about a conversion, which has no bytes, stays as it is."""
    x = np.random.default_rng(0).normal(size=(2, 4)).astype(np.float32)
    w = np.random.default_rng(1).integers(-5, 5, (4, 3)).astype(np.int8)
    nodes = [
        node("QuantizeLinear", "x s z", "q"), node("MatMulInteger", "q w z", "sums"), node("Cast", "sums", "f", to=1),
        node("Mul", "f s", "scaled"), node("Sigmoid", "t", "u"), node("Concat", "scaled u", axis=0),
    ]  # fmt: skip
    constants = {"s": np.float32(0.1), "z": np.uint8(3), "w": w}
    module = load(model(nodes, {"x": (2, 4), "t": (2, 3)}, constants))
    follow(module, "litert-xnnpack")
    quantized = qmlir.quantize(module, data=[{"x": x, "t": x[:, :3]}], precision="uint8")
    reasons = {entry.operation: entry.reason for entry in decisions(quantized)}
    assert reasons["nn.cast"] == "converts i32 to f32 in integers"
