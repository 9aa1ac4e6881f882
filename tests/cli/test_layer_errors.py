"""`qmlir quantize` ends with the least exact operations and the error at the outputs, on samples that it names."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qmlir.analysis import worst
from tests.cli.small import Small, run, write_small

OUTPUT = "SQNR of output scores: "


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    small = write_small(tmp_path_factory.mktemp("errors"))
    np.savez(small / "tests.npz", image=small.samples[::-1])
    assert run("profile", small.onnx, "--data", small.data, "-o", small / "p.yaml") == 0
    return small


def document(path: Path) -> Any:
    return json.loads(path.read_text())["layer_errors"]


@pytest.mark.parametrize(
    ("options", "samples", "held_out"),
    [
        ("--data {d}/data.npz", 6, False),
        ("--data {d}/data.npz --samples 4", 2, True),
        ("--data {d}/data.npz --test-data {d}/tests.npz", 6, True),
        ("--data {d}/data.npz --test-data {d}/data.npz", 6, False),
        ("--profile {d}/p.yaml --test-data {d}/tests.npz", 6, True),
    ],
)
def test_errors_at_the_end(
    small: Small, options: str, samples: int, held_out: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    given = options.format(d=small.folder).split()
    assert run("quantize", small.onnx, *given, "-o", small / "q.mlir", "--json", small / "q.json") == 0
    out = capsys.readouterr().out
    found = document(small / "q.json")
    assert (found["samples"], found["held_out"]) == (samples, held_out)
    origin = "held out" if held_out else "that quantization used, too"
    _, last = out.split(f"lowest SQNR in dB, on {samples} samples {origin}:\n")
    lines = [line.split() for line in last.splitlines()]
    figures = [[f"{row[f'{kind}_sqnr']:.1f}" for kind in ("isolated", "cumulative")] for row in found["worst"]]
    assert [line[-2:] for line in lines[1 : 1 + len(figures)]] == figures
    assert f"{OUTPUT}{found['outputs'][0]['cumulative_sqnr']:.1f} dB\n" in out


@pytest.mark.slow
def test_they_are_what_analyze_says(small: Small) -> None:
    assert run("quantize", small.onnx, "--data", small.data, "-o", small / "q.mlir", "--json", small / "q.json") == 0
    analyze = ("analyze", small.onnx, small / "q.mlir", "--data", small.data, "--json", small / "a.json")
    assert run(*analyze) == 0
    rows = json.loads((small / "a.json").read_text())["tensors"]
    found = document(small / "q.json")
    assert found["worst"] == [row for row in rows if row["operation"] != "input"][: len(found["worst"])]
    assert found["outputs"] == [row for row in rows if row["tensor"] == "scores"]


def test_they_change_no_bit_and_can_be_left_out(small: Small, capsys: pytest.CaptureFixture[str]) -> None:
    files: list[tuple[bytes, bytes]] = []
    for option in ("--no-layer-errors", "--layer-errors"):
        command = ("quantize", small.onnx, "--data", small.data, option, "-o", small / "q.mlir")
        assert run(*command, "--json", small / "q.json") == 0
        files.append(((small / "q.mlir").read_bytes(), (small / "q.safetensors").read_bytes()))
        assert (OUTPUT in capsys.readouterr().out) == (document(small / "q.json") is not None) == bool(len(files) - 1)
    assert files[0] == files[1]
    assert run("quantize", small.onnx, "--profile", small / "p.yaml", "-o", small / "q.mlir") == 0
    assert OUTPUT not in capsys.readouterr().out  # there are no samples


def test_a_large_network_is_measured_on_request(
    small: Small, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(worst, "MOST_MACS", 1000)
    command = ("quantize", small.onnx, "--data", small.data, "-o", small / "q.mlir")
    assert run(*command) == 0
    out = capsys.readouterr().out
    assert "SQNR not measured: 5 operations with 0 million MACs take long; --layer-errors measures it\n" in out
    assert run(*command, "--layer-errors") == 0
    assert "lowest SQNR in dB, on 1 sample that quantization used, too:\n" in capsys.readouterr().out


def test_errors_of_no_samples_are_refused(small: Small, capsys: pytest.CaptureFixture[str]) -> None:
    command = ("quantize", small.onnx, "--profile", small / "p.yaml", "--layer-errors", "-o", small / "q.mlir")
    assert run(*command) == 1
    needed = "--layer-errors: needs samples, got neither --data nor --test-data; give one of them"
    assert needed in " ".join(capsys.readouterr().err.split())
    assert run(*command, "--test-data", small / "tests.npz") == 0
    assert run(*command, "--data", small.data) == 0
