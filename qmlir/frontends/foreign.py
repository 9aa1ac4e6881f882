"""Files of models: their bytes; and files of other formats, what qmlir reads instead and how one gets it."""

import mmap
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from qmlir.errors import FileError
from qmlir.running.files import note_file, settle

_PYTORCH_REMEDY = (
    "write an .onnx file by torch.onnx.export, or load it in PyTorch and give qmlir.load the module and an example"
)
_KERAS_REMEDY = "convert the model to .tflite by tf.lite.TFLiteConverter"
_WEIGHTS_REMEDY = "it holds weights without a network: export the model that reads them to .onnx"
_SOURCE_REMEDY = "it is made for one runtime: give the .onnx or .tflite file that it was made from"
_PICKLE_REMEDY = "export the model that it holds to .onnx, as skl2onnx does for sklearn"

FOREIGN = {
    **dict.fromkeys((".pt", ".pth", ".pt2", ".ptl", ".ckpt", ".torchscript"), _PYTORCH_REMEDY),
    **dict.fromkeys((".h5", ".hdf5", ".keras"), _KERAS_REMEDY),
    **dict.fromkeys((".safetensors", ".ggml", ".caffemodel", ".params", ".pdiparams"), _WEIGHTS_REMEDY),
    **dict.fromkeys(
        (".mlmodel", ".mlpackage", ".engine", ".plan", ".trt", ".ort", ".xml", ".dlc", ".hef", ".rknn", ".om"),
        _SOURCE_REMEDY,
    ),
    **dict.fromkeys((".pkl", ".pickle", ".joblib"), _PICKLE_REMEDY),
}
"""Ending of a file of another format → what to do."""

SAVED_MODEL = "saved_model.pb"
"""The file in the folder of a TensorFlow model, and in none of Caffe2."""


def is_saved_model(path: Path) -> bool:
    """Whether a path is TensorFlow's folder of a model, or the file in it."""
    return path.name == SAVED_MODEL or (path / SAVED_MODEL).is_file()


def refusal(path: Path) -> FileError:
    """Returns the error of a file, or a folder, that is in no format that qmlir reads."""
    remedy = "rename it if it is one of these"
    advised = _KERAS_REMEDY if is_saved_model(path) else FOREIGN.get(path.suffix.lower())
    return FileError(
        path,
        "must be an .onnx, a .tflite, a .gguf or an .mlir file, or a Caffe2 net in a .pb or a .pbtxt file",
        remedy=advised or remedy,
    )


def read_bytes(path: Path, what: str) -> bytes:
    """Returns the bytes of a model's file, whose format `what` names in errors.

    Raises:
        FileError: The file cannot be read.
    """
    with _opening(path, what):
        return path.read_bytes()


def map_bytes(path: Path, what: str) -> memoryview:
    """Returns the bytes of a model's file, read-only and mapped into memory; otherwise as `read_bytes`."""
    note_file(path)
    with _opening(path, what), path.open("rb") as file:
        if not os.fstat(file.fileno()).st_size:  # nothing can be mapped
            return memoryview(b"")
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def give_back(data: memoryview) -> None:
    """Gives back the memory of a mapped file, whose bytes come from the file again when they are read.

    All of it: who reads some bytes is given pages around them, too, which would stay.
    """
    mapped = data.obj
    if isinstance(mapped, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):  # not on Windows
        mapped.madvise(mmap.MADV_DONTNEED)


@contextmanager
def _opening(path: Path, what: str) -> Generator[None]:
    """Raises what the operating system says of a file as a FileError."""
    try:
        settle(path)
        yield
    except FileNotFoundError:
        raise FileError(path, "there is no such file", remedy="check the path") from None
    except IsADirectoryError:
        raise FileError(path, f"must be {what}", got="a folder", remedy="name the file in it") from None
    except OSError as error:
        raise FileError(path, "must be readable", got=error, remedy="check the path") from None
