"""Forms of operations on single elements: arithmetic, comparisons, logic, activations, elementary functions."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import SSAValue

from qmlir.backends.forms import Forms, argument_bounds, constant
from qmlir.backends.onnx.graph import BOOL, WIDER, Attributes, Graph, Tensor
from qmlir.backends.onnx.values import Permutation, Values, identity
from qmlir.dialects import nn
from qmlir.dialects.nn.elementwise import OperandPairOp, PointwiseOp, UnaryOp
from qmlir.dialects.quant.types import UniformType
from qmlir.errors import UnsupportedError
from qmlir.formats.onnx import AXIS, WRITTEN
from qmlir.ir.interfaces import Shape, TensorOp, element_of, shape_of
from qmlir.ir.types import dtype_of

exports: Forms[Values] = Forms()

# ---------------------------------------------------------------------------------------------------------------
# Helpers for forms of elementwise operations, which work in the dimension order in which their operands exist.


def operands_in_order(values: Values, operands: Sequence[SSAValue], result: Shape) -> tuple[Permutation, list[Tensor]]:
    """Chooses a dimension order for the result, and returns it with the real values of the operands in that order.

    The order is that of the first computed operand. If a computed operand has a lower rank than the result, all
    operands stay in the module's order. A constant of a lower rank gets dimensions of size 1.
    """
    rank = len(result)
    computed = [o for o in operands if constant(o) is None]
    order = values.order(computed[0]) if computed else identity(rank)
    if order == identity(rank) or any(len(shape_of(o)) != rank for o in computed):
        return identity(rank), [values.real(o) for o in operands]
    return order, [values.real(o, order) if len(shape_of(o)) == rank else values.widened(o, order) for o in operands]


def as_operator(op: TensorOp, values: Values) -> None:
    """Writes an operation as the operator of its row in formats/onnx.py."""
    operator = WRITTEN[type(op)]
    order, (x, *others) = operands_in_order(values, op.operands, shape_of(op.results[0]))
    attributes: Attributes = {n: _written(op, own, order, default) for n, (own, default) in operator.attributes.items()}
    x = values.clipped(x, *argument_bounds(op, op.operands[0]))
    y = values.graph.node(operator.kind, x, *others, dtype=result_dtype(op), domain=operator.domain, **attributes)
    values.define(op.results[0], y, order)


def _written(op: TensorOp, name: str, order: Permutation, default: bool | float) -> float | None:
    """Returns a property as ONNX's attribute; None for a flag at its default."""
    value = getattr(op, name)
    if isinstance(default, bool):
        return None if bool(value) == default else int(bool(value))
    return order.index(value.value.data) if name == AXIS else value.value.data


def unary(kind: str, op: UnaryOp, values: Values, **attributes: Any) -> None:
    """Writes an operation with one operand as one node."""
    order = values.order(op.x)
    x = values.clipped(values.real(op.x, order), *argument_bounds(op, op.x))
    values.define(op.y, values.graph.node(kind, x, dtype=result_dtype(op), **attributes), order)


def several(op: PointwiseOp, values: Values, form: Callable[..., Tensor]) -> None:
    """Writes an operation as the nodes that `form` adds; `form` gets the tensors of the operands."""
    order, tensors = operands_in_order(values, op.operands, shape_of(op.results[0]))
    values.define(op.results[0], form(*tensors), order)


def result_dtype(op: TensorOp) -> np.dtype[Any]:
    """Returns the element type of the result's real values."""
    element = element_of(op.results[0])
    return np.dtype(np.float32) if isinstance(element, UniformType) else dtype_of(element)


# ---------------------------------------------------------------------------------------------------------------
# Forms of elementwise arithmetic on two operands.


@exports(nn.MaximumOp, nn.MinimumOp)
def extreme(op: OperandPairOp, values: Values) -> None:
    """Writes Max or Min; 16-bit integers, for which onnxruntime lacks the operators, are compared in 32 bits."""
    graph, kind = values.graph, WRITTEN[type(op)].kind

    def chosen(*tensors: Tensor) -> Tensor:
        dtype = tensors[0].dtype
        wide = WIDER.get(dtype, dtype)
        return graph.cast(graph.node(kind, *(graph.cast(t, wide) for t in tensors), dtype=wide), dtype)

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


# ---------------------------------------------------------------------------------------------------------------
# Forms of the test for infinities, and of the selection between two tensors by a condition.


@exports(nn.IsInfOp)
def is_inf(op: nn.IsInfOp, values: Values) -> None:
    """Writes IsInf; its attributes select the signs."""
    unary("IsInf", op, values, detect_negative=int(bool(op.negative)), detect_positive=int(bool(op.positive)))


@exports(nn.WhereOp)
def where(op: nn.WhereOp, values: Values) -> None:
    """Writes Where; on booleans, which onnxruntime's Where does not take, And, Not and Or."""
    graph = values.graph

    def choice(condition: Tensor, lhs: Tensor, rhs: Tensor) -> Tensor:
        if lhs.dtype != BOOL:
            return graph.where(condition, lhs, rhs)
        other = graph.node("And", graph.node("Not", condition), rhs)
        return graph.node("Or", graph.node("And", condition, lhs), other)

    several(op, values, choice)


