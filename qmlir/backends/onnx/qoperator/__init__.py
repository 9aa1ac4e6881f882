"""Forms that write operations on quantized types as integer operators, such as QLinearConv and com.microsoft's QGemm.

forms.py          the table: operation → its form, and the types that all these operators require
contraction.py    convolutions and matrix products
elementwise.py    sums and products
pooling.py        average pools
normalization.py  softmax
activation.py     sigmoid, leaky relu; clamps that keep the scale
movement.py       operations that move or compare integers: ONNX's own operators, on integers

onnxruntime computes these operators in integers even with its optimizations off: sums are exact and each result is
rounded once. A network that is rounded as onnxruntime rounds (runtimes.py) therefore gives the same integers in the
compiler and in onnxruntime. An operation without such an operator is written on floats between casts.
"""

from qmlir.backends.onnx.qoperator import activation, contraction, elementwise, movement, normalization, pooling
from qmlir.backends.onnx.qoperator.forms import on_integers

__all__ = ["activation", "contraction", "elementwise", "movement", "normalization", "on_integers", "pooling"]
