"""Writes a network in qint as ONNX operators that compute integers exactly, so every runtime gives the compiler's bits.

forms.py          the table: operation → its form
contraction.py    ConvInteger, MatMulInteger and a bias
elementwise.py    sums and products
normalization.py  softmax
pooling.py        maxima, means and sums over images
lookup.py         Gather from a table
resize.py         weighted sums of neighbours
requantize.py     products with multipliers, rounded by their rounding contract
casts.py          quantization of floats

All rounding is written as separate nodes, so these files serve to check results; they are slow.
"""

from qmlir.backends.onnx.integer import (
    casts,
    contraction,
    elementwise,
    lookup,
    normalization,
    pooling,
    requantize,
    resize,
)
from qmlir.backends.onnx.integer.forms import spelled_out

__all__ = [
    "casts",
    "contraction",
    "elementwise",
    "lookup",
    "normalization",
    "pooling",
    "requantize",
    "resize",
    "spelled_out",
]
