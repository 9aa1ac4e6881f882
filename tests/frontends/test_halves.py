"""Networks of 16-bit floats in TFLite and TOSA, which are quantized without a float between their layers."""

from pathlib import Path

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from xdsl.dialects.builtin import ModuleOp

from qmlir.compiler import compile, load, quantize, reference
from qmlir.dialects.nn import CastOp
from qmlir.ir.signature import main_function
from qmlir.policies.ledger import decisions
from tests.frontends.tflite.files import Array, Op, T, constant, litert, model

RNG = np.random.default_rng(8)
W1, W2 = (RNG.normal(0, 0.4, shape).astype(np.float16) for shape in ((6, 8), (3, 6)))
B1, B2 = (RNG.normal(0, 0.2, n).astype(np.float16) for n in (6, 3))
SAMPLES: list[Array] = [RNG.normal(size=(1, 8)).astype(np.float32) for _ in range(12)]


def assert_integers_only(module: ModuleOp, data: list[Array], casts: int) -> None:
    """Quantizes a network; what is left of 16 bits are casts at its edges."""
    quantized = quantize(module, data=data, rounding="nearest", fail_on_float=True)
    assert {e.outcome for e in decisions(quantized)} == {"quantized"}
    found = [o for o in quantized.walk() if isinstance(o, CastOp)]
    assert len(found) == casts
    for cast in found:
        at_input = cast.x in main_function(quantized).body.block.args
        assert at_input or [u.operation.name for u in cast.y.uses] == ["func.return"]
    own, code, float_network = reference(quantized), compile(quantized), reference(module)
    for x in data:
        np.testing.assert_array_equal(code(x), own(x))
        want = float_network(x).astype(np.float32)
        assert np.abs(own(x).astype(np.float32) - want).max() < 0.05 * max(np.abs(want).max(), 1)


def test_float16_weights_of_tflite(tmp_path: Path) -> None:
    """TFLite's conversion to float16 stores weights so, each behind a DEQUANTIZE."""
    tensors = [T("x", (1, 8)), *(constant(f"h{i}", v) for i, v in enumerate((W1, B1, W2, B2)))]
    tensors += [T(f"f{i}", v.shape) for i, v in enumerate((W1, B1, W2, B2))]
    tensors += [T("a", (1, 6)), T("y", (1, 3))]
    operators = [Op("DEQUANTIZE", [1 + i], [5 + i]) for i in range(4)]
    operators += [
        Op("FULLY_CONNECTED", [0, 5, 6], [9], "FullyConnectedOptions"),
        Op("FULLY_CONNECTED", [9, 7, 8], [10], "FullyConnectedOptions"),
    ]
    data = model(tensors, operators, [0], [10])
    (tmp_path / "half.tflite").write_bytes(data)
    module = load(tmp_path / "half.tflite")
    own = reference(module)
    for x in SAMPLES:
        (want,) = litert(data, [x])
        np.testing.assert_allclose(own(x), want, rtol=1e-5, atol=1e-6)
    assert_integers_only(module, SAMPLES, 0)


TOSA = """
func.func @main(%x: tensor<1x1x1x8x{type}>) -> tensor<1x1x1x3x{type}> {{
  %zero = "tosa.const"() <{{values = dense<0.0> : tensor<1x{type}>}}> : () -> tensor<1x{type}>
  %w1 = "tosa.const"() <{{values = dense<{w1}> : tensor<6x1x1x8x{type}>}}> : () -> tensor<6x1x1x8x{type}>
  %b1 = "tosa.const"() <{{values = dense<{b1}> : tensor<6x{type}>}}> : () -> tensor<6x{type}>
  %w2 = "tosa.const"() <{{values = dense<{w2}> : tensor<3x1x1x6x{type}>}}> : () -> tensor<3x1x1x6x{type}>
  %b2 = "tosa.const"() <{{values = dense<{b2}> : tensor<3x{type}>}}> : () -> tensor<3x{type}>
  %0 = tosa.conv2d %x, %w1, %b1, %zero, %zero {{acc_type = f32, dilation = array<i64: 1, 1>,
    pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>}}
    : (tensor<1x1x1x8x{type}>, tensor<6x1x1x8x{type}>, tensor<6x{type}>, tensor<1x{type}>,
    tensor<1x{type}>) -> tensor<1x1x1x6x{type}>
  %1 = tosa.clamp %0 {{min_val = 0.0 : {type}, max_val = 6.0 : {type}}}
    : (tensor<1x1x1x6x{type}>) -> tensor<1x1x1x6x{type}>
  %2 = tosa.conv2d %1, %w2, %b2, %zero, %zero {{acc_type = f32, dilation = array<i64: 1, 1>,
    pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>}}
    : (tensor<1x1x1x6x{type}>, tensor<3x1x1x6x{type}>, tensor<3x{type}>, tensor<1x{type}>,
    tensor<1x{type}>) -> tensor<1x1x1x3x{type}>
  func.return %2 : tensor<1x1x1x3x{type}>
}}
"""


@pytest.mark.parametrize(("type", "dtype"), [("f16", np.float16), ("bf16", ml_dtypes.bfloat16)])
def test_tosa_of_16_bits(type: str, dtype: npt.DTypeLike, tmp_path: Path) -> None:
    values = {"w1": W1[:, None, None], "b1": B1, "w2": W2[:, None, None], "b2": B2}
    text = TOSA.format(type=type, **{name: v.astype(float).tolist() for name, v in values.items()})
    (tmp_path / "net.mlir").write_text(text)
    assert_integers_only(load(tmp_path / "net.mlir"), [x[:, None, None].astype(dtype) for x in SAMPLES], 2)
