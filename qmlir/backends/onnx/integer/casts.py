"""The form of the cast from floats to quantized integers: a division in the cast's precision, then one rounding."""

import numpy as np
from xdsl.ir import SSAValue

from qmlir.backends.forms import NoForm
from qmlir.backends.onnx.integer.forms import cast, computes, number
from qmlir.backends.onnx.values import Permutation, Values
from qmlir.dialects.quant.ops import QuantizeCastOp
from qmlir.ir.interfaces import Array, shape_of
from qmlir.policies.quantized_values import uniform

QUOTIENTS = {"exact": np.dtype(np.float64), "float32": np.dtype(np.float32)}
"""The cast's way of quantizing → the type in which it divides; both ways round half to even."""


@computes(QuantizeCastOp)
def quantize_cast(op: QuantizeCastOp, values: Values) -> None:
    """Writes clamp(rint(x / S) + Z); ONNX does not define the result for NaN."""
    if (dtype := QUOTIENTS.get(op.quantization)) is None:
        raise NoForm(
            f"must quantize in one of the ways {', '.join(QUOTIENTS)}", op.quantization, "follow other numerics"
        )
    graph, order, element = values.graph, values.order(op.input), uniform(op.result)
    scale, points = (graph.constant(a.astype(dtype)) for a in _parameters(op.result, order))
    steps = graph.node("Div", cast(graph, values.stored(op.input, order), dtype), scale)
    y = graph.node("Add", graph.node("Round", steps), points)
    y = graph.node("Clip", y, *(number(graph, q, dtype) for q in (element.storage_min, element.storage_max)))
    values.hold(op.result, cast(graph, y, np.dtype(element.numpy_dtype)), order)


def _parameters(value: SSAValue, order: Permutation) -> tuple[Array, Array]:
    """Returns scale and zero point of a value, shaped to broadcast against the value's tensor in a dimension order."""
    rank = len(shape_of(value))
    scale, points = (np.asarray(p) for p in uniform(value).parameters_along(rank))
    return (scale.transpose(order), points.transpose(order)) if scale.ndim == rank else (scale, points)
