"""Forms of comparisons, and of the selection between two tensors by a condition."""

import numpy as np

from qmlir.backends.tflite.exporters import exports
from qmlir.backends.tflite.graph import BOOL
from qmlir.backends.tflite.pointwise import one
from qmlir.backends.tflite.values import Values
from qmlir.dialects import nn
from qmlir.dialects.nn.comparison import ComparisonOp
from qmlir.policies.runtime_kernels import compared_storage

NAMED: dict[type[ComparisonOp], str] = {nn.EqualOp: "EQUAL", nn.LessOp: "LESS", nn.LessEqualOp: "LESS_EQUAL"}
"""Operation → TFLite's operator."""


@exports(*NAMED)
def compare(op: ComparisonOp, values: Values) -> None:
    """Writes one operator, on stored integers if LiteRT's numerics compare stored integers."""
    values.compute(op, NAMED[type(op)], compared_storage(op, "litert-reference") or op.operands)


@exports(nn.WhereOp)
def choose(op: nn.WhereOp, values: Values) -> None:
    """Writes SELECT_V2."""
    one("SELECT_V2", op, values)


@exports(nn.IsNaNOp)
def is_nan(op: nn.IsNaNOp, values: Values) -> None:
    """Writes x != x, which holds for NaN only."""
    x = values.stored(op.x)
    values.hold(op.y, values.graph.pointwise("NOT_EQUAL", x, x, dtype=BOOL))


@exports(nn.IsInfOp)
def is_inf(op: nn.IsInfOp, values: Values) -> None:
    """Writes x == ±infinity; for both signs, |x| == infinity."""
    graph, x = values.graph, values.stored(op.x)
    if bool(op.positive) and bool(op.negative):
        x = graph.pointwise("ABS", x)
    infinity = np.inf if bool(op.positive) else -np.inf
    values.hold(op.y, graph.pointwise("EQUAL", x, graph.number(infinity, x), dtype=BOOL))
