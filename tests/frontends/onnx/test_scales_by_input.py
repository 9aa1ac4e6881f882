"""Weights whose scales lie along another axis than that of the output channels, against onnxruntime.

Builders of engines write such scales for transposed convolutions: one for each index of the first axis of the weights,
which counts input channels. Integer sums cannot share them, so the layer is computed on floats, with the reason in the
ledger. Where one scale gives the same numbers, the layer is computed on integers.
"""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import qmlir
from qmlir.frontends.onnx import load_onnx
from qmlir.policies.ledger import Decisions
from tests.frontends.onnx.quantized_models import (
    Array,
    dequantize,
    imported,
    model,
    node,
    onnxruntimes,
    parameters,
    quantize,
    results,
)
from tests.frontends.tflite.files import litert

STEP = 0.05

LAYERS: dict[str, tuple[str, tuple[int, ...], int, tuple[int, ...], dict[str, Any]]] = {
    "gemm": ("Gemm", (8, 5), 0, (2, 8), {}),
    "gemm-transposed": ("Gemm", (5, 8), -1, (2, 8), {"transB": 1}),
    "gemm-square": ("Gemm", (8, 8), 0, (2, 8), {}),
    "matmul": ("MatMul", (8, 5), 0, (2, 8), {}),
    "conv": ("Conv", (6, 4, 3, 3), 1, (1, 4, 7, 7), {}),
    "conv-window": ("Conv", (6, 4, 3, 3), 3, (1, 4, 7, 7), {}),
    "conv-1d": ("Conv", (6, 4, 3), 1, (1, 4, 7), {}),
    "conv-3d": ("Conv", (6, 4, 2, 2, 2), 1, (1, 4, 3, 3, 3), {}),
    "conv-groups": ("Conv", (6, 2, 3, 3), 1, (1, 4, 7, 7), {"group": 2}),
    "depthwise-window": ("Conv", (4, 1, 3, 3), 2, (1, 4, 7, 7), {"group": 4}),
    "transposed": ("ConvTranspose", (4, 6, 3, 3), 0, (1, 4, 5, 5), {"strides": [2, 2]}),
    "transposed-square": ("ConvTranspose", (6, 6, 3, 3), 0, (1, 6, 5, 5), {"strides": [2, 2]}),
    "transposed-window": ("ConvTranspose", (4, 6, 3, 3), 2, (1, 4, 5, 5), {"strides": [2, 2]}),
    "transposed-groups": ("ConvTranspose", (4, 3, 3, 3), 0, (1, 4, 5, 5), {"strides": [2, 2], "group": 2}),
    "transposed-1d": ("ConvTranspose", (4, 6, 3), 0, (1, 4, 5), {"strides": [2]}),
}
"""Operator, shape of the weights, axis of their scales, shape of the data, attributes."""


def network(
    kind: str, rng: np.random.Generator, scales: str = "different", *, bias: bool = True, points: bool = False
) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """A quantized layer whose weights have scales along an axis, and an input."""
    operator, shape, axis, data, attributes = LAYERS[kind]
    return layer(operator, shape, axis, data, rng, scales, bias=bias, points=points, **attributes)


def layer(
    operator: str, shape: tuple[int, ...], axis: int, data: tuple[int, ...], rng: np.random.Generator,
    scales: str = "different", *, bias: bool = False, points: bool = False, **attributes: Any,
) -> tuple[onnx.ModelProto, dict[str, Array]]:  # fmt: skip
    """The network of a layer given in full; `scales` are different, the same, or powers of two apart."""
    count = shape[axis]
    of_scales = {
        "different": rng.uniform(0.005, 0.02, count),
        "same": np.full(count, 0.0097),
        "doubled": 0.0097 * 2.0 ** rng.integers(0, 3, count),
    }[scales]
    zeros = rng.integers(-5, 6, count) if points else np.zeros(count)
    size = 25 if scales == "doubled" else 100
    weights = rng.integers(-size, size + 1, shape).astype(np.int8)
    constants = {**parameters("p", STEP, 0, np.int8), **parameters("w", of_scales, zeros, np.int8), "w": weights}
    if bias:
        outputs = shape[0] if operator == "Conv" or attributes.get("transB") else shape[1] * attributes.get("group", 1)
        constants["b"] = rng.standard_normal(outputs).astype(np.float32)
    nodes = [
        quantize("x", "p", "xq"),
        dequantize("xq", "p", "a"),
        dequantize("w", "w", "wd", axis=axis),
        node(operator, "a wd b" if bias else "a wd", "f", **attributes),
        quantize("f", "p", "yq"),
        dequantize("yq", "p", "y"),
    ]
    inputs = {"x": rng.standard_normal(data).astype(np.float32)}
    return model(nodes, inputs, ["y"], constants), inputs


def check_results(proto: onnx.ModelProto, inputs: dict[str, Array]) -> Decisions:
    """The decisions about a network, whose results are onnxruntime's but for sums near the middle of two steps."""
    module = imported(proto)
    (ours,), (theirs,) = results(module, inputs), onnxruntimes(proto, inputs, optimized=False)
    assert np.unique(theirs).size > 3
    assert (ours == theirs).mean() > 0.98
    assert np.abs(ours - theirs).max() < 1.01 * STEP
    np.testing.assert_array_equal(qmlir.compile(module)(*inputs.values()), ours)
    return qmlir.decisions(module)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("kind", LAYERS)
