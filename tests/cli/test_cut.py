"""Commands on a part of a model."""

from pathlib import Path

import numpy as np
import pytest

import qmlir
from qmlir.cli import opt
from tests.cli.small import is_one_paragraph, run, write_small
from tests.frontends.caffe2.nets import made, weights


def test_a_part_of_a_model_is_quantized_and_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QMLIR_CACHE", str(tmp_path / "cache"))
    small, out = write_small(tmp_path), tmp_path / "part.mlir"
    assert run("quantize", small.onnx, "--data", small.data, "--outputs", "pooled,active", "-o", out, "--quiet") == 0
    quantized = qmlir.load(out)
    assert [s.name for s in qmlir.reference(quantized).signature.outputs] == ["pooled", "active"]
    for outputs in ("pooled", "flat"):  # the cache of machine code knows the part
        assert run("run", small.onnx, "--data", small.data, "--outputs", outputs, "-o", tmp_path / "out.npz") == 0
        assert list(np.load(tmp_path / "out.npz")) == [outputs]


def test_an_unknown_tensor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = write_small(tmp_path)
    assert run("bench", small.onnx, "--outputs", "poled") == 1
    error = capsys.readouterr().err
    assert is_one_paragraph(error)
    assert "outputs poled: must be the name of a tensor of the model; did you mean pooled?" in error


def test_text_has_no_part(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "net.mlir"
    path.write_text("func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> { func.return %x : tensor<2xf32> }")
    assert run("bench", path, "--inputs", "x") == 1
    assert "inputs: cuts .onnx and .tflite files and Caffe2 nets" in capsys.readouterr().err
    for flag in (["--inputs=x"], ["--shape=x=2"], ["--init-net=init.pb"]):
        assert opt.main([*flag, str(path)]) == 1
        assert f"{flag[0].split('=')[0]}: is for model files of other frameworks" in capsys.readouterr().err


def test_qmlir_opt_reads_nets_and_parts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "net.pb").write_bytes(made(("Mul", "data w", "a"), ("Relu", "a", "b"), outputs="b"))
    (tmp_path / "init.pb").write_bytes(made(*weights(w=np.full(2, 3, np.float32))))
    words = ["--init-net", str(tmp_path / "init.pb"), "--shape", "data=1x2", "--outputs", "a"]
    assert opt.main([*words, str(tmp_path / "net.pb")]) == 0
    printed = capsys.readouterr().out
    assert "nn.mul" in printed
    assert "nn.relu" not in printed


def test_remedies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`qmlir import` writes the names of tensors, and the model's own file can be cut at them."""
    small = write_small(tmp_path)
    assert run("bench", small.onnx, "--outputs", "zzz", "--runs", 1) == 1
    assert "must be the name of a tensor of the model" in capsys.readouterr().err
    assert run("import", small.onnx, "-o", tmp_path / "net.mlir") == 0
    assert '"pooled"' in (tmp_path / "net.mlir").read_text()
    assert run("bench", small.onnx, "--outputs", "pooled", "--runs", 1) == 0
