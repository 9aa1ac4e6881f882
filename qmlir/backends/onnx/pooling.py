"""Forms of pools over the two spatial axes; ONNX's images are channels-first."""

import numpy as np

from qmlir.backends.onnx.contraction import IMAGES, window_attributes
from qmlir.backends.onnx.exporters import exports
from qmlir.backends.onnx.graph import INDEX, Attributes
from qmlir.backends.onnx.values import Values
from qmlir.dialects import nn, qint
from qmlir.dialects.nn.pooling import WindowPoolOp
from qmlir.ir.interfaces import shape_of


def pool_attributes(op: WindowPoolOp | qint.MaxPool2DOp) -> Attributes:
    """Returns ONNX's attributes of a pool: its kernel, strides, dilations and padding.

    onnxruntime refuses padding as large as the kernel, although a dilated kernel spans more elements. Such padding at
    the end of an axis is reduced, and `ceil_mode` lets windows reach beyond the image without it. A mean that counts
    padding counts padded elements only, so a pool that counts padding keeps it.
    """
    kernel, attributes = op.window_values(), {"kernel_shape": list(op.window_values()), **window_attributes(op)}
    top, bottom, left, right = op.padding_values()
    counts = isinstance(op, nn.AveragePool2DOp) and bool(op.count_include_pad)
    if counts or (bottom < kernel[0] and right < kernel[1]):
        return attributes
    below, behind = _less_padding(op, 0), _less_padding(op, 1)
    if below is None or behind is None:
        return attributes
    return attributes | {"pads": [top, left, below, behind], "ceil_mode": 1}


def _less_padding(op: WindowPoolOp | qint.MaxPool2DOp, axis: int) -> int | None:
    """Returns the padding of an axis's end, less than the kernel, that gives all windows with `ceil_mode`, else None.

    Args:
        op: The pool.
        axis: 0 for rows, 1 for columns.
    """
    size, last = shape_of(op.x)[axis + 1], shape_of(op.y)[axis + 1] - 1
    kernel, step = op.window_values()[axis], op.stride_values()[axis]
    span = (kernel - 1) * op.dilation_values()[axis] + 1
    low, given = op.padding_values()[2 * axis : 2 * axis + 2]
    for high in range(min(given, kernel - 1), -1, -1):
        found = -(-(size + low + high - span) // step)
        if found * step >= size + low:  # ONNX leaves out a window that would start behind the image
            found -= 1
        if found == last:
            return high
    return None


@exports(nn.MaxPool2DOp)
def max_pool2d(op: nn.MaxPool2DOp, values: Values) -> None:
    """Writes MaxPool."""
    values.define(op.y, values.graph.node("MaxPool", values.real(op.x, IMAGES), **pool_attributes(op)), IMAGES)


@exports(nn.MaxPoolIndices2DOp)
def max_pool2d_indices(op: nn.MaxPoolIndices2DOp, values: Values) -> None:
    """Writes MaxPool and takes its indices modulo H · W, as ONNX's indices count through all images and channels."""
    _, rows, columns, _ = shape_of(op.x)
    graph = values.graph
    _, places = graph.several("MaxPool", [values.real(op.x, IMAGES)], [None, INDEX], **pool_attributes(op))
    inside = graph.node("Mod", places, graph.constant(np.array(rows * columns, INDEX)))
    values.define(op.y, inside, IMAGES)


@exports(nn.AveragePool2DOp)
def average_pool2d(op: nn.AveragePool2DOp, values: Values) -> None:
    """Writes AveragePool."""
    counting = 1 if bool(op.count_include_pad) else None
    x = values.real(op.x, IMAGES)
    y = values.graph.node("AveragePool", x, count_include_pad=counting, **pool_attributes(op))
    values.define(op.y, y, IMAGES)


@exports(nn.GlobalAveragePoolOp)
def global_average_pool(op: nn.GlobalAveragePoolOp, values: Values) -> None:
    """Writes GlobalAveragePool."""
    values.define(op.y, values.graph.node("GlobalAveragePool", values.real(op.x, IMAGES)), IMAGES)
