"""The public API as README shows it."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import qmlir
from qmlir.errors import OptionError, QmlirError


@pytest.fixture(scope="module")
def digits() -> Path:
    return Path(__file__).resolve().parent.parent / "examples" / "digits"


def test_passes_compose_to_what_quantize_does(digits: Path, tmp_path: Path) -> None:
    module, data = qmlir.load(digits / "digits.onnx", bind={"batch": 1}), np.load(digits / "digits.npz")
    profile = qmlir.profile(module, [image[None] for image in data["calibration_images"][:20]])
    profile.save(tmp_path / "p.yaml")
    quantized = qmlir.quantize(module, profile, schema="symmetric")
    composed = qmlir.Pipeline(
        "fold-batch-norm",
        ("apply-profile", {"file": str(tmp_path / "p.yaml")}),
        ("quantize", {"schema": "symmetric"}),
    )(module)
    assert all(e.outcome == "quantized" for e in qmlir.decisions(composed))
    one, other = qmlir.compile(quantized), qmlir.compile(composed)
    for image in data["test_images"][:20]:
        np.testing.assert_array_equal(one(image[None]), other(image[None]))


def test_several_inputs_and_outputs_go_by_name(tmp_path: Path) -> None:
    (tmp_path / "two.mlir").write_text("""
func.func @net(%a: tensor<1x4xf32> {qmlir.name = #qmlir.name<tensors ["left"]>},
               %b: tensor<1x4xf32> {qmlir.name = #qmlir.name<tensors ["right"]>})
    -> (tensor<1x4xf32> {qmlir.name = #qmlir.name<tensors ["sum"]>},
        tensor<1x4xf32> {qmlir.name = #qmlir.name<tensors ["product"]>}) {
  %s = nn.add %a, %b : tensor<1x4xf32>, tensor<1x4xf32> -> tensor<1x4xf32>
  %p = nn.mul %a, %b : tensor<1x4xf32>, tensor<1x4xf32> -> tensor<1x4xf32>
  func.return %s, %p : tensor<1x4xf32>, tensor<1x4xf32>
}""")
    module = qmlir.load(tmp_path / "two.mlir")
    left, right = np.arange(4, dtype=np.float32)[None], np.full((1, 4), 3, np.float32)
    for network in (qmlir.compile(module), qmlir.compile(tmp_path / "two.mlir"), qmlir.reference(module)):
        results = network({"left": left, "right": right})
        np.testing.assert_array_equal(results["sum"], left + right)
        np.testing.assert_array_equal(results["product"], left * right)


def refused(call: Callable[[], object]) -> str:
    """The message of the error that a call raises."""
    with pytest.raises(QmlirError) as error:
        call()
    return str(error.value)


def test_wrong_options_name_near_misses(digits: Path) -> None:
    module = qmlir.load(digits / "model.mlir")
    assert "did you mean symmetric" in refused(lambda: qmlir.quantize(module, schema="symetric"))
    assert "did you mean quantize" in refused(lambda: qmlir.Pipeline("quantise"))
    assert "did you mean schema" in refused(lambda: qmlir.Pipeline(("quantize", {"shema": "symmetric"})))
    assert "type bool" in refused(lambda: qmlir.Pipeline(("quantize", {"per-channel": 1})))
    assert "threads: must be 1" in refused(lambda: qmlir.compile(module, threads=2))
    with pytest.raises(OptionError):
        qmlir.Pipeline("no-such-pass-at-all")


def test_load_refuses_other_files(tmp_path: Path) -> None:
    (tmp_path / "net.txt").write_text("")
    assert "must be an .onnx, a .tflite or an .mlir file" in refused(lambda: qmlir.load(tmp_path / "net.txt"))
    assert "no such file" in refused(lambda: qmlir.load(tmp_path / "none.mlir"))
    (tmp_path / "bad.mlir").write_text("func.func @main() { oops }")
    assert "bad.mlir" in refused(lambda: qmlir.load(tmp_path / "bad.mlir"))
