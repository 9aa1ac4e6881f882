"""The drivers on GGUF files: every command that reads a model reads them, and binds their sizes."""

from pathlib import Path

import numpy as np
import pytest

from qmlir.cli.main import main
from qmlir.cli.opt import main as opt
from tests.frontends.gguf.files import tiny

SIZES = ["--bind", "rows=4", "--bind", "context=12"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder, made the working directory, with a tiny model and tokens for it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.gguf").write_bytes(tiny(kind="Q4_1", layers=1))
    tokens = np.random.default_rng(0).integers(0, 20, (3, 4))
    np.savez(tmp_path / "tokens.npz", token=tokens, pos=np.arange(12).reshape(3, 4))
    return tmp_path


def test_import(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "model.gguf", *SIZES, "-o", "net.mlir"]) == 0
    text = (folder / "net.mlir").read_text()
    assert "%token: tensor<4xi64>" in text
    assert "qmlir.levels = #qmlir.levels<affine, bits = 4, least = 0, size = 32, scales = " in text
    assert opt(["model.gguf", "--weights=elide"]) == 0
    assert "%token: tensor<1xi64>" in capsys.readouterr().out


def test_wrong_sizes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "model.gguf", "--bind", "row=2", "--data", "tokens.npz"]) == 1
    assert (
        capsys.readouterr().err == "error: bind row: must be rows, context, positions or window; did you mean rows?\n"
    )


@pytest.mark.slow
def test_other_commands(folder: Path) -> None:
    for command in (
        ["profile", "model.gguf", *SIZES, "--data", "tokens.npz", "-o", "p.yaml"],
        ["quantize", "model.gguf", *SIZES, "--profile", "p.yaml", "-o", "q.mlir"],
        ["run", "q.mlir", "--data", "tokens.npz", "--reference"],
        ["compile", "model.gguf", *SIZES, "-o", "net.o"],
        ["export", "model.gguf", *SIZES, "-o", "net.onnx"],
        ["graph", "model.gguf", *SIZES, "-o", "net.dot"],
    ):
        assert main(command) == 0
    assert {"p.yaml", "q.mlir", "net.o", "net.onnx", "net.dot"} <= {path.name for path in folder.iterdir()}
