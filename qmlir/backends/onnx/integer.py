"""Writes a network in qint as ONNX operators that compute integers exactly, so every runtime gives the compiler's bits.

All rounding is written as separate nodes, so these files serve to check results; they are slow.
"""

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import i8, i16, i32
from xdsl.ir import Operation, SSAValue

from qmlir.backends.forms import Forms, constant
from qmlir.backends.onnx.contraction import IMAGES, convolution, window_attributes
from qmlir.backends.onnx.elementwise import operands_in_order
from qmlir.backends.onnx.graph import BOOL, Graph, Tensor
from qmlir.backends.onnx.movement import along
from qmlir.backends.onnx.reduction import pool_attributes
from qmlir.backends.onnx.values import Permutation, Values, stored_dtype
from qmlir.dialects import qint
from qmlir.dialects.nn.quantizable import uniform
from qmlir.dialects.qint import QINT
from qmlir.dialects.qint.normalization import FRACTION
from qmlir.dialects.qint.requantize import NarrowingOp, width_of
from qmlir.dialects.qint.rows import MOST
from qmlir.dialects.quant.ops import QuantizeCastOp
from qmlir.errors import UnsupportedError
from qmlir.ir.interfaces import Array, element_of, shape_of
from qmlir.numerics import Int64s
from qmlir.numerics.fixed_point import MULTIPLIER_BITS

# ---------------------------------------------------------------------------------------------------------------
# The table of forms of qint operations: operation class → the function that writes such an operation as ONNX nodes.
#
# @computes(qint.LookupOp)
# def lookup(op: qint.LookupOp, values: Values) -> None: ...


computes: Forms[Values] = Forms()
"""The table; used as a decorator, it enters a form."""

INT8, INT16, INT32, INT64 = (np.dtype(f"int{bits}") for bits in (8, 16, 32, 64))

BYTE = 1 << 8
"""The number of values of a byte."""

MOST_PRODUCTS = ((1 << 31) - 1) // (255 * 128)
"""The most products of bytes, of which one has a zero point, whose sum 32 bits hold whatever the bytes are."""


def spelled_out(exports: Forms[Values]) -> Forms[Values]:
    """Returns the table of the forms of nn and qint; qint operations without a form raise UnsupportedError."""
    return exports.replaced(dict.fromkeys(QINT.operations, _refuse) | computes.entries)


def _refuse(op: Operation, values: Values) -> None:
    raise UnsupportedError(
        "must have a form in ONNX's operators", op.name, "follow other numerics, or export as onnx-qdq"
    )


def number(graph: Graph, value: float, dtype: np.dtype[Any]) -> Tensor:
    """Returns a constant scalar."""
    return graph.constant(np.array(value, dtype))


def minus(graph: Graph, x: Tensor, point: int) -> Tensor:
    """Subtracts a zero point from a tensor; adds no node for 0."""
    return graph.node("Sub", x, number(graph, point, x.dtype)) if point else x


def zero_point(values: Values, x: SSAValue, point: int) -> Tensor | None:
    """Returns the zero point of data of 8 bits as a tensor; None for 0.

    Raises:
        UnsupportedError: The data are not bytes, or int8 cannot hold the zero point.
    """
    require_bytes(x)
    if not -128 <= point < 128:
        raise UnsupportedError(
            "must have zero points that int8 holds", str(point), "choose parameters within the storage"
        )
    return number(values.graph, point, np.dtype(np.int8)) if point else None


