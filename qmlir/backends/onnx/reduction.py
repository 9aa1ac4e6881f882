"""Forms of reductions along axes, of pools over windows, and of normalizations."""

from math import prod

import numpy as np

from qmlir.backends.forms import Forms
from qmlir.backends.onnx.contraction import IMAGES, window_attributes
from qmlir.backends.onnx.graph import INDEX, WIDER, Attributes
from qmlir.backends.onnx.values import Values, channels_first
from qmlir.dialects import nn, qint
from qmlir.dialects.nn.reduction import ArgumentOp, CumulativeOp, ReductionOp, WindowPoolOp
from qmlir.dialects.quant.types import UniformType
from qmlir.formats.onnx import ARGUMENTS, CUMULATIVE, REDUCTIONS
from qmlir.ir.interfaces import element_of, shape_of

exports: Forms[Values] = Forms()

# ---------------------------------------------------------------------------------------------------------------
# Forms of reductions, arg-max and arg-min, whose axes stay as dimensions of size 1, and of cumulative operations.


@exports(*REDUCTIONS)
def reduce(op: ReductionOp, values: Values) -> None:
    """Writes one node; without axes Identity, because ONNX takes an empty list for all axes."""
    order, graph = values.order(op.x), values.graph
    kind, since = REDUCTIONS[type(op)]
    axes = [order.index(a) for a in op.axes.get_values()]
    x = values.real(op.x, order)
    if not axes:
        values.define(op.y, graph.node("Identity", x), order)
    elif graph.opset >= since:
        values.define(op.y, graph.node(kind, x, graph.indices(axes)), order)
    else:
        values.define(op.y, graph.node(kind, x, axes=axes), order)


@exports(*ARGUMENTS)
def argument(op: ArgumentOp, values: Values) -> None:
    """Writes ArgMax or ArgMin; 16-bit integers, for which onnxruntime lacks them, are compared in 32 bits."""
    order = values.order(op.x)
    last = 1 if bool(op.last) else None
    axis = order.index(op.axis.value.data)
    x = values.real(op.x, order)
    x = values.graph.cast(x, WIDER.get(x.dtype, x.dtype))
    y = values.graph.node(ARGUMENTS[type(op)], x, dtype=INDEX, axis=axis, select_last_index=last)
    values.define(op.y, y, order)


@exports(*CUMULATIVE)
def cumulate(op: CumulativeOp, values: Values) -> None:
    """Writes CumSum or CumProd."""
    order, graph = values.order(op.x), values.graph
    axis = graph.constant(np.array(order.index(op.axis.value.data), INDEX))
    exclusive, reverse = (1 if bool(flag) else None for flag in (op.exclusive, op.reverse))
    y = graph.node(CUMULATIVE[type(op)][0], values.real(op.x, order), axis, exclusive=exclusive, reverse=reverse)
    values.define(op.y, y, order)


# ---------------------------------------------------------------------------------------------------------------
# Forms of pools over the two spatial axes; ONNX's images are channels-first.


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
    """Writes AveragePool.

    Behind a dilated pool of quantized data stands Max of one operand, which does nothing. It keeps onnxruntime's
    default optimizations from making the pool a QLinearAveragePool, which has no dilations.
    """
    counting = 1 if bool(op.count_include_pad) else None
    x = values.real(op.x, IMAGES)
    y = values.graph.node("AveragePool", x, count_include_pad=counting, **pool_attributes(op))
    if op.dilation_values() != (1, 1) and isinstance(element_of(op.y), UniformType):
        y = values.graph.node("Max", y)
    values.define(op.y, y, IMAGES)


@exports(nn.GlobalAveragePoolOp)
def global_average_pool(op: nn.GlobalAveragePoolOp, values: Values) -> None:
    """Writes GlobalAveragePool."""
    values.define(op.y, values.graph.node("GlobalAveragePool", values.real(op.x, IMAGES)), IMAGES)


# ---------------------------------------------------------------------------------------------------------------
# Forms of normalizations along axes; softmax and others are rows in formats/onnx.py.


@exports(nn.LayerNormOp)
def layer_norm(op: nn.LayerNormOp, values: Values) -> None:
    """Writes LayerNormalization without a bias."""
    _over_trailing("LayerNormalization", op, values)


@exports(nn.RMSNormOp)
def rms_norm(op: nn.RMSNormOp, values: Values) -> None:
    """Writes RMSNormalization."""
    _over_trailing("RMSNormalization", op, values)


def _over_trailing(kind: str, op: nn.LayerNormOp | nn.RMSNormOp, values: Values) -> None:
    """Writes a normalization over the dimensions from the axis on, with ONNX's elementwise scale set to 1."""
    axis = op.axis.value.data
    x = values.real(op.x)
    scale = values.graph.constant(np.ones(shape_of(op.x)[axis:], x.dtype))
    values.define(op.y, values.graph.node(kind, x, scale, axis=axis, epsilon=op.epsilon.value.data))


@exports(nn.LocalResponseNormalizationOp)
def local_response_normalization(op: nn.LocalResponseNormalizationOp, values: Values) -> None:
    """Writes LRN on images [N, C, H, W]; a tensor of another rank is reshaped to [all other dimensions, C, 1, 1]."""
    shape, graph = shape_of(op.x), values.graph
    attributes = {name: getattr(op, name).value.data for name in ("size", "alpha", "beta", "bias")}
    if len(shape) == 4:
        order = channels_first(4)
        values.define(op.y, graph.node("LRN", values.real(op.x, order), **attributes), order)
        return
    rows = graph.node("Reshape", values.real(op.x), graph.indices([prod(shape[:-1]), shape[-1], 1, 1]))
    normalized = graph.node("LRN", rows, **attributes)
    values.define(op.y, graph.node("Reshape", normalized, graph.indices(shape)))
