"""`qmlir report`: what it writes, what it says is missing, and what it refuses."""

from pathlib import Path

import numpy as np
import pytest

from tests.cli.small import Small, run


@pytest.fixture
def quantized(small: Small) -> Path:
    assert run("quantize", small.onnx, "--data", small.data, "-o", small / "q.mlir", "-q") == 0
    return small / "q.mlir"


@pytest.mark.slow
def test_a_report_is_written(small: Small, quantized: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(small / "labels.npz", labels=np.arange(6) % 3)
    labels = f"{small / 'labels.npz'}:labels"
    output = small / "r.html"
    data = ("--data", small.data, "--labels", labels)
    assert run("report", small.onnx, quantized, *data, "--seconds", 0.01, "-o", output) == 0
    said = capsys.readouterr().out
    assert said.splitlines()[0] == "Cycles need a device (--target)."
    assert f"{output}: written, 1." in said
    text = output.read_text(encoding="utf-8")
    assert "<title>small.onnx – qmlir report</title>" in text
    assert '"agreement"' in text


@pytest.mark.slow
def test_labels_as_lines_of_text(small: Small, quantized: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same file as for `qmlir quantize --labels`: a line for each sample, of which --samples takes the first."""
    (small / "labels.txt").write_text("# counted from 1\n1\n2\n3\n1\n2\n3\n")
    options = ("--data", small.data, "--samples", 4, "--labels", small / "labels.txt", "--seconds", 0)
    assert run("report", small.onnx, quantized, *options, "-o", small / "r.html") == 1
    wrong = "labels: must be a class of the network, from 0 to 2, got 3; count classes from 0, or give --label-offset"
    assert wrong in capsys.readouterr().err
    assert run("report", small.onnx, quantized, *options, "--label-offset", -1, "-o", small / "r.html") == 0
    assert '"samples":4,' in (small / "r.html").read_text(encoding="utf-8").replace(" ", "")


@pytest.mark.slow
def test_how_samples_are_read_is_said_once(small: Small, capsys: pytest.CaptureFixture[str]) -> None:
    """The profile says it, else the quantized network; the command line overrides both."""
    rng = np.random.default_rng(4)
    rng.integers(0, 256, (6, 2, 8, 8), np.uint8).tofile(small / "bytes.bin")
    raw = ("--data", small / "bytes.bin")
    assert run("profile", small.onnx, *raw, "--dtype", "uint8", "-o", small / "p.yaml") == 0
    assert run("quantize", small.onnx, "--profile", small / "p.yaml", "-o", small / "q.mlir", "-q") == 0
    capsys.readouterr()
    models = (small.onnx, small / "q.mlir")
    for known, source in (((), "q.mlir"), (("--profile", small / "p.yaml"), "p.yaml")):
        assert run("report", *models, *raw, *known, "--seconds", 0, "-o", small / "r.html") == 0
        assert f"--dtype 'uint8', as in {small / source}\n" in capsys.readouterr().out
        assert '"compared":6,' in (small / "r.html").read_text(encoding="utf-8").replace(" ", "")
    assert run("report", *models, *raw, "--dtype", "int8", "--seconds", 0, "-o", small / "r.html") == 0
    assert "as in" not in capsys.readouterr().out
    assert run("report", small.onnx, *raw, "--seconds", 0, "-o", small / "r.html") == 1
    assert "give the stored type as --dtype" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--labels", "labels.txt"], "--labels: are of the samples of --data, got no --data"),
        (["--label-offset", "1"], "--label-offset: is for labels"),
        (["--seconds", "soon"], "--seconds: must be a number of seconds, or 0, got soon"),
        (["--target", "nowhere.toml", "--seconds", "0"], "nowhere.toml"),
        (["-o", "r.pdf"], "must be a file name that ends in .html, got r.pdf"),
    ],
)
def test_options_that_are_refused(
    quantized: Path, options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    output = quantized.parent / "r.html"
    assert run("report", quantized, "-o", output, *options) == 1
    assert message in capsys.readouterr().err
    assert not output.exists()


def test_the_same_model_twice(small: Small, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("report", small.onnx, small.onnx, "-o", small / "r.html") == 1
    assert "MODEL: must be different files" in capsys.readouterr().err
