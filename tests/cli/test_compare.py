"""`qmlir compare`, `graph`, `run --tensors` and `analyze --budget`."""

import json
from importlib import resources
from pathlib import Path

import numpy as np
import pytest

from tests.cli.small import Small, run


@pytest.fixture
def quantized(small: Small) -> Path:
    assert run("-q", "quantize", small.onnx, "--data", small.data, "-o", small / "q.mlir") == 0
    return small / "q.mlir"


def test_executors_agree(small: Small, quantized: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("compare", quantized, "--data", small.data) == 0
    assert "tensors over 6 samples: equal bit for bit" in capsys.readouterr().out
    assert run("compare", quantized, "--data", small.data, "--run", "reference", "--run", "reference") == 0


@pytest.mark.slow
def test_two_networks_part(small: Small, quantized: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = small / "other.mlir"
    assert run("-q", "quantize", small.onnx, "--data", small.data, "--rounding", "nearest", "-o", other) == 0
    assert run("compare", quantized, other, "--data", small.data, "--samples", "2") == 0
    out = capsys.readouterr().out
    assert "over 2 samples" in out
    assert "the first is scores (nn.fully_connected)" in out
    assert run("compare", quantized, other, "--data", small.data, "--fail") == 1
    assert "the runs must be equal bit for bit, got another scores" in capsys.readouterr().err


def test_a_device_file(small: Small, capsys: pytest.CaptureFixture[str]) -> None:
    text = (resources.files("qmlir") / "targets" / "nmp.toml").read_text("utf-8")
    own, network = small / "own.toml", small / "on_own.mlir"
    own.write_text(text.replace('name = "nmp"', 'name = "own"'), "utf-8")
    assert run("-q", "quantize", small.onnx, "--data", small.data, "--target", own, "-o", network) == 0
    json_file = small / "compared.json"
    options = ("--data", small.data, "--samples", 2, "--run", own, "--run", "cpu", "--json", json_file)
    assert run("compare", network, *options) == 0
    assert "tensors over 2 samples: equal bit for bit" in capsys.readouterr().out
    assert json.loads(json_file.read_text())["executors"] == [str(own), "cpu"]
    assert run("compare", network, "--data", small.data, "--run", "npm") == 1
    assert "--run: must be one of cpu, reference," in capsys.readouterr().err


def test_a_run_too_many(small: Small, quantized: Path, capsys: pytest.CaptureFixture[str]) -> None:
    three = ["--run", "cpu"] * 3
    assert run("compare", quantized, "--data", small.data, *three) == 1
    assert "--run: can be given twice, once for each run, got 3 times" in capsys.readouterr().err


def test_all_tensors_are_written(small: Small, quantized: Path) -> None:
    tensors, outputs = small / "tensors.npz", small / "outputs.npz"
    assert run("run", quantized, "--data", small.data, "--tensors", tensors, "-o", outputs) == 0
    assert run("run", quantized, "--data", small.data, "--tensors", small / "ref.npz", "--reference") == 0
    found, reference = np.load(tensors), np.load(small / "ref.npz")
    assert found["active"].dtype == np.int8
    assert found["active"].shape == (6, 1, 8, 8, 4)
    assert set(found.files) == set(reference.files)
    for name in found.files:
        np.testing.assert_array_equal(found[name], reference[name])


def test_a_drawing(small: Small, quantized: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("graph", quantized, "-o", small / "net.dot") == 0
    assert "digraph" in (small / "net.dot").read_text()
    assert run("graph", quantized, "-o", small / "net.txt") == 1
    assert "must be a file name that ends in .dot or .gv" in capsys.readouterr().err


@pytest.mark.slow
def test_budgets(small: Small, quantized: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = small / "rows.json"
    assert run("analyze", small.onnx, quantized, "--data", small.data, "--budget", "--json", rows) == 0
    assert "main cause" in capsys.readouterr().out
    assert {"tensor", "whole", "weights", "main_cause"} <= set(json.loads(rows.read_text())["budgets"][0])
    assert run("analyze", small.onnx, quantized, "--data", small.data, "--budget", "--channels") == 1
    assert "--budget: is another report than --channels; drop one of them" in capsys.readouterr().err


@pytest.mark.slow
def test_effects_by_several_processes(small: Small, quantized: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command, rows = ("analyze", small.onnx, quantized, "--data", small.data), small / "effects.json"
    assert run(*command, "--jobs", "2") == 1
    assert "--jobs: is for effects on the output; give --effect, too" in capsys.readouterr().err
    assert run(*command, "--effect", "--json", rows) == 0
    serial = json.loads(rows.read_text())
    assert run(*command, "--effect", "--jobs", "2", "--json", rows) == 0
    assert json.loads(rows.read_text()) == serial
    assert "on 2 processes" in capsys.readouterr().out
