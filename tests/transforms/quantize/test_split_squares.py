"""Squared differences of 16 bits: integers only, the same bits compiled, and as exact as split_squares.py says."""

from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import TensorType, f32
from xdsl.ir import SSAValue

import qmlir
from qmlir.cli import main
from qmlir.compiler import main_function
from qmlir.dialects import nn
from qmlir.dialects.quant.types import UniformType
from qmlir.ir.interfaces import Array, element_of
from tests.lowering.both import network

SHAPE = (1, 4096)
STEPS = {"symmetric": 1.5, "asymmetric": 2.5}
"""Schema → the most steps of the result from the exact square of the difference of what is stored."""


def squares(a: SSAValue, b: SSAValue) -> SSAValue:
    return nn.SquaredDifferenceOp.make([a, b]).y


def samples(count: int, seed: int) -> list[dict[str, Array]]:
    rng = np.random.default_rng(seed)
    drawn = (rng.normal(mean, spread, (count, *SHAPE)).astype(np.float32) for mean, spread in ((1, 3), (-1, 1)))
    return [{"input0": a, "input1": b} for a, b in zip(*drawn, strict=True)]


@pytest.mark.parametrize("schema", STEPS)
def test_sixteen_bits(schema: str, tmp_path: Path) -> None:
    module = network(squares, *[TensorType(f32, SHAPE)] * 2)
    quantized = qmlir.quantize(module, data=samples(4, 0), precision="int16", schema=schema, residuals="same")
    assert [entry.outcome for entry in qmlir.decisions(quantized)] == ["quantized", "quantized"]
    qmlir.save(quantized, tmp_path / "q.mlir")
    assert main.main(["certify", str(tmp_path / "q.mlir"), "-o", str(tmp_path / "c.json")]) == 0
    assert main.main(["certify", "--check", str(tmp_path / "c.json")]) == 0

    casts = [op for op in main_function(quantized).body.block.ops if op.name == "quant.qcast"]
    stored = [element for op in casts if isinstance(element := element_of(op.results[0]), UniformType)]
    (product,) = (op for op in main_function(quantized).body.walk() if isinstance(op, nn.MulOp))
    result = element_of(product.y)
    assert isinstance(result, UniformType)
    low, high = ((bound - result.zero_point) * result.scale for bound in (result.storage_min, result.storage_max))
    reference, compiled = qmlir.reference(quantized), qmlir.compile(quantized)
    for inputs in samples(4, 1):
        got = np.asarray(reference(inputs), np.float64)
        np.testing.assert_array_equal(np.asarray(compiled(inputs)), got.astype(np.float32))
        a, b = (
            np.clip(np.rint(x / np.float64(t.scale)) + t.zero_point, t.storage_min, t.storage_max) - t.zero_point
            for x, t in zip(inputs.values(), stored, strict=True)
        )
        exact = np.clip((a * stored[0].scale - b * stored[1].scale) ** 2, low, high)
        inside = exact < high  # beyond it, the difference saturates as well
        assert np.abs(got - exact)[inside].max() <= STEPS[schema] * result.scale * (1 + 1e-6)
        assert np.abs(got - exact).max() <= 3 * result.scale
