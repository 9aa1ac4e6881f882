"""Operators on integers, ONNX's and onnxruntime's own, against onnxruntime, bit for bit."""

from typing import Any

import numpy as np
import onnx
import pytest

import qmlir
from qmlir.errors import NodeError
from qmlir.frontends.onnx import load_onnx
from qmlir.frontends.opaque import opaque_report
from qmlir.policies.runtimes import follow
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
    results,
)

RNG = np.random.default_rng(6)

U8 = RNG.integers(0, 255, (2, 6, 7, 5), np.uint8, endpoint=True)
S8 = U8.view(np.int8)
Z = np.uint8

CONSTANTS = {
    **parameters("p", 0.02, 131),
    **parameters("q", 0.031, 117),
    **parameters("r", 0.05, 3),
    **parameters("s", 1 / 256, 0),
    **parameters("i", 0.02, 3, np.int8),
    **parameters("j", 0.05, -7, np.int8),
}


def weights(name: str, shape: tuple[int, ...], scales: int = 1, dtype: type = np.int8) -> dict[str, Array]:
    """Weights that no sum of two products with u8 data brings beyond 16 bits."""
    low = 64 if dtype is np.uint8 else -63
    scale = RNG.uniform(0.001, 0.01, scales).astype(np.float32)
    zeros = np.zeros(scales, np.int8) if dtype is np.int8 else RNG.integers(100, 150, 1, np.uint8)
    values = RNG.integers(low, low + 126, shape).astype(dtype)
    return {
        name: values,
        f"{name}_s": scale if scales > 1 else scale[0],
        f"{name}_z": zeros if scales > 1 else zeros[0],
    }


CONV = {**weights("w", (8, 6, 3, 3), 8), "b": RNG.integers(-3000, 3000, 8, np.int32)}
DEPTHWISE = {**weights("w", (12, 1, 3, 3)), "b": RNG.integers(-3000, 3000, 12, np.int32)}
UNSIGNED = weights("w", (8, 6, 3, 3), dtype=np.uint8)
MATRIX = {**weights("w", (5, 9), 9), "c": RNG.integers(-3000, 3000, (1, 9), np.int32)}
AROUND_128 = {"w": RNG.integers(0, 256, (8, 6, 3, 3)).astype(np.uint8), "w_s": np.float32(0.003), "w_z": Z(128)}
"""Unsigned weights that are signed ones without a zero point once 128 is taken off."""
SQUARE = weights("w", (5, 7), dtype=np.uint8)

