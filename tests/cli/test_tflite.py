"""The drivers on a .tflite file."""

from pathlib import Path

import numpy as np
import pytest

import qmlir
from qmlir.cli import main as qmlir_main
from qmlir.cli import opt
from qmlir.errors import OptionError
from tests.frontends.tflite.files import litert
from tests.frontends.tflite.networks import contraction
from tests.frontends.tflite.test_subgraphs import two

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "net.tflite"
    path.write_bytes(contraction("CONV_2D", "int8", per_channel=True))
    return path


def test_import_and_run(file: Path, tmp_path: Path) -> None:
    assert qmlir_main.main(["import", str(file), "-o", str(tmp_path / "net.mlir")]) == 0
    x = np.random.default_rng(0).integers(-128, 128, (1, 7, 6, 3)).astype(np.int8)
    (imported,) = qmlir.reference(qmlir.load(tmp_path / "net.mlir")).run(x)
    (compiled,) = qmlir.compile(file).run(x)
    assert np.array_equal(imported, compiled)
    assert np.abs(litert(file.read_bytes(), [x])[0].astype(int) - imported).max() <= 1


def test_passes_over_a_file(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert opt.main(["--nn-to-qint", "--elide-weights", str(file)]) == 0
    text = capsys.readouterr().out
    assert "qint.conv2d" in text
    assert "quant.dcast" not in text


def test_a_signature_chooses_what_is_imported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "two.tflite"
    path.write_bytes(two())
    given = ["import", str(path), "-o", str(tmp_path / "net.mlir"), "--signature"]
    assert qmlir_main.main([*given, "decode"]) == 0
    assert "nn.tanh" in (tmp_path / "net.mlir").read_text()
    assert qmlir_main.main([*given, "neither"]) == 1
    assert "must be one of the file's: encode, decode" in capsys.readouterr().err


def test_signatures_are_of_tflite_files(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"is for \.tflite files"):
        qmlir.load(tmp_path / "net.onnx", signature="decode")
