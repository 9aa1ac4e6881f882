"""The form of softmax: QLinearSoftmax."""

from qmlir.backends.onnx.graph import MICROSOFT
from qmlir.backends.onnx.qoperator.forms import computes, scale_and_point
from qmlir.backends.onnx.values import StoredValues
from qmlir.dialects import nn


@computes(nn.SoftmaxOp)
def softmax(op: nn.SoftmaxOp, values: StoredValues) -> None:
    """Writes QLinearSoftmax with the semantics of operator set 13, a softmax along one axis."""
    order = values.order(op.x)
    parameters = (*scale_and_point(op.x, values), *scale_and_point(op.y, values))
    axis = order.index(op.axis.value.data)
    x = values.real(op.x, order)
    values.define(
        op.y, values.graph.node("QLinearSoftmax", x, *parameters, domain=MICROSOFT, axis=axis, opset=13), order
    )
