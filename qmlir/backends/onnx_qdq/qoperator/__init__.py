"""Operators on integers: QLinearConv and its kin of ONNX, and those that onnxruntime adds in com.microsoft.

forms.py          the table: operation → operator, and what all of them ask of their types
contraction.py    convolutions and matrix products
elementwise.py    sums and products
pooling.py        means
normalization.py  softmax
activation.py     sigmoid, leaky relu; a clamp under one scale
movement.py       what moves or compares integers: ONNX's own operators, on integers

onnxruntime computes them in integers with its optimizations off too: sums are exact and each result is rounded once,
so a network rounded as onnxruntime rounds (runtimes.py) has the same integers here and there. An operation without
such an operator stays one on floats between casts.
"""

from qmlir.backends.onnx_qdq.qoperator import activation, contraction, elementwise, movement, normalization, pooling
from qmlir.backends.onnx_qdq.qoperator.forms import on_integers

__all__ = ["activation", "contraction", "elementwise", "movement", "normalization", "on_integers", "pooling"]
