"""Model files that are quantized in part: samples give ranges to what the file leaves float."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import qmlir
from qmlir.cli.main import main
from qmlir.dialects.quant.types import UniformType
from qmlir.ir.interfaces import Array, element_of
from tests.frontends.onnx.agreement import floats, model, node, onnxruntime_run

SAMPLES = [floats(1, 8, seed=i) for i in range(12)]
STEP = np.float32(0.04)
"""The scale of all results that the files quantize."""

FILES: dict[str, Sequence[str]] = {
    "first layer": ("casts", "floats", "floats"),
    "middle layer": ("floats", "casts", "floats"),
    "last layer": ("floats", "floats", "casts"),
    "all but one": ("casts", "floats", "casts"),
    "all but the activation": ("casts", "casts", "casts"),
    "data of one": ("data", "floats", "floats"),
    "weights of one": ("casts", "weights", "floats"),
    "weights only": ("weights", "floats", "weights"),
}


def casts(x: str, scale: str, name: str) -> list[onnx.NodeProto]:
    """A tensor as integers, and as the floats that these stand for."""
    return [node("QuantizeLinear", f"{x} {scale} zero", f"q_{name}"),
            node("DequantizeLinear", f"q_{name} {scale} zero", name)]  # fmt: skip


def file_of(layers: Sequence[str]) -> onnx.ModelProto:
    """Three fully connected layers, each with a ReLU: `casts` around it, of its `data`, of its `weights`, or none."""
    nodes: list[onnx.NodeProto] = []
    constants = {"zero": np.array(0, np.int8), "narrow": np.array(0.03, np.float32), "wide": np.array(STEP)}
    constants["step"] = np.array(0.01, np.float32)
    x = "x"
    for i, kind in enumerate(layers):
        weights = floats(8, 8, seed=50 + i) * np.float32(0.4)
        if kind in ("casts", "data"):
            nodes += casts(x, "narrow", f"d{i}")
            x = f"d{i}"
        if kind == "floats":
            constants[f"w{i}"] = weights
        else:
            constants[f"stored{i}"] = np.clip(np.rint(weights / 0.01), -127, 127).astype(np.int8)
            nodes.append(node("DequantizeLinear", f"stored{i} step zero", f"w{i}"))
        constants[f"b{i}"] = floats(8, seed=70 + i) * np.float32(0.1)
        nodes.append(node("Gemm", f"{x} w{i} b{i}", f"g{i}", transB=1))
        nodes += casts(f"g{i}", "wide", f"e{i}") if kind == "casts" else []
        x = "y" if i == 2 else f"a{i}"
        nodes.append(node("Relu", f"e{i}" if kind == "casts" else f"g{i}", x))
    return model(nodes, {"x": [1, 8]}, constants, opset=17)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with the samples in a file."""
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.stack(SAMPLES)[:, 0])
    return tmp_path


def scales(module: Any) -> set[float]:
    """The scales of a network's tensors."""
    values = [v for o in module.walk() for v in o.results]
    return {e.scale for v in values if isinstance(e := element_of(v), UniformType) and not e.is_per_axis}


def ratio(exact: Sequence[Array], found: Sequence[Array]) -> float:
    """The signal-to-noise ratio of some outputs in dB."""
    noise = np.concatenate(exact) - np.concatenate(found)
    return float(10 * np.log10((np.concatenate(exact) ** 2).sum() / (noise**2).sum()))


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_samples_are_profiled(name: str, folder: Path) -> None:
    """By path, as a module, with a profile and from MLIR text the result is the same, and nothing is left float."""
    proto = file_of(FILES[name])
    onnx.save(proto, "net.onnx")
    module = qmlir.quantize("net.onnx", data=SAMPLES)
    assert {e.outcome for e in qmlir.decisions(module)} == {"quantized"}
    if "casts" in FILES[name]:
        assert float(STEP) in scales(module)  # the model's own
    assert str(qmlir.quantize(qmlir.load("net.onnx"), data=SAMPLES)) == str(module)
    assert str(qmlir.quantize("net.onnx", qmlir.profile("net.onnx", SAMPLES), data=SAMPLES)) == str(module)
    qmlir.save(qmlir.load("net.onnx"), "net.mlir")
    assert str(qmlir.quantize("net.mlir", data=SAMPLES)) == str(module)
    compiled, reference = qmlir.compile(module), qmlir.reference(module)
    found = [compiled(x) for x in SAMPLES]
    for x, y in zip(SAMPLES, found, strict=True):
        np.testing.assert_array_equal(y, reference(x))
    assert ratio([onnxruntime_run(proto, {"x": x})[0] for x in SAMPLES], found) > 22


@pytest.mark.slow
@pytest.mark.parametrize("name", ["first layer", "last layer", "all but one", "weights only"])
def test_what_import_has_written_learns_ranges(name: str, folder: Path) -> None:
    """`qmlir import` folds the casts and notes what has no range, which is no reason to leave it so."""
    onnx.save(file_of(FILES[name]), "net.onnx")
    assert main(["import", "net.onnx", "-o", "net.mlir", "-q"]) == 0
    module = qmlir.quantize("net.mlir", data=SAMPLES)
    assert {e.outcome for e in qmlir.decisions(module)} == {"quantized"}
    wanted = qmlir.compile(qmlir.load("net.mlir"))
    found = qmlir.compile(module)
    assert ratio([wanted(x) for x in SAMPLES], [found(x) for x in SAMPLES]) > 22


@pytest.mark.slow
@pytest.mark.parametrize("name", ["middle layer", "weights only"])
def test_the_command_learns_ranges(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(file_of(FILES[name]), "net.onnx")
    assert main(["quantize", "net.onnx", "--data", "x.npy", "-o", "q.mlir", "--save-profile", "net.yaml"]) == 0
    assert "learned from 12 samples" in "".join(capsys.readouterr())
    command, python = qmlir.compile(qmlir.load("q.mlir")), qmlir.compile(qmlir.quantize("net.onnx", data=SAMPLES))
    for x in SAMPLES:
        np.testing.assert_array_equal(command(x), python(x))


def test_without_samples_the_rest_stays_float(folder: Path) -> None:
    onnx.save(file_of(FILES["first layer"]), "net.onnx")
    codes = {e.node: e.code for e in qmlir.decisions(qmlir.quantize("net.onnx")) if e.outcome == "float"}
    assert set(codes.values()) == {"no-range"}
    assert len(codes) == 2


def test_a_file_that_is_quantized_whole_is_not_profiled(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    proto = file_of(FILES["all but the activation"])
    del proto.graph.node[-1]
    proto.graph.output[0].name = "e2"
    onnx.save(proto, "net.onnx")
    assert main(["quantize", "net.onnx", "--data", "x.npy", "-o", "q.mlir"]) == 0
    assert "learned" not in "".join(capsys.readouterr())


@pytest.mark.slow
def test_a_float_network_with_integers_as_weights(shared: Callable[[str], Path], folder: Path) -> None:
    """The keyword spotter that TFLite's dynamic range quantization wrote, directly and as imported."""
    path = shared("models/tflite/kws_dscnn_f32.tflite")
    samples = list(np.load(shared("data/kws01_500.npz"))["X"][:8, None].astype(np.float32))
    module = qmlir.quantize(path, data=samples)
    assert {e.outcome for e in qmlir.decisions(module)} == {"quantized"}
    assert main(["import", str(path), "-o", "net.mlir", "-q"]) == 0
    for source in (qmlir.load(path), "net.mlir"):
        assert str(qmlir.quantize(source, data=samples)) == str(module)
