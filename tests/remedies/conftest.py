"""The folder that the cases work in."""

import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest

import qmlir
from tests.frontends.onnx.agreement import floats, model, node

SAMPLES = [floats(1, 8, seed=i) for i in range(12)]


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with files of every kind, made once.

    net.onnx    MatMul, Relu, MatMul: x [1, 8] → y [1, 8], with symbol N in sym.onnx
    net.yaml    its profile; part.yaml lacks y
    q.mlir      quantized for nmp; q.npu, its program
    two.onnx    Add of a and b, with data in two.npz
    big.mlir    a module with a side file
    """
    folder = tmp_path_factory.mktemp("made")
    layers = [node("MatMul", "x w", "l"), node("Relu", "l", "r"), node("MatMul", "r w")]
    weights = {"w": floats(8, 8)}
    onnx.save(model(layers, {"x": [1, 8]}, weights), folder / "net.onnx")
    onnx.save(model(layers[:2], {"x": [1, 8]}, weights, outputs=["r"]), folder / "part.onnx")
    onnx.save(model(node("Add", "a b"), {"a": [1, 8], "b": [1, 8]}), folder / "two.onnx")
    np.save(folder / "samples.npy", np.stack(SAMPLES))
    np.savez(folder / "two.npz", a=np.stack(SAMPLES), b=np.stack(SAMPLES))
    (folder / "samples.bin").write_bytes(np.stack(SAMPLES).tobytes())
    (folder / "bytes.bin").write_bytes(np.zeros(9 * 8, np.uint8).tobytes())
    qmlir.profile(folder / "net.onnx", SAMPLES).save(folder / "net.yaml")
    qmlir.profile(folder / "part.onnx", SAMPLES).save(folder / "part.yaml")
    quantized = qmlir.quantize(folder / "net.onnx", folder / "net.yaml", target="nmp")
    qmlir.save(quantized, folder / "q.mlir")
    qmlir.compile(quantized, target="nmp").save(folder / "q.npu")
    onnx.save(model(node("MatMul", "x w"), {"x": [1, 8]}, {"w": floats(8, 16)}), folder / "big.onnx")
    qmlir.save(qmlir.load(folder / "big.onnx"), folder / "big.mlir")
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the folder, which is the working directory."""
    copy = tmp_path / "made"
    shutil.copytree(made, copy)
    monkeypatch.chdir(copy)
    return copy
