"""Pools over windows and over images."""

import numpy as np

from qmlir.backends.forms import NoForm
from qmlir.backends.tflite.exporters import exports
from qmlir.backends.tflite.graph import Options
from qmlir.backends.tflite.values import Values
from qmlir.backends.tflite.windows import VALID, padded, padding_name, strides
from qmlir.dialects import nn
from qmlir.dialects.interfaces import shape_of
from qmlir.dialects.nn.pooling import WindowPoolOp, least

KIND = "AVERAGE_POOL_2D"


def _options(op: WindowPoolOp, padding: int) -> Options:
    if op.dilation_values() != (1, 1):
        raise NoForm("needs a window without dilations", str(list(op.dilation_values())),
                     "TFLite's pools have none; rewrite the model without it")  # fmt: skip
    rows, columns = op.window_values()
    return {**strides(op), "FilterHeight": rows, "FilterWidth": columns, "Padding": padding}


@exports(nn.MaxPool2DOp)
def max_pool2d(op: nn.MaxPool2DOp, values: Values) -> None:
    """MAX_POOL_2D; padding that has no name is elements that no other is less than."""
    x, named = values.stored(op.x), padding_name(op, shape_of(op.x), op.window_values())
    options = _options(op, VALID if named is None else named)
    if named is None:
        lowest = float(np.finfo(x.dtype).min) if x.dtype.kind == "f" else least(x.dtype)
        x = padded(values.graph, x, op, lowest)
    values.finish(op, "MAX_POOL_2D", [x], options)


@exports(nn.AveragePool2DOp)
def average_pool2d(op: nn.AveragePool2DOp, values: Values) -> None:
    """AVERAGE_POOL_2D, whose padding does not count; where it does, it is zeros around the image.

    Padding that does not count and has no name is zeros too, on floats: means of all are made means of those inside.
    """
    named = padding_name(op, shape_of(op.x), op.window_values())
    if named == VALID or (named is not None and not bool(op.count_include_pad)):
        values.compute(op, KIND, [op.x], _options(op, named))
    elif bool(op.count_include_pad):
        values.finish(op, KIND, [padded(values.graph, values.stored(op.x), op)], _options(op, VALID))
    else:
        graph, form = values.graph, values.form(op.y)
        x = padded(graph, values.real(op.x), op)
        means = graph.operator(KIND, [x], form.typed(x.dtype), _options(op, VALID))
        shares = np.prod(op.window_values()) / op.counts()[None, :, :, None]
        values.define(op.y, graph.pointwise("MUL", means, graph.constant(shares.astype(x.dtype))))


@exports(nn.GlobalAveragePoolOp)
def global_average_pool(op: nn.GlobalAveragePoolOp, values: Values) -> None:
    """MEAN over rows and columns."""
    values.compute(op, "MEAN", [op.x], {"KeepDims": True}, [values.graph.indices([1, 2])])
