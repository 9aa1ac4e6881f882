"""Weights of few bits beside floats: what is stored, and that onnxruntime computes the same by MatMulNBits."""

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest

import qmlir
from qmlir.dialects.nn import BlockedFullyConnectedOp, ConstantOp, FullyConnectedOp
from qmlir.numerics.affine import fitted_blocks
from tests.frontends.gguf.files import file_of, floats, parts
from tests.frontends.onnx.agreement import model, node

K, N = 72, 24
RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, K)).astype(np.float32)
W = RNG.normal(size=(K, N)).astype(np.float32)


def network(folder: Path) -> Path:
    """A layer with a bias."""
    b = RNG.normal(size=N).astype(np.float32)
    proto = model(node("Gemm", "x w b"), {"x": [3, K]}, {"w": W, "b": b})
    onnx.save(proto, folder / "net.onnx")
    return folder / "net.onnx"


def layers(module: Any) -> list[BlockedFullyConnectedOp]:
    return [op for op in module.walk() if isinstance(op, BlockedFullyConnectedOp)]


def constant(value: Any) -> np.ndarray[Any, Any]:
    assert isinstance(value.owner, ConstantOp)
    return value.owner.value.array


@pytest.mark.parametrize(
    ("bits", "options", "size", "least"),
    [(2, {}, 32, 4), (4, {}, 32, 18), (4, {"granularity": "group-64"}, 64, 17), (8, {}, 32, 42), (5, {}, 32, 25)],
)
def test_weights_are_stored_in_blocks(
    bits: int, options: dict[str, Any], size: int, least: float, tmp_path: Path
) -> None:
    """Machine code gives the reference's bits, and the result has the decibels of such weights."""
    path = network(tmp_path)
    q = qmlir.quantize(path, precision="float16", weight_precision=f"int{bits}", **options)
    (layer,) = layers(q)
    w = constant(layer.w)
    assert (layer.size, w.dtype) == (size, np.dtype(ml_dtypes.uint4 if bits <= 4 else np.uint8))
    assert w.astype(int).max() < 1 << bits
    (decision,) = (d for d in qmlir.decisions(q) if d.operation == "nn.blocked_fully_connected")
    assert decision.reason == f"the policy computes it in floats, on weights of int{bits} in blocks of {size}"
    found, exact = np.asarray(qmlir.reference(q)(X)), np.asarray(qmlir.reference(qmlir.load(path))(X))
    assert (np.asarray(qmlir.compile(q)(X)) == found).all()
    assert 10 * np.log10((exact**2).sum() / ((found - exact) ** 2).sum()) > least


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_onnxruntime_computes_the_same(bits: int, tmp_path: Path) -> None:
    q = qmlir.quantize(network(tmp_path), precision="bfloat16", weight_precision=f"int{bits}")
    qmlir.save(q, tmp_path / "q.mlir")
    q = qmlir.load(tmp_path / "q.mlir")
    qmlir.export(q, tmp_path / "q.onnx")
    (stored,) = (n for n in onnx.load(tmp_path / "q.onnx").graph.node if n.op_type == "MatMulNBits")
    assert {a.name: a.i for a in stored.attribute} == {"K": K, "N": N, "bits": 8 if bits == 8 else 4, "block_size": 32}
    session = onnxruntime.InferenceSession(tmp_path / "q.onnx", providers=["CPUExecutionProvider"])
    expected = np.asarray(qmlir.reference(q)(X))
    np.testing.assert_allclose(np.asarray(session.run(None, {"x": X})[0]), expected, rtol=1e-5, atol=1e-5)
    again = qmlir.load(tmp_path / "q.onnx")
    np.testing.assert_allclose(np.asarray(qmlir.reference(again)(X)), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1", "Q4_K", "Q8_0", "Q6_K"])
def test_weights_of_a_file_stay_its_own(kind: str, tmp_path: Path) -> None:
    """The integers and scales are those of the file, if they have as few bits as are asked for."""
    bits = {"Q8_0": 8, "Q6_K": 6}.get(kind, 4)
    scale = 8 if kind.endswith("K") else 1
    metadata, tensors = parts(kind=kind, layers=1, scale=scale)
    (tmp_path / "model.gguf").write_bytes(file_of(metadata, tensors))
    module = qmlir.load(tmp_path / "model.gguf", bind={"rows": 2, "context": 4})
    q = qmlir.quantize(module, precision="bfloat16", weight_precision=f"int{bits}")
    exact = floats(tensors)
    assert len(layers(q)) == 8
    for layer in layers(q):
        (name,) = layer.attributes["qmlir.name"].data.nodes  # type: ignore[attr-defined]
        name = "output" if name == "logits" else name
        found = layer.floats(constant(layer.w), constant(layer.s), constant(layer.z))
        weights = exact[f"{name}.weight"].astype(np.float32)
        np.testing.assert_allclose(found, weights, rtol=1e-6, atol=1e-6 * np.abs(weights).max())
        if kind in ("Q4_0", "Q8_0", "Q6_K"):
            np.testing.assert_array_equal(found, weights)


def test_a_block_that_is_its_offset_alone(tmp_path: Path) -> None:
    metadata, tensors = parts(kind="Q4_1", layers=1)
    kind, shape, data = tensors["output.weight"]
    flat = np.frombuffer(data, np.uint8).reshape(-1, 20).copy()
    flat[::2, :2] = 0
    tensors["output.weight"] = kind, shape, flat.tobytes()
    (tmp_path / "model.gguf").write_bytes(file_of(metadata, tensors))
    module = qmlir.load(tmp_path / "model.gguf", bind={"context": 4})
    layer = layers(qmlir.quantize(module, precision="bfloat16", weight_precision="int4"))[-1]
    found = layer.floats(constant(layer.w), constant(layer.s), constant(layer.z))
    np.testing.assert_allclose(found, floats(tensors)["output.weight"], rtol=1e-6, atol=1e-6)


def test_other_layers_keep_their_weights_and_say_so(tmp_path: Path) -> None:
    proto = model(node("Conv", "x w"), {"x": [1, 2, 4, 4]}, {"w": RNG.normal(size=(3, 2, 3, 3)).astype(np.float32)})
    onnx.save(proto, tmp_path / "conv.onnx")
    q = qmlir.quantize(tmp_path / "conv.onnx", precision="float16", weight_precision="int4")
    (decision,) = (d for d in qmlir.decisions(q) if d.operation == "nn.conv2d")
    assert "its weights keep 16 bits: only constants of fully connected layers are stored in fewer" in decision.reason


def test_without_a_precision_of_weights_they_have_16_bits(tmp_path: Path) -> None:
    q = qmlir.quantize(network(tmp_path), precision="float16")
    (layer,) = (op for op in q.walk() if isinstance(op, FullyConnectedOp))
    assert constant(layer.w).dtype == np.float16


def test_scales_with_a_small_error() -> None:
    """The search beats the scale of the largest weight; a block of zeros is zeros, and the last may be shorter."""
    rows = np.random.default_rng(1).normal(size=(4, 70)).astype(np.float32)
    rows[1] = 0
    integers, scales = fitted_blocks(rows, 4, 32)
    assert (integers.shape, scales.shape, integers.min(), integers.max()) == ((4, 70), (4, 3), -8, 7)
    found = integers * np.repeat(scales, 32, axis=1)[:, :70]
    assert not found[1].any()
    plain = np.abs(rows).max() / 8
    assert np.square(found - rows).mean() < 0.7 * np.square(np.rint(rows / plain) * plain - rows).mean()


def test_a_rule_stores_the_weights_of_one_layer(tmp_path: Path) -> None:
    nodes, weights = [node("MatMul", "x w", "h"), node("MatMul", "h v")], {"w": W, "v": np.ascontiguousarray(W[:N])}
    onnx.save(model(nodes, {"x": [3, K]}, weights), tmp_path / "two.onnx")
    rules = "rules:\n- {name: h, precision: float16, weight-precision: int8, granularity: group-64}\n"
    (tmp_path / "policy.yaml").write_text(rules)
    policy = qmlir.Policy.load(tmp_path / "policy.yaml")
    (layer,) = layers(qmlir.quantize(tmp_path / "two.onnx", precision="bfloat16", policy=policy))
    assert (layer.size, constant(layer.w).shape) == (64, (N, K))