CASES: dict[str, tuple[list[onnx.NodeProto], dict[str, Array]]] = {
    "conv per channel": (
        [node("QLinearConv", "x p_s p_z w w_s w_z r_s r_z b", "y", pads=[1, 0, 1, 2], strides=[2, 1])],
        CONV,
    ),
    "depthwise conv": ([node("QLinearConv", "x p_s p_z w w_s w_z r_s r_z b", "y", group=6)], DEPTHWISE),
    "conv of unsigned weights": ([node("QLinearConv", "x p_s p_z w w_s w_z r_s r_z", "y", dilations=[1, 2])], UNSIGNED),
    "conv of unsigned weights around 128": ([node("QLinearConv", "x p_s p_z w w_s w_z r_s r_z", "y")], AROUND_128),
    "gemm of unsigned weights around 128": (
        [node("Reshape", "x rows", "a"), node("QGemm", "a p_s p_z w w_s w_z c r_s r_z", "y", MICROSOFT)],
        {**MATRIX, **AROUND_128, "w": AROUND_128["w"].reshape(-1)[:45].reshape(5, 9), "rows": np.array([-1, 5])},
    ),
    "matrix product": ([node("QLinearMatMul", "x p_s p_z w w_s w_z r_s r_z", "y")], SQUARE),
    "product of computed matrices": (
        [node("Transpose", "x", "t", perm=[0, 1, 3, 2]), node("QLinearMatMul", "x p_s p_z t q_s q_z r_s r_z", "y")],
        {},
    ),
    "gemm": (
        [node("Reshape", "x rows", "a"), node("QGemm", "a p_s p_z w w_s w_z c r_s r_z", "y", MICROSOFT)],
        {**MATRIX, "rows": np.array([-1, 5])},
    ),
    "gemm with a factor": (
        [node("Reshape", "x rows", "a"), node("QGemm", "a p_s p_z w w_s w_z c r_s r_z", "y", MICROSOFT, alpha=0.3)],
        {**MATRIX, "rows": np.array([-1, 5])},
    ),
    "gemm to floats": (
        [node("Reshape", "x rows", "a"), node("QGemm", "a p_s p_z w w_s w_z c", "y", MICROSOFT, alpha=1.0)],
        {**MATRIX, "rows": np.array([-1, 5])},
    ),
    "sum": ([node("QLinearAdd", "x p_s p_z x q_s q_z r_s r_z", "y", MICROSOFT)], {}),
    "sum with a constant": (
        [node("QLinearAdd", "x p_s p_z k q_s q_z r_s r_z", "y", MICROSOFT)],
        {"k": RNG.integers(0, 255, 5, np.uint8)},
    ),
    "product": ([node("QLinearMul", "x p_s p_z x q_s q_z r_s r_z", "y", MICROSOFT)], {}),
    "sigmoid": ([node("QLinearSigmoid", "x p_s p_z s_s s_z", "y", MICROSOFT)], {}),
    "leaky relu": ([node("QLinearLeakyRelu", "x p_s p_z r_s r_z", "y", MICROSOFT, alpha=0.1)], {}),
    "concat": (
        [node("QLinearConcat", "r_s r_z x p_s p_z x q_s q_z x r_s r_z", "y", MICROSOFT, axis=2)],
        {},
    ),
    "global average": ([node("QLinearGlobalAveragePool", "x p_s p_z q_s q_z", "y", MICROSOFT)], {}),
    "max pool, reshape, transpose": (
        [
            node("MaxPool", "x", "a", kernel_shape=[2, 2]),
            node("Transpose", "a", "b", perm=[0, 2, 3, 1]),
            node("Reshape", "b rows", "c"),
            node("DequantizeLinear", "c p_s p_z", "y"),
        ],
        {"rows": np.array([2, -1])},
    ),
    "conv of integers": ([node("ConvInteger", "x w p_z w_z", "y")], {**weights("w", (4, 6, 2, 2))}),
    "product of integers": ([node("MatMulInteger", "x w p_z w_z", "y")], {**weights("w", (5, 4))}),
    "product of integers without zero points": ([node("MatMulInteger", "x w", "y")], {**weights("w", (5, 4))}),
}


@pytest.mark.parametrize("name", CASES)
def test_operator(name: str) -> None:
    nodes, constants = CASES[name]
    proto = model(nodes, {"x": U8}, ["y"], {**CONSTANTS, **constants}, opset=13)
    module = imported(proto)
    assert (
        float_operations(module) <= {"nn.fully_connected"} if name == "gemm to floats" else not float_operations(module)
    )
    (ours,), (theirs,) = results(module, {"x": U8}), onnxruntimes(proto, {"x": U8})
    assert ours.dtype == theirs.dtype
    if name == "gemm to floats":
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)
    else:
        np.testing.assert_array_equal(ours, theirs)


NEAR: dict[str, tuple[list[onnx.NodeProto], dict[str, Array]]] = {
    "average": (
        [node("QLinearAveragePool", "x p_s p_z q_s q_z", "y", MICROSOFT, kernel_shape=[2, 2], strides=[2, 1])],
        {},
    ),
    "average, channels last": (
        [node("QLinearAveragePool", "x p_s p_z q_s q_z", "y", MICROSOFT, kernel_shape=[2, 2], channels_last=1)],
        {},
    ),
    "softmax": ([node("QLinearSoftmax", "x p_s p_z s_s s_z", "y", MICROSOFT, axis=-1, opset=13)], {}),
    "softmax of several axes": ([node("QLinearSoftmax", "x p_s p_z s_s s_z", "y", MICROSOFT, axis=2, opset=12)], {}),
    "where": (
        [node("QLinearWhere", "condition x p_s p_z x q_s q_z r_s r_z", "y", MICROSOFT)],
        {"condition": RNG.integers(0, 2, (7, 5)).astype(np.bool_)},
    ),
}
"""What onnxruntime computes in floats of its own order, or we do."""


@pytest.mark.parametrize("name", NEAR)
def test_operator_within_a_step(name: str) -> None:
    nodes, constants = NEAR[name]
    proto = model(nodes, {"x": U8}, ["y"], {**CONSTANTS, **constants}, opset=13)
    (ours,), (theirs,) = results(imported(proto), {"x": U8}), onnxruntimes(proto, {"x": U8})
    difference = np.abs(ours.astype(int) - theirs.astype(int))
    assert difference.max() <= 1
    assert (difference > 0).mean() < 0.01


