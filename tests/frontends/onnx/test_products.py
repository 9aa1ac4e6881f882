"""Products of integers that give floats, against onnxruntime."""

import numpy as np
import onnx

from qmlir.frontends.onnx import load_onnx
from qmlir.frontends.opaque import opaque_report
from tests.conftest import crossed
from tests.frontends.onnx.quantized_models import (
    MICROSOFT,
    Array,
    float_operations,
    imported,
    model,
    node,
    onnxruntimes,
    parameters,
    quantize,
    results,
)

RNG = np.random.default_rng(11)
U8 = RNG.integers(0, 255, (2, 3, 8), np.uint8, endpoint=True)
X = RNG.standard_normal((2, 3, 8)).astype(np.float32)
W = RNG.integers(-63, 64, (8, 12)).astype(np.int8)
"""Weights that no sum of two products with u8 data brings beyond 16 bits."""
BIAS = RNG.standard_normal(12).astype(np.float32)

COLUMNS = {"w": W, **parameters("w", RNG.uniform(0.01, 0.02, 12), np.zeros(12, np.int8), np.int8)}
WHOLE = {"w": W, **parameters("w", 0.013, 0, np.int8)}
UNSIGNED = {"w": (W.astype(int) + 64).astype(np.uint8), **parameters("w", 0.013, 61)}
WEIGHTS = {"a scale for each column": COLUMNS, "one scale": WHOLE, "unsigned": UNSIGNED}
DATA = {**parameters("p", 0.02, 131), "b": BIAS}


def agree(proto: onnx.ModelProto, inputs: dict[str, Array]) -> set[str]:
    """Checks against onnxruntime, and returns the operations that stay float."""
    module = imported(proto)
    (ours,), (theirs,) = results(module, inputs), onnxruntimes(proto, inputs)
    assert ours.dtype == theirs.dtype == np.float32
    np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-6 * np.abs(theirs).max())
    return float_operations(module)


def used(constants: dict[str, Array], inputs: str) -> dict[str, Array]:
    return {name: array for name, array in constants.items() if name in inputs.split()}


@crossed(
    {"weights": WEIGHTS, "inputs": ["x w p_s w_s p_z w_z b", "x w p_s w_s p_z w_z", "x w p_s w_s", "x w p_s w_s _ _ b"]}
)
def test_product(weights: str, inputs: str) -> None:
    nodes = [node("MatMulIntegerToFloat", inputs, "y", MICROSOFT)]
    proto = model(nodes, {"x": U8}, ["y"], used(DATA | WEIGHTS[weights], inputs))
    assert agree(proto, {"x": U8}) <= {"nn.add"}


def test_product_of_data_that_is_quantized_by_the_model() -> None:
    nodes = [quantize("f", "p", "x"), node("MatMulIntegerToFloat", "x w p_s w_s p_z w_z b", "y", MICROSOFT)]
    assert agree(model(nodes, {"f": X}, ["y"], DATA | COLUMNS), {"f": X}) <= {"nn.add"}


def test_product_by_a_scale_of_run_time() -> None:
    nodes = [
        node("DynamicQuantizeLinear", "f", "x s z"),
        node("MatMulIntegerToFloat", "x w s w_s z w_z b", "y", MICROSOFT),
    ]
    agree(model(nodes, {"f": X}, ["y"], {"b": BIAS} | COLUMNS), {"f": X})


@crossed({"weights": WEIGHTS, "inputs": ["f w w_s", "f w w_s w_z", "f w w_s w_z b", "f w w_s _ b"]})
def test_dynamic_product(weights: str, inputs: str) -> None:
    nodes = [node("DynamicQuantizeMatMul", inputs, "y", MICROSOFT)]
    agree(model(nodes, {"f": X}, ["y"], used(DATA | WEIGHTS[weights], inputs)), {"f": X})


@crossed({"weights": WEIGHTS, "unidirectional": [0, 1]})
def test_quantized_attention(weights: str, unidirectional: int) -> None:
    attributes = {"num_heads": 2, "unidirectional": unidirectional}
    nodes = [node("QAttention", "x w b p_s w_s _ p_z w_z", "y", MICROSOFT, **attributes)]
    proto = model(nodes, {"x": U8}, ["y"], DATA | WEIGHTS[weights])
    (ours,), (theirs,) = results(imported(proto), {"x": U8}), onnxruntimes(proto, {"x": U8})
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5 * np.abs(theirs).max())


def test_quantized_attention_refuses_a_mask() -> None:
    nodes = [node("QAttention", "x w b p_s w_s m p_z w_z", "y", MICROSOFT, num_heads=2)]
    proto = model(nodes, {"x": U8}, ["y"], DATA | WHOLE | {"m": np.full(2, 3, np.int32)})
    assert "it has a mask" in str(opaque_report(load_onnx(proto)))
