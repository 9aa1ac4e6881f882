"""The table of forms for ONNX: operation class → the function that writes such an operation as ONNX nodes.

    @exports(nn.SoftmaxOp)
    def softmax(op: nn.SoftmaxOp, values: Values) -> None: ...

A form reads the tensors of its operands from `values`, and records there which tensor holds each result. For an
operation on quantized types the form works on floats; `values` adds the casts around it.
"""

from qmlir.backends.forms import Forms
from qmlir.backends.onnx.values import Values

exports: Forms[Values] = Forms()
"""The table; used as a decorator, it enters a form."""

EXPORTS = exports.entries
"""Operation class → its form."""
