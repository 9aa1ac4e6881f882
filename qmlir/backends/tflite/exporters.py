"""The table of forms for TFLite: operation class → the function that writes such an operation as TFLite operators.

    @exports(nn.SoftmaxOp)
    def softmax(op: nn.SoftmaxOp, values: Values) -> None: ...

A form reads the tensors of its operands from `values`, and records there which tensor holds each result.
"""

from qmlir.backends.forms import Forms
from qmlir.backends.tflite.values import Values

exports: Forms[Values] = Forms()
"""The table; used as a decorator, it enters a form."""

EXPORTS = exports.entries
"""Operation class → its form."""
