"""The table of operations that TFLite has a form of: class → what makes operators of one.

    @exports(nn.SoftmaxOp)
    def softmax(op: nn.SoftmaxOp, values: Values) -> None: ...

A function reads its operands from `values` and says there which tensor holds each result.
"""

from qmlir.backends.forms import Forms
from qmlir.backends.tflite.values import Values

exports: Forms[Values] = Forms()
"""Enters a function into the table."""

EXPORTS = exports.entries
"""Operation class → its form."""
