"""Whether onnxruntime is faster on integers: timed in a process of its own, and never imported by the package."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

import qmlir
from qmlir.analysis import runtime_speed as speed
from qmlir.analysis.runtime_speed import NotMeasuredError, RuntimeSpeed, runtime_speed
from qmlir.cli.main import main
from tests.frontends.onnx.agreement import model, node

RANDOM = np.random.default_rng(0)
W = RANDOM.normal(size=(16, 256)).astype(np.float32)
DATA = RANDOM.normal(size=(6, 1, 16)).astype(np.float32)


@pytest.fixture
def layer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a float layer and samples; few calls are timed."""
    onnx.save(model([node("MatMul", "x w", "a"), node("Relu", "a")], {"x": [1, 16]}, {"w": W}), tmp_path / "m.onnx")
    np.savez(tmp_path / "data.npz", x=DATA)
    monkeypatch.setattr(speed, "SECONDS", 0.0)
    return tmp_path


def quantize(folder: Path, *options: str, output: str = "q.onnx") -> int:
    given = ["quantize", str(folder / "m.onnx"), "--data", str(folder / "data.npz"), "-o", str(folder / output)]
    return main([*given, *options])


@pytest.mark.parametrize("output", ["q.onnx", "q.mlir"])
def test_a_line_and_figures_say_what_is_faster(output: str, layer: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert quantize(layer, "--for", "onnxruntime", "--json", str(layer / "q.json"), output=output) == 0
    (line,) = [text for text in capsys.readouterr().out.splitlines() if "onnxruntime" in text]
    figures = json.loads((layer / "q.json").read_text())["speed"]
    assert figures["calls"] == 3
    assert (figures["runtime"], figures["version"]) == ("onnxruntime", line.split("onnxruntime ")[1].split()[0])
    ratio = figures["float_ms"] / figures["quantized_ms"]
    assert figures["faster"] == (ratio > 1.05) == ("times as fast" in line)
    assert ("is slower" in line) == (ratio < 0.95)


def test_nothing_is_measured_for_nobody(layer: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither without --for, nor where -q asks for no text."""
    monkeypatch.setattr(speed, "runtime_speed", lambda *_: pytest.fail("measured"))
    assert quantize(layer, "--json", str(layer / "q.json")) == 0
    assert json.loads((layer / "q.json").read_text())["speed"] is None
    assert quantize(layer, "--for", "onnxruntime", "-q") == 0


def test_without_the_runtime_the_command_goes_on(
    layer: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(speed, "find_spec", lambda name: None)
    assert quantize(layer, "--for", "onnxruntime") == 0
    assert "the speed in onnxruntime was not measured: it is not installed" in capsys.readouterr().out
    assert (layer / "q.onnx").exists()


def test_reasons(layer: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = qmlir.load(layer / "m.onnx")
    quantized = qmlir.quantize(module, data=list(DATA), runtime="onnxruntime")
    with pytest.raises(NotMeasuredError, match="the model that was given is quantized already"):
        runtime_speed(quantized, quantized)
    (layer / "damaged.onnx").write_bytes(b"nothing")
    with pytest.raises(NotMeasuredError, match=r"damaged\.onnx"):
        runtime_speed(module, quantized, layer / "damaged.onnx")
    monkeypatch.setattr(speed, "LIMIT", 0.01)
    with pytest.raises(NotMeasuredError, match="it takes more than 0 s"):
        runtime_speed(module, quantized)


@pytest.mark.parametrize(
    ("floats", "integers", "said"),
    [
        (0.002, 0.001, "is 2 times as fast as the float network (1 ms a call for 2 ms)"),
        (0.001, 0.0025, "is slower than the float network, 2.5 times its time (2.5 ms a call for 1 ms)"),
        (0.001, 0.00102, "is as fast as the float network (1.02 ms a call for 1 ms)"),
    ],
)
def test_sentences(floats: float, integers: float, said: str) -> None:
    assert RuntimeSpeed("1.0", 3, floats, integers).text() == (
        f"in onnxruntime 1.0 on this machine, the quantized network {said}"
    )


@pytest.mark.slow
def test_the_package_does_not_import_the_runtime(layer: Path) -> None:
    program = "import sys; from qmlir.cli.main import main; status = main(sys.argv[1:]); "
    program += "sys.exit(status or 'onnxruntime' in sys.modules)"
    command = ["quantize", "m.onnx", "--data", "data.npz", "--for", "onnxruntime", "-o", "q.onnx"]
    done = subprocess.run(
        [sys.executable, "-c", program, *command], cwd=layer, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "in onnxruntime" in done.stdout
