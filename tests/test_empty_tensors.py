"""Tensors without elements: a sum over none of them is its bias, and there is nothing to quantize."""

import numpy as np
import pytest

import qmlir
from tests.transforms.quantize.calibrated import parsed

NETWORKS = {
    "no terms": """
func.func @main(%x: tensor<2x0xf32>) -> tensor<2x3xf32> {
  %w = nn.constant <tensor<3x0xf32>, "0x"> : tensor<3x0xf32>
  %b = nn.constant <tensor<3xf32>, [1.0, -2.0, 3.0]> : tensor<3xf32>
  %y = nn.fully_connected %x, %w, %b {min = 0.0 : f32}
    : tensor<2x0xf32>, tensor<3x0xf32>, tensor<3xf32> -> tensor<2x3xf32>
  func.return %y : tensor<2x3xf32>
}""",
    "no outputs": """
func.func @main(%x: tensor<2x4xf32>) -> tensor<2x0xf32> {
  %w = nn.constant <tensor<0x4xf32>, "0x"> : tensor<0x4xf32>
  %y = nn.fully_connected %x, %w : tensor<2x4xf32>, tensor<0x4xf32> -> tensor<2x0xf32>
  func.return %y : tensor<2x0xf32>
}""",
    "no rows": """
func.func @main(%x: tensor<0x4xf32>) -> tensor<0x1xf32> {
  %w = nn.constant <tensor<1x4xf32>, [1.0, 2.0, 3.0, 4.0]> : tensor<1x4xf32>
  %y = nn.fully_connected %x, %w : tensor<0x4xf32>, tensor<1x4xf32> -> tensor<0x1xf32>
  func.return %y : tensor<0x1xf32>
}""",
    "products of no terms": """
func.func @main(%x: tensor<1x3x0xf32>) -> tensor<1x3x3xf32> {
  %t = nn.transpose %x {permutation = array<i64: 0, 2, 1>} : tensor<1x3x0xf32> -> tensor<1x0x3xf32>
  %y = nn.matmul %x, %t : tensor<1x3x0xf32>, tensor<1x0x3xf32> -> tensor<1x3x3xf32>
  func.return %y : tensor<1x3x3xf32>
}""",
    "products of no rows": """
func.func @main(%x: tensor<2x3x0xf32>) -> tensor<2x0x0xf32> {
  %t = nn.transpose %x {permutation = array<i64: 0, 2, 1>} : tensor<2x3x0xf32> -> tensor<2x0x3xf32>
  %y = nn.matmul %t, %x : tensor<2x0x3xf32>, tensor<2x3x0xf32> -> tensor<2x0x0xf32>
  func.return %y : tensor<2x0x0xf32>
}""",
    "convolution of no channels": """
func.func @main(%x: tensor<1x4x4x0xf32>) -> tensor<1x3x3x2xf32> {
  %w = nn.constant <tensor<2x2x2x0xf32>, "0x"> : tensor<2x2x2x0xf32>
  %b = nn.constant <tensor<2xf32>, [1.0, -2.0]> : tensor<2xf32>
  %y = nn.conv2d %x, %w, %b : tensor<1x4x4x0xf32>, tensor<2x2x2x0xf32>, tensor<2xf32> -> tensor<1x3x3x2xf32>
  func.return %y : tensor<1x3x3x2xf32>
}""",
    "convolution to no channels": """
func.func @main(%x: tensor<1x4x4x3xf32>) -> tensor<1x4x4x0xf32> {
  %w = nn.constant <tensor<0x1x1x3xf32>, "0x"> : tensor<0x1x1x3xf32>
  %y = nn.conv2d %x, %w : tensor<1x4x4x3xf32>, tensor<0x1x1x3xf32> -> tensor<1x4x4x0xf32>
  func.return %y : tensor<1x4x4x0xf32>
}""",
    "mean of no channels": """
func.func @main(%x: tensor<1x3x4x0xf32>) -> tensor<1x1x1x0xf32> {
  %y = nn.global_average_pool %x : tensor<1x3x4x0xf32> -> tensor<1x1x1x0xf32>
  func.return %y : tensor<1x1x1x0xf32>
}""",
    "sum of none": """
func.func @main(%x: tensor<2x0xf32>) -> tensor<2x1xf32> {
  %y = nn.reduce_sum %x {axes = array<i64: 1>} : tensor<2x0xf32> -> tensor<2x1xf32>
  func.return %y : tensor<2x1xf32>
}""",
}


@pytest.mark.parametrize("name", NETWORKS)
def test_compiled_code_equals_the_reference(name: str) -> None:
    module = parsed(NETWORKS[name])
    reference = qmlir.reference(module)
    x = np.ones(reference.signature.inputs[0].shape, np.float32)
    np.testing.assert_array_equal(qmlir.compile(module)(x), reference(x))


def test_a_sum_of_no_terms_is_its_bias() -> None:
    x = np.ones((2, 0), np.float32)
    assert qmlir.reference(parsed(NETWORKS["no terms"]))(x).tolist() == [[1.0, 0.0, 3.0]] * 2


BESIDE = """
func.func @main(%x: tensor<1x4xf32>) -> (tensor<1x4xf32>, tensor<1x0xf32>, tensor<1x3xf32>) {
  %w0 = nn.constant <tensor<0x4xf32>, "0x"> : tensor<0x4xf32>
  %w1 = nn.constant <tensor<3x0xf32>, "0x"> : tensor<3x0xf32>
  %b = nn.constant <tensor<3xf32>, [1.0, -2.0, 3.0]> : tensor<3xf32>
  %0 = nn.sigmoid %x : tensor<1x4xf32> -> tensor<1x4xf32>
  %1 = nn.fully_connected %0, %w0 : tensor<1x4xf32>, tensor<0x4xf32> -> tensor<1x0xf32>
  %2 = nn.fully_connected %1, %w1, %b : tensor<1x0xf32>, tensor<3x0xf32>, tensor<3xf32> -> tensor<1x3xf32>
  func.return %0, %1, %2 : tensor<1x4xf32>, tensor<1x0xf32>, tensor<1x3xf32>
}"""


@pytest.mark.parametrize("schema", ["asymmetric", "symmetric_with_power2_scale"])
def test_what_has_no_elements_stays_float(schema: str) -> None:
    module, samples = parsed(BESIDE), [np.linspace(-1, 1, 4, dtype=np.float32).reshape(1, 4)]
    quantized = qmlir.quantize(module, qmlir.profile(module, samples), data=samples, schema=schema)
    assert [(e.outcome, e.code) for e in qmlir.decisions(quantized)] == [
        ("quantized", "integer"),
        ("float", "empty"),
        ("float", "empty"),
    ]
    for ours, expected in zip(
        qmlir.compile(quantized).run(samples[0]), qmlir.reference(quantized).run(samples[0]), strict=True
    ):
        np.testing.assert_array_equal(ours, expected)


def test_a_network_that_computes_no_elements_is_quantized_with_data() -> None:
    text = """
func.func @main(%x: tensor<2x4xf32>) -> tensor<3x0xf32> {
  %y = nn.constant <tensor<3x0xf32>, "0x"> : tensor<3x0xf32>
  func.return %y : tensor<3x0xf32>
}"""
    module, samples = parsed(text), [np.ones((2, 4), np.float32)]
    quantized = qmlir.quantize(module, qmlir.profile(module, samples), data=samples)
    assert qmlir.reference(quantized)(samples[0]).shape == (3, 0)
