"""`activations=dynamic`: sums of products of words fit 32 bits, and constants have the scale of the sums."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from xdsl.dialects.builtin import ModuleOp, i32

import qmlir
from qmlir.analysis.certify import certificate_of
from qmlir.compiler import to_integers
from qmlir.dialects import qint
from qmlir.dialects.nn import AddOp, AttendOp, ConstantOp, MatMulOp
from qmlir.dialects.nn.quantizable import uniform, widest
from qmlir.ir.interfaces import element_of
from tests.transforms.quantize.test_fuse_attention import WIDTH, Array, causal, decibels, normal


def samples(length: int, first: int, count: int) -> list[Array]:
    return [normal(1, length, WIDTH, seed=first + i) for i in range(count)]


def quantized(proto: onnx.ModelProto, folder: Path, length: int, **options: Any) -> ModuleOp:
    onnx.save(proto, folder / "float.onnx")
    return qmlir.quantize(
        folder / "float.onnx", data=samples(length, 10, 4), measure=False, rounding="nearest", **options
    )


def products(module: ModuleOp) -> list[MatMulOp | AttendOp]:
    return [op for op in module.walk() if isinstance(op, MatMulOp | AttendOp)]


@pytest.mark.parametrize("length", [16, 64])
def test_sums_fit_32_bits_and_outputs_keep_their_digits(length: int, tmp_path: Path) -> None:
    proto = causal(length)
    module = quantized(proto, tmp_path, length, activations="dynamic")
    scores, attend = products(module)
    assert widest(uniform(scores.operands[0])) ** 2 * WIDTH < 1 << 31
    assert attend.weight() * widest(uniform(attend.operands[1])) * length < 1 << 31  # type: ignore[union-attr]
    assert min(widest(uniform(v)) for v in (*scores.operands, attend.operands[1])) >= 1 << 11
    accumulators = [element_of(o.acc) for o in to_integers(module).walk() if isinstance(o, qint.MatMulOp)]
    assert accumulators == [i32, i32]
    assert decibels(proto, module, samples(length, 30, 4)) > 35
    certificate_of(module)


@pytest.mark.parametrize("options", [
    {"activations": "static"}, {"activations": "dynamic", "precision": "int16"},
    {"activations": "dynamic", "policy": {"rules": [{"kind": "matmul", "precision": "int16"}]}},
], ids=str)  # fmt: skip
def test_words_that_are_asked_for_keep_16_bits(options: dict[str, Any], tmp_path: Path) -> None:
    scores = products(quantized(causal(16), tmp_path, 16, **options))[0]
    assert {uniform(v).storage_max for v in scores.operands} <= {127, (1 << 15) - 1}


def test_onnxruntime_clamps_as_the_words_do(tmp_path: Path) -> None:
    """Queries and keys nine times as large as any that was observed saturate at the bounds of their 14 bits."""
    module = quantized(causal(16), tmp_path, 16, activations="dynamic")
    qmlir.export(module, tmp_path / "q.onnx", format="onnx-integer")
    session = onnxruntime.InferenceSession(tmp_path / "q.onnx", providers=["CPUExecutionProvider"])
    x = 9 * samples(16, 50, 1)[0]
    assert np.array_equal(np.asarray(session.run(None, {"x": x})[0]), np.asarray(qmlir.compile(module)(x)))
    assert np.array_equal(np.asarray(qmlir.reference(module)(x)), np.asarray(qmlir.compile(module)(x)))


def test_sums_with_constants_are_plain_additions(tmp_path: Path) -> None:
    """A bias behind a row's product has the product's scale: its integer form multiplies both by one."""
    path = tmp_path / "float.mlir"
    weights = ", ".join(str(float(n)) for n in np.random.default_rng(0).normal(size=48) / 3)
    path.write_text(f"""
    func.func @main(%x: tensor<6x12xf32>) -> tensor<6x4xf32> {{
      %w = nn.constant <tensor<4x12xf32>, [{weights}]> : tensor<4x12xf32>
      %b = nn.constant <tensor<4xf32>, [0.5, -0.25, 3.0, 0.0]> : tensor<4xf32>
      %y = nn.fully_connected %x, %w, %b : tensor<6x12xf32>, tensor<4x12xf32>, tensor<4xf32> -> tensor<6x4xf32>
      func.return %y : tensor<6x4xf32>
    }}
    """)
    data = [np.random.default_rng(s).normal(size=(6, 12)).astype(np.float32) for s in range(6)]
    module = qmlir.quantize(path, data=data, activations="dynamic", measure=False)
    (add,) = [o for o in module.walk() if isinstance(o, AddOp)]
    assert uniform(add.lhs).scale == uniform(add.rhs).scale == uniform(add.y).scale
    assert isinstance(add.rhs.owner, ConstantOp)
    (plain,) = [o for o in to_integers(module).walk() if isinstance(o, qint.AddOp)]
    assert set(plain.multipliers.get_values()) == {1 << plain.shift.value.data}
    found, wanted = (np.asarray(e(data[5])) for e in (qmlir.compile(module), qmlir.reference(module)))
    assert np.array_equal(found, wanted)
    exact = np.asarray(qmlir.compile(path)(data[5]), np.float64)
    assert 10 * np.log10((exact**2).sum() / ((found - exact) ** 2).sum()) > 38
