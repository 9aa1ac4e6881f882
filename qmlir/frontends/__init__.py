"""Frontends: each reads one model file format and returns a module in the nn dialect."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from qmlir.errors import FileError, OptionError

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from qmlir.numerics import Array


def read_network(
    path: Path, bind: Mapping[str, int], constants: Mapping[str, "Array"], signature: str | None, fold_budget: int
) -> "ModuleOp":
    """Reads a network from an .onnx, a .tflite or an .mlir file; see `qmlir.load` for the arguments.

    Raises:
        FileError: The file is of another kind, or cannot be read.
        OptionError: A signature is given for a file that has one graph.
    """
    if signature is not None and path.suffix in (".mlir", ".onnx"):
        raise OptionError(
            "signature", "is for .tflite files: others have one graph", got=signature, remedy="leave it out"
        )
    if path.suffix == ".mlir":
        from qmlir.ir.source import read_mlir
        from qmlir.ir.verify import verify

        module = read_mlir(path)
        verify(module)
        return module
    if path.suffix == ".onnx":
        from qmlir.frontends.onnx import load_onnx

        return load_onnx(path, bind=bind, constants=constants, fold_budget=fold_budget)
    if path.suffix == ".tflite":
        from qmlir.frontends.tflite import load_tflite

        return load_tflite(path, bind=bind, constants=constants, signature=signature, fold_budget=fold_budget)
    raise FileError(path, "must be an .onnx, a .tflite or an .mlir file", remedy="rename it if it is one of these")
