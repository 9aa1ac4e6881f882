"""Forms of requantization: a product with a multiplier, rounded by a contract, plus a zero point, then a clamp."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from qmlir.backends.forms import NoForm
from qmlir.backends.onnx.graph import BOOL, Graph, Tensor
from qmlir.backends.onnx.integer.forms import INT64, cast, computes, minus, number
from qmlir.backends.onnx.values import Permutation, Values, stored_dtype
from qmlir.dialects import qint
from qmlir.dialects.qint.requantize import NarrowingOp
from qmlir.ir.interfaces import Array, shape_of
from qmlir.numerics.fixed_point import MULTIPLIER_BITS

Int64s = npt.NDArray[np.int64]

FLOAT32 = np.dtype(np.float32)

ROOM = 62
"""The most bits of a number that is shifted: the bits of the result's range plus the bits that the shift drops."""


@computes(qint.RequantizeOp)
def requantize(op: qint.RequantizeOp, values: Values) -> None:
    """Writes (x − z) · M, computed and rounded as the operation's contract demands."""
    if (rounded := CONTRACTS.get(op.contract.data)) is None:
        known = ", ".join(CONTRACTS)
        raise NoForm(f"must round by one of the contracts {known}", op.contract.data, "follow other numerics")
    order = values.order(op.x)
    values.define(op.y, rounded(op, values, values.stored(op.x, order), order), order)


def half_up(values: Values, total: Tensor, bits: Int64s, op: NarrowingOp) -> Tensor:
    """Returns clamp(z + (total + 2^(bits − 1)) >> bits).

    The clamp comes first, because the shift is written as Div: Div truncates, which equals a shift only for numbers
    that are not negative.

    Args:
        values: The values of the function.
        total: The int64 numbers to shift.
        bits: The shifts, at least 1; they broadcast against `total`.
        op: The operation that has the zero point and the clamp.
    """
    graph, point = values.graph, op.zero_point.value.data
    low, high = op.lower.value.data, op.upper.value.data
    if int(bits.max(initial=1)) + int(high - low + 1).bit_length() > ROOM:
        return _half_up_of_few(values, total, bits, op)
    y = graph.node("Add", total, graph.constant((np.int64(1) << bits - 1) + (np.int64(point - low) << bits)))
    y = _chosen(graph, y, number(graph, 0, INT64), least=True)
    y = _chosen(graph, y, graph.constant((np.int64(high - low + 1) << bits) - 1), least=False)
    y = graph.node("Div", y, graph.constant(np.int64(1) << bits))
    return cast(graph, minus(graph, y, -low), stored_dtype(op.y))


def _half_up_of_few(values: Values, total: Tensor, bits: Int64s, op: NarrowingOp) -> Tensor:
    """Returns the result of `half_up` for shifts so large that the shifted bounds of the clamp exceed 62 bits.

    The clamp comes last, and truncated quotients are corrected to floors. Such a shift leaves less than 32 bits and a
    sign, so adding the zero point cannot overflow.
    """
    graph, low, high = values.graph, op.lower.value.data, op.upper.value.data
    if int(bits.max(initial=1)) > ROOM:
        got = f"a shift by {int(bits.max())} bits"
        raise NoForm("must have factors between scales that 62 bits can say", got, "export as onnx-qdq")
    step = graph.constant(np.int64(1) << bits)
    total = graph.node("Add", total, graph.constant(np.int64(1) << bits - 1))
    quotient = graph.node("Div", total, step)
    above = graph.node("Less", total, graph.node("Mul", quotient, step), dtype=BOOL)
    y = minus(graph, graph.node("Sub", quotient, cast(graph, above, INT64)), -op.zero_point.value.data)
    y = _chosen(graph, y, number(graph, low, INT64), least=True)
    y = _chosen(graph, y, number(graph, high, INT64), least=False)
    return cast(graph, y, stored_dtype(op.y))


def _chosen(graph: Graph, x: Tensor, bound: Tensor, *, least: bool) -> Tensor:
    """Returns max(x, bound) if `least`, else min(x, bound), for int64.

    The nodes are Less and Where, because onnxruntime 1.31 computes Max, Min and Clip wrongly beyond 32 bits.
    """
    beyond = graph.node("Less", *((x, bound) if least else (bound, x)), dtype=BOOL)
    return graph.where(beyond, bound, x)


def _single(op: qint.RequantizeOp, values: Values, x: Tensor, order: Permutation) -> Tensor:
    graph = values.graph
    multiplier, shift = (_along_channels(op, a, order) for a in _parameters(op))
    data = minus(graph, cast(graph, x, INT64), op.input_zero_point.value.data)
    total = graph.node("Mul", data, graph.constant(multiplier))
    return half_up(values, total, MULTIPLIER_BITS - shift, op)


def _float_even(op: qint.RequantizeOp, values: Values, x: Tensor, order: Permutation) -> Tensor:
    return _narrowed(op, values, values.graph.node("Round", _product(op, values, x, order)))


def _float_sum(op: qint.RequantizeOp, values: Values, x: Tensor, order: Permutation) -> Tensor:
    graph = values.graph
    total = graph.node("Add", _product(op, values, x, order), number(graph, op.summand(), FLOAT32))
    return _narrowed(op, values, graph.node("Round", total))


CONTRACTS: dict[str, Callable[[qint.RequantizeOp, Values, Tensor, Permutation], Tensor]] = {
    "single": _single,
    "shift": _single,
    "float_even": _float_even,
    "float_sum": _float_sum,
}
"""Contract → the function that adds its nodes, from data in a dimension order to narrow integers."""


def _product(op: qint.RequantizeOp, values: Values, x: Tensor, order: Permutation) -> Tensor:
    """Returns float32(x − z) · float32(M)."""
    graph = values.graph
    multiplier, shift = _parameters(op)
    factor = np.ldexp(multiplier.astype(np.float64), (shift - MULTIPLIER_BITS).astype(np.int32)).astype(np.float32)
    data = minus(graph, cast(graph, x, INT64), op.input_zero_point.value.data)
    return graph.node("Mul", cast(graph, data, FLOAT32), graph.constant(_along_channels(op, factor, order)))


def _narrowed(op: qint.RequantizeOp, values: Values, y: Tensor) -> Tensor:
    """Converts whole float32 numbers to the result: adds the zero point, clamps and casts.

    This is exact: float32 represents the bounds exactly, and the clamp decides all numbers beyond them.

    Raises:
        NoForm: A bound is 2^20 or more.
    """
    graph, low, high = values.graph, op.lower.value.data, op.upper.value.data
    if max(abs(low), abs(high)) >= 1 << 20:
        raise NoForm("must have results of 16 bits or less", f"{low} to {high}", "keep its result float")
    y = minus(graph, y, -op.zero_point.value.data)
    return cast(graph, graph.node("Clip", y, number(graph, low, FLOAT32), number(graph, high, FLOAT32)),
                stored_dtype(op.y))  # fmt: skip


def _parameters(op: qint.RequantizeOp) -> tuple[Int64s, Int64s]:
    """Returns the multipliers and shifts."""
    return np.array(op.multiplier.get_values(), np.int64), np.array(op.shift.get_values(), np.int64)


def _along_channels(op: qint.RequantizeOp, array: Array, order: Permutation) -> Array:
    """Shapes an array with one entry per channel, or one for all, to broadcast against data in a dimension order."""
    rank = len(shape_of(op.x))
    return array.reshape(()) if array.size == 1 else array.reshape((*[1] * (rank - 1), -1)).transpose(order)
