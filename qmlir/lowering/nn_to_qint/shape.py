"""Lowering of data movement: the same operation on the stored integers."""

from collections.abc import Sequence

from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import Operation, SSAValue

from qmlir.dialects import nn
from qmlir.dialects.nn.reduction import ExtremeOp
from qmlir.dialects.nn.shape import MovementOp
from qmlir.lowering.nn_to_qint.scales import stored
from qmlir.policies.quantized_values import uniform
from qmlir.policies.runtimes import Rounding


def lower_movement(op: MovementOp | ExtremeOp, operands: Sequence[SSAValue], rounding: Rounding) -> list[Operation]:
    """Lowers reshape, concat, slice, reduced maxima and the like: only the element type changes."""
    element = uniform(op.y)
    properties = dict(op.properties)
    if isinstance(op, nn.PadOp) and isinstance(op.value, FloatAttr):
        properties["value"] = IntegerAttr(stored(op.value.value.data, element), element.storage_type)
    return [type(op).make([operands] if isinstance(op, nn.ConcatOp) else operands, properties)]
