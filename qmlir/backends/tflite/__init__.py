"""Writes quantized and float networks as TFLite files, for LiteRT and other runtimes.

convert.py       the entry: a function → a file
values.py        values as tensors                            graph.py        tensors and operators
model.py         names; the flatbuffer                        kernels.py      the types that LiteRT's kernels take
clamps.py        fused clamps and bounds

The other files are the operator families. A form is a function that writes an nn operation as TFLite operators. A
quantized tensor is written as its stored integers with their scale and zero point. An operation on quantized tensors
becomes an operator on integers if LiteRT has a kernel for their types, else an operator on floats between DEQUANTIZE
and QUANTIZE.
"""

from qmlir.backends.tflite.convert import EXPORTS, export_tflite

__all__ = ["EXPORTS", "export_tflite"]
