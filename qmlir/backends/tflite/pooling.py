"""Forms of pools over windows and over whole images."""

import numpy as np

from qmlir.backends.forms import NoForm
from qmlir.backends.tflite.exporters import exports
from qmlir.backends.tflite.graph import Options, Tensor
from qmlir.backends.tflite.values import Values
from qmlir.backends.tflite.windows import VALID, padded, padding_name, strides
from qmlir.dialects import nn
from qmlir.dialects.nn.pooling import WindowPoolOp, least
from qmlir.ir.interfaces import shape_of

KIND = "AVERAGE_POOL_2D"


def _options(op: WindowPoolOp, padding: int) -> Options:
    if op.dilation_values() != (1, 1):
        raise NoForm("needs a window without dilations", str(list(op.dilation_values())),
                     "rewrite the model without it")  # fmt: skip
    rows, columns = op.window_values()
    return {**strides(op), "FilterHeight": rows, "FilterWidth": columns, "Padding": padding}


@exports(nn.MaxPool2DOp)
def max_pool2d(op: nn.MaxPool2DOp, values: Values) -> None:
    """Writes MAX_POOL_2D; padding that is neither SAME nor VALID becomes a pad with the type's least value."""
    x, named = values.stored(op.x), padding_name(op, shape_of(op.x), op.window_values())
    options = _options(op, VALID if named is None else named)
    if named is None:
        lowest = float(np.finfo(x.dtype).min) if x.dtype.kind == "f" else least(x.dtype)
        x = padded(values.graph, x, op, lowest)
    values.finish(op, "MAX_POOL_2D", [x], options)


@exports(nn.AveragePool2DOp)
def average_pool2d(op: nn.AveragePool2DOp, values: Values) -> None:
    """Writes AVERAGE_POOL_2D, in whose means padding does not count.

    If padding counts, the image is padded with zeros first. If padding does not count and is neither SAME nor VALID,
    there are two cases. A quantized image is cut into pieces whose windows need no padding. A float image is padded
    with zeros, and each mean is multiplied by the window's size over the number of its elements inside the image.
    """
    named = padding_name(op, shape_of(op.x), op.window_values())
    if named == VALID or (named is not None and not bool(op.count_include_pad)):
        values.compute(op, KIND, [op.x], _options(op, named))
    elif bool(op.count_include_pad):
        values.finish(op, KIND, [padded(values.graph, values.stored(op.x), op)], _options(op, VALID))
    elif values.form(op.x).parameters is not None:
        _in_pieces(op, values)
    else:
        graph, form = values.graph, values.form(op.y)
        x = padded(graph, values.stored(op.x), op)
        means = graph.operator(KIND, [x], form.typed(x.dtype), _options(op, VALID))
        shares = np.prod(op.window_values()) / op.counts()[None, :, :, None]
        values.define(op.y, graph.pointwise("MUL", means, graph.constant(shares.astype(x.dtype))))


Piece = tuple[int, int, int]
"""A part of an axis: the first element, the number of elements, and the size of its windows."""


def _in_pieces(op: nn.AveragePool2DOp, values: Values) -> None:
    """Pools each piece of the image without padding and concatenates the results."""
    graph, x, channels, options = values.graph, values.stored(op.x), shape_of(op.x)[3], _options(op, VALID)
    rows, columns = (_pieces(op, axis) for axis in (0, 1))

    def pool(row: Piece, column: Piece) -> Tensor:
        (top, height, down), (left, width, right) = row, column
        size = (x.shape[0], height, width, channels)
        piece = graph.operator("SLICE", [x, graph.indices([0, top, left, 0]), graph.indices(size)], x.form.shaped(size))
        counts = [(n - k) // stride + 1 for n, k, stride in zip((height, width), (down, right), op.stride_values(),
                                                                 strict=True)]  # fmt: skip
        form = x.form.shaped((x.shape[0], *counts, channels))
        return graph.operator(KIND, [piece], form, {**options, "FilterHeight": down, "FilterWidth": right})

    values.define(op.y, graph.joined([graph.joined([pool(r, c) for c in columns], 2) for r in rows], 1))


def _pieces(op: nn.AveragePool2DOp, axis: int) -> list[Piece]:
    """Returns the pieces of an axis: one for all windows inside the image, one for each window that the border cuts.

    Args:
        op: The pool.
        axis: 0 for rows, 1 for columns.
    """
    size, window, stride = shape_of(op.x)[1 + axis], op.window_values()[axis], op.stride_values()[axis]
    starts = [i * stride - op.padding_values()[2 * axis] for i in range(shape_of(op.y)[1 + axis])]
    whole = [start for start in starts if 0 <= start <= size - window]
    pieces = [(max(start, 0), min(start + window, size)) for start in starts if start not in whole]
    found = [(low, high - low, high - low) for low, high in pieces]
    if whole:
        found.append((whole[0], whole[-1] + window - whole[0], window))
    return sorted(found)


@exports(nn.GlobalAveragePoolOp)
def global_average_pool(op: nn.GlobalAveragePoolOp, values: Values) -> None:
    """Writes MEAN over rows and columns."""
    values.compute(op, "MEAN", [op.x], {"KeepDims": True}, [values.graph.indices([1, 2])])
