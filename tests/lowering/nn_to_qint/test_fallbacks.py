"""Operations without an integer form: the same network in f32 between casts, bit for bit its nominal meaning."""

import numpy as np
import pytest

import qmlir
from qmlir.compiler import to_integers
from qmlir.numerics import fixed_point
from qmlir.numerics.elementary.exponential import tanh
from qmlir.numerics.elementary.lanes import Lanes
from qmlir.policies.ledger import decisions
from tests.transforms.quantize.calibrated import parsed


@pytest.mark.parametrize(
    ("type", "dtype", "low", "high"),
    [
        ("i32:f32, 0.001:-7", np.int32, -32768, 32767),
        ("i8:f32, 0.5", np.int8, -128, 127),
    ],
)
@pytest.mark.parametrize("op", ["nn.tanh", "nn.relu", "nn.requantize"])
def test_storage_types_without_kernels(op: str, type: str, dtype: type, low: int, high: int) -> None:
    if dtype is np.int8:
        type = "i8:f32:1, {0.5,0.25,0.125,1.0}"  # i8 has kernels, but none for many scales
    else:
        type = type.replace("i32", f"i32<{low}:{high}>")
    module = parsed(f"""
!q = !quant.uniform<{type}>
func.func @main(%x: tensor<1x4x!q>) -> tensor<1x4x!q> {{
  %0 = {op} %x : tensor<1x4x!q> -> tensor<1x4x!q>
  func.return %0 : tensor<1x4x!q>
}}
""")
    assert [e.outcome for e in decisions(to_integers(module))] == ["float"]
    x = np.array([[low, 0, 7, high]], dtype)
    element = module.body.block.first_op.function_type.outputs.data[0].element_type  # pyright: ignore
    scales, zero_points = element.parameters_along(2)
    real = fixed_point.dequantize(x, scales, zero_points)
    result = {"nn.tanh": lambda v: tanh(Lanes(v.astype(np.float64))).array, "nn.relu": lambda v: np.maximum(v, 0)}.get(
        op, lambda v: v
    )(real).astype(np.float32)
    expected = fixed_point.quantize(result, scales, zero_points, low, high, dtype)
    got = qmlir.reference(module)(x)
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("op", ["nn.relu", "nn.requantize", "nn.tanh"])
@pytest.mark.parametrize(("storage", "dtype"), [("u8", np.uint8), ("i16", np.int16)])
def test_unsigned_and_wide_storage(op: str, storage: str, dtype: type) -> None:
    """In integers; the result is nominal, its rounding aside."""
    module = parsed(f"""
!q = !quant.uniform<{storage}:f32, 0.003:117>
!r = !quant.uniform<{storage}:f32, 0.004:100>
func.func @main(%x: tensor<256x!q>) -> tensor<256x!r> {{
  %0 = {op} %x : tensor<256x!q> -> tensor<256x!r>
  func.return %0 : tensor<256x!r>
}}
""")
    assert "qint" in str(to_integers(module))
    info = np.iinfo(dtype)
    x = np.linspace(info.min, info.max, 256).astype(dtype)
    real = (x.astype(np.float64) - 117) * 0.003
    result = {"nn.tanh": np.tanh, "nn.relu": lambda v: np.maximum(v, 0)}.get(op, lambda v: v)(real)
    expected = np.clip(np.rint(result / 0.004) + 100, info.min, info.max)
    got = qmlir.reference(module)(x)
    assert got.dtype == dtype
    assert np.abs(got.astype(np.int64) - expected).max() <= 1
    np.testing.assert_array_equal(qmlir.compile(module)(x), got)


@pytest.mark.parametrize(("storage", "dtype"), [("u8", np.uint8), ("i16", np.int16)])
def test_data_movement_loses_nothing(storage: str, dtype: type) -> None:
    module = parsed(f"""
!q = !quant.uniform<{storage}:f32, 0.003:17>
func.func @main(%x: tensor<256x!q>) -> tensor<16x16x!q> {{
  %0 = nn.reshape %x {{shape = array<i64: 16, 16>}} : tensor<256x!q> -> tensor<16x16x!q>
  %1 = nn.transpose %0 {{permutation = array<i64: 1, 0>}} : tensor<16x16x!q> -> tensor<16x16x!q>
  func.return %1 : tensor<16x16x!q>
}}
""")
    info = np.iinfo(dtype)
    x = np.linspace(info.min, info.max, 256).astype(dtype)
    np.testing.assert_array_equal(qmlir.reference(module)(x), x.reshape(16, 16).T)


def test_a_fallback_between_integers() -> None:
    """A normalization in the middle: integers before and after, its own result rounded once."""
    module = parsed("""
!a = !quant.uniform<i8:f32, 0.0625>
!s = !quant.uniform<i8:f32, 7.8125e-03:-128>
func.func @main(%x: tensor<1x4x!a>) -> tensor<4x!s> {
  %0 = nn.relu %x : tensor<1x4x!a> -> tensor<1x4x!a>
  %1 = nn.lp_normalization %0 {axis = 1 : i64, p = 1 : i64} : tensor<1x4x!a> -> tensor<1x4x!s>
  %2 = nn.reshape %1 {shape = array<i64: 4>} : tensor<1x4x!s> -> tensor<4x!s>
  func.return %2 : tensor<4x!s>
}
""")
    x = np.array([[-5, 10, 20, 30]], np.int8)
    real = np.maximum(x, 0) * 0.0625
    expected = np.rint(real / np.abs(real).sum() * 128) - 128
    np.testing.assert_array_equal(qmlir.reference(module)(x), np.minimum(expected, 127).reshape(4))


@pytest.mark.parametrize("element", ["i32", "i64"])
@pytest.mark.parametrize(("scales", "axis"), [("0.25", ""), ("{0.25,0.5}", ":0")])
def test_a_bias_of_plain_integers_counts_in_steps_of_the_accumulator(element: str, scales: str, axis: str) -> None:
    """Beside scales that no multiplier bridges the layer is one on floats, with its reason, and so is its bias."""
    module = parsed(f"""
func.func @main(%x: tensor<1x2x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x2x!quant.uniform<i8:f32, 1.0e-11:-3>> {{
  %w = nn.constant <tensor<2x2xi8>, [1, 2, 3, 4]> : tensor<2x2x!quant.uniform<i8:f32{axis}, {scales}>>
  %b = nn.constant <tensor<2x{element}>, [-12, -26]> : tensor<2x{element}>
  %0 = nn.fully_connected %x, %w, %b : tensor<1x2x!quant.uniform<i8:f32, 0.5>>, tensor<2x2x!quant.uniform<i8:f32{axis}, {scales}>>, tensor<2x{element}> -> tensor<1x2x!quant.uniform<i8:f32, 1.0e-11:-3>>
  func.return %0 : tensor<1x2x!quant.uniform<i8:f32, 1.0e-11:-3>>
}}
""")  # noqa: E501
    assert [(e.outcome, e.code) for e in decisions(to_integers(module))] == [("float", "factor")]
    reference, executable = qmlir.reference(module), qmlir.compile(module)
    for x, expected in (([4, 4], [-3, 127]), ([4, 3], [-128, -128]), ([2, 5], [-3, -3])):
        stored = np.array([x], np.int8)  # 4 + 8 − 12, 12 + 16 − 26; 4 + 6 − 12, 12 + 12 − 26; 2 + 10 − 12, 6 + 20 − 26
        np.testing.assert_array_equal(reference(stored), [expected])
        np.testing.assert_array_equal(executable(stored), [expected])
