"""The table of operations that ONNX has a form of: class → what makes nodes of one.

    @exports(nn.SoftmaxOp)
    def softmax(op: nn.SoftmaxOp, values: Values) -> None: ...

A function reads its operands from `values` and says there which tensor holds each result. It sees floats where the
operation is on quantized types, and nothing of the casts around them.
"""

from qmlir.backends.forms import Forms
from qmlir.backends.onnx_qdq.values import Values

exports: Forms[Values] = Forms()
"""Enters a function into the table."""

EXPORTS = exports.entries
"""Operation class → its form."""
