"""Backends: the numpy reference, CPU code, the accelerator's simulator, and the ONNX and TFLite exporters."""
