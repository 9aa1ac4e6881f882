"""Biases of 8 and 16 bits: a scale of their own, and one meaning in every form that the network takes."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.dialects.nn.quantizable import uniform
from qmlir.dialects.quant.types import UniformType
from qmlir.frontends.onnx import load_onnx
from qmlir.numerics.schemas import bias_parameters, quantization_of_range
from qmlir.policies.runtimes import follow
from tests.backends.onnx import runtime
from tests.backends.tflite.runtime import LiteRT
from tests.conftest import ROOT, crossed
from tests.frontends.onnx.agreement import model, node
from tests.models.networks import sqnr
from tests.transforms.quantize.calibrated import parsed

Array = npt.NDArray[Any]

DIGITS = ROOT / "examples" / "digits"


@cache
def digits() -> tuple[ModuleOp, Any, Array, Array]:
    """The network, its profile, samples and their float results."""
    module, data = qmlir.load(DIGITS / "digits.onnx"), np.load(DIGITS / "digits.npz")
    samples = data["test_images"][:30, None]
    return module, qmlir.profile(module, data["calibration_images"][:, None]), samples, outputs(module, samples)


def outputs(module: ModuleOp, samples: Array) -> Array:
    meaning = qmlir.reference(module)
    return np.stack([np.asarray(meaning(x)).reshape(-1) for x in samples])


def quantized(**options: Any) -> ModuleOp:
    module, profile, _, _ = digits()
    return qmlir.quantize(module, profile, **options)


def biases(module: ModuleOp) -> list[tuple[WeightedOp, UniformType, Array]]:
    """The operations with a bias, its type and its integers."""
    found: list[tuple[WeightedOp, UniformType, Array]] = []
    for op in module.walk():
        if isinstance(op, WeightedOp) and op.b is not None:
            assert isinstance(op.b.owner, ConstantOp)
            found.append((op, uniform(op.b), op.b.owner.value.array))
    assert found
    return found


@pytest.mark.slow
@crossed({"schema": ["asymmetric", "symmetric_with_power2_scale"], "bias": ["int8", "int16"]})
def test_a_narrow_bias_costs_next_to_nothing(bias: str, schema: str) -> None:
    _, _, samples, truth = digits()
    for per_channel in (True, False):
        wide, narrow = (quantized(schema=schema, bias=b, per_channel=per_channel) for b in ("int32", bias))
        assert {(t.storage_width, a.dtype.itemsize * 8) for _, t, a in biases(narrow)} == {(int(bias[3:]),) * 2}
        found, expected = (sqnr(truth, outputs(m, samples)) for m in (narrow, wide))
        assert found > expected - 1, f"{bias}, {schema}, {per_channel}: {found:.1f} dB instead of {expected:.1f}"
        weights = [[uniform(op.w).scales for op, _, _ in biases(m)] for m in (narrow, wide)]
        assert weights[0] == weights[1], "a bias does not change the weights"


def test_the_reference_the_processor_and_a_file_agree(tmp_path: Path) -> None:
    module = quantized(bias="int8", per_channel=False)
    _, _, samples, _ = digits()
    expected = outputs(module, samples[:4])
    machine = qmlir.compile(module)
    np.testing.assert_array_equal([np.asarray(machine(x)).reshape(-1) for x in samples[:4]], expected)
    qmlir.save(module, tmp_path / "digits.mlir")
    np.testing.assert_array_equal(outputs(qmlir.load(tmp_path / "digits.mlir"), samples[:4]), expected)


BIAS = 5 * np.random.default_rng(4).standard_normal(6).astype(np.float32)


def network(**options: Any) -> tuple[ModuleOp, Array]:
    """A layer with a bias, of 8 bits unless the options say otherwise, and an input."""
    random = np.random.default_rng(3)
    weights, x = random.standard_normal((8, 6), np.float32), random.standard_normal((4, 8), np.float32)
    module = load_onnx(model(node("Gemm", "x w b"), {"x": (4, 8)}, {"w": weights, "b": BIAS}))
    given: dict[str, Any] = {"bias": "int8", "schema": "symmetric", "weight_precision": "int8", **options}
    return qmlir.quantize(module, qmlir.profile(module, [x]), **given), x


@pytest.mark.parametrize("precision", ["int8", "int16"])
def test_litert_adds_the_same(precision: str, tmp_path: Path) -> None:
    """Its biases count in the sums' steps, and so does what is written."""
    module, x = network(precision=precision)
    follow(module, "litert-reference")
    qmlir.export(module, tmp_path / "m.tflite", format="tflite")
    (got,) = LiteRT(tmp_path / "m.tflite").run([x])
    np.testing.assert_array_equal(got, qmlir.reference(module)(x))


