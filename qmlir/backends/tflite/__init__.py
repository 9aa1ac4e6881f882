"""TFLite files of quantized and of float networks, for LiteRT and other runtimes to run.

convert.py       a function → a file: the walk                exporters.py    the table: operation → operators
values.py        values as tensors: how each is stored        graph.py        tensors and operators
model.py         names; the flatbuffer                        kernels.py      what LiteRT's kernels take
pointwise.py     operations on single elements                windows.py      padding that TFLite has a name for

The other files are the operator families. A quantized tensor is the integers that it stores, with their scale and zero
point; an operation on it is LiteRT's kernel on integers where there is one for these types, else one on floats between
DEQUANTIZE and QUANTIZE.
"""

from qmlir.backends.tflite.convert import export_tflite
from qmlir.backends.tflite.exporters import EXPORTS

__all__ = ["EXPORTS", "export_tflite"]
