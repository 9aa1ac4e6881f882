"""Scales and zero points of blocks in 8 bits: what is rounded, what the module stores, and that all else is exact."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

import qmlir
from qmlir.dialects.nn import BlockedFullyConnectedOp, ConstantOp
from qmlir.dialects.qint import AffineFullyConnectedOp
from qmlir.frontends.onnx import load_onnx
from qmlir.ir.context import make_context
from qmlir.ir.levels import levels_of
from qmlir.ir.source import parse_text
from qmlir.numerics import Array
from qmlir.numerics.affine import Affine
from tests.frontends.gguf.files import file_of, parts
from tests.frontends.onnx.agreement import floats
from tests.frontends.onnx.test_nbits import network
from tests.transforms.quantize.test_keep_blocks import CONTEXT, ROWS, decoder, layers, quantized, sequences

DYNAMIC = {"recipe": "none", "activations": "dynamic"}
"""No rotation and no factors of blocks: the scales are those of the file, but rounded."""


def blocks(count: int, rng: np.random.Generator) -> bytes:
    """Blocks of Q4_1: normal numbers, rounded from the least to the greatest of each 32."""
    numbers = rng.normal(0, 0.3, (count, 32)).astype(np.float32)
    least = numbers.min(axis=1).astype(np.float16)
    scales = ((numbers.max(axis=1) - least) / 15).astype(np.float16)
    stored = np.clip(np.rint((numbers - least[:, None]) / scales[:, None]), 0, 15).astype(np.uint8)
    packed = stored[:, :16] | stored[:, 16:] << 4
    head = np.stack([scales, least], axis=1).view(np.uint8)
    return np.concatenate([head, packed], axis=1).tobytes()


def network_of(folder: Path) -> Any:
    """A tiny decoder whose weights were rounded to Q4_1."""
    metadata, tensors = parts(kind="Q4_1", layers=1, tied=True, scale=2)
    rng = np.random.default_rng(5)
    for name, (kind, shape, data) in tensors.items():
        if kind == "Q4_1":
            tensors[name] = kind, shape, blocks(len(data) // 20, rng)
    (folder / "model.gguf").write_bytes(file_of(metadata, tensors))
    return qmlir.load(folder / "model.gguf", bind={"rows": ROWS, "context": CONTEXT})


def constant(value: Any) -> ConstantOp:
    assert isinstance(value.owner, ConstantOp)
    return value.owner


def of_layer(layer: BlockedFullyConnectedOp) -> tuple[Array, Array, Array]:
    w, s, z = (constant(v).value.array for v in (layer.w, layer.s, layer.z))
    return w.astype(np.int64), s, z.astype(np.float64)


LAYER = """
func.func @main(%x: tensor<1x128x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x20x!quant.uniform<i32:f32, 1.0e-3>> {
  %w = nn.constant <tensor<20x128xui4>, "0xWEIGHTS"> : tensor<20x128xui4>
  %s = nn.constant <tensor<20x4xf32>, "0xSCALES"> : tensor<20x4xf32>
  %z = nn.constant <tensor<20x4xf32>, "0xPOINTS"> : tensor<20x4xf32>
  %y = nn.blocked_fully_connected %x, %w, %s, %z {block = 32 : i64, qmlir.policy = {weight_precision = "int4"}}
    : tensor<1x128x!quant.uniform<i8:f32, 0.5>>, tensor<20x128xui4>, tensor<20x4xf32>, tensor<20x4xf32>
    -> tensor<1x20x!quant.uniform<i32:f32, 1.0e-3>>
  func.return %y : tensor<1x20x!quant.uniform<i32:f32, 1.0e-3>>
}
"""


def test_multipliers_and_zero_points_have_8_bits() -> None:
    """A block's scale is off by half of S at most, and its mean weight by half a step of the zero point."""
    rng = np.random.default_rng(4)
    weights = rng.integers(0, 16, (20, 128), np.uint8)
    exact, points = (rng.uniform(*ends, (20, 4)).astype(np.float32) for ends in ((0.01, 0.1), (1.0, 15.0)))
    exact[3], exact[7, 1], points[5], points[6] = 0, 0, 8.5, 10.5
    held = {"WEIGHTS": weights, "SCALES": exact, "POINTS": points}
    text = LAYER
    for name, array in held.items():
        text = text.replace(name, array.tobytes().hex())
    (layer,) = layers(qmlir.Pipeline("quantize-block-scales")(parse_text(make_context(), text, "text")))
    w, s, z = of_layer(layer)
    scales, steps = levels_of(constant(layer.s)), levels_of(constant(layer.z))
    assert isinstance(scales, Affine)
    assert isinstance(steps, Affine)
    assert (scales.bits, scales.least, steps.bits, steps.least) == (7, 0, 8, -128)
    np.testing.assert_array_equal(w, weights)
    multipliers = s / scales.scales.astype(np.float64)
    np.testing.assert_array_equal(multipliers, np.rint(multipliers))
    assert (multipliers.max(axis=1) >= 104)[exact.any(axis=1)].all()
    assert multipliers.max() <= 127
    assert (np.abs(s - exact) <= scales.scales.astype(np.float64) / 2 * (1 + 1e-4)).all()
    means = w.reshape(20, 4, 32).mean(axis=2)
    off = np.abs((means - z) * s - (means - points) * exact)
    apart = np.abs(z - 8).max(axis=1, keepdims=True)
    step = steps.scales.astype(np.float64)
    np.testing.assert_array_equal(step, np.where(apart < 2, 1 / 64, np.where(apart < 4, 1 / 32, 1 / 16)))
    assert (off <= s * step / 2 * (1 + 1e-4)).all()
    assert (z[s == 0] == 8).all()


def test_the_integer_form_rounds_nothing(tmp_path: Path) -> None:
    q = quantized(network_of(tmp_path))
    integers = [o for o in qmlir.Pipeline("nn-to-qint")(q).walk() if isinstance(o, AffineFullyConnectedOp)]
    assert len(integers) == 7
    for layer, integer in zip(layers(q), integers, strict=True):
        w, s, z = of_layer(layer)
        q_w, m, k = (constant(v).value.array.astype(np.float64) for v in (integer.w, integer.m, integer.k))
        units = layer.output_scales()[:, None]
        np.testing.assert_array_equal(layer.spread(m * units) * q_w, layer.spread(s.astype(np.float64)) * (w - 8))
        np.testing.assert_array_equal(k * units, s.astype(np.float64) * (8 - z))


def test_a_module_holds_and_reads_them_in_8_bits(tmp_path: Path) -> None:
    q = quantized(network_of(tmp_path))
    qmlir.save(q, tmp_path / "q.mlir")
    again = qmlir.load(tmp_path / "q.mlir")
    assert again.is_structurally_equivalent(q)
    blocks = sum(layer.s.type.get_shape()[0] * layer.s.type.get_shape()[1] for layer in layers(q))  # type: ignore[attr-defined]
    stored = {key: array.nbytes for key, array in load_file(tmp_path / "q.safetensors").items()}
    floats = [key for key, array in load_file(tmp_path / "q.safetensors").items() if array.dtype == np.float32]
    assert sum(stored[key] for key in floats) < blocks  # scales of types; those of blocks would be eight times as many
    reference, compiled = qmlir.reference(again), qmlir.compile(q)
    for sample in sequences(1, seed=9)[0]:
        np.testing.assert_array_equal(np.asarray(compiled(sample)), np.asarray(reference(sample)))


@pytest.mark.parametrize(("bits", "inputs", "asked", "rounded"), [
    (4, "x w s", "int4", True), (4, "x w s z", "int4", True), (4, "x w s f", "int4", True),
    (2, "x w s f", "int4", True), (4, "x w s f", "int8", False), (8, "x w s f", "int4", False),
])  # fmt: skip
def test_imported_blocks_have_them_where_few_bits_are_asked_for(
    bits: int, inputs: str, asked: str, rounded: bool, tmp_path: Path
) -> None:
    """Weights of 8 bits keep the file's scales, and so do others unless a weight precision of fewer is asked for."""
    samples = [floats(2, 3, 64, seed=seed) for seed in range(2)]
    module = load_onnx(network(inputs, bits, 64))
    q = qmlir.quantize(module, data=samples, weight_precision=asked)
    (layer,) = (o for o in q.walk() if isinstance(o, BlockedFullyConnectedOp))
    (before,) = (o for o in module.walk() if isinstance(o, BlockedFullyConnectedOp))
    assert isinstance(levels_of(constant(layer.s)), Affine) == rounded
    assert np.array_equal(constant(layer.s).value.array, constant(before.s).value.array) == (not rounded)
    run, compiled = qmlir.reference(q), qmlir.compile(q)
    for sample in samples:
        np.testing.assert_array_equal(compiled(sample), run(sample))
    step = layer.y.type.element_type.scale  # type: ignore[attr-defined]
    exact = np.stack([qmlir.reference(module)(x) for x in samples])
    assert np.abs(np.stack([run(x) for x in samples]) - exact).max() < max(4 * step, 0.05 * np.abs(exact).max())
    if bits == 2:  # onnxruntime has no such weights beside zero points of floats
        return
    qmlir.export(q, tmp_path / "q.onnx", format="onnx-qdq")
    again = qmlir.load(tmp_path / "q.onnx")
    (back,) = (o for o in again.walk() if isinstance(o, BlockedFullyConnectedOp))
    for mine, theirs in ((layer.s, back.s), (layer.w, back.w)):
        np.testing.assert_array_equal(constant(mine).value.array, constant(theirs).value.array)


def test_a_layer_with_a_zero_point_far_off_keeps_its_floats(tmp_path: Path) -> None:
    """Random blocks, whose offsets have nothing to do with their scales."""
    for layer in layers(quantized(decoder(tmp_path, "Q4_1"), **DYNAMIC)):
        _, _, z = of_layer(layer)
        assert np.abs(z - 8).max() > 8
        assert levels_of(constant(layer.s)) is levels_of(constant(layer.z)) is None
