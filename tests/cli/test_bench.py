"""`qmlir bench`: what it measures on a small network, its table, its file and comparisons; no time is asserted."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qmlir.analysis.timing import random_inputs
from qmlir.ir.signature import Signature, TensorSpec
from tests.cli.small import Small, run

QUICK = ("--runs", 2)


@pytest.fixture
def figures(small: Small, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert run("bench", small.onnx, *QUICK, "--json", small / "f.json") == 0
    capsys.readouterr()
    return json.loads((small / "f.json").read_text())


def test_figures(figures: dict[str, Any]) -> None:
    layers = {layer["name"]: layer for layer in figures["layers"]}
    assert layers["conv1+relu1"]["macs"] == 8 * 8 * 4 * 2 * 9
    assert layers["conv1+relu1"]["operation"] == "nn.conv2d"
    assert (layers["conv1+relu1"]["kernel"], layers["conv1+relu1"]["why"]) == ("multiply-adds", "")
    assert layers["dense1"]["macs"] == 3 * 64
    assert layers["pool1+flatten1"]["macs"] == 0
    assert figures["macs"] == sum(layer["macs"] for layer in layers.values())
    assert all(layer["seconds"] > 0 for layer in layers.values())
    assert sum(layer["seconds"] for layer in layers.values()) <= figures["timed_seconds"] * 1.01
    latency = figures["latency"]
    assert latency["runs"] == 2
    assert 0 < latency["min"] <= latency["median"] <= latency["p90"]
    assert figures["peak"]["macs_per_second"] > 0
    assert figures["bytes"]["weights"] > 0


def test_the_table_fits_80_columns_and_counts_all_layers(small: Small, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("bench", small.onnx, *QUICK) == 0
    whole = capsys.readouterr().out
    assert run("bench", small.onnx, *QUICK, "--slowest", 1) == 0
    one = capsys.readouterr().out
    assert max(map(len, (whole + one).splitlines())) <= 80
    assert {"conv1+relu1", "pool1+flatten1", "dense1"} <= {line.split()[0] for line in whole.splitlines()}
    assert re.search(r"^\d+ others ", one, re.MULTILINE)
    assert re.search(r"^\d+ bytes of weights, \d+ of arena, \d+ of code$", one, re.MULTILINE)


def test_samples_are_inputs(small: Small) -> None:
    assert run("bench", small.onnx, *QUICK, "--data", small.data, "--samples", 2) == 0


@pytest.mark.slow
@pytest.mark.parametrize("format", ["qmlir-1", "qmlir-bench-1"])
def test_against_an_earlier_run(
    small: Small, figures: dict[str, Any], format: str, capsys: pytest.CaptureFixture[str]
) -> None:
    figures["format"] = format
    for layer in figures["layers"]:
        layer["seconds"] = 1.0 if layer["name"] != "pool1+flatten1" else 0.0
    figures["layers"].append({"name": "gone", "seconds": 0.5})
    figures["latency"] |= {"min": 1000.0, "median": 2000.0, "p90": 4000.0}
    (small / "then.json").write_text(json.dumps(figures))
    assert run("bench", small.onnx, *QUICK, "--against", small / "then.json") == 0
    lines = capsys.readouterr().out.splitlines()
    compared = [line.split() for line in lines[lines.index("") + 1 :]]
    rows = {row[0]: row[1:] for row in compared}
    assert rows["conv1+relu1"][0] == "1000.000"
    assert float(rows["conv1+relu1"][2]) < 1
    assert rows["pool1+flatten1"][2] == "–"
    assert rows["gone"] == ["500.000", "–", "–"]
    assert [row[:4] for row in compared[-3:]] == [
        ["a", "call:", "min", "1000000.000"],
        ["a", "call:", "median", "2000000.000"],
        ["a", "call:", "p90", "4000000.000"],
    ]


@pytest.mark.parametrize(
    ("text", "got"),
    [
        ("{", "something else"),
        ("[]", "something else"),
        ('{"format": "qmlir-bench-1", "layers": [{}]}', "something else"),
        ('{"format": "other", "layers": [], "latency": {"min": 1, "median": 1, "p90": 1}}', "format other"),
        (
            '{"format": "qmlir-1", "document": "run", "layers": [], "latency": {"min": 1, "median": 1, "p90": 1}}',
            "format run",
        ),
        ('{"format": "qmlir-bench-1", "layers": [], "latency": {"min": NaN, "median": 1, "p90": 1}}', "no numbers"),
    ],
)
def test_other_files_are_refused(small: Small, text: str, got: str, capsys: pytest.CaptureFixture[str]) -> None:
    (small / "then.json").write_text(text)
    assert run("bench", small.onnx, *QUICK, "--against", small / "then.json") == 1
    assert capsys.readouterr().err.endswith(f"must be what `qmlir bench --json` writes, of format qmlir-1, got {got}\n")


@pytest.mark.parametrize("options", [("--seconds", "0"), ("--seconds", "nan"), ("--runs", "0"), ("--json", "x.txt")])
def test_options_that_are_refused(small: Small, options: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run("bench", small.onnx, *options) == 1
    assert options[0] in capsys.readouterr().err


def test_a_file_that_is_missing(small: Small, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("bench", small.onnx, "--against", Path("nowhere.json")) == 1
    assert "nowhere.json: must be readable, got no such file" in capsys.readouterr().err


def test_random_inputs() -> None:
    kinds = ("float32", "int8", "uint8", "int64", "bool", "float16")
    specs = tuple(TensorSpec(name, (64, 64), np.dtype(name)) for name in kinds)
    drawn = random_inputs(Signature(specs, ()), 7)
    assert all(drawn[s.name].shape == s.shape and drawn[s.name].dtype == s.dtype for s in specs)
    assert (drawn["int8"].min(), drawn["uint8"].max()) == (-128, 255)
    assert set(np.unique(drawn["int64"])) == {0, 1}
    again = random_inputs(Signature(specs, ()), 7)
    assert all(np.array_equal(drawn[k], again[k]) for k in kinds)
    assert not np.array_equal(drawn["float32"], random_inputs(Signature(specs, ()), 8)["float32"])
