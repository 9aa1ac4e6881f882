"""Operations on single elements: one operator each, a table of bytes, or several on floats."""

from collections.abc import Callable
from typing import Any

from xdsl.ir import Operation

from qmlir.backends.tflite.graph import Options, Tensor
from qmlir.backends.tflite.tables import tabled
from qmlir.backends.tflite.values import Values, real_bounds


def one(kind: str, op: Operation, values: Values, options: Options | None = None) -> None:
    """An operation that is one operator, on bytes that it has no kernel for a table."""
    if values.has_integers(kind, op, op.operands) or not tabled(op, values):
        values.compute(op, kind, op.operands, options)


def several(op: Operation, values: Values, form: Callable[..., Tensor], *more: Any) -> None:
    """An operation of bytes that is a table, else one whose result `form` makes of the real values of its operands.

    A clamp comes behind it.
    """
    if tabled(op, values):
        return
    y = form(values.graph, *(values.real(o) for o in op.operands), *more)
    values.define(op.results[0], values.bounded(y, real_bounds(op)))
