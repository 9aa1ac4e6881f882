"""QDQ models whose bias has a scale, or scales and zero points, of its own: real numbers, as onnxruntime takes them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnxruntime
import pytest

import qmlir
from qmlir.compiler import Pipeline
from qmlir.frontends.onnx import load_onnx
from qmlir.policies.ledger import decisions
from qmlir.stages import IMPORTED
from tests.frontends.onnx.agreement import floats, model, node

X, W, Y = 0.02, 0.01, 0.05
"""The scales of data, weights and result."""

BIASES: dict[str, tuple[type, Sequence[float], Sequence[int]]] = {
    "int8": (np.int8, [0.013], [7]),
    "int8 of channels": (np.int8, [0.01, 0.02, 0.03, 0.001], [1, 2, 3, 4]),
    "int16": (np.int16, [0.0007], [0]),
    "int32": (np.int32, [0.00031], [0]),
    "int32 of channels": (np.int32, [0.01, 0.02, 0.03, 0.001], [0, 0, 0, 0]),
}
"""Storage, scales and zero points."""


@pytest.mark.parametrize("name", BIASES)
def test_a_bias_stands_for_its_real_numbers(name: str) -> None:
    """Sums are exact but for the bias, which is rounded to s_x · s_w."""
    storage, scales, points = BIASES[name]
    random = np.random.default_rng(0)
    (scale, point) = (scales, points) if len(scales) > 1 else (scales[0], points[0])
    constants: dict[str, Any] = {
        "xs": np.float32(X), "xz": np.int8(3), "ws": np.float32(W), "wz": np.int8(0), "ys": np.float32(Y),
        "yz": np.int8(-5), "w": random.integers(-127, 128, (4, 3, 3, 3)).astype(np.int8),
        "b": random.integers(-100, 100, 4).astype(storage), "bs": np.asarray(scale, np.float32),
        "bz": np.asarray(point, storage),
    }  # fmt: skip
    nodes = [
        node("QuantizeLinear", "x xs xz", "xq"), node("DequantizeLinear", "xq xs xz", "xd"),
        node("DequantizeLinear", "w ws wz", "wd"), node("DequantizeLinear", "b bs bz", "bd", axis=0),
        node("Conv", "xd wd bd", "real"), node("QuantizeLinear", "real ys yz", "yq"),
        node("DequantizeLinear", "yq ys yz", "y"),
    ]  # fmt: skip
    file = model(nodes, {"x": (1, 3, 8, 8)}, constants, outputs=["y", "real"])
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    x = floats(1, 3, 8, 8)
    results: Any = onnxruntime.InferenceSession(file.SerializeToString(), options).run(None, {"x": x})
    quantized, real = results

    network = Pipeline(*IMPORTED)(load_onnx(model(nodes, {"x": (1, 3, 8, 8)}, constants)))
    assert [e.outcome for e in decisions(network) if e.operation == "nn.conv2d"] == ["quantized"]
    got = np.asarray(qmlir.reference(network)(x))
    np.testing.assert_array_equal(qmlir.compile(network)(x), got)
    rounded = (0.5 + 0.5 * X * W / Y + 1e-3) * Y  # the result's own rounding and the bias's
    inside = np.clip(real, (-128 + 5) * Y, (127 + 5) * Y)
    assert np.abs(got - inside).max() <= rounded
    assert (got == quantized).mean() > 0.98
