"""Files of other formats are refused with a remedy of their own."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qmlir
from qmlir.errors import FileError
from qmlir.frontends.foreign import FOREIGN


@pytest.mark.parametrize(
    ("file", "remedy"),
    [
        ("net.pt", r"torch\.onnx\.export, or load it in PyTorch and give qmlir\.load the module and an example"),
        ("net.PTH", r"torch\.onnx\.export"),
        ("net.pt2", r"torch\.onnx\.export"),
        ("net.h5", r"\.tflite by tf\.lite\.TFLiteConverter"),
        ("net.keras", r"\.tflite by tf\.lite\.TFLiteConverter"),
        ("model.safetensors", "weights without a network"),
        ("model.ggml", "weights without a network"),
        ("net.mlmodel", "made for one runtime"),
        ("net.engine", "made for one runtime"),
        ("net.pkl", "skl2onnx"),
        ("saved_model.pb", r"tf\.lite\.TFLiteConverter"),
        ("net.txt", "rename it if it is one of these"),
    ],
)
def test_each_format_has_its_remedy(file: str, remedy: str, tmp_path: Path) -> None:
    (tmp_path / file).write_bytes(b"\x08\x01")
    with pytest.raises(FileError, match=rf"must be an \.onnx, a \.tflite, a \.gguf or an \.mlir file.*; .*{remedy}"):
        qmlir.load(tmp_path / file)


def test_a_folder_of_tensorflow(tmp_path: Path) -> None:
    (tmp_path / "saved_model.pb").write_bytes(b"\x08\x01")
    with pytest.raises(FileError, match="TFLiteConverter"):
        qmlir.load(tmp_path)


def test_endings_are_lower_case_and_none_is_read() -> None:
    assert all(suffix == suffix.lower() and suffix.startswith(".") for suffix in FOREIGN)
    assert not {".onnx", ".tflite", ".mlir", ".pb", ".pbtxt", ".prototxt"} & set(FOREIGN)


@pytest.mark.slow
def test_a_file_of_pytorch_is_loaded_in_pytorch(tmp_path: Path) -> None:
    """What the refusal of a .pt file advises."""
    torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed")
    pytest.importorskip("onnxscript", reason="PyTorch's exporter needs onnxscript")
    torch.save(torch.nn.Linear(6, 4), tmp_path / "net.pt")
    with pytest.raises(FileError, match=r"give qmlir\.load the module and an example"):
        qmlir.load(tmp_path / "net.pt")
    module, x = torch.load(tmp_path / "net.pt", weights_only=False), np.ones((1, 6), np.float32)
    expected = module(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(qmlir.reference(qmlir.load(module, example=x))(x), expected, rtol=1e-5, atol=1e-6)
