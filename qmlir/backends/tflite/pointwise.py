"""Operations on single elements: one operator each, a table of bytes, or several on floats."""

from collections.abc import Callable
from typing import Any

from xdsl.ir import Operation, SSAValue

from qmlir.backends.tflite.clamps import stored_bounds
from qmlir.backends.tflite.graph import Options, Tensor
from qmlir.backends.tflite.tables import tabled
from qmlir.backends.tflite.values import Values, real_bounds
from qmlir.dialects.interfaces import element_of
from qmlir.dialects.nn.pointwise import FunctionOp
from qmlir.dialects.qmlir import ON_FLOATS
from qmlir.dialects.quant.types import UniformType
from qmlir.quantized_values import domain_bounds

REFUSING = ("SQRT", "RSQRT")
"""Operators that LiteRT refuses to run on integers below 0; on others it computes something."""


def one(kind: str, op: Operation, values: Values, options: Options | None = None) -> None:
    """An operation that is one operator, on bytes that it has no kernel for a table."""
    if values.has_integers(kind, op, op.operands):
        inputs = [values.stored(o) for o in op.operands]
        if kind in REFUSING:
            inputs = [within_domain(x, o, op, values) for x, o in zip(inputs, op.operands, strict=True)]
        values.finish(op, kind, inputs, options)
    elif not tabled(op, values):
        reals = [within_domain(values.real(o), o, op, values) for o in op.operands]
        values.finish(op, kind, reals, options)


def within_domain(x: Tensor, operand: SSAValue, op: Operation, values: Values) -> Tensor:
    """The argument of a function, an operand's integers or real numbers, clamped where integers exceed its domain."""
    element = element_of(operand)
    if not isinstance(op, FunctionOp) or not isinstance(element, UniformType) or ON_FLOATS in op.attributes:
        return x
    return values.bounded(x, stored_bounds(element, x.form, domain_bounds(op, element)))


def several(op: Operation, values: Values, form: Callable[..., Tensor], *more: Any) -> None:
    """An operation of bytes that is a table, else one whose result `form` makes of the real values of its operands.

    A clamp comes behind it.
    """
    if tabled(op, values):
        return
    y = form(values.graph, *(values.real(o) for o in op.operands), *more)
    values.define(op.results[0], values.bounded(y, real_bounds(op)))
