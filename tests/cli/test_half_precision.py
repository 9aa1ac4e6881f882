"""Networks in float16 and bfloat16 on the command line: read, quantized, computed in, written."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from qmlir.cli import main as driver
from tests.cli.small import Small
from tests.conftest import ROOT

DIGITS = ROOT / "examples" / "digits"


def run(*words: object) -> int:
    return driver.main([str(word) for word in words])


def test_bfloat16_at_the_inputs_and_outputs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Files of numpy hold no bfloat16: samples are read from float32, and results written as float32."""
    rng = np.random.default_rng(0)
    w = helper.make_tensor("w", TensorProto.BFLOAT16, [6, 3], np.round(rng.normal(size=18) * 32) / 32)
    x, y = (helper.make_tensor_value_info(n, TensorProto.BFLOAT16, [1, s]) for n, s in (("x", 6), ("y", 3)))
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [x], [y], [w])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)]), tmp_path / "net.onnx")
    samples = rng.normal(size=(5, 6)).astype(np.float32)
    np.save(tmp_path / "x.npy", samples)
    data = ("--data", tmp_path / "x.npy")
    options = ("--fail-on-float", "--no-measure", "-o", tmp_path / "q.mlir")
    assert run("quantize", tmp_path / "net.onnx", *data, *options) == 0
    assert run("run", tmp_path / "q.mlir", *data, "-o", tmp_path / "y.npz") == 0
    assert "y: bfloat16[5, 1, 3]" in capsys.readouterr().out
    got = np.load(tmp_path / "y.npz")["y"]
    assert got.dtype == np.float32
    assert np.abs(got[:, 0] - samples @ numpy_helper.to_array(w).astype(np.float32)).max() < 0.2


def test_a_network_in_float16_needs_no_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, output, ledger = DIGITS / "digits.onnx", tmp_path / "half.mlir", tmp_path / "half.json"
    assert run("quantize", model, "--precision", "float16", "--ledger", ledger, "-o", output) == 0
    assert "0 of 9 operations quantized, 9 left float" in capsys.readouterr().out
    entries = json.loads(ledger.read_text())["decisions"]
    assert {e["code"] for e in entries} == {"half", "neighbours"}
    assert next(e for e in entries if e["node"] == "dense2")["remedy"] == "choose a precision of integers for it"


@pytest.mark.slow
def test_one_layer_in_bfloat16(small: Small, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rule = ("--rule", "layer=first precision=bfloat16")
    assert run("quantize", small.onnx, "--data", small.data, *rule, "--print-config") == 0
    assert "{layer: first, precision: bfloat16}" in capsys.readouterr().out
    assert run("quantize", small.onnx, "--data", small.data, *rule, "-o", tmp_path / "q.mlir") == 0
    assert run("run", tmp_path / "q.mlir", "--data", small.data, "-o", tmp_path / "y.npz") == 0
    assert run("analyze", small.onnx, tmp_path / "q.mlir", "--data", small.data) == 0
    assert run("report", small.onnx, tmp_path / "q.mlir", "--data", small.data, "-o", tmp_path / "r.html") == 0
    assert "the policy computes it in bfloat16, rounded once" in (tmp_path / "r.html").read_text()
