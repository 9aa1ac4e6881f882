"""The drivers on Caffe2 nets: weights and shapes come from options of every command that reads a model."""

from pathlib import Path

import numpy as np
import pytest

import qmlir
from qmlir.cli import main as qmlir_main
from qmlir.cli import opt
from qmlir.cli.main import command_parsers
from tests.frontends.caffe2.nets import made, weights

OPTIONS = ("--shape", "data=1x2")


def init(folder: Path, value: float) -> Path:
    """Writes an init net whose weights are a value."""
    path = folder / "init.pb"
    path.write_bytes(made(*weights(w=np.full(2, value, np.float32))))
    return path


@pytest.fixture
def net(tmp_path: Path) -> Path:
    path = tmp_path / "net.pb"
    path.write_bytes(made(("Mul", "data w", "y"), outputs="y"))
    return path


def test_import(net: Path, tmp_path: Path) -> None:
    out = tmp_path / "net.mlir"
    given = [str(net), "--weights", str(init(tmp_path, 3)), *OPTIONS, "-o", str(out)]
    assert qmlir_main.main(["import", *given]) == 0
    np.testing.assert_array_equal(qmlir.reference(qmlir.load(out))(np.array([[1, 2]], np.float32)), [[3, 6]])


def test_other_weights_are_other_code(net: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache of machine code knows the content of the init net."""
    monkeypatch.setenv("QMLIR_CACHE", str(tmp_path / "cache"))
    np.savez(tmp_path / "data.npz", data=np.array([[[1, 2]]], np.float32))
    for value in (3, 5, 3):
        given = [str(net), "--weights", str(init(tmp_path, value)), *OPTIONS]
        command = ["run", *given, "--data", str(tmp_path / "data.npz"), "-o", str(tmp_path / "out.npz")]
        assert qmlir_main.main(command) == 0
        np.testing.assert_array_equal(np.load(tmp_path / "out.npz")["y"].reshape(2), [value, 2 * value])


@pytest.mark.parametrize("shape", ["data", "=1x2", "data=", "data=1x?"])
def test_a_shape_that_cannot_be_read(shape: str, net: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = [str(net), "--weights", str(init(tmp_path, 3)), "--shape", shape, "-o", str(tmp_path / "net.mlir")]
    try:
        status = qmlir_main.main(["import", *given])
    except SystemExit as stopped:
        status = stopped.code
    assert status in (1, 2)
    assert "shape" in capsys.readouterr().err


def test_every_command_that_reads_a_model_reads_its_weights() -> None:
    for name, parser in command_parsers().items():
        flags = parser.long_flags()
        assert ("weights" in flags) == ("signature" in flags), name
        assert ("shape" in flags) == ("signature" in flags), name


def test_passes_over_a_net(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "net.pb"
    path.write_bytes(made(("ConstantFill", "", "c", {"shape": [2], "value": 1.0}), outputs="c"))
    assert opt.main([str(path)]) == 0
    assert "nn.constant" in capsys.readouterr().out
