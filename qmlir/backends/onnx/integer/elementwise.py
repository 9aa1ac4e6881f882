"""Forms of sums and products of two tensors."""

import numpy as np

from qmlir.backends.onnx.integer.forms import INT32, INT64, cast, computes, minus, number
from qmlir.backends.onnx.integer.requantize import half_up
from qmlir.backends.onnx.pointwise import operands_in_order
from qmlir.backends.onnx.values import Values, stored_dtype
from qmlir.dialects import qint
from qmlir.ir.interfaces import shape_of

FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)


@computes(qint.AddOp)
def add(op: qint.AddOp, values: Values) -> None:
    """Writes the sum of both operands times their multipliers, in 64 bits, and one rounding shift."""
    graph = values.graph
    order, operands = operands_in_order(values, op.operands, shape_of(op.y))
    points = op.lhs_zero_point.value.data, op.rhs_zero_point.value.data
    terms = [
        graph.node("Mul", minus(graph, cast(graph, x, INT64), point), number(graph, multiplier, INT64))
        for x, point, multiplier in zip(operands, points, op.multipliers.get_values(), strict=True)
    ]
    values.define(op.y, half_up(values, graph.node("Add", *terms), np.array(op.shift.value.data), op), order)


@computes(qint.FloatAddOp)
def float_add(op: qint.FloatAddOp, values: Values) -> None:
    """Writes two multiply-adds, each in float64 and rounded to float32, which gives the bits of fused multiply-adds."""
    graph, offset = values.graph, op.offset.value.data
    order, operands = operands_in_order(values, op.operands, shape_of(op.y))
    lhs, rhs = (cast(graph, minus(graph, cast(graph, x, INT32), -offset), FLOAT64) for x in operands)
    left, right, constant = (number(graph, n, FLOAT64) for n in op.numbers())
    inner = cast(graph, graph.node("Add", graph.node("Mul", rhs, right), constant), FLOAT32)
    outer = graph.node("Add", graph.node("Mul", lhs, left), cast(graph, inner, FLOAT64))
    y = minus(graph, graph.node("Round", cast(graph, outer, FLOAT32)), -op.zero_point.value.data)
    y = graph.node("Clip", y, number(graph, op.lower.value.data, FLOAT32), number(graph, op.upper.value.data, FLOAT32))
    values.define(op.y, cast(graph, y, stored_dtype(op.y)), order)


@computes(qint.MulOp)
def mul(op: qint.MulOp, values: Values) -> None:
    """Writes a product in 32 bits."""
    graph = values.graph
    order, operands = operands_in_order(values, op.operands, shape_of(op.acc))
    points = op.lhs_zero_point.value.data, op.rhs_zero_point.value.data
    factors = [minus(graph, cast(graph, x, INT32), point) for x, point in zip(operands, points, strict=True)]
    values.define(op.acc, graph.node("Mul", *factors), order)
