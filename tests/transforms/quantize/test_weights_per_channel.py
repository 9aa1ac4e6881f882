"""Weights have a scale for each output channel whatever the model calls the layer that they belong to."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import qmlir
from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.frontends.onnx import load_onnx
from qmlir.policies.ledger import decisions
from tests.conftest import crossed
from tests.frontends.onnx.agreement import model, node

Array = npt.NDArray[Any]


def uneven(shape: Sequence[int], axis: int) -> Array:
    """Weights whose channels along an axis reach from 1 to 100: one scale for all would lose the small ones."""
    random = np.random.default_rng(0)
    height = np.geomspace(1, 100, shape[axis], dtype=np.float32)
    return np.moveaxis(np.moveaxis(random.standard_normal(shape, np.float32), axis, -1) * height, -1, axis)


# name: operator, its inputs, x, w, channel axis of w, attributes
LAYERS: dict[str, tuple[str, str, Sequence[int], Sequence[int], int, dict[str, Any]]] = {
    "conv": ("Conv", "x w", (1, 3, 6, 6), (4, 3, 3, 3), 0, {}),
    "depthwise": ("Conv", "x w", (1, 4, 6, 6), (4, 1, 3, 3), 0, {"group": 4}),
    "transposed": ("ConvTranspose", "x w", (1, 3, 5, 5), (3, 4, 3, 3), 1, {"strides": [2, 2]}),
    "transposed in groups": ("ConvTranspose", "x w", (1, 4, 5, 5), (4, 2, 3, 3), 1, {"strides": [2, 2], "group": 2}),
    "gemm": ("Gemm", "x w", (5, 8), (8, 4), 1, {}),
    "gemm, weights first": ("Gemm", "w x", (8, 5), (4, 8), 0, {}),
    "matmul": ("MatMul", "x w", (2, 5, 8), (8, 4), 1, {}),
    "matmul, weights first": ("MatMul", "w x", (2, 8, 5), (4, 8), 0, {}),
    "matmul, one matrix of three dimensions": ("MatMul", "x w", (2, 5, 8), (1, 8, 4), 2, {}),
}


@pytest.mark.parametrize("name", LAYERS)
def test_weights_per_channel(name: str) -> None:
    operator, inputs, x, w, axis, attributes = LAYERS[name]
    module = load_onnx(model(node(operator, inputs, **attributes), {"x": x}, {"w": uneven(w, axis)}))
    random = np.random.default_rng(1)
    samples = [random.standard_normal(x).astype(np.float32) for _ in range(8)]
    quantized = qmlir.quantize(module, qmlir.profile(module, samples))
    (weighted,) = [e for e in decisions(quantized) if "activations" in e.reason]
    assert weighted.reason == "i8 activations, i8 weights per channel"
    executable, meaning = qmlir.compile(quantized), qmlir.reference(quantized)
    np.testing.assert_array_equal(np.asarray(executable(samples[0])), np.asarray(meaning(samples[0])))


def test_a_matrix_for_each_of_a_batch_says_that_it_has_one_scale() -> None:
    module = load_onnx(model(node("MatMul", "x w"), {"x": (2, 5, 8)}, {"w": uneven((2, 8, 4), 2)}))
    samples = [np.random.default_rng(1).standard_normal((2, 5, 8)).astype(np.float32)]
    (product,) = decisions(qmlir.quantize(module, qmlir.profile(module, samples)))
    assert product.reason == "i8 activations, a constant factor per tensor: it has a matrix for each of a batch"


@crossed(
    {"name": ["conv", "depthwise", "gemm", "matmul, weights first"], "precision": ["int2", "int4", "int8", "int16"]}
)
def test_weights_of_the_full_range(name: str, precision: str) -> None:
    """The least integer serves as a weight where `weight_range` is full, and the results are the reference's."""
    operator, inputs, x, w, axis, attributes = LAYERS[name]
    low = -np.abs(uneven(w, axis))  # of one sign, so that the least integer is worth it
    module = load_onnx(model(node(operator, inputs, **attributes), {"x": x}, {"w": low}))
    samples = [np.random.default_rng(1).standard_normal(x).astype(np.float32) for _ in range(8)]
    bits = int(precision.removeprefix("int"))
    options: dict[str, Any] = {"precision": "int16" if bits == 16 else "int8", "weight_precision": precision}
    profile = qmlir.profile(module, samples)
    least: dict[str, int] = {}
    for extent in ("narrow", "full"):
        quantized = qmlir.quantize(module, profile, weight_range=extent, **options)
        (weights,) = [o.w.owner for o in quantized.walk() if isinstance(o, WeightedOp)]
        assert isinstance(weights, ConstantOp)
        least[extent] = int(weights.value.array.min())
        executable, meaning = qmlir.compile(quantized), qmlir.reference(quantized)
        np.testing.assert_array_equal(np.asarray(executable(samples[0])), np.asarray(meaning(samples[0])))
    assert least == {"narrow": 1 - (1 << (bits - 1)), "full": -(1 << (bits - 1))}