def test_an_average_between_casts_of_floats_rounds_once() -> None:
    """Its casts have to meet it, though transposes stand between."""
    nodes = [
        node("QuantizeLinear", "f p_s p_z", "x"),
        node("QLinearAveragePool", "x p_s p_z q_s q_z", "m", MICROSOFT, kernel_shape=[2, 1]),
        node("DequantizeLinear", "m q_s q_z", "y"),
    ]
    feed = {"f": RNG.normal(size=U8.shape).astype(np.float32)}
    proto = model(nodes, feed, ["y"], CONSTANTS, opset=13)
    np.testing.assert_array_equal(results(imported(proto), feed)[0], onnxruntimes(proto, feed)[0])


def test_signed_data() -> None:
    nodes = [
        node("QLinearConv", "x i_s i_z w w_s w_z j_s j_z b", "c"),
        node("QLinearAdd", "c j_s j_z c i_s i_z j_s j_z", "y", MICROSOFT),
    ]
    proto = model(nodes, {"x": S8}, ["y"], {**CONSTANTS, **CONV}, opset=13)
    np.testing.assert_array_equal(results(imported(proto), {"x": S8})[0], onnxruntimes(proto, {"x": S8})[0])


def test_zero_points_computed_at_run_time() -> None:
    """What dynamic quantization writes: the data's parameters come from the data."""
    x = RNG.standard_normal((3, 5)).astype(np.float32)
    nodes = [
        node("DynamicQuantizeLinear", "x", "xq scale zero"),
        node("MatMulInteger", "xq w zero w_z", "sums"),
        node("Cast", "sums", "f", to=1),
        node("Mul", "scale w_s", "steps"),
        node("Mul", "f steps", "y"),
    ]
    proto = model(nodes, {"x": x}, ["y", "xq"], weights("w", (5, 4)), opset=13)
    for ours, theirs in zip(results(imported(proto), {"x": x}), onnxruntimes(proto, {"x": x}), strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("value", [0.0, 1e-40, -1e-44, 2.0, -3.0])
def test_parameters_of_equal_data(value: float) -> None:
    """Data that are all 0 have a scale of 1, so that no quotient is NaN."""
    x = np.full((1, 4), value, np.float32)
    proto = model([node("DynamicQuantizeLinear", "x", "y scale zero")], {"x": x}, ["y", "scale", "zero"], {}, opset=13)
    ours, theirs = results(imported(proto), {"x": x}), onnxruntimes(proto, {"x": x})
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(one, other)


# ---------------------------------------------------------------------------------------------------------------
# Sums that saturate


def saturated(x: Array, w: Array) -> Array:
    """Σ sat16(x·w + x'·w') over neighbours of the rows of x [N, K] and the columns of w [K, M]."""
    x, w = (
        np.pad(a, pad).astype(np.int64)
        for a, pad in ((x, ((0, 0), (0, x.shape[1] % 2))), (w, ((0, w.shape[0] % 2), (0, 0))))
    )
    pairs = x[:, 0::2, None] * w[None, 0::2] + x[:, 1::2, None] * w[None, 1::2]
    return np.clip(pairs, -32768, 32767).sum(axis=1)


@pytest.mark.slow
@crossed({"channels": [6, 3], "kernel, stride, pad": [(1, 1, 0), (3, 2, 1), (2, 1, 0)]})
def test_sums_saturate_in_pairs_as_without_vnni(kernel: int, stride: int, pad: int, channels: int) -> None:
    x = U8[:, :channels]
    w = RNG.integers(-128, 127, (8, channels, kernel, kernel), np.int8, endpoint=True)
    constants = {**CONSTANTS, "w": w, "w_s": np.float32(0.003), "w_z": np.int8(0), "b": CONV["b"]}
    attributes: dict[str, Any] = {"strides": [stride, stride], "pads": [pad] * 4}
    proto = model(
        [node("QLinearConv", "x p_s p_z w w_s w_z r_s r_z b", "y", **attributes)], {"x": x}, ["y"], constants, 13
    )
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)), constant_values=131)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (kernel, kernel), (2, 3))[:, :, ::stride, ::stride]
    rows = windows.transpose(0, 2, 3, 4, 5, 1)
    matrix = w.transpose(2, 3, 1, 0).reshape(-1, 8)
    sums = saturated(rows.reshape(-1, len(matrix)), matrix) - 131 * matrix.sum(axis=0, dtype=np.int64) + CONV["b"]
    factor = np.float32(0.02) * np.float32(0.003) / np.float32(0.05)
    stored = np.clip(np.rint(sums.astype(np.float32) * factor) + 3, 0, 255).astype(np.uint8)
    expected = stored.reshape(*rows.shape[:3], 8).transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(results(imported(proto, "onnxruntime"), {"x": x})[0], expected)
    if len(matrix) > 3:
        assert (results(imported(proto), {"x": x})[0] != expected).any()


