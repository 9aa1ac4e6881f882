"""Operations on single elements: one operator each, or several on floats."""

from collections.abc import Callable
from typing import Any

from xdsl.ir import Operation

from qmlir.backends.tflite.graph import Options, Tensor
from qmlir.backends.tflite.values import Values, real_bounds


def one(kind: str, op: Operation, values: Values, options: Options | None = None) -> None:
    """An operation that is one operator."""
    values.compute(op, kind, op.operands, options)


def several(op: Operation, values: Values, form: Callable[..., Tensor], *more: Any) -> None:
    """An operation whose result `form` makes of the real values of its operands, and a clamp behind it."""
    y = form(values.graph, *(values.real(o) for o in op.operands), *more)
    values.define(op.results[0], values.bounded(y, real_bounds(op)))
