"""Data movement: the same operation on the stored integers."""

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import Operation, SSAValue

from qmlir.dialects import nn
from qmlir.dialects.nn.shape import MovementOp
from qmlir.lowering.nn_to_qint.scales import per_tensor


def lower_movement(op: MovementOp, operands: Sequence[SSAValue], contract: str) -> list[Operation]:
    """reshape, transpose, concat, pad: nothing is computed, so only the element type changes."""
    element = per_tensor(op.y)
    properties = dict(op.properties)
    if isinstance(op, nn.PadOp) and isinstance(op.value, FloatAttr):
        stored = np.rint(np.float64(op.value.value.data) / element.scale) + element.zero_point
        stored = int(np.clip(stored, element.storage_min, element.storage_max))
        properties["value"] = IntegerAttr(stored, element.storage_type)
    return [type(op).make([operands] if isinstance(op, nn.ConcatOp) else operands, properties)]
