"""The ONNX frontend: `load_onnx`. It imports onnx, so the compiler imports this package only for an ONNX file."""

from qmlir.frontends.onnx.importer import load_onnx

__all__ = ["load_onnx"]
