"""ONNX files of quantized and of float networks, for onnxruntime and other runtimes to run.

convert.py       a function → a file: the walk                exporters.py    the table: operation → nodes
values.py        values as tensors: layout, integers          graph.py        tensors, nodes, what an opset allows
model.py         names; the file, and weights beside it       pointwise.py    operations on single elements

The other files are the operator families. Every quantized tensor is a QuantizeLinear with the integers' exact scale and
zero point, every reader of its real values a DequantizeLinear. Two folders have forms on integers, which come first in
formats of their own:

qoperator/       QLinearConv and its kin: what onnxruntime computes in integers, and rounds its way
arithmetic/      the operations of qint, sums and rounding spelled out: our bits, whatever the rounding
"""

from qmlir.backends.onnx_qdq.convert import DEFAULT_OPSET, export_onnx
from qmlir.backends.onnx_qdq.exporters import EXPORTS

__all__ = ["DEFAULT_OPSET", "EXPORTS", "export_onnx"]
