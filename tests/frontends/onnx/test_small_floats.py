"""QuantizeLinear and DequantizeLinear that store floats of 8 and 4 bits, against ONNX's evaluator: exactly the same."""

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import qmlir
from qmlir.frontends.onnx import load_onnx
from qmlir.frontends.opaque import opaque_report
from tests.conftest import crossed
from tests.frontends.onnx.agreement import load
from tests.frontends.onnx.quantized_models import Array, model, node

TYPES: dict[str, npt.DTypeLike] = {
    name: np.dtype(getattr(ml_dtypes, name))
    for name in ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float4_e2m1fn")
}
X = {"x": (np.random.default_rng(2).standard_normal((4, 6)) * 3).astype(np.float32)}
SCALES: dict[str, tuple[Array, dict[str, Any]]] = {
    "one": (np.array(0.25, np.float32), {}),
    "of an axis": (np.linspace(0.1, 0.9, 6).astype(np.float32), {"axis": 1}),
    "of blocks": (np.linspace(0.1, 0.9, 8).astype(np.float32).reshape(4, 2), {"axis": 1, "block_size": 3}),
}


def agrees(proto: onnx.ModelProto, inputs: dict[str, Array]) -> None:
    """On the reference and in machine code."""
    wanted: Any = ReferenceEvaluator(proto).run(None, inputs)
    module = load(proto)
    for run in (qmlir.reference(module), qmlir.compile(module)):
        got = np.asarray(run(*inputs.values()))
        assert got.dtype == wanted[0].dtype
        np.testing.assert_array_equal(got.astype(np.float32), wanted[0].astype(np.float32))


@crossed({"kind": TYPES, "scales": SCALES})
def test_there_and_back(kind: str, scales: str) -> None:
    scale, attributes = SCALES[scales]
    nodes = [node("QuantizeLinear", "x s z", "q", **attributes), node("DequantizeLinear", "q s z", "y", **attributes)]
    zero = np.zeros(scale.shape, np.float32).astype(TYPES[kind])
    agrees(model(nodes, X, ["y"], {"s": scale, "z": zero}, opset=23), X)


@pytest.mark.parametrize("kind", TYPES)
def test_stored_data(kind: str) -> None:
    """They are results and arguments of a network, too."""
    scale = np.array(0.5, np.float32)
    code = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(TYPES[kind]))
    agrees(model([node("QuantizeLinear", "x s", "y", output_dtype=code)], X, ["y"], {"s": scale}, opset=23), X)
    stored = {"x": X["x"].astype(TYPES[kind])}
    agrees(model([node("DequantizeLinear", "x s", "y")], stored, ["y"], {"s": scale}, opset=23), stored)


@pytest.mark.parametrize("kind", TYPES)
def test_weights(kind: str) -> None:
    """Constants of a layer become floats, which are quantized as any others."""
    rng = np.random.default_rng(7)
    weights = rng.standard_normal((6, 5)).astype(np.float32).astype(TYPES[kind])
    constants = {"w": weights, "s": rng.uniform(0.1, 1, 5).astype(np.float32)}
    nodes = [node("DequantizeLinear", "w s", "d", axis=1), node("MatMul", "x d", "y")]
    module = load(model(nodes, X, ["y"], constants, opset=23))
    exact = X["x"].astype(np.float64) @ (weights.astype(np.float64) * constants["s"])
    np.testing.assert_allclose(qmlir.reference(module)(X["x"]), exact, rtol=1e-5, atol=1e-5)
    quantized = qmlir.quantize(module, data=[X["x"]])
    assert [d.outcome for d in qmlir.decisions(quantized)] == ["quantized"]


def test_halves_and_zero_points() -> None:
    stored = {"x": X["x"].astype(TYPES["float8_e4m3fn"])}
    constants = {"s": np.array(0.3, np.float16), "z": np.array(0, np.float32).astype(TYPES["float8_e4m3fn"])}
    agrees(model([node("DequantizeLinear", "x s z", "y")], stored, ["y"], constants, opset=23), stored)
    constants = {"s": np.array(0.3, np.float32), "z": np.array(2, np.float32).astype(TYPES["float8_e4m3fn"])}
    refused = model([node("QuantizeLinear", "x s z", "y")], X, ["y"], constants, opset=23)
    assert "its zero point is not 0" in str(opaque_report(load_onnx(refused)))
