"""ONNX files to the nn dialect."""
