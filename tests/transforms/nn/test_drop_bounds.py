"""Maxima and minima with numbers that no element passes are no operations, whichever format has them."""

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

import qmlir
from qmlir.compiler import Pipeline
from qmlir.frontends.onnx import load_onnx
from qmlir.frontends.tflite import load_tflite
from qmlir.ir.interfaces import Array
from qmlir.stages import IMPORTED
from tests.frontends.onnx.agreement import model, node, onnxruntime_run
from tests.frontends.tflite.files import Op, T, constant, litert
from tests.frontends.tflite.files import model as tflite_model

SAMPLES = [np.random.default_rng(seed).normal(0, 2, (1, 8)).astype(np.float32) for seed in range(4)]

LARGEST = np.finfo(np.float32).max


def shaped(value: Any, *shape: int) -> Array:
    return np.full(shape, value, np.float32)


@pytest.mark.parametrize(
    ("operator", "bounds", "repeated"),
    [
        ("Max", [shaped(-np.inf)], False),
        ("Min", [shaped(np.inf)], False),
        ("Max", [shaped(-np.inf, 8), shaped(-np.inf, 1, 1)], False),
        ("Max", [shaped(-np.inf, 3, 1, 1)], True),
        ("Min", [shaped(np.inf, 4, 8)], True),
        ("Clip", [shaped(-np.inf), shaped(np.inf)], False),
        ("Clip", [shaped(-LARGEST), shaped(LARGEST)], False),
    ],
)
def test_nothing_remains_of_a_bound(operator: str, bounds: list[Array], repeated: bool) -> None:
    constants = {f"c{i}": bound for i, bound in enumerate(bounds)}
    proto = model([node("Relu", "x", "r"), node(operator, f"r {' '.join(constants)}")], {"x": [1, 8]}, constants)
    network = load_onnx(proto)
    quantized = qmlir.quantize(network, data=SAMPLES)
    kinds = [(entry.operation, entry.outcome) for entry in qmlir.decisions(quantized)]
    assert kinds == [("nn.relu", "quantized"), *([("nn.broadcast", "quantized")] if repeated else [])]
    for x in (SAMPLES[0], np.array([[np.nan, np.inf, -np.inf, -0.0, 0.0, 1, LARGEST, -LARGEST]], np.float32)):
        (wanted,) = onnxruntime_run(proto, {"x": x})
        if operator == "Clip":  # its bounds are none, so that infinity stays
            wanted = np.where(np.isinf(x) & (x > 0), x, wanted)
        np.testing.assert_array_equal(qmlir.reference(Pipeline(*IMPORTED)(network))(x), wanted)


def test_a_bound_at_the_largest_finite_number_changes_infinity() -> None:
    proto = model(node("Max", "x c"), {"x": [1, 3]}, {"c": shaped(-LARGEST)})
    x = np.array([[-np.inf, 1, np.nan]], np.float32)
    got = qmlir.reference(Pipeline(*IMPORTED)(load_onnx(proto)))(x)
    np.testing.assert_array_equal(got, onnxruntime_run(proto, {"x": x})[0])
    assert qmlir.decisions(qmlir.quantize(load_onnx(proto), data=[s[:, :3] for s in SAMPLES]))[0].outcome == "quantized"


def test_bounds_of_integers() -> None:
    nodes = [
        node("Cast", "x", "i", to=TensorProto.INT32),
        node("Clip", "i low high", "c"),
        node("Cast", "c", "y", to=TensorProto.FLOAT),
    ]
    limits = np.iinfo(np.int32)
    proto = model(nodes, {"x": [1, 8]}, {"low": np.array(limits.min, np.int32), "high": np.array(limits.max, np.int32)})
    module = Pipeline(*IMPORTED)(load_onnx(proto))
    assert not {"nn.maximum", "nn.minimum"} & {op.name for op in module.walk()}
    np.testing.assert_array_equal(qmlir.reference(module)(SAMPLES[0]), onnxruntime_run(proto, {"x": SAMPLES[0]})[0])


@pytest.mark.parametrize(("kind", "bound"), [("MAXIMUM", -np.inf), ("MINIMUM", np.inf)])
@pytest.mark.parametrize("shape", [(), (1,), (2, 1, 8)])
def test_bounds_in_tflite(kind: str, bound: float, shape: tuple[int, ...]) -> None:
    result = np.broadcast_shapes((1, 8), shape)
    tensors = [T("x", (1, 8)), constant("c", shaped(bound, *shape)), T("r", (1, 8)), T("y", result)]
    operators = [Op("RELU", [0], [2]), Op(kind, [2, 1], [3], "MaximumMinimumOptions", {})]
    data = tflite_model(tensors, operators, [0], [3])
    quantized = qmlir.quantize(load_tflite(data), data=SAMPLES)
    kinds = [entry.operation for entry in qmlir.decisions(quantized)]
    assert kinds == ["nn.relu", *(["nn.broadcast"] if len(result) > 2 else [])]
    (wanted,) = litert(data, [SAMPLES[0]])
    np.testing.assert_array_equal(qmlir.reference(load_tflite(data))(SAMPLES[0]), wanted)


def test_bounds_of_stored_integers_in_tflite() -> None:
    parameters: dict[str, Any] = {"scale": [0.5], "zero": [3]}
    tensors = [
        T("x", (1, 8), np.int8, **parameters), constant("c", [-128], np.int8, **parameters),
        T("y", (1, 8), np.int8, **parameters),
    ]  # fmt: skip
    data = tflite_model(tensors, [Op("MAXIMUM", [0, 1], [2], "MaximumMinimumOptions", {})], [0], [2])
    module = Pipeline(*IMPORTED)(load_tflite(data))
    assert "nn.maximum" not in {op.name for op in module.walk()}
    x = np.arange(-128, 128, 32, dtype=np.int8)[None]
    np.testing.assert_array_equal(qmlir.reference(module).run({"x": x})[0], litert(data, [x])[0])
