"""A network in qint as operators of ONNX that compute integers exactly, whatever runs them: our own bits elsewhere.

forms.py          the table: operation → nodes
contraction.py    ConvInteger, MatMulInteger and a bias
elementwise.py    sums and products
normalization.py  softmax
pooling.py        maxima, means and sums over images
lookup.py         Gather from a table
resize.py         weighted sums of neighbours
requantize.py     products with multipliers, rounded as their contract says
casts.py          where floats become integers

What rounds is spelled out, so these files are for checking rather than for speed.
"""

from qmlir.backends.onnx_qdq.arithmetic import (
    casts,
    contraction,
    elementwise,
    lookup,
    normalization,
    pooling,
    requantize,
    resize,
)
from qmlir.backends.onnx_qdq.arithmetic.forms import spelled_out

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