def sums_of_bytes(values: Values, x: SSAValue, point: int, summed: Callable[[Tensor, Tensor | None], Tensor],
                  dtype: np.dtype[Any] = INT32) -> Tensor:  # fmt: skip
    """Returns sums over windows of images, of 8-bit data in int32, or of 16-bit data split into two bytes.

    x − z = 256 · (h − z_h) + (l − z_l), where h is the upper byte and l the lower byte less 128. Each byte is padded
    with its own zero point.

    Args:
        values: The values of the function.
        x: The data.
        point: The data's zero point.
        summed: Adds the nodes that sum an int8 image in int32, with a zero point; None is a zero point of 0.
        dtype: The type of the sums of 16-bit data, int32 or int64.

    Raises:
        UnsupportedError: The data are wider than 16 bits, or their type cannot hold the zero point.
    """
    if element_of(x) != i16:
        return summed(values.stored(x, IMAGES), zero_point(values, x, point))
    if not -(1 << 15) <= point < 1 << 15:
        raise UnsupportedError(
            "must have zero points that int16 holds", str(point), "choose parameters within the storage"
        )
    graph = values.graph
    wide = graph.cast(values.stored(x, IMAGES), INT32)
    lower = graph.node("Mod", wide, number(graph, BYTE, INT32))  # Mod has the divisor's sign: never negative
    upper = graph.node("Div", graph.node("Sub", wide, lower), number(graph, BYTE, INT32))
    parts = [(upper, point // BYTE), (minus(graph, lower, BYTE // 2), point % BYTE - BYTE // 2)]
    sums = (summed(graph.cast(part, INT8), number(graph, z, INT8) if z else None) for part, z in parts)
    high, low = (graph.cast(s, dtype) for s in sums)
    return graph.node("Add", graph.node("Mul", high, number(graph, BYTE, dtype)), low)


def require_bytes(value: SSAValue) -> None:
    """Raises UnsupportedError unless a value has elements of i8."""
    if element_of(value) != i8:
        raise UnsupportedError("must multiply bytes", str(element_of(value)), "quantize to 8 bits")


# ---------------------------------------------------------------------------------------------------------------
# Forms of requantization: a product with a multiplier, rounded by a contract, plus a zero point, then a clamp.


FLOAT32 = np.dtype(np.float32)

ROOM = 62
"""The most bits of a number that is shifted: the bits of the result's range plus the bits that the shift drops."""


@computes(qint.RequantizeOp)
def requantize(op: qint.RequantizeOp, values: Values) -> None:
    """Writes (x − z) · M, computed and rounded as the operation's contract demands."""
    if (rounded := CONTRACTS.get(op.contract.data)) is None:
        known = ", ".join(CONTRACTS)
        raise UnsupportedError(f"must round by one of the contracts {known}", op.contract.data, "follow other numerics")
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
    return graph.cast(minus(graph, y, -low), stored_dtype(op.y))


def _half_up_of_few(values: Values, total: Tensor, bits: Int64s, op: NarrowingOp) -> Tensor:
    """Returns the result of `half_up` for shifts so large that the shifted bounds of the clamp exceed 62 bits.

    The clamp comes last, and truncated quotients are corrected to floors. Such a shift leaves less than 32 bits and a
    sign, so adding the zero point cannot overflow.
    """
    graph, low, high = values.graph, op.lower.value.data, op.upper.value.data
    if int(bits.max(initial=1)) > ROOM:
        got = f"a shift by {int(bits.max())} bits"
        raise UnsupportedError("must have factors between scales that 62 bits can say", got, "export as onnx-qdq")
    step = graph.constant(np.int64(1) << bits)
    total = graph.node("Add", total, graph.constant(np.int64(1) << bits - 1))
    quotient = graph.node("Div", total, step)
    above = graph.node("Less", total, graph.node("Mul", quotient, step), dtype=BOOL)
    y = minus(graph, graph.node("Sub", quotient, graph.cast(above, INT64)), -op.zero_point.value.data)
    y = _chosen(graph, y, number(graph, low, INT64), least=True)
    y = _chosen(graph, y, number(graph, high, INT64), least=False)
    return graph.cast(y, stored_dtype(op.y))


def _chosen(graph: Graph, x: Tensor, bound: Tensor, *, least: bool) -> Tensor:
    """Returns max(x, bound) if `least`, else min(x, bound), for int64.

    The nodes are Less and Where, because onnxruntime 1.31 computes Max, Min and Clip wrongly beyond 32 bits.
    """
    beyond = graph.node("Less", *((x, bound) if least else (bound, x)), dtype=BOOL)
    return graph.where(beyond, bound, x)


def _single(op: qint.RequantizeOp, values: Values, x: Tensor, order: Permutation) -> Tensor:
    graph = values.graph
    multiplier, shift = (_along_channels(op, a, order) for a in _parameters(op))
    data = minus(graph, graph.cast(x, INT64), op.input_zero_point.value.data)
    total = graph.node("Mul", data, graph.constant(multiplier))
    return half_up(values, total, MULTIPLIER_BITS - shift, op)


def _single64(op: qint.RequantizeOp, values: Values, x: Tensor, order: Permutation) -> Tensor:
    """Writes the product in two parts, of the low 16 bits and of the others: together they have more than 64 bits."""
    graph = values.graph
    multiplier, shift = (_along_channels(op, a, order) for a in _parameters(op))
    bits = MULTIPLIER_BITS - shift - LOW_BITS
    if int(bits.min(initial=1)) < 1:
        raise UnsupportedError("must have factors below 2^14", f"a shift of {shift.max()}", "export as onnx-qdq")
    data = minus(graph, graph.cast(x, INT64), op.input_zero_point.value.data)
    high, low = (graph.node("Mul", part, graph.constant(multiplier)) for part in _parts(graph, data, LOW_BITS))
    return half_up(values, graph.node("Add", high, _parts(graph, low, LOW_BITS)[0]), bits, op)


LOW_BITS = 16
"""The bits of a 64-bit accumulator that are multiplied by themselves."""


def _parts(graph: Graph, x: Tensor, bits: int) -> tuple[Tensor, Tensor]:
    """Returns (x >> bits, the low bits of x) of int64 numbers: Mod has the divisor's sign, and Div is exact then."""
    part = number(graph, 1 << bits, INT64)
    low = graph.node("Mod", x, part)
    return graph.node("Div", graph.node("Sub", x, low), part), low


def _float_even(op: qint.RequantizeOp, values: Values, x: Tensor, order: Permutation) -> Tensor:
    return _narrowed(op, values, values.graph.node("Round", _product(op, values, x, order)))


def _float_sum(op: qint.RequantizeOp, values: Values, x: Tensor, order: Permutation) -> Tensor:
    graph = values.graph
    total = graph.node("Add", _product(op, values, x, order), number(graph, op.summand(), FLOAT32))
    return _narrowed(op, values, graph.node("Round", total))


CONTRACTS: dict[str, Callable[[qint.RequantizeOp, Values, Tensor, Permutation], Tensor]] = {
    "single": _single,
    "shift": _single,
    "single64": _single64,
    "float_even": _float_even,
    "float_sum": _float_sum,
}
"""Contract → the function that adds its nodes, from data in a dimension order to narrow integers."""


def _product(op: qint.RequantizeOp, values: Values, x: Tensor, order: Permutation) -> Tensor:
    """Returns float32(x − z) · float32(M)."""
    graph = values.graph
    multiplier, shift = _parameters(op)
    factor = np.ldexp(multiplier.astype(np.float64), (shift - MULTIPLIER_BITS).astype(np.int32)).astype(np.float32)
    data = minus(graph, graph.cast(x, INT64), op.input_zero_point.value.data)
    return graph.node("Mul", graph.cast(data, FLOAT32), graph.constant(_along_channels(op, factor, order)))


def _narrowed(op: qint.RequantizeOp, values: Values, y: Tensor) -> Tensor:
    """Converts whole float32 numbers to the result: adds the zero point, clamps and casts.

    This is exact: float32 represents the bounds exactly, and the clamp decides all numbers beyond them.

    Raises:
        UnsupportedError: A bound is 2^20 or more.
    """
    graph, low, high = values.graph, op.lower.value.data, op.upper.value.data
    if max(abs(low), abs(high)) >= 1 << 20:
        raise UnsupportedError("must have results of 16 bits or less", f"{low} to {high}", "keep its result float")
    y = minus(graph, y, -op.zero_point.value.data)
    return graph.cast(graph.node("Clip", y, number(graph, low, FLOAT32), number(graph, high, FLOAT32)),
                stored_dtype(op.y))  # fmt: skip


def _parameters(op: qint.RequantizeOp) -> tuple[Int64s, Int64s]:
    """Returns the multipliers and shifts."""
    return np.array(op.multiplier.get_values(), np.int64), np.array(op.shift.get_values(), np.int64)


def _along_channels(op: qint.RequantizeOp, array: Array, order: Permutation) -> Array:
    """Shapes an array with one entry per channel, or one for all, to broadcast against data in a dimension order."""
    rank = len(shape_of(op.x))
    return array.reshape(()) if array.size == 1 else array.reshape((*[1] * (rank - 1), -1)).transpose(order)


# ---------------------------------------------------------------------------------------------------------------
# Forms of contractions: ConvInteger and MatMulInteger, which sum in 32 bits, and the addition of the bias.


@computes(qint.Conv2DOp, qint.DepthwiseConv2DOp)
def convolve(op: qint.Conv2DOp | qint.DepthwiseConv2DOp, values: Values) -> None:
    """Writes ConvInteger, for 16-bit data twice: on their upper and on their lower bytes."""
    require_bytes(op.w)
    filters, attributes = convolution(op)
    products = prod(shape_of(op.w)[1:3]) * (1 if isinstance(op, qint.DepthwiseConv2DOp) else shape_of(op.w)[3])
    if width_of(op.x) == 16 and products > MOST_PRODUCTS:
        raise UnsupportedError(f"must sum {MOST_PRODUCTS} products or fewer", str(products), "export as onnx-qdq")

    def summed(x: Tensor, point: Tensor | None) -> Tensor:
        return values.graph.node("ConvInteger", x, values.stored(op.w, filters), point, dtype=INT32, **attributes)

    sums = sums_of_bytes(values, op.x, op.zero_point.value.data, summed, stored_dtype(op.acc))
    values.define(op.acc, _biased(op, values, sums, (-1, 1, 1)), IMAGES)


@computes(qint.FullyConnectedOp)
def fully_connected(op: qint.FullyConnectedOp, values: Values) -> None:
    """Writes MatMulInteger with the weights transposed to [I, O]; on 16 bits MatMul of integers as wide as the sums."""
    if width_of(op.x) == 16:
        wide, point = stored_dtype(op.acc), op.zero_point.value.data
        x, w = (values.graph.cast(t, wide) for t in (values.stored(op.x), values.stored(op.w, (1, 0))))
        sums = values.graph.node("MatMul", minus(values.graph, x, point), w)
        values.define(op.acc, _biased(op, values, sums, (-1,)))
        return
    point = zero_point(values, op.x, op.zero_point.value.data)
    require_bytes(op.w)
    x, w = values.stored(op.x), values.stored(op.w, (1, 0))
    sums = values.graph.node("MatMulInteger", x, w, point, dtype=INT32)
    values.define(op.acc, _biased(op, values, sums, (-1,)))


@computes(qint.MatMulOp)
def matmul(op: qint.MatMulOp, values: Values) -> None:
    """Writes MatMulInteger; for integers of 16 bits, MatMul of integers as wide as the sums."""
    if 16 in map(width_of, (op.lhs, op.rhs)):
        sides = ((op.lhs, op.lhs_zero_point.value.data), (op.rhs, op.rhs_zero_point.value.data))
        wide = stored_dtype(op.acc)
        lhs, rhs = (minus(values.graph, values.graph.cast(values.stored(v), wide), z) for v, z in sides)
        values.define(op.acc, values.graph.node("MatMul", lhs, rhs))
        return
    points = [
        zero_point(values, value, point.value.data)
        for value, point in ((op.lhs, op.lhs_zero_point), (op.rhs, op.rhs_zero_point))
    ]
    _require_sums(op.acc, "export as onnx-qdq")
    lhs, rhs = values.stored(op.lhs), values.stored(op.rhs)
    values.define(op.acc, values.graph.node("MatMulInteger", lhs, rhs, *points, dtype=INT32))


def _biased(op: qint.Conv2DOp | qint.DepthwiseConv2DOp | qint.FullyConnectedOp, values: Values, sums: Tensor,
            shape: tuple[int, ...]) -> Tensor:  # fmt: skip
    """Adds the bias, [O] reshaped to `shape`, to the sums; returns the sums if there is no bias."""
    if width_of(op.x) == 8:
        _require_sums(op.acc, "export as onnx-qdq" if op.b is None else "quantize it with bias=int32")
    if op.b is None:
        return sums
    array = constant(op.b)
    if array is None:
        bias = values.graph.node("Reshape", values.stored(op.b), values.graph.indices(shape))
    else:
        bias = values.graph.constant(array.reshape(shape))
    return values.graph.node("Add", sums, bias)


def _require_sums(value: SSAValue, remedy: str) -> None:
    if element_of(value) != i32:
        raise UnsupportedError("must have sums of 32 bits", str(element_of(value)), remedy)


# ---------------------------------------------------------------------------------------------------------------
# Forms of sums and products of two tensors.


FLOAT64 = np.dtype(np.float64)


@computes(qint.AddOp)
def add(op: qint.AddOp, values: Values) -> None:
    """Writes the sum of both operands times their multipliers, in 64 bits, and one rounding shift."""
    graph = values.graph
    order, operands = operands_in_order(values, op.operands, shape_of(op.y))
    points = op.lhs_zero_point.value.data, op.rhs_zero_point.value.data
    terms = [
        graph.node("Mul", minus(graph, graph.cast(x, INT64), point), number(graph, multiplier, INT64))
        for x, point, multiplier in zip(operands, points, op.multipliers.get_values(), strict=True)
    ]
    values.define(op.y, half_up(values, graph.node("Add", *terms), np.array(op.shift.value.data), op), order)


@computes(qint.FloatAddOp)
def float_add(op: qint.FloatAddOp, values: Values) -> None:
    """Writes two multiply-adds, each in float64 and rounded to float32, which gives the bits of fused multiply-adds."""
    graph, offset = values.graph, op.offset.value.data
    order, operands = operands_in_order(values, op.operands, shape_of(op.y))
    lhs, rhs = (graph.cast(minus(graph, graph.cast(x, INT32), -offset), FLOAT64) for x in operands)
    left, right, constant = (number(graph, n, FLOAT64) for n in op.numbers())
    inner = graph.cast(graph.node("Add", graph.node("Mul", rhs, right), constant), FLOAT32)
    outer = graph.node("Add", graph.node("Mul", lhs, left), graph.cast(inner, FLOAT64))
    y = minus(graph, graph.node("Round", graph.cast(outer, FLOAT32)), -op.zero_point.value.data)
    y = graph.node("Clip", y, number(graph, op.lower.value.data, FLOAT32), number(graph, op.upper.value.data, FLOAT32))
    values.define(op.y, graph.cast(y, stored_dtype(op.y)), order)


@computes(qint.MulOp)
def mul(op: qint.MulOp, values: Values) -> None:
    """Writes a product in the width of the accumulators."""
    graph = values.graph
    order, operands = operands_in_order(values, op.operands, shape_of(op.acc))
    points, wide = (op.lhs_zero_point.value.data, op.rhs_zero_point.value.data), stored_dtype(op.acc)
    factors = [minus(graph, graph.cast(x, wide), point) for x, point in zip(operands, points, strict=True)]
    values.define(op.acc, graph.node("Mul", *factors), order)


# ---------------------------------------------------------------------------------------------------------------
# The form of softmax: exponentials from a table, and one integer division.


@computes(qint.SoftmaxOp)
def softmax(op: qint.SoftmaxOp, values: Values) -> None:
    """Writes floor((2·e·unit + S') / 2S') with S' = Σ e · 2^FRACTION; Div rounds down, as no number is negative."""
    if op.division.data != "exact":
        raise UnsupportedError("must divide exactly", op.division.data, "follow other numerics")
    graph, order = values.graph, values.order(op.x)
    x, axis = graph.cast(values.stored(op.x, order), INT32), order.index(op.axis.value.data)
    largest = graph.node("ReduceMax", x, graph.indices([axis]))
    table = graph.constant(op.table.array.astype(np.int64))
    e = graph.node("Gather", table, graph.node("Sub", largest, x), dtype=INT64)
    total = graph.node("Mul", graph.node("ReduceSum", e, graph.indices([axis])), number(graph, 1 << FRACTION, INT64))
    shares = graph.node("Add", graph.node("Mul", e, number(graph, 2 * op.unit.value.data, INT64)), total)
    y = graph.node("Div", shares, graph.node("Mul", total, number(graph, 2, INT64)))
    y = minus(graph, graph.cast(y, INT32), -op.zero_point.value.data)
    y = graph.node("Clip", y, number(graph, op.lower.value.data, INT32), number(graph, op.upper.value.data, INT32))
    values.define(op.y, graph.cast(y, stored_dtype(op.y)), order)


@computes(qint.ExponentialsOp)
def exponentials(op: qint.ExponentialsOp, values: Values) -> None:
    """Writes the entries of a table at the differences from the maximum."""
    graph, order = values.graph, values.order(op.x)
    x, axis = graph.cast(values.stored(op.x, order), INT32), order.index(op.axis.value.data)
    d = graph.node("Sub", graph.node("ReduceMax", x, graph.indices([axis])), x)
    d = graph.node("Min", d, number(graph, len(op.table.array) - 1, INT32))
    values.define(op.y, graph.node("Gather", graph.constant(op.table.array), d, dtype=INT16), order)


@computes(qint.RowMagnitudesOp)
def row_magnitudes(op: qint.RowMagnitudesOp, values: Values) -> None:
    """Writes the largest magnitude of each row."""
    _, most = _rows_and_magnitudes(op, values)
    values.define(
        op.y, values.graph.cast(_chosen(values.graph, most, number(values.graph, MOST, INT64), least=False), INT32)
    )


@computes(qint.DivideRowsOp)
def divide_rows(op: qint.DivideRowsOp, values: Values) -> None:
    """Writes half_up(x · R · 2^−k) with R = floor(limit · 2^k / M); an offset keeps what Div gets above 0."""
    graph, formula = values.graph, op.formula()
    x, most = _rows_and_magnitudes(op, values)
    one = number(graph, formula.limit << formula.fraction, INT64)
    reciprocal = graph.node("Div", one, _chosen(graph, most, number(graph, 1, INT64), least=True))
    added = (1 << formula.fraction - 1) + (formula.limit << formula.fraction)
    product = graph.node("Add", graph.node("Mul", x, reciprocal), number(graph, added, INT64))
    y = graph.node("Div", product, number(graph, 1 << formula.fraction, INT64))
    values.define(op.y, graph.cast(minus(graph, graph.cast(y, INT32), formula.limit), stored_dtype(op.y)))


def _rows_and_magnitudes(op: qint.RowMagnitudesOp | qint.DivideRowsOp, values: Values) -> tuple[Tensor, Tensor]:
    """Rows less their zero point, and the largest magnitude of each, int64."""
    graph = values.graph
    x = minus(graph, graph.cast(values.stored(op.x), INT64), op.zero_point.value.data)
    axes = graph.indices([len(shape_of(op.x)) - 1])
    return x, graph.node("ReduceMax", graph.node("Abs", x), axes)


@computes(qint.RowQuotientOp)
def row_quotient(op: qint.RowQuotientOp, values: Values) -> None:
    """Writes floor((2·acc·unit + S) / 2S) with S = Σ w · 2^fraction; an offset keeps what Div gets above 0."""
    graph, unit, fraction, offset = values.graph, *(v.value.data for v in (op.unit, op.fraction, op.offset))
    w, acc = (graph.cast(values.stored(v), INT64) for v in (op.w, op.acc))
    total = graph.node("ReduceSum", w, graph.indices([len(shape_of(op.w)) - 1]))
    total = _chosen(graph, total, number(graph, 1, INT64), least=True)
    total = graph.node("Mul", total, number(graph, 1 << fraction, INT64))
    added = graph.node("Mul", total, number(graph, 2 * offset + 1, INT64))
    dividend = graph.node("Add", graph.node("Mul", acc, number(graph, 2 * unit, INT64)), added)
    y = graph.node("Div", dividend, graph.node("Mul", total, number(graph, 2, INT64)))
    y = minus(graph, graph.cast(y, INT32), offset - op.zero_point.value.data)
    y = graph.node("Clip", y, number(graph, op.lower.value.data, INT32), number(graph, op.upper.value.data, INT32))
    values.define(op.y, graph.cast(y, stored_dtype(op.y)))


# ---------------------------------------------------------------------------------------------------------------
# Forms of pools over the two spatial axes; ONNX's images are channels-first.


@computes(qint.MaxPool2DOp)
def max_pool2d(op: qint.MaxPool2DOp, values: Values) -> None:
    """Writes MaxPool."""
    y = values.graph.node("MaxPool", values.stored(op.x, IMAGES), **pool_attributes(op))
    values.define(op.y, y, IMAGES)


@computes(qint.AveragePool2DOp)
def average_pool2d(op: qint.AveragePool2DOp, values: Values) -> None:
    """Writes sums as a ConvInteger with weights of 1, and a division that rounds half away from −offset."""
    graph, window, channels = values.graph, op.window_values(), shape_of(op.x)[3]
    counts, offset = op.counts().astype(np.int32), op.offset.value.data
    # ConvInteger pads with the zero point, so padding adds 0 to sums of zero-point-subtracted data.
    point = op.zero_point.value.data if bool(op.count_include_pad) else 0

    def summed(x: Tensor, point: Tensor | None) -> Tensor:
        ones = graph.constant(np.ones((channels, 1, *window), np.int8))
        return graph.node(
            "ConvInteger", x, ones, point, dtype=INT32, kernel_shape=list(window), group=channels,
            **window_attributes(op),
        )  # fmt: skip

    sums = sums_of_bytes(values, op.x, point, summed)
    total = graph.node("Add", sums, graph.constant((point + offset) * counts))
    magnitude = graph.node("Add", graph.node("Abs", total), graph.constant(counts // 2))
    magnitude = graph.node("Div", magnitude, graph.constant(counts))
    y = minus(graph, graph.node("Mul", graph.node("Sign", total), magnitude), offset)
    values.define(op.y, graph.cast(y, stored_dtype(op.y)), IMAGES)


@computes(qint.GlobalSumPoolOp)
def global_sum_pool(op: qint.GlobalSumPoolOp, values: Values) -> None:
    """Writes ReduceSum in the width of the accumulators."""
    graph, order = values.graph, values.order(op.x)
    x = minus(graph, graph.cast(values.stored(op.x, order), stored_dtype(op.acc)), op.zero_point.value.data)
    values.define(op.acc, graph.node("ReduceSum", x, graph.indices([order.index(1), order.index(2)])), order)


# ---------------------------------------------------------------------------------------------------------------
# The form of table lookups, with tables of 256 or 65,536 entries.


@computes(qint.LookupOp)
def lookup(op: qint.LookupOp, values: Values) -> None:
    """Writes Gather. Its negative indices count from the end, so the table is rotated to begin with the entry of 0."""
    graph, order = values.graph, values.order(op.x)
    table = graph.constant(np.roll(op.table.array, -op.half))
    y = graph.node("Gather", table, graph.cast(values.stored(op.x, order), INT32))
    values.define(op.y, y, order)


# ---------------------------------------------------------------------------------------------------------------
# The form of resizing: weighted sums of neighbouring elements in 32 bits.


@computes(qint.ResizeOp)
def resize(op: qint.ResizeOp, values: Values) -> None:
    """Writes Gather, Mul and Add for each tap (a neighbour that an output element reads)."""
    graph, order = values.graph, values.order(op.x)
    wide = stored_dtype(op.acc)
    y = minus(graph, graph.cast(values.stored(op.x, order), wide), op.zero_point.value.data)
    for axis, taps, weights in op.tables():
        y = along(graph, y, order.index(axis), len(order), taps, weights.astype(wide))
    if bits := op.dropped.value.data:
        y, _ = _parts(graph, y, bits)
    values.define(op.acc, y, order)


# ---------------------------------------------------------------------------------------------------------------
# The form of the cast from floats to quantized integers: a division in the cast's precision, then one rounding.


QUOTIENTS = {"exact": np.dtype(np.float64), "float32": np.dtype(np.float32)}
"""The cast's way of quantizing → the type in which it divides; both ways round half to even."""


@computes(QuantizeCastOp)
def quantize_cast(op: QuantizeCastOp, values: Values) -> None:
    """Writes clamp(rint(x / S) + Z); ONNX does not define the result for NaN."""
    if (dtype := QUOTIENTS.get(op.quantization)) is None:
        raise UnsupportedError(
            f"must quantize in one of the ways {', '.join(QUOTIENTS)}", op.quantization, "follow other numerics"
        )
    graph, order, element = values.graph, values.order(op.input), uniform(op.result)
    scale, points = (graph.constant(a.astype(dtype)) for a in _cast_parameters(op.result, order))
    steps = graph.node("Div", graph.cast(values.stored(op.input, order), dtype), scale)
    y = graph.node("Add", graph.node("Round", steps), points)
    y = graph.node("Clip", y, *(number(graph, q, dtype) for q in (element.storage_min, element.storage_max)))
    values.hold(op.result, graph.cast(y, np.dtype(element.numpy_dtype)), order)


def _cast_parameters(value: SSAValue, order: Permutation) -> tuple[Array, Array]:
    """Returns scale and zero point of a value, shaped to broadcast against the value's tensor in a dimension order."""
    rank = len(shape_of(value))
    scale, points = (np.asarray(p) for p in uniform(value).parameters_along(rank))
    return (scale.transpose(order), points.transpose(order)) if scale.ndim == rank else (scale, points)