@runtime.SATURATING
@pytest.mark.parametrize("format", ["onnx-qdq", "onnx-qoperator", "onnx-integer"])
def test_onnxruntime_adds_the_same(format: str, tmp_path: Path) -> None:
    module, x = network(per_channel=False)
    if format == "onnx-qoperator":
        follow(module, "onnxruntime")
    written = runtime.exported(module, tmp_path / "m.onnx", format=format)
    ((op, _, _),) = biases(module)
    assert (added := op.stored_bias()) is not None
    arrays = [onnx.numpy_helper.to_array(t) for t in written.graph.initializer]
    assert any(a.dtype == np.int32 and np.array_equal(a.reshape(-1), added) for a in arrays)
    (got,) = runtime.run(tmp_path / "m.onnx", [x])
    step = uniform(op.y).scale if format == "onnx-qdq" else 0
    np.testing.assert_allclose(got, np.asarray(qmlir.reference(module)(x)), rtol=0, atol=step * 1.001)


def test_a_network_that_comes_with_one_keeps_it() -> None:
    module = parsed("""
func.func @main(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
  %q = quant.qcast %x : tensor<1x2xf32> to tensor<1x2x!quant.uniform<i8:f32, 0.5>>
  %r = quant.dcast %q : tensor<1x2x!quant.uniform<i8:f32, 0.5>> to tensor<1x2xf32>
  %w = nn.constant <tensor<2x2xi8>, [1, 2, 3, 4]> : tensor<2x2x!quant.uniform<i8:f32, 0.25>>
  %v = quant.dcast %w : tensor<2x2x!quant.uniform<i8:f32, 0.25>> to tensor<2x2xf32>
  %b = nn.constant <tensor<2xi8>, [100, -3]> : tensor<2x!quant.uniform<i8:f32, 0.3:-1>>
  %c = quant.dcast %b : tensor<2x!quant.uniform<i8:f32, 0.3:-1>> to tensor<2xf32>
  %y = nn.fully_connected %r, %v, %c : tensor<1x2xf32>, tensor<2x2xf32>, tensor<2xf32> -> tensor<1x2xf32>
  %s = quant.qcast %y : tensor<1x2xf32> to tensor<1x2x!quant.uniform<i8:f32, 1.0>>
  %z = quant.dcast %s : tensor<1x2x!quant.uniform<i8:f32, 1.0>> to tensor<1x2xf32>
  func.return %z : tensor<1x2xf32>
}""")
    folded = qmlir.Pipeline("fold-qdq")(module)
    ((op, type, stored),) = biases(folded)
    assert str(type) == "!quant.uniform<i8:f32, 3.000000e-01:-1>"
    assert stored.tolist() == [100, -3]
    assert np.rint([101 * 0.3 / 0.125, -2 * 0.3 / 0.125]).tolist() == [242, -5]
    assert (added := op.stored_bias()) is not None
    assert added.tolist() == [242, -5]
    (y,) = qmlir.reference(folded)(np.zeros((1, 2), np.float32))
    assert np.asarray(y).reshape(-1).tolist() == [30, -1]


@crossed(
    {
        "bias": ["int8", "int16"],
        "schema": ["asymmetric", "symmetric", "symmetric_with_uint8"],
        "per_channel": [True, False],
    }
)
def test_glow_exact_stores_what_glow_stores(bias: Any, schema: Any, per_channel: bool) -> None:
    """Parameters by Glow's rule, which tests/conformance holds to Glow's own, and integers rounded in float32."""
    module, _ = network(bias=bias, schema=schema, per_channel=per_channel, glow_exact=True, calibration="minmax")
    own_schema: Any = "symmetric" if per_channel and schema == "asymmetric" else schema
    ((op, type, stored),) = biases(module)
    for channel, value in enumerate(BIAS):
        part = BIAS[channel : channel + 1] if per_channel else BIAS
        own = quantization_of_range(float(part.min()), float(part.max()), own_schema, bias, glow_exact=True)
        index = channel if per_channel else 0
        steps = uniform(op.x).scale, uniform(op.w).scales[index]
        wanted = bias_parameters(*own, *steps, bias, per_channel=per_channel)
        assert (type.scales[index], type.zero_points[index]) == (wanted.scale, wanted.zero_point)
        exact = value / np.float32(wanted.scale) + np.float32(wanted.zero_point)
        assert stored[channel] == np.clip(np.rint(exact), np.iinfo(bias).min, np.iinfo(bias).max)
