"""Operators that LiteRT's default delegate, XNNPACK, leaves to LiteRT's own kernels, as the file shows it.

    computed operands  the delegate needs weights, biases, shapes and axes as constants of the file. If the graph
                       computes one, even from constants, the delegate declines. Weights and biases that a DENSIFY
                       unpacks count as constants
    storage            it declines convolutions with weights of 4 bits, fully connected layers whose signed weights have
                       a zero point, biases without a scale, and tensors whose only scale has an axis
    sizes              it declines tensors of more than six dimensions, and transposed convolutions whose windows do not
                       meet

Which scales it declines, policies/runtimes.py knows (`Rounding.otherwise`). Operators that only move elements give the
same integers in both, so that their shapes and axes are not listed here.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from xdsl.ir import Operation

from qmlir.dialects.nn.base import NNOp
from qmlir.dialects.nn.movement import ConstantOp, MovementOp
from qmlir.formats.tflite import SAME
from qmlir.frontends.tflite.reader import ABSENT, NIBBLES, Operator, Subgraph, Tensor, type_name
from qmlir.ir.facts import ON_FLOATS, UNDELEGATED

LAYERS: Mapping[str, tuple[int, int]] = {
    "CONV_2D": (1, 2),
    "DEPTHWISE_CONV_2D": (1, 2),
    "FULLY_CONNECTED": (1, 2),
    "TRANSPOSE_CONV": (1, 3),
}
"""Operator → the inputs that are its weights and its bias."""

CONSTANTS: Mapping[str, Sequence[int]] = {
    "TRANSPOSE_CONV": (0,),
    **dict.fromkeys(("MEAN", "SUM", "RESIZE_BILINEAR"), (1,)),
}
"""Operator → the inputs, beside weights and biases, that the delegate needs as constants: shapes, sizes, axes."""

MOST_DIMENSIONS = 6
"""The most dimensions of a tensor that XNNPACK computes on."""


def declines(operator: Operator, graph: Subgraph) -> bool:
    """Whether the delegate leaves an operator of a graph to LiteRT's own kernels."""
    tensors = [None if i == ABSENT else graph.tensors[i] for i in operator.inputs]
    every = [t for t in (*tensors, *(graph.tensors[i] for i in operator.outputs)) if t is not None]
    weights = _input(tensors, LAYERS.get(operator.kind, (ABSENT,))[0])
    return (
        any(_is_computed(operator, i, graph) for i in CONSTANTS.get(operator.kind, ()))
        or any(len(t.shape) > MOST_DIMENSIONS for t in every)
        or any(t.axis != 0 for t in every if t is not weights or t.dtype == np.uint8)
        or (
            weights is not None and _declines_layer(operator, graph, weights, _input(tensors, LAYERS[operator.kind][1]))
        )
    )


def _input(tensors: Sequence[Tensor | None], index: int) -> Tensor | None:
    return tensors[index] if 0 <= index < len(tensors) else None


def _is_computed(operator: Operator, input: int, graph: Subgraph) -> bool:
    """Whether an input is there and is no constant of the file."""
    index = operator.inputs[input] if input < len(operator.inputs) else ABSENT
    return index != ABSENT and graph.tensors[index].constant is None


def _declines_layer(operator: Operator, graph: Subgraph, weights: Tensor, bias: Tensor | None) -> bool:
    """Whether the delegate declines a layer because of its weights, its bias or its windows."""
    unpacked = {i for o in graph.operators if o.kind == "DENSIFY" for i in o.outputs}
    computed = [i for i in LAYERS[operator.kind] if _is_computed(operator, i, graph)]
    return (
        any(operator.inputs[i] not in unpacked for i in computed)
        or (bias is not None and bias.dtype == np.int32 and bias.type is None)
        or _declines_weights(operator.kind, weights)
        or (operator.kind == "TRANSPOSE_CONV" and _leaves_gaps(operator, weights))
    )


def _declines_weights(kind: str, weights: Tensor) -> bool:
    """Whether the delegate declines weights because of how they are stored."""
    if kind == "FULLY_CONNECTED":
        return weights.dtype == np.int8 and weights.type is not None and any(weights.type.zero_points)
    return weights.kind.lower() == type_name(NIBBLES)


def _leaves_gaps(operator: Operator, weights: Tensor) -> bool:
    """Whether a transposed convolution under SAME has windows smaller than its strides."""
    options = operator.options or {}
    strides = options.get("stride_h", 0), options.get("stride_w", 0)
    small = any(size < stride for size, stride in zip(weights.shape[1:3], strides, strict=False))
    return small and options.get("padding", SAME) == SAME


def mark_undelegated(operations: Sequence[Operation]) -> None:
    """Marks the operations of an operator that the delegate declines, among them casts that are operators."""
    for op in operations:
        computes = isinstance(op, NNOp) and not isinstance(op, ConstantOp | MovementOp)
        if computes or ON_FLOATS.on(op):
            UNDELEGATED.put(op)
