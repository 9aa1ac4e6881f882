"""`qmlir quantize` ends with how far its outputs are from float's, on samples that it names, and with the culprits."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qmlir
from qmlir.errors import QualityWarning
from tests.cli.small import Small, run, write_small

OUTPUT = "output scores: SQNR "


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    small = write_small(tmp_path_factory.mktemp("quality"))
    np.savez(small / "tests.npz", image=small.samples[::-1])
    np.savez(small / "many.npz", image=np.tile(small.samples, (8, 1, 1, 1)))
    assert run("profile", small.onnx, "--data", small.data, "-o", small / "p.yaml") == 0
    return small


def document(path: Path) -> Any:
    return json.loads(path.read_text())["quality"]


@pytest.mark.parametrize(
    ("options", "samples", "held_out"),
    [
        ("--data {d}/data.npz", 6, False),
        ("--data {d}/data.npz --samples 4", 2, True),
        ("--data {d}/data.npz --test-data {d}/tests.npz", 6, True),
        ("--data {d}/data.npz --test-data {d}/data.npz", 6, False),
        ("--profile {d}/p.yaml --test-data {d}/tests.npz", 6, True),
        ("--data {d}/many.npz", 6, True),  # one in eight of 48
        ("--data {d}/many.npz --profile {d}/p.yaml", 8, False),  # which may have seen all of them
        ("--data {d}/many.npz --samples 40", 8, True),
    ],
)
def test_the_quality_at_the_end(
    small: Small, options: str, samples: int, held_out: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    given = options.format(d=small.folder).split()
    assert run("quantize", small.onnx, *given, "-o", small / "q.mlir", "--json", small / "q.json") == 0
    out = capsys.readouterr().out
    found = document(small / "q.json")
    assert (found["samples"], found["held_out"]) == (samples, held_out)
    origin = "held out" if held_out else "that quantization used, too"
    (output,) = found["outputs"]
    share = f"{100 * output['agreement']:.2f} % have float's first class"
    assert f"{OUTPUT}{output['sqnr']:.1f} dB, {share}, on {samples} samples {origin}\n" in out
    _, last = out.split("operations that cost the outputs most, in dB if one alone is quantized:\n")
    lines = [line.split() for line in last.splitlines()[1:]]
    culprits = found["culprits"]
    figures = [[each["tensor"], each["operation"], f"{each['effect']:.1f}", f"{each['own']:.1f}"] for each in culprits]
    assert lines[: len(figures)] == figures
    assert {each["tensor"] for each in culprits} == {"active", "scores"}
    kept = qmlir.quality(small / "q.mlir")
    assert (kept.samples, kept.held_out, kept.outputs[0].sqnr) == (samples, held_out, output["sqnr"])


def test_python_quantizes_the_same_network_and_measures_the_same(small: Small) -> None:
    samples = [each[None] for each in np.load(small / "many.npz")["image"]]
    assert run("quantize", small.onnx, "--data", small / "many.npz", "-o", small / "q.mlir") == 0
    q = qmlir.quantize(small.onnx, data=samples)
    assert str(q) == str(qmlir.load(small / "q.mlir"))
    assert qmlir.quality(q) == qmlir.quality(small / "q.mlir")


def test_measuring_changes_no_weight_and_can_be_left_out(small: Small, capsys: pytest.CaptureFixture[str]) -> None:
    files: list[bytes] = []
    for option in ("--no-measure", "--measure"):
        command = ("quantize", small.onnx, "--data", small.data, option, "-o", small / "q.mlir")
        assert run(*command, "--json", small / "q.json") == 0
        files.append((small / "q.safetensors").read_bytes())
        assert (OUTPUT in capsys.readouterr().out) == (document(small / "q.json") is not None) == bool(len(files) - 1)
    assert files[0] == files[1]
    assert run("quantize", small.onnx, "--profile", small / "p.yaml", "-o", small / "q.mlir") == 0
    assert OUTPUT not in capsys.readouterr().out  # there are no samples


def test_measuring_no_samples_is_refused(small: Small, capsys: pytest.CaptureFixture[str]) -> None:
    command = ("quantize", small.onnx, "--profile", small / "p.yaml", "--measure", "-o", small / "q.mlir")
    assert run(*command) == 1
    needed = "--measure: needs samples, got neither --data nor --test-data; give one of them"
    assert needed in " ".join(capsys.readouterr().err.split())
    assert run(*command, "--test-data", small / "tests.npz") == 0
    assert run(*command, "--data", small.data) == 0


def test_an_output_below_what_its_bits_allow_is_reported(small: Small, capsys: pytest.CaptureFixture[str]) -> None:
    rule = "name=scores range=-0.05,0.05"  # scores reach 60 times as far
    command = ("quantize", small.onnx, "--data", small.data, "--rule", rule, "-o", small / "q.mlir")
    assert run(*command, "--json", small / "q.json") == 0
    assert document(small / "q.json")["outputs"][0]["below"]
    err = " ".join(capsys.readouterr().err.split())
    assert 'warning: output "scores" reaches 0.' in err
    assert "dB that its bits allow, on 6 samples that quantization used, too; --precision auto repairs" in err
    policy = {"rules": [{"name": "scores", "range": [-0.05, 0.05]}]}
    with pytest.warns(QualityWarning, match='output "scores" reaches 0'):
        qmlir.quantize(small.onnx, data=[each[None] for each in small.samples], policy=policy)
