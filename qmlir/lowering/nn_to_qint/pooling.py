"""Lowering of pools: max and average pools keep the scale of their data, a global mean may change it."""

from collections.abc import Sequence

from xdsl.ir import Attribute, Operation, SSAValue

from qmlir.dialects import nn, qint
from qmlir.dialects.qint.base import int32
from qmlir.ir.interfaces import shape_of
from qmlir.lowering.nn_to_qint.scales import displaced, mean, summed_from
from qmlir.policies.quantized_values import uniform
from qmlir.policies.runtimes import Rounding


def _window_properties(op: nn.MaxPool2DOp | nn.AveragePool2DOp) -> dict[str, Attribute]:
    kept = ("window", "strides", "padding", "dilations", "count_include_pad")
    return {k: op.properties[k] for k in kept if k in op.properties}


def lower_max_pool(op: nn.MaxPool2DOp, operands: Sequence[SSAValue], rounding: Rounding) -> list[Operation]:
    """Lowers a max pool: the maximum of stored integers represents the maximum of the real values."""
    return [qint.MaxPool2DOp.make(operands, _window_properties(op))]


def lower_average_pool(op: nn.AveragePool2DOp, operands: Sequence[SSAValue], rounding: Rounding) -> list[Operation]:
    """Lowers an average pool to the mean of stored integers; padding that is counted has the value of the zero point.

    If the source model stores the data unsigned, its runtime rounds unsigned means: halves up.
    """
    numbers = {"zero_point": int32(uniform(op.x).zero_point), "offset": int32(displaced(op))}
    return [qint.AveragePool2DOp.make(operands, _window_properties(op) | numbers)]


def lower_global_average_pool(
    op: nn.GlobalAveragePoolOp, operands: Sequence[SSAValue], rounding: Rounding
) -> list[Operation]:
    """Lowers a global average pool: acc = Σ (x − z_x), then y = z_y + acc · s_x / (s_y · n)."""
    _, rows, columns, _ = shape_of(op.x)
    total = qint.GlobalSumPoolOp.make(operands, {"zero_point": int32(summed_from(op, rounding))})
    return [total, mean(total.acc, op, rounding, rows * columns)]
