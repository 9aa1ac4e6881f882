"""Tensors of one type: what a group takes its range from."""

import numpy as np
import pytest

import qmlir
from tests.transforms.quantize.calibrated import parsed

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