def test_layer_stays_float_with_the_reason(kind: str, *, bias: bool) -> None:
    if bias and kind == "matmul":
        bias = False
    proto, inputs = network(kind, np.random.default_rng(1), bias=bias, points=bias)
    (entry,) = [e for e in check_results(proto, inputs) if e.outcome == "float"]
    assert entry.code == "blocked"
    assert entry.reason.startswith("its weights have scales that differ between the terms of a sum")
    assert "axis" not in entry.reason


@pytest.mark.parametrize("scales", ["same", "doubled"])
@pytest.mark.parametrize("kind", [k for k in LAYERS if k not in ("conv-3d", "transposed-groups")])
def test_layer_is_computed_on_integers_where_one_scale_gives_the_same_numbers(kind: str, scales: str) -> None:
    proto, inputs = network(kind, np.random.default_rng(2), scales, bias=kind != "matmul")
    entries = check_results(proto, inputs)
    assert [e for e in entries if e.outcome == "float"] == []
    assert any("weights per tensor" in e.reason for e in entries)


@pytest.mark.parametrize("kind", ["conv-3d", "transposed-groups"])
def test_same_scales_survive_a_shape_that_keeps_no_axis(kind: str) -> None:
    proto, inputs = network(kind, np.random.default_rng(3), "same")
    assert [e for e in check_results(proto, inputs) if e.outcome == "float"] == []


@pytest.mark.parametrize("points", [False, True])
@pytest.mark.parametrize(
    ("shape", "axis", "groups"),
    [((4, 3, 3, 3), 1, 2), ((4, 2, 3, 3), 0, 4), ((4, 2, 3, 3), 1, 4), ((4, 1, 3, 3), 0, 4)],
)
def test_scales_of_groups_are_scales_of_output_channels(
    shape: tuple[int, ...], axis: int, groups: int, *, points: bool
) -> None:
    """Several output channels have the same scale: those of one input channel, or one of each group."""
    proto, inputs = layer(
        "ConvTranspose", shape, axis, (1, 4, 5, 5), np.random.default_rng(4), points=points, strides=[2, 2],
        group=groups,
    )  # fmt: skip
    entries = check_results(proto, inputs)
    assert [e for e in entries if e.outcome == "float"] == []
    assert any("weights per channel" in e.reason for e in entries)


@pytest.mark.parametrize(("shape", "axis"), [((3, 8, 5), 0), ((3, 8, 5), 1), ((3, 8, 5), 2)])
@pytest.mark.parametrize("scales", ["different", "same", "doubled"])
def test_a_matrix_for_each_of_a_batch(shape: tuple[int, ...], axis: int, scales: str) -> None:
    proto, inputs = layer("MatMul", shape, axis, (3, 2, 8), np.random.default_rng(5), scales)
    found = [e.reason for e in check_results(proto, inputs) if e.outcome == "float"]
    assert found == (
        ["constants with a scale for each channel have an integer form as weights only"]
        if scales == "different"
        else []
    )


def test_a_profile_does_not_quantize_the_weights_anew() -> None:
    """The layer reads and gives what the model states, and its weights keep their integers, as blocked weights do."""
    proto, inputs = network("conv", np.random.default_rng(6))
    module = load_onnx(proto)
    quantized = qmlir.quantize(module, qmlir.profile(module, [inputs["x"]]))
    assert [e.code for e in qmlir.decisions(quantized) if e.outcome == "float"] == ["blocked"]
    (ours,), (theirs,) = results(quantized, inputs), onnxruntimes(proto, inputs, optimized=False)
    assert (ours == theirs).mean() > 0.98


@pytest.mark.parametrize("format", ["onnx-qdq", "onnx-integer", "tflite"])
@pytest.mark.parametrize("kind", ["gemm-square", "conv", "depthwise-window"])
def test_runtimes_compute_the_layer_as_it_is(kind: str, format: str, tmp_path: Path) -> None:
    """onnxruntime's optimizations would take the scales for those of output channels."""
    proto, inputs = network(kind, np.random.default_rng(7), bias=False)
    quantized = qmlir.quantize(load_onnx(proto))
    file = tmp_path / ("net.tflite" if format == "tflite" else "net.onnx")
    qmlir.export(quantized, file, format=format)
    (ours,) = results(quantized, inputs)
    if format == "tflite":
        (theirs,) = litert(str(file), list(inputs.values()))
    else:
        (theirs,) = onnxruntimes(onnx.load(file), inputs, optimized=True)
    assert np.unique(theirs).size > 3
    # Between casts, onnxruntime's optimizations round the floats of weights to 8 bits: a difference of a step or two.
    # Scales along the wrong axis make differences of 25 steps and more.
    assert np.abs(ours - theirs).max() < (2.5 if format == "onnx-qdq" else 1.01) * STEP
