"""Forms of sums and products of two tensors: QLinearAdd and QLinearMul."""

from qmlir.backends.onnx.graph import MICROSOFT
from qmlir.backends.onnx.pointwise import operands_in_order
from qmlir.backends.onnx.qoperator.forms import computes, scale_and_point
from qmlir.backends.onnx.values import StoredValues
from qmlir.dialects import nn
from qmlir.dialects.nn.pointwise import OperandPairOp
from qmlir.ir.interfaces import shape_of

NAMED: dict[type[OperandPairOp], str] = {nn.AddOp: "QLinearAdd", nn.MulOp: "QLinearMul"}
"""Operation → onnxruntime's operator."""


@computes(*NAMED)
def named(op: OperandPairOp, values: StoredValues) -> None:
    """Writes the operation as one node."""
    order, (lhs, rhs) = operands_in_order(values, op.operands, shape_of(op.y))
    left, right, result = (scale_and_point(v, values) for v in (op.lhs, op.rhs, op.y))
    y = values.graph.node(NAMED[type(op)], lhs, *left, rhs, *right, *result, domain=MICROSOFT)
    values.define(op.y, y, order)
