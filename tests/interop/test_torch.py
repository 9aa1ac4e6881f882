"""Networks that PyTorch exports as it does by default, weights in a file beside them, through every command.

A convolutional network, a vision transformer and a bidirectional LSTM, small and of random weights. What a command
computes is compared: floats with PyTorch's, integers of the CPU, of a device and of onnxruntime with the reference's.
"""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import qmlir
from qmlir.cli import opt
from tests.cli.small import run
from tests.interop.torch_models import export, has_torch

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # the exporter's own
    pytest.mark.skipif(not has_torch(), reason="PyTorch is not installed: pip install 'qmlir[torch]'"),
]


@pytest.fixture(scope="module", params=["residual", "vision", "lstm"])
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with net.onnx, net.onnx.data, samples in x.npz, and PyTorch's outputs in y.npy."""
    folder = tmp_path_factory.mktemp(request.param)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        export(request.param, folder)
    assert (folder / "net.onnx.data").stat().st_size > 1000
    return folder


def outputs(path: Path) -> Any:
    (array,) = np.load(path).values()
    return array


def in_onnxruntime(model: Path, samples: Any) -> Any:
    """The only output for each sample, without onnxruntime's optimizations."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return np.stack([np.asarray(session.run(None, {name: x[None]})[0]) for x in samples])


def test_every_command(exported: Path) -> None:
    d, model, data = exported, exported / "net.onnx", exported / "x.npz"
    samples, expected = np.load(data)["x"], np.load(d / "y.npy")

    def command(text: str) -> None:
        assert run(*text.format(d=d, m=model, x=data).split()) == 0, text

    command("import {m} -o {d}/net.mlir")
    command("run {d}/net.mlir --data {x} -o {d}/float.npz")
    np.testing.assert_allclose(outputs(d / "float.npz").reshape(expected.shape), expected, rtol=1e-3, atol=1e-4)
    command("profile {m} --data {x} -o {d}/net.yaml")
    command("quantize {m} --profile {d}/net.yaml --data {x} --ledger {d}/int8.json -o {d}/int8.mlir")
    command("quantize {m} --profile {d}/net.yaml --precision int16 --weight-precision int8 -o {d}/int16.mlir")
    command("ledger {d}/int8.json")
    command("ledger diff {d}/int8.json {d}/int16.mlir")
    command("analyze {m} {d}/int8.mlir --data {x} --worst 3")
    command("run {d}/int8.mlir --data {x} --samples 4 -o {d}/cpu.npz")
    command("run {d}/int8.mlir --data {x} --samples 4 --reference -o {d}/reference.npz")
    assert np.array_equal(outputs(d / "cpu.npz"), outputs(d / "reference.npz"))
    found = outputs(d / "cpu.npz").reshape(4, -1)
    noise = np.mean((found - expected[:4]) ** 2) / np.mean(expected[:4] ** 2)
    assert -10 * np.log10(noise) > 15
    command("compile {d}/int8.mlir -o {d}/int8.o")
    normalizes = "nn.layer_norm" in (d / "int8.mlir").read_text(encoding="utf-8")  # onnx-integer has no form of it
    for kind in ("onnx-qdq", "onnx-qoperator", *(() if normalizes else ("onnx-integer",)), "tflite"):
        suffix = "tflite" if kind == "tflite" else "onnx"
        command(f"export {{d}}/int8.mlir --format={kind} -o {{d}}/{kind}.{suffix}")
        command(f"export {{m}} --format={kind} -o {{d}}/float_{kind}.{suffix}")
    again = in_onnxruntime(d / "float_onnx-qdq.onnx", samples)
    np.testing.assert_allclose(again.reshape(expected.shape), expected, rtol=1e-3, atol=1e-4)
    if normalizes:
        assert run(*f"export {d}/int8.mlir --format=onnx-integer -o {d}/refused.onnx".split()) == 1
        return
    step = np.abs(found).max() / 100
    integers = in_onnxruntime(d / "onnx-integer.onnx", samples[:4]).reshape(4, -1)
    assert np.abs(integers - found).max() <= step


@pytest.mark.parametrize("device", ["nmp", "ethos-u55-like"])
def test_devices(exported: Path, device: str) -> None:
    model = exported / "net.onnx"
    samples = np.load(exported / "x.npz")["x"][:, None]
    assert run("device", "check", device, model) == 0
    module = qmlir.load(model)
    quantized = qmlir.quantize(module, qmlir.profile(module, list(samples)), target=device)
    reference, simulated = qmlir.reference(quantized), qmlir.compile(quantized, target=device)
    for x in samples[:1]:
        assert np.array_equal(simulated(x), reference(x))


def test_passes_by_hand(exported: Path) -> None:
    model, profile = exported / "net.onnx", exported / "by_hand.yaml"
    assert run("profile", model, "--data", exported / "x.npz", "-o", profile) == 0
    flags = ["--simplify", "--insert-observers", f"--quantize=profile={profile}", "--nn-to-qint"]
    assert opt.main([*flags, str(model), "-o", str(exported / "qint.mlir")]) == 0
    assert "qint." in (exported / "qint.mlir").read_text()
    loops = ["--nn-to-loops", "--qint-to-loops", "--finish-loops", "--plan-memory", "--loops-to-llvm"]
    assert opt.main([*flags, *loops, "--elide-weights", str(model), "-o", str(exported / "llvm.mlir")]) == 0