def test_what_has_no_neighbours_to_saturate_with_is_exact() -> None:
    """Depthwise convolutions, unsigned weights and signed data; also floats between casts."""
    unsigned = [name for name in CASES if "unsigned weights" in name]
    for name in ("depthwise conv", "sum", *unsigned):
        nodes, constants = CASES[name]
        proto = model(nodes, {"x": U8}, ["y"], {**CONSTANTS, **constants}, opset=13)
        module = load_onnx(proto)
        follow(module, "onnxruntime")
        np.testing.assert_array_equal(results(module, {"x": U8})[0], onnxruntimes(proto, {"x": U8})[0])


def test_data_that_got_16_bits_have_no_pairs_to_saturate() -> None:
    nodes, constants = CASES["gemm with a factor"]
    module = load_onnx(model(nodes, {"x": U8}, ["y"], {**CONSTANTS, **constants}, opset=13))
    follow(module, "onnxruntime")
    wide = qmlir.quantize(module, data=[U8], precision="int16", measure=False)
    assert "qint.saturating_fully_connected" in str(qmlir.to_integers(module))
    assert "qint.saturating_fully_connected" not in str(qmlir.to_integers(wide))
    assert (np.asarray(qmlir.compile(wide)(U8)) == qmlir.reference(wide)(U8)).all()


# ---------------------------------------------------------------------------------------------------------------
# Refusals

REFUSED = {
    "a bias that is no int32": (
        [node("QLinearConv", "x p_s p_z w w_s w_z r_s r_z bf", "y")],
        {**CONV, "bf": np.zeros(8, np.float32)},
        "its bias must be int32",
    ),
    "a scale of another length": (
        [node("QLinearConv", "x p_s p_z w w_s w_z r_s r_z", "y")],
        {**CONV, "w_s": np.ones(5, np.float32), "w_z": np.zeros(5, np.int8)},
        "it must have 8 scales",
    ),
    "inputs that are no triples": (
        [node("QLinearConcat", "r_s r_z x p_s", "y", MICROSOFT, axis=2)],
        {},
        "data, scale and zero",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refuses(name: str) -> None:
    nodes, constants, message = REFUSED[name]
    proto = model(nodes, {"x": U8}, ["y"], {**CONSTANTS, **constants}, opset=13)
    with pytest.raises(NodeError, match=message):
        load_onnx(proto)


@pytest.mark.parametrize("keepdims", [0, 1])
def test_a_computed_scale_is_opaque_with_its_name(keepdims: int) -> None:
    nodes = [
        node("Cast", "x", "f", to=onnx.TensorProto.FLOAT),
        node("ReduceMax", "f", "m", keepdims=keepdims),
        node("QLinearSigmoid", "x m p_z s_s s_z", "y", MICROSOFT),
    ]
    (found,) = opaque_report(load_onnx(model(nodes, {"x": U8}, ["y"], CONSTANTS, opset=13)))
    assert found.kind == "com.microsoft.QLinearSigmoid"
    assert found.reason == 'its scale "m" is computed at run time and must be constant'


def test_a_scale_computed_from_constants_is_constant() -> None:
    nodes = [
        node("ReduceMax", "f", "m", keepdims=0),
        node("QLinearSigmoid", "x m p_z s_s s_z", "y", MICROSOFT),
    ]
    constants = {**CONSTANTS, "f": np.array([0.01, 0.02], np.float32)}
    proto = model(nodes, {"x": U8}, ["y"], constants, opset=13)
    np.testing.assert_array_equal(results(imported(proto), {"x": U8})[0], onnxruntimes(proto, {"x": U8})[0])
