"""Helpers for forms of elementwise operations: one operator, a lookup table of bytes, or several float operators."""

from collections.abc import Callable
from typing import Any

from xdsl.ir import Operation, SSAValue

from qmlir.backends.tflite.clamps import stored_bounds
from qmlir.backends.tflite.graph import Options, Tensor
from qmlir.backends.tflite.tables import tabled
from qmlir.backends.tflite.values import Values, real_bounds
from qmlir.dialects.nn.pointwise import FunctionOp
from qmlir.dialects.quant.types import UniformType
from qmlir.ir.interfaces import element_of
from qmlir.ir.marks import ON_FLOATS
from qmlir.policies.quantized_values import domain_bounds

REFUSING = ("SQRT", "RSQRT")
"""Operators that LiteRT refuses to run if a stored integer represents a number below 0; other operators run anyway."""


def one(kind: str, op: Operation, values: Values, options: Options | None = None) -> None:
    """Writes an operation as one operator, or as a lookup table if LiteRT has no kernel for its bytes.

    The operator works on stored integers if there is a kernel for them, else on floats.
    """
    if values.has_integers(kind, op, op.operands):
        inputs = [values.stored(o) for o in op.operands]
        if kind in REFUSING:
            inputs = [within_domain(x, o, op, values) for x, o in zip(inputs, op.operands, strict=True)]
        values.finish(op, kind, inputs, options)
    elif not tabled(op, values):
        reals = [within_domain(values.real(o), o, op, values) for o in op.operands]
        values.finish(op, kind, reals, options)


def within_domain(x: Tensor, operand: SSAValue, op: Operation, values: Values) -> Tensor:
    """Clamps the argument of a function to the function's domain if the operand's storage range reaches beyond it.

    Args:
        x: The tensor of the operand's stored integers or real numbers.
        operand: The operand.
        op: The function.
        values: The values of the function.
    """
    element = element_of(operand)
    if not isinstance(op, FunctionOp) or not isinstance(element, UniformType) or ON_FLOATS in op.attributes:
        return x
    return values.bounded(x, stored_bounds(element, x.form, domain_bounds(op, element)))


def several(op: Operation, values: Values, form: Callable[..., Tensor], *more: Any) -> None:
    """Writes an operation as a lookup table if it maps bytes, else as the float operators that `form` adds.

    `form` gets the graph, the real values of the operands, and `more`. The operation's fused clamp follows it.
    """
    if tabled(op, values):
        return
    y = form(values.graph, *(values.real(o) for o in op.operands), *more)
    values.define(op.results[0], values.bounded(y, real_bounds(op)))
