"""Helpers for forms of elementwise operations, which work in the dimension order in which their operands exist."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from qmlir.backends.onnx.graph import Tensor
from qmlir.backends.onnx.values import Permutation, Values, constant, identity
from qmlir.dialects.nn.pointwise import FunctionOp, PointwiseOp, UnaryOp
from qmlir.dialects.quant.types import UniformType
from qmlir.ir.dtypes import dtype_of
from qmlir.ir.interfaces import Shape, element_of, shape_of
from qmlir.ir.marks import ON_FLOATS
from qmlir.policies.quantized_values import domain_bounds


def operands_in_order(values: Values, operands: Sequence[SSAValue], result: Shape) -> tuple[Permutation, list[Tensor]]:
    """Chooses a dimension order for the result, and returns it with the real values of the operands in that order.

    The order is that of the first computed operand. If a computed operand has a lower rank than the result, all
    operands stay in the module's order. A constant of a lower rank gets dimensions of size 1.
    """
    rank = len(result)
    computed = [o for o in operands if constant(o) is None]
    order = values.order(computed[0]) if computed else identity(rank)
    if order == identity(rank) or any(len(shape_of(o)) != rank for o in computed):
        return identity(rank), [values.real(o) for o in operands]
    return order, [values.real(o, order) if len(shape_of(o)) == rank else values.widened(o, order) for o in operands]


def unary(kind: str, op: UnaryOp, values: Values, **attributes: Any) -> None:
    """Writes an operation with one operand as one node."""
    order = values.order(op.x)
    x = within_domain(op, values, values.real(op.x, order))
    values.define(op.y, values.graph.node(kind, x, dtype=result_dtype(op), **attributes), order)


def within_domain(op: UnaryOp, values: Values, x: Tensor) -> Tensor:
    """Clips the argument of a function to its domain if the operand's storage range reaches beyond the domain."""
    element = element_of(op.x)
    if not isinstance(op, FunctionOp) or not isinstance(element, UniformType) or ON_FLOATS in op.attributes:
        return x
    return values.clipped(x, *domain_bounds(op, element))


def several(op: PointwiseOp, values: Values, form: Callable[..., Tensor]) -> None:
    """Writes an operation as the nodes that `form` adds; `form` gets the tensors of the operands."""
    order, tensors = operands_in_order(values, op.operands, shape_of(op.results[0]))
    values.define(op.results[0], form(*tensors), order)


def result_dtype(op: PointwiseOp) -> np.dtype[Any]:
    """Returns the element type of the result's real values."""
    element = element_of(op.results[0])
    return np.dtype(np.float32) if isinstance(element, UniformType) else dtype_of(element)
