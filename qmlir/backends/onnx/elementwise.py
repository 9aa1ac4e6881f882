"""Forms of elementwise arithmetic on two operands."""

from functools import partial
from typing import Any

import numpy as np

from qmlir.backends.onnx.exporters import exports
from qmlir.backends.onnx.graph import BOOL, WIDER, Graph, Tensor
from qmlir.backends.onnx.pointwise import result_dtype, several
from qmlir.backends.onnx.values import Values
from qmlir.dialects import nn
from qmlir.dialects.nn.pointwise import OperandPairOp
from qmlir.ir.interfaces import shape_of

NAMED: dict[type[OperandPairOp], str] = {
    nn.AddOp: "Add",
    nn.SubOp: "Sub",
    nn.MulOp: "Mul",
    nn.PowOp: "Pow",
}
"""Operation → ONNX's operator."""

EXTREMES: dict[type[OperandPairOp], str] = {nn.MaximumOp: "Max", nn.MinimumOp: "Min"}
"""Operation → ONNX's operator, which onnxruntime lacks for 16-bit integers."""


@exports(*NAMED)
def named(op: OperandPairOp, values: Values) -> None:
    """Writes the operation as one node."""
    several(op, values, lambda *x: values.graph.node(NAMED[type(op)], *x, dtype=result_dtype(op)))


@exports(*EXTREMES)
def extreme(op: OperandPairOp, values: Values) -> None:
    """Writes Max or Min; 16-bit integers are compared in 32 bits."""
    graph = values.graph

    def chosen(*tensors: Tensor) -> Tensor:
        dtype = tensors[0].dtype
        wide = WIDER.get(dtype)
        if wide is None:
            return graph.node(EXTREMES[type(op)], *tensors, dtype=dtype)
        return graph.cast(graph.node(EXTREMES[type(op)], *(graph.cast(t, wide) for t in tensors), dtype=wide), dtype)

    several(op, values, chosen)


@exports(nn.DivOp)
def div(op: nn.DivOp, values: Values) -> None:
    """Writes Div; an integer divided by 0 gives 0."""
    several(op, values, partial(_divided, values.graph, "Div"))


def _divided(graph: Graph, kind: str, lhs: Tensor, rhs: Tensor, **attributes: Any) -> Tensor:
    """Returns a quotient or remainder; for an integer divided by 0, which ONNX does not define, it is 0."""
    divisors = graph.constants.get(rhs)
    if lhs.dtype.kind == "f" or (divisors is not None and divisors.all()):
        return graph.node(kind, lhs, rhs, **attributes)
    zero, one = (graph.constant(np.array(value, lhs.dtype)) for value in (0, 1))
    none = graph.node("Equal", rhs, zero, dtype=BOOL)
    found = graph.node(kind, lhs, graph.where(none, one, rhs), **attributes)
    return graph.where(none, zero, found)


@exports(nn.SquaredDifferenceOp)
def squared_difference(op: nn.SquaredDifferenceOp, values: Values) -> None:
    """Writes Sub and Mul."""
    several(op, values, partial(_squared, values.graph))


def _squared(graph: Graph, lhs: Tensor, rhs: Tensor) -> Tensor:
    difference = graph.node("Sub", lhs, rhs)
    return graph.node("Mul", difference, difference)


@exports(nn.PReluOp)
def prelu(op: nn.PReluOp, values: Values) -> None:
    """Writes PRelu if only the slopes broadcast, as ONNX requires, else a comparison and a selection."""
    graph = values.graph

    def choice(x: Tensor, slope: Tensor) -> Tensor:
        negative = graph.node("Less", x, graph.constant(np.zeros((), x.dtype)), dtype=BOOL)
        return graph.where(negative, graph.node("Mul", x, slope), x)

    alike = shape_of(op.lhs) == shape_of(op.y)
    several(op, values, (lambda *x: graph.node("PRelu", *x)) if alike else choice)


@exports(nn.ModOp)
def mod(op: nn.ModOp, values: Values) -> None:
    """Writes Mod.

    On floats ONNX has the truncated remainder only. For the floored remainder, the divisor is added if the remainder's
    sign differs from the divisor's.
    """
    graph = values.graph

    def remainder(lhs: Tensor, rhs: Tensor) -> Tensor:
        if lhs.dtype.kind != "f":
            return _divided(graph, "Mod", lhs, rhs, fmod=1 if bool(op.truncated) else None)
        rest = graph.node("Mod", lhs, rhs, fmod=1)
        if bool(op.truncated):
            return rest
        zero = graph.constant(np.zeros((), lhs.dtype))
        signs = graph.node("Mul", graph.node("Sign", rest), graph.node("Sign", rhs))
        astray = graph.node("Less", signs, zero, dtype=BOOL)
        return graph.where(astray, graph.node("Add", rest, rhs), rest)

    several(op, values, remainder)
