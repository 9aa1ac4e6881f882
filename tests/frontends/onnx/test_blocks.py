"""Weights with a scale for each block: kept as they are stored, and computed in integers by sums over blocks."""

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import qmlir
from qmlir.compiler import Pipeline
from qmlir.dialects.nn import BlockedFullyConnectedOp, ConstantOp
from qmlir.errors import NodeError
from qmlir.frontends.onnx import load_onnx
from qmlir.ir.interfaces import element_of
from qmlir.numerics.fixed_point import quantize
from qmlir.stages import IMPORTED
from tests.conftest import crossed
from tests.frontends.onnx.agreement import Array, load, ops_of
from tests.frontends.onnx.quantized_models import model, node, onnxruntimes, results

INPUTS, OUTPUTS = 96, 20
TYPES: dict[str, Any] = {"i4": ml_dtypes.int4, "ui4": ml_dtypes.uint4, "i8": np.int8, "ui8": np.uint8}
X = {"x": np.random.default_rng(3).standard_normal((4, INPUTS)).astype(np.float32)}
SAMPLES = [np.random.default_rng(seed).standard_normal((4, INPUTS)).astype(np.float32) for seed in range(8)]


def constants(kind: str, block: int, *, zero: bool = True) -> dict[str, Array]:
    """Weights [outputs, inputs] with blocks along their inputs, and their parameters."""
    rng, dtype = np.random.default_rng(5), np.dtype({"ui2": ml_dtypes.uint2, **TYPES}[kind])
    info = ml_dtypes.iinfo(dtype)
    shape = (OUTPUTS, -(-INPUTS // block))
    found = {
        "w": rng.integers(int(info.min), int(info.max) + 1, (OUTPUTS, INPUTS)).astype(np.int32).astype(dtype),
        "s": (rng.uniform(0.1, 1, shape) / (int(info.max) * np.sqrt(INPUTS))).astype(np.float32),
        "b": rng.standard_normal(OUTPUTS).astype(np.float32),
    }
    middle = (int(info.min) + int(info.max) + 1) // 2
    if zero:
        found["z"] = rng.integers(middle - 2, middle + 3, shape).astype(np.int32).astype(dtype)
    return found


LAYERS: dict[str, tuple[int, onnx.NodeProto]] = {
    "Gemm of turned weights": (1, node("Gemm", "x d b", "y", transB=1)),
    "Gemm": (0, node("Gemm", "x d b", "y")),
    "Gemm without a bias": (0, node("Gemm", "x d", "y", transB=0)),
    "MatMul": (0, node("MatMul", "x d", "y")),
}


def network(kind: str, block: int = 32, layer: str = "Gemm", *, zero: bool = True) -> onnx.ModelProto:
    """DequantizeLinear and a layer."""
    axis, product = LAYERS[layer]
    given = {
        n: a if n == "b" or axis == 1 else np.ascontiguousarray(a.T)
        for n, a in constants(kind, block, zero=zero).items()
    }
    used = {n: a for n, a in given.items() if n != "b" or "b" in product.input}
    back = node("DequantizeLinear", "w s z" if zero else "w s", "d", axis=axis, block_size=block)
    return model([back, product], X, ["y"], used)


def layer_of(module: Any) -> BlockedFullyConnectedOp:
    (layer,) = (o for o in ops_of(module) if isinstance(o, BlockedFullyConnectedOp))
    return layer


@pytest.mark.parametrize(
    ("kind", "layer", "zero"),
    [("i4", "Gemm", True), ("ui4", "MatMul", True), ("i8", "Gemm of turned weights", False), ("i4", "MatMul", False),
     ("ui8", "Gemm without a bias", True), ("ui4", "Gemm of turned weights", True)],
)  # fmt: skip
def test_weights_stay_as_they_are_stored(kind: str, layer: str, zero: bool) -> None:
    proto = network(kind, 32, layer, zero=zero)
    module = load(proto)
    op = layer_of(module)
    assert (str(element_of(op.w)), op.size) == (kind, 32)
    large = [o for o in ops_of(module) if isinstance(o, ConstantOp) and o.value.array.dtype == np.float32]
    assert all(o.value.array.size <= OUTPUTS * 3 for o in large)
    np.testing.assert_allclose(results(module, X)[0], onnxruntimes(proto, X)[0], rtol=2e-5, atol=2e-5)
    np.testing.assert_array_equal(qmlir.compile(module)(X["x"]), qmlir.reference(module)(X["x"]))


def decibels(signal: Array, other: Array) -> float:
    noise = np.square(signal.astype(np.float64) - other).sum()
    return float(10 * np.log10(np.square(signal.astype(np.float64)).sum() / noise))


@crossed(
    {"kind, block": [("i4", 16), ("ui4", 32), ("i8", 64), ("ui8", 40), ("i4", 40)], "precision": ["int8", "int16"]}
)
def test_integer_sums_lose_nothing_to_sums_with_float_scales(kind: str, block: int, precision: str) -> None:
    """Within 0.1 dB: the same data and weights with the scales as they are, and one rounding at the end."""
    module = load_onnx(network(kind, block))
    exact = np.stack([qmlir.reference(module)(x) for x in SAMPLES])
    quantized = qmlir.quantize(module, data=SAMPLES, precision=precision)
    assert {d.outcome for d in qmlir.decisions(quantized)} == {"quantized"}
    run, compiled = qmlir.reference(quantized), qmlir.compile(quantized)
    found = [run(x) for x in SAMPLES]
    for x, y in zip(SAMPLES, found, strict=True):
        np.testing.assert_array_equal(compiled(x), y)
    op = layer_of(quantized)
    x_type, y_type = (element_of(v) for v in (op.x, op.y))
    weights = layer_of(module).floats(*(v.owner.value.array for v in (op.w, op.s, op.z))).astype(np.float64)  # type: ignore[union-attr]
    nominal: list[Array] = []
    for x in SAMPLES:
        real = [x, None]
        for i, t in enumerate((x_type, y_type)):
            stored = quantize(real[i], t.scale, t.zero_point, t.storage_min, t.storage_max, np.int64)  # type: ignore[union-attr]
            real[i] = (stored - t.zero_point) * t.scale  # type: ignore[union-attr]
            if i == 0:
                real[1] = real[0] @ weights.T + constants(kind, block)["b"]
        nominal.append(np.asarray(real[1]))
    assert decibels(exact, np.stack(found)) >= decibels(exact, np.stack(nominal)) - 0.1


@pytest.mark.parametrize("format", ["onnx-qdq", "tflite"])
@pytest.mark.parametrize("kind", ["ui2", *TYPES])
def test_floats_go_out(kind: str, format: str, tmp_path: Path) -> None:
    """ONNX files keep the stored integers."""
    module = load(network(kind))
    path = tmp_path / ("m.tflite" if format == "tflite" else "m.onnx")
    qmlir.export(module, path, format=format)
    again = qmlir.load(path)
    np.testing.assert_allclose(qmlir.reference(again)(X["x"]), qmlir.reference(module)(X["x"]), rtol=1e-5, atol=1e-5)
    if format != "tflite":
        assert str(element_of(layer_of(again).w)) == ("ui8" if kind == "ui2" else kind)
        theirs = onnxruntimes(onnx.load(path), X)[0]
        np.testing.assert_allclose(theirs, qmlir.reference(module)(X["x"]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("opset", [17, 21])
def test_integers_go_out_between_casts(opset: int, tmp_path: Path) -> None:
    module = qmlir.quantize(load_onnx(network("i4")), data=SAMPLES)
    qmlir.export(module, tmp_path / "m.onnx", format="onnx-qdq", opset=opset)
    found, ours = onnxruntimes(onnx.load(tmp_path / "m.onnx"), X)[0], qmlir.reference(module)(X["x"])
    step = element_of(layer_of(module).y).scale  # type: ignore[attr-defined]
    assert np.abs(found - ours).max() <= 1.01 * step
    if opset == 21:
        again = Pipeline(*IMPORTED)(qmlir.load(tmp_path / "m.onnx"))
        assert {d.outcome for d in qmlir.decisions(again)} == {"quantized"}
        np.testing.assert_array_equal(qmlir.reference(again)(X["x"]), ours)


def test_what_is_saved_has_the_same_bits(tmp_path: Path) -> None:
    module = qmlir.quantize(load_onnx(network("ui4", 16)), data=SAMPLES)
    qmlir.save(module, tmp_path / "m.mlir")
    np.testing.assert_array_equal(
        qmlir.reference(qmlir.load(tmp_path / "m.mlir"))(X["x"]), qmlir.reference(module)(X["x"])
    )


DYNAMIC = {
    "quantize": (node("QuantizeLinear", "x s z", "y", axis=1, block_size=32), {"x": X["x"]}),
    "dequantize": (node("DequantizeLinear", "x s z", "y", axis=1, block_size=32), {"x": (X["x"] * 40).astype(np.int8)}),
}


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("name", DYNAMIC)
def test_blocks_of_data(name: str, known: bool) -> None:
    """The data are computed at run time, and the parameters may be."""
    operator, inputs = DYNAMIC[name]
    rng = np.random.default_rng(8)
    given = {"s": rng.uniform(0.02, 0.1, (4, 3)).astype(np.float32), "z": rng.integers(-5, 5, (4, 3)).astype(np.int8)}
    every = inputs if known else inputs | given
    proto = model([operator], every, ["y"], given if known else {})
    wanted: Any = ReferenceEvaluator(proto).run(None, every)
    np.testing.assert_allclose(results(load(proto), every)[0], np.asarray(wanted[0]), rtol=1e-6)


def test_parameters_must_fit() -> None:
    for change, message in (
        ({"s": np.ones((2, 20), np.float32)}, r"its scales must be of shape \[3, 20\]"),
        ({"z": np.zeros((3, 20), np.uint8)}, r"its zero points must be int4 \[3, 20\]"),
    ):
        proto = network("i4")
        for tensor in proto.graph.initializer:
            if tensor.name in change:
                tensor.CopyFrom(onnx.numpy_helper.from_array(change[tensor.name], tensor.name))
        with pytest.raises(NodeError, match=message):
            load_onnx(proto)


# ---------------------------------------------------------------------------------------------------------------
# Blocks that plain operators scale: w = reshape((cast(q as [O, G, size]) − cast(z)) · s), as torchao is exported.


def spelled(stored: Array, points: Array | None, outputs: int, blocks: int, *, turned: bool = False) -> Any:
    """A Gemm, or a MatMul by the transposed weights, of blocks that Cast, Sub and Mul make floats."""
    rng = np.random.default_rng(4)
    inputs = stored.size // outputs
    given = {
        "q": stored.reshape(outputs, blocks, -1),
        "s": (rng.uniform(0.1, 1, (outputs, blocks, 1)) / 1000).astype(np.float32),
        "b": rng.standard_normal(outputs).astype(np.float32),
        "shape": np.array([outputs, inputs]),
    }
    nodes = [node("Cast", "q", "f", to=onnx.TensorProto.FLOAT), node("Mul", "f s", "m")]
    if points is not None:
        given["z"] = points.reshape(outputs, blocks, 1)
        subtracted = [node("Cast", "z", "zf", to=onnx.TensorProto.FLOAT), node("Sub", "f zf", "d")]
        nodes[1:] = [*subtracted, node("Mul", "d s", "m")]
    nodes.append(node("Reshape", "m shape", "w"))
    if turned:
        nodes += [node("Transpose", "w", "t", perm=[1, 0]), node("MatMul", "x t", "p"), node("Add", "p b", "y")]
    else:
        nodes.append(node("Gemm", "x w b", "y", transB=1))
    return model(nodes, {"x": np.ones((2, inputs), np.float32)}, ["y"], given)


@crossed(
    {
        "turned": [False, True],
        "low, high, points, kind": [
            (-8, 7, (-3, 4), "i4"),
            (-8, 7, None, "i4"),
            (-128, 127, None, "i8"),
            (0, 15, (5, 9), "ui4"),
            (0, 255, (90, 160), "ui8"),
        ],
    }
)
def test_blocks_in_plain_operators(
    low: int, high: int, points: tuple[int, int] | None, kind: str, *, turned: bool
) -> None:
    rng, dtype = np.random.default_rng(6), np.uint8 if low == 0 else np.int8
    stored = rng.integers(low, high + 1, (12, 64)).astype(dtype)
    zeros = None if points is None else rng.integers(*points, (12, 4)).astype(dtype)
    proto = spelled(stored, zeros, 12, 4, turned=turned)
    module = load(proto)
    layer = layer_of(module)
    assert (str(element_of(layer.w)), layer.size) == (kind, 16)
    np.testing.assert_array_equal(layer.w.owner.value.array.astype(np.int32), stored)  # type: ignore[union-attr]
    x = {"x": np.random.default_rng(3).standard_normal((2, 64)).astype(np.float32)}
    np.testing.assert_allclose(results(module, x)[0], onnxruntimes(proto, x)[0], rtol=2e-5, atol=1e-6)
    quantized = qmlir.quantize(load_onnx(proto), data=[x["x"]])
    assert [d.outcome for d in qmlir.decisions(quantized)] == ["quantized"]
    np.testing.assert_array_equal(qmlir.compile(quantized)(x["x"]), qmlir.reference(quantized)(x["x"]))


def test_large_blocks_in_plain_operators() -> None:
    """More elements than an import evaluates for nodes on other constants."""
    stored = np.random.default_rng(6).integers(-8, 8, (1024, 1024)).astype(np.int8)
    assert str(element_of(layer_of(load(spelled(stored, None, 1024, 8))).w)) == "i4"


@pytest.mark.parametrize(
    ("stored", "points"),
    [
        (np.arange(-16, 16, dtype=np.int32), None),
        (np.arange(0, 32, dtype=np.uint8), np.array([3, -4, 2, 1], np.int8)),
    ],
    ids=["integers that are no bytes", "a zero point below those of its type"],
)
def test_other_integers_become_floats(stored: Array, points: Array | None) -> None:
    module = load(spelled(stored, points, 2, 2))
    assert not any(isinstance(o, BlockedFullyConnectedOp) for o in ops_of(module))


def convolution(**attributes: Any) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """A convolution by weights [6, 64, 1, 1] with blocks of 16 channels, and its input."""
    rng = np.random.default_rng(7)
    given = {
        "w": rng.integers(-8, 8, (6, 64, 1, 1)).astype(np.int32).astype(ml_dtypes.int4),
        "s": (rng.uniform(0.1, 1, (6, 4, 1, 1)) / 50).astype(np.float32),
        "b": rng.standard_normal(6).astype(np.float32),
    }
    nodes = [node("DequantizeLinear", "w s", "d", axis=1, block_size=16), node("Conv", "x d b", "y", **attributes)]
    x = {"x": rng.standard_normal((2, 64, 3, 5)).astype(np.float32)}
    return model(nodes, x, ["y"], given), x


@pytest.mark.slow
def test_a_convolution_of_single_elements_is_a_layer_of_rows() -> None:
    proto, x = convolution()
    module = load(proto)
    assert (str(element_of(layer_of(module).w)), layer_of(module).size) == ("i4", 16)
    np.testing.assert_allclose(results(module, x)[0], onnxruntimes(proto, x)[0], rtol=2e-5, atol=2e-5)
    quantized = qmlir.quantize(load_onnx(proto), data=[x["x"]])
    assert {d.outcome for d in qmlir.decisions(quantized)} == {"quantized"}
    np.testing.assert_array_equal(qmlir.compile(quantized)(x["x"]), qmlir.reference(quantized)(x["x"]))


@pytest.mark.parametrize("attributes", [{"strides": [2, 2]}, {"pads": [0, 1, 0, 0]}], ids=str)
def test_other_convolutions_stay_float(attributes: dict[str, Any]) -> None:
    proto, x = convolution(**attributes)
    quantized = qmlir.quantize(load_onnx(proto), data=[x["x"]])
    (decision,) = (d for d in qmlir.decisions(quantized) if d.operation == "nn.conv2d")
    assert (decision.outcome, decision.code) == ("float", "blocked")
    assert decision.reason == "its weights have a scale for each block of 16, which integer sums cannot share"
    np.testing.assert_allclose(qmlir.reference(quantized)(x["x"]), onnxruntimes(proto, x)[0], rtol=2e-5, atol=2e-5)


def test_a_layer_has_no_form_in_halves() -> None:
    proto, _ = convolution()
    found = qmlir.decisions(qmlir.quantize(load_onnx(proto), precision="float16"))
    (layer,) = (d for d in found if d.operation == "nn.blocked_fully_connected")
    assert (layer.outcome, layer.code) == ("float", "policy")
    assert "half" not in {d.code for d in found}