# ---------------------------------------------------------------------------------------------------------------
# Forms of bitwise operations on integers and logical operations on i1, for which ONNX has different operators.


@exports(nn.AndOp, nn.OrOp, nn.XorOp, nn.NotOp)
def logic(op: PointwiseOp, values: Values) -> None:
    """Writes the operator on booleans, or the operator on integers, whose name has the prefix Bitwise."""
    boolean = element_of(op.operands[0]) == IntegerType(1)
    kind = f"{'' if boolean else 'Bitwise'}{WRITTEN[type(op)].kind}"
    several(op, values, lambda *x: values.graph.node(kind, *x))


@exports(nn.ShiftLeftOp, nn.ShiftRightOp)
def shift(op: nn.ShiftLeftOp | nn.ShiftRightOp, values: Values) -> None:
    """Writes BitShift between casts to and from unsigned integers.

    ONNX's BitShift takes unsigned integers only and does not define counts of the width or more; here they shift in
    zeros. A negative number shifted right is the complement of its shifted complement.
    """
    graph, leftward = values.graph, isinstance(op, nn.ShiftLeftOp)

    def shifted(x: Tensor, count: Tensor) -> Tensor:
        unsigned = np.dtype(f"u{x.dtype.name.lstrip('u')}")
        zero = graph.constant(np.zeros((), unsigned))
        count = graph.cast(count, unsigned)
        inside = graph.node("Less", count, graph.constant(np.array(8 * unsigned.itemsize, unsigned)), dtype=BOOL)
        count = graph.where(inside, count, zero)
        bits = graph.node("BitShift", graph.cast(x, unsigned), count, direction="LEFT" if leftward else "RIGHT")
        return graph.cast(graph.where(inside, bits, zero), x.dtype)

    def with_sign(x: Tensor, count: Tensor) -> Tensor:
        negative = graph.node("Less", x, graph.constant(np.zeros((), x.dtype)), dtype=BOOL)
        positive = graph.where(negative, graph.node("BitwiseNot", x), x)
        moved = shifted(positive, count)
        return graph.where(negative, graph.node("BitwiseNot", moved), moved)

    several(op, values, shifted if leftward or op.unsigned else with_sign)


# ---------------------------------------------------------------------------------------------------------------
# Forms of activations, clamps and requantization, as one ONNX node or as several.


@exports(nn.GeluOp)
def gelu(op: nn.GeluOp, values: Values) -> None:
    """Writes Gelu."""
    unary("Gelu", op, values, approximate="tanh" if bool(op.tanh) else None)


@exports(nn.SwishOp)
def swish(op: nn.SwishOp, values: Values) -> None:
    """Writes x · sigmoid(alpha · x) as three nodes: onnxruntime has Sigmoid for more types than Swish."""
    graph, order = values.graph, values.order(op.x)
    x = values.real(op.x, order)
    scaled = graph.node("Mul", x, graph.constant(np.array(op.alpha.value.data, x.dtype)))
    values.define(op.y, graph.node("Mul", x, graph.node("Sigmoid", scaled)), order)


@exports(nn.ReluOp)
def relu(op: nn.ReluOp, values: Values) -> None:
    """Writes Relu, or Identity on unsigned integers."""
    unary("Identity" if op.unsigned else "Relu", op, values)


@exports(nn.ClampOp)
def clamp(op: nn.ClampOp, values: Values) -> None:
    """Writes Clip or Relu, as for a fused clamp."""
    _as_it_is(op, values)


@exports(nn.RequantizeOp)
def requantize(op: nn.RequantizeOp, values: Values) -> None:
    """Writes a requantization as the cast from one quantized type and the cast to the other."""
    _as_it_is(op, values)


def _as_it_is(op: nn.ClampOp | nn.RequantizeOp, values: Values) -> None:
    order = values.order(op.x)
    x = values.real(op.x, order)
    y: Tensor = values.bounded(op.y, x)
    if y is not x:
        values.name(op.y, y)
    if isinstance(element_of(op.y), UniformType):
        values.quantize(op.y, y, order)
    else:
        values.hold(op.y, y, order)


# ---------------------------------------------------------------------------------------------------------------
# Forms of elementary functions.


@exports(nn.RsqrtOp)
def rsqrt(op: nn.RsqrtOp, values: Values) -> None:
    """Writes Sqrt and Reciprocal."""
    graph, order = values.graph, values.order(op.x)
    x = values.clipped(values.real(op.x, order), *argument_bounds(op, op.x))
    values.define(op.y, graph.node("Reciprocal", graph.node("Sqrt", x)), order)


@exports(nn.NegOp)
def neg(op: nn.NegOp, values: Values) -> None:
    """Writes Neg, or 0 − x on unsigned integers, which wraps around."""
    if not op.unsigned:
        unary("Neg", op, values)
        return
    graph, order = values.graph, values.order(op.x)
    x = values.real(op.x, order)
    values.define(op.y, graph.node("Sub", graph.constant(np.zeros((), x.dtype)), x), order)


@exports(nn.RootQuotientOp)
def root_quotient(op: nn.RootQuotientOp, values: Values) -> None:
    """Raises UnsupportedError: ONNX has no shifts of signed integers, by which gemmlowp computes."""
    raise UnsupportedError("must be an operation that ONNX has", op.name, "rewrite the model without it")
