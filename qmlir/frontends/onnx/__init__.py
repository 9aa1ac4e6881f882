"""ONNX models in: `load_onnx`. Imports onnx, so the compiler imports this package when it meets such a file."""

from qmlir.frontends.onnx.importer import load_onnx

__all__ = ["load_onnx"]
