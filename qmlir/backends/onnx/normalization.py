"""Forms of normalizations along axes."""

from math import prod

import numpy as np

from qmlir.backends.onnx.exporters import exports
from qmlir.backends.onnx.values import Values, channels_first
from qmlir.dialects import nn
from qmlir.dialects.nn.normalization import ExponentialsOp
from qmlir.ir.interfaces import shape_of


@exports(nn.SoftmaxOp)
def softmax(op: nn.SoftmaxOp, values: Values) -> None:
    """Writes Softmax."""
    _along_axis("Softmax", op, values)


@exports(nn.LogSoftmaxOp)
def log_softmax(op: nn.LogSoftmaxOp, values: Values) -> None:
    """Writes LogSoftmax."""
    _along_axis("LogSoftmax", op, values)


def _along_axis(kind: str, op: ExponentialsOp, values: Values) -> None:
    order = values.order(op.x)
    axis = order.index(op.axis.value.data)
    values.define(op.y, values.graph.node(kind, values.real(op.x, order), axis=axis), order)


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


@exports(nn.LpNormalizationOp)
def lp_normalization(op: nn.LpNormalizationOp, values: Values) -> None:
    """Writes LpNormalization."""
    order = values.order(op.x)
    axis = order.index(op.axis.value.data)
    y = values.graph.node("LpNormalization", values.real(op.x, order), axis=axis, p=op.p.value.data)
    values.define(op.y, y, order)


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
