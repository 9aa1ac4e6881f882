"""Pools over the two spatial axes, channels first in ONNX."""

import numpy as np

from qmlir.backends.onnx_qdq.contraction import IMAGES, window_attributes
from qmlir.backends.onnx_qdq.exporters import exports
from qmlir.backends.onnx_qdq.graph import INDEX, Attributes
from qmlir.backends.onnx_qdq.values import Values
from qmlir.dialects import nn
from qmlir.dialects.interfaces import shape_of
from qmlir.dialects.nn.pooling import WindowPoolOp


def _attributes(op: WindowPoolOp) -> Attributes:
    return {"kernel_shape": list(op.window_values()), **window_attributes(op)}


@exports(nn.MaxPool2DOp)
def max_pool2d(op: nn.MaxPool2DOp, values: Values) -> None:
    """MaxPool."""
    values.define(op.y, values.graph.node("MaxPool", values.real(op.x, IMAGES), **_attributes(op)), IMAGES)


@exports(nn.MaxPoolIndices2DOp)
def max_pool2d_indices(op: nn.MaxPoolIndices2DOp, values: Values) -> None:
    """ONNX counts on through all images and channels."""
    _, rows, columns, _ = shape_of(op.x)
    graph = values.graph
    _, places = graph.several("MaxPool", [values.real(op.x, IMAGES)], [None, INDEX], **_attributes(op))
    inside = graph.node("Mod", places, graph.constant(np.array(rows * columns, INDEX)))
    values.define(op.y, inside, IMAGES)


@exports(nn.AveragePool2DOp)
def average_pool2d(op: nn.AveragePool2DOp, values: Values) -> None:
    """AveragePool."""
    counting = 1 if bool(op.count_include_pad) else None
    x = values.real(op.x, IMAGES)
    y = values.graph.node("AveragePool", x, count_include_pad=counting, **_attributes(op))
    values.define(op.y, y, IMAGES)


@exports(nn.GlobalAveragePoolOp)
def global_average_pool(op: nn.GlobalAveragePoolOp, values: Values) -> None:
    """GlobalAveragePool."""
    values.define(op.y, values.graph.node("GlobalAveragePool", values.real(op.x, IMAGES)), IMAGES)
