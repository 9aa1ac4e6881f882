"""Forms of pools over the two spatial axes; ONNX's images are channels-first."""

import numpy as np

from qmlir.backends.onnx.contraction import IMAGES, window_attributes
from qmlir.backends.onnx.graph import Tensor
from qmlir.backends.onnx.integer.forms import INT32, cast, computes, minus, sums_of_bytes
from qmlir.backends.onnx.pooling import pool_attributes
from qmlir.backends.onnx.values import Values, stored_dtype
from qmlir.dialects import qint
from qmlir.ir.interfaces import shape_of


@computes(qint.MaxPool2DOp)
def max_pool2d(op: qint.MaxPool2DOp, values: Values) -> None:
    """Writes MaxPool."""
    y = values.graph.node("MaxPool", values.stored(op.x, IMAGES), **pool_attributes(op))
    values.define(op.y, y, IMAGES)


@computes(qint.AveragePool2DOp)
def average_pool2d(op: qint.AveragePool2DOp, values: Values) -> None:
    """Writes sums as a ConvInteger with weights of 1, and a division that rounds half away from −offset."""
    graph, window, channels = values.graph, op.window_values(), shape_of(op.x)[3]
    counts, offset = op.counts().astype(np.int32), op.offset.value.data
    # ConvInteger pads with the zero point, so padding adds 0 to sums of zero-point-subtracted data.
    point = op.zero_point.value.data if bool(op.count_include_pad) else 0

    def summed(x: Tensor, point: Tensor | None) -> Tensor:
        ones = graph.constant(np.ones((channels, 1, *window), np.int8))
        return graph.node(
            "ConvInteger", x, ones, point, dtype=INT32, kernel_shape=list(window), group=channels,
            **window_attributes(op),
        )  # fmt: skip

    sums = sums_of_bytes(values, op.x, point, summed)
    total = graph.node("Add", sums, graph.constant((point + offset) * counts))
    magnitude = graph.node("Add", graph.node("Abs", total), graph.constant(counts // 2))
    magnitude = graph.node("Div", magnitude, graph.constant(counts))
    y = minus(graph, graph.node("Mul", graph.node("Sign", total), magnitude), offset)
    values.define(op.y, cast(graph, y, stored_dtype(op.y)), IMAGES)


@computes(qint.GlobalSumPoolOp)
def global_sum_pool(op: qint.GlobalSumPoolOp, values: Values) -> None:
    """Writes ReduceSum in 32 bits."""
    graph, order = values.graph, values.order(op.x)
    x = minus(graph, cast(graph, values.stored(op.x, order), INT32), op.zero_point.value.data)
    values.define(op.acc, graph.node("ReduceSum", x, graph.indices([order.index(1), order.index(2)])), order)
