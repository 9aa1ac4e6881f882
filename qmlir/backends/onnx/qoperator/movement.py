"""Forms of operations that move or compare elements: if all data have one type, they work on the stored integers."""

from xdsl.ir import Operation

from qmlir.backends.onnx.exporters import EXPORTS
from qmlir.backends.onnx.qoperator.forms import NoOperator, computes
from qmlir.backends.onnx.values import StoredValues
from qmlir.dialects import nn
from qmlir.policies.quantized_values import data_values, uniform


@computes(
    nn.MaxPool2DOp,
    nn.ReduceMaxOp,
    nn.ReduceMinOp,
    nn.ReshapeOp,
    nn.ConcatOp,
    nn.PadOp,
    nn.BroadcastOp,
    nn.SliceOp,
    nn.GatherOp,
    nn.GatherNDOp,
    nn.ScatterNDOp,
)
def move(op: Operation, values: StoredValues) -> None:
    """Writes the form on real values, applied to stored integers; raises NoOperator if the quantized types differ."""
    if len({uniform(value) for value in data_values(op)}) != 1:
        raise NoOperator
    EXPORTS[type(op)](op, values)
