"""TFLite models in: `load_tflite`. Imports the schema, so the compiler imports this package when it meets a file."""

from qmlir.frontends.tflite.importer import load_tflite

__all__ = ["load_tflite"]
