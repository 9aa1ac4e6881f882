"""Writes quantized and float networks as ONNX files, for onnxruntime and other runtimes.

convert.py       the entry: a function → a file
values.py        values as tensors                             graph.py        tensors, nodes, checks against the opset
model.py         names; the file, and weights beside it     batch.py       the batch dimension as a symbol
saturation.py    layers whose sums onnxruntime saturates

The other files are the operator families. A form is a function that writes an operation as ONNX nodes. Every quantized
tensor is written by a QuantizeLinear with the exact scale and zero point of its integers, and its real values are read
through a DequantizeLinear. Two files hold forms on integers, which take precedence in formats of their own:

qoperator.py     onnx-qoperator: QLinearConv and similar operators, which onnxruntime computes in integers and rounds
integer.py       onnx-integer: the operations of qint, with their rounding written as nodes: the compiler's exact bits
"""

from qmlir.backends.onnx.convert import DEFAULT_OPSET, EXPORTS, export_onnx, require_opset
from qmlir.backends.onnx.saturation import warn_of_saturation

__all__ = ["DEFAULT_OPSET", "EXPORTS", "export_onnx", "require_opset", "warn_of_saturation"]
