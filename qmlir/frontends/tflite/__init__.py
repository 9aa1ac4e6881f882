"""The TFLite frontend, `load_tflite`; it imports the TFLite schema, so the compiler imports it on first use only."""

from qmlir.frontends.tflite.importer import load_tflite

__all__ = ["load_tflite"]
