"""Forms of constants and data movement; quantized tensors move as their stored integers."""

from collections.abc import Sequence

from qmlir.backends.tflite.exporters import exports
from qmlir.backends.tflite.graph import Tensor
from qmlir.backends.tflite.values import Values, declared
from qmlir.backends.tflite.windows import pad as pad_with
from qmlir.dialects import nn
from qmlir.dialects.nn.shape import MovementOp
from qmlir.ir.interfaces import shape_of


def moved(op: MovementOp, values: Values, kind: str, extra: Sequence[Tensor], options: dict[str, int]) -> None:
    """Writes one operator on the stored elements of the first operand; `extra` are the operator's other inputs."""
    x = values.stored(op.operands[0])
    values.hold(op.y, values.graph.operator(kind, [x, *extra], x.form.shaped(shape_of(op.y)), options))


@exports(nn.ConstantOp)
def make_constant(op: nn.ConstantOp, values: Values) -> None:
    """Writes nothing: a constant becomes a tensor when an operation reads it."""


@exports(nn.TransposeOp)
def transpose(op: nn.TransposeOp, values: Values) -> None:
    """Writes TRANSPOSE."""
    moved(op, values, "TRANSPOSE", [values.graph.indices(op.permutation.get_values())], {})


@exports(nn.ReshapeOp)
def reshape(op: nn.ReshapeOp, values: Values) -> None:
    """Writes RESHAPE."""
    values.hold(op.y, values.graph.reshaped(values.stored(op.x), shape_of(op.y)))


@exports(nn.BroadcastOp)
def broadcast(op: nn.BroadcastOp, values: Values) -> None:
    """Writes BROADCAST_TO."""
    moved(op, values, "BROADCAST_TO", [values.graph.indices(shape_of(op.y))], {})


@exports(nn.ConcatOp)
def concat(op: nn.ConcatOp, values: Values) -> None:
    """Writes CONCATENATION."""
    values.hold(op.y, values.graph.joined([values.stored(x) for x in op.inputs], op.axis.value.data))


@exports(nn.PadOp)
def pad(op: nn.PadOp, values: Values) -> None:
    """Writes PAD if the padding is zero, else PADV2."""
    x, fill = values.stored(op.x), op.stored_value().item()
    if values.is_moved(declared(op.x)):
        fill -= 128
    zero = x.form.parameters.zero_point if x.form.parameters is not None else 0
    values.hold(op.y, pad_with(values.graph, x, op.pads(), None if fill == zero else fill))
