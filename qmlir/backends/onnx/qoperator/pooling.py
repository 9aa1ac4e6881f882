"""Forms of average pools: QLinearAveragePool and QLinearGlobalAveragePool (max pools are in movement.py)."""

from typing import Any

from qmlir.backends.onnx.contraction import IMAGES
from qmlir.backends.onnx.graph import MICROSOFT
from qmlir.backends.onnx.pooling import pool_attributes
from qmlir.backends.onnx.qoperator.forms import NoOperator, computes, scale_and_point
from qmlir.backends.onnx.values import StoredValues
from qmlir.dialects import nn


@computes(nn.AveragePool2DOp)
def average_pool2d(op: nn.AveragePool2DOp, values: StoredValues) -> None:
    """Writes QLinearAveragePool; raises NoOperator if the window is dilated."""
    if op.dilation_values() != (1, 1):
        raise NoOperator
    _mean(
        "QLinearAveragePool",
        op,
        values,
        count_include_pad=1 if bool(op.count_include_pad) else None,
        **pool_attributes(op),
    )


@computes(nn.GlobalAveragePoolOp)
def global_average_pool(op: nn.GlobalAveragePoolOp, values: StoredValues) -> None:
    """Writes QLinearGlobalAveragePool."""
    _mean("QLinearGlobalAveragePool", op, values)


def _mean(kind: str, op: nn.AveragePool2DOp | nn.GlobalAveragePoolOp, values: StoredValues, **attributes: Any) -> None:
    parameters = (*scale_and_point(op.x, values), *scale_and_point(op.y, values))
    y = values.graph.node(kind, values.real(op.x, IMAGES), *parameters, domain=MICROSOFT, channels_last=0, **attributes)
    values.define(op.y, y, IMAGES)
