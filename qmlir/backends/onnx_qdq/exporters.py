"""The table of operations that ONNX has a form of: class → what makes nodes of one.

    @exports(nn.SoftmaxOp)
    def softmax(op: nn.SoftmaxOp, values: Values) -> None: ...

A function reads its operands from `values` and says there which tensor holds each result. It sees floats where the
operation is on quantized types, and nothing of the casts around them.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from xdsl.ir import Operation

from qmlir.backends.onnx_qdq.values import Values

Export = Callable[[Any, Values], None]
F = TypeVar("F", bound=Export)

EXPORTS: dict[type[Operation], Export] = {}
"""Operation class → its form."""


def exports(*operations: type[Operation]) -> Callable[[F], F]:
    """Enters a function into the table."""

    def enter(function: F) -> F:
        for operation in operations:
            assert operation not in EXPORTS, f"{operation.name} has two forms"
            EXPORTS[operation] = function
        return function

    return enter
