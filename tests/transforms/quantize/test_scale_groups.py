"""Tensors of one type: what a group takes its range from."""

import numpy as np
import pytest

import qmlir
from qmlir.dialects.quant.types import UniformType
from tests.transforms.quantize.calibrated import operation, parsed, uniform

MOVED = """
func.func @main(%x: tensor<1x4xf32>) -> (tensor<2x2xf32>, tensor<4xf32>) {{
  calib.observe %x {{name = "x", range = [-1.0, 1.0]}} : tensor<1x4xf32>
  %0 = nn.exp %x : tensor<1x4xf32> -> tensor<1x4xf32>
  %1 = nn.reshape %0 {{shape = array<i64: 2, 2>}} : tensor<1x4xf32> -> tensor<2x2xf32>
  calib.observe %1 {{name = "r", range = [0.0, 3.0], qmlir.policy = {policy}}} : tensor<2x2xf32>
  %2 = nn.relu %1 : tensor<2x2xf32> -> tensor<2x2xf32>
  calib.observe %2 {{name = "s", range = [0.0, 3.0]}} : tensor<2x2xf32>
  %3 = nn.reshape %0 {{shape = array<i64: 4>}} : tensor<1x4xf32> -> tensor<4xf32>
  func.return %2, %3 : tensor<2x2xf32>, tensor<4xf32>
}}"""


@pytest.mark.parametrize("asked", ["int8", "int16", "uint8"])
@pytest.mark.parametrize("precision", ["int8", "int16", "uint8"])
def test_a_range_observed_in_another_shape_serves_another_precision(precision: str, asked: str) -> None:
    """The tensor under two precisions is in two groups: one holds its observation, the other has to look there."""
    module = parsed(MOVED.format(policy=f'{{precision = "{asked}"}}'))
    quantized = qmlir.quantize(module, precision=precision)
    x = np.linspace(-1, 1, 4, dtype=np.float32).reshape(1, 4)
    for result in qmlir.reference(quantized).run(x):
        np.testing.assert_allclose(result.ravel(), np.exp(x).ravel(), atol=2 * 3 / 255)


JOINED = """
func.func @main(%x: tensor<1x4xf32>) -> (tensor<1x4xf32>, tensor<1x8xf32>) {{
  calib.observe %x {{name = "x", range = [-1.0, 1.0]}} : tensor<1x4xf32>
  %0 = nn.exp %x : tensor<1x4xf32> -> tensor<1x4xf32>
  calib.observe %0 {{name = "e", range = [0.0, 3.0]{policy}}} : tensor<1x4xf32>
  %1 = nn.reshape %0 {{shape = array<i64: 1, 4>}} : tensor<1x4xf32> -> tensor<1x4xf32>
  %2 = nn.abs %0 : tensor<1x4xf32> -> tensor<1x4xf32>
  calib.observe %2 {{name = "a", range = [0.0, 3.0]}} : tensor<1x4xf32>
  %w = nn.constant <tensor<1x4xf32>, [-100.0, 50.0, 3.0, 100.0]> : tensor<1x4xf32>
  %3 = nn.concat %{last}, %w {{axis = 1 : i64}} : tensor<1x4xf32>, tensor<1x4xf32> -> tensor<1x8xf32>
  %4 = nn.neg %3 : tensor<1x8xf32> -> tensor<1x8xf32>
  calib.observe %4 {{name = "n", range = [-100.0, 100.0]}} : tensor<1x8xf32>
  func.return %2, %4 : tensor<1x4xf32>, tensor<1x8xf32>
}}"""


def joined(last: str, policy: str = "", glow_exact: bool = False) -> tuple[UniformType, UniformType, UniformType]:
    """The types of a narrow tensor for a reader, as an operand of a concatenation with a wide one, and of the whole."""
    module = parsed(JOINED.format(last=last, policy=policy))
    quantized = qmlir.quantize(module, glow_exact=glow_exact)
    concat, reader = operation(quantized, "nn.concat"), operation(quantized, "nn.abs")
    own, part, whole = (uniform(v) for v in (reader.operands[0], concat.operands[0], concat.results[0]))
    x = np.array([[-0.8, 0.1, 0.45, 0.9]], np.float32)
    floats, integers = (qmlir.reference(m).run(x) for m in (module, quantized))
    for truth, got, type in zip(floats, integers, (own, whole), strict=True):
        np.testing.assert_allclose(got, truth, atol=2.1 * type.scale)
    return own, part, whole


@pytest.mark.parametrize("last", ["0", "1"], ids=["itself", "reshaped"])
def test_a_narrow_operand_of_a_concat_keeps_its_steps_for_others(last: str) -> None:
    own, part, whole = joined(last)
    assert own.scale == pytest.approx(3 / 255)
    assert part == whole
    assert whole.scale == pytest.approx(200 / 255)


def test_glow_ties_all_operands_of_a_concat() -> None:
    own, part, whole = joined("0", glow_exact=True)
    assert own == part == whole


def test_a_range_of_the_policy_ties_all_operands_of_a_concat() -> None:
    own, part, whole = joined("0", ", qmlir.policy = {range = [-100.0 : f64, 100.0 : f64]}")
    assert own == part == whole
