"""Operations that TFLite lacks: samples of images at computed places, and the places of a pool's maxima."""

from xdsl.ir import Operation

from qmlir.backends.forms import NoForm
from qmlir.backends.tflite.exporters import exports
from qmlir.backends.tflite.values import Values
from qmlir.dialects import nn


@exports(nn.SampleOp, nn.MaxPoolIndices2DOp)
def missing(op: Operation, values: Values) -> None:
    """Raises NoForm: TFLite lacks the operation."""
    raise NoForm("must be an operation that TFLite has", op.name, "rewrite the model without it")
