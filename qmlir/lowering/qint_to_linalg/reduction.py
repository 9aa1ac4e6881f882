"""Export of reductions, pools, normalizations and weighted sums of neighbours."""

from functools import partial
from math import prod

import numpy as np
from xdsl.dialects.builtin import Signedness, f32, i32, i64
from xdsl.ir import SSAValue

from qmlir.codegen.upstream import Array, check_comparable
from qmlir.codegen.value import INDEX, Value
from qmlir.dialects.nn.reduction import ExtremeOp, ReduceMaxOp, ReduceMinOp
from qmlir.dialects.qint.attention import ExponentialsOp, RowQuotientOp
from qmlir.dialects.qint.local_response import LocalResponseNormalizationOp
from qmlir.dialects.qint.normalization import AlongAxisOp, L2NormalizationOp, LogSoftmaxOp, SoftmaxOp
from qmlir.dialects.qint.pooling import (
    AveragePool2DOp,
    GlobalSumPoolOp,
    InterpolateOp,
    MaxPool2DOp,
    PoolOp,
    ResizeOp,
    mean,
    weighted,
)
from qmlir.dialects.qint.requantize import less_zero_point, width_of
from qmlir.dialects.qint.root_normalization import LayerNormOp, RMSNormOp
from qmlir.dialects.qint.rows import MOST, DivideRowsOp, OfRowsOp, RowMagnitudesOp, magnitude
from qmlir.ir.interfaces import element_of, shape_of, tensor_type
from qmlir.ir.types import is_integer
from qmlir.lowering.qint_to_linalg.contraction import padded_image, tap
from qmlir.lowering.qint_to_linalg.elementwise import reader
from qmlir.lowering.qint_to_linalg.movement import element_at, position
from qmlir.lowering.qint_to_linalg.structured import Formula, Place, TensorCode, loops, tensor_of

# ---------------------------------------------------------------------------------------------------------------
# Export of maxima and minima of integers along axes.


def _extreme(code: TensorCode, op: ExtremeOp, x: SSAValue) -> SSAValue:
    element = check_comparable(code, op.x)
    unsigned = element.signedness.data == Signedness.UNSIGNED
    kept = [d for d in range(len(shape_of(x))) if d not in op.axes.get_values()]
    dims = loops(len(shape_of(x)))

    def further(x: Value, most: Value) -> Value:
        return (most.maximum if isinstance(op, ReduceMaxOp) else most.minimum)(x, unsigned=unsigned)

    start = code.filled(_signed(int(op.identity()), element.width.data), [shape_of(x)[d] for d in kept], element_of(x))
    found = code.generic([(x, dims)], (start, [dims[d] for d in kept]), len(dims), further)
    return code.reshape(found, shape_of(op.y))


def _signed(number: int, bits: int) -> int:
    """Converts an unsigned integer to the signed integer of the same bits."""
    return number - (1 << bits) if number >= 1 << bits - 1 else number


# ---------------------------------------------------------------------------------------------------------------
# Export of integer pools; an empty tensor of the window's shape gives the bounds of the window's loops.


def _pool(code: TensorCode, op: PoolOp, image: SSAValue, start: SSAValue, formula: Formula) -> SSAValue:
    n, row, column, c, i, j = loops(6)
    window = code.empty(op.window_values(), element_of(op.x))
    read = [(image, [n, *tap(op, row, column, i, j), c]), (window, [i, j])]
    return code.generic(read, (start, [n, row, column, c]), 6, formula)


def _maximum(x: Value, _: Value, most: Value) -> Value:
    return most.maximum(x)


def _sum(x: Value, _: Value, total: Value) -> Value:
    return total + x.to(i64)


def _max_pool(code: TensorCode, op: MaxPool2DOp, x: SSAValue) -> SSAValue:
    element = element_of(op.x)
    assert is_integer(element)
    least = -(1 << element.width.data - 1)
    start = code.filled(least, shape_of(op.y), element)
    return _pool(code, op, padded_image(code, op, x, least), start, _maximum)


def _average_pool(code: TensorCode, op: AveragePool2DOp, x: SSAValue) -> SSAValue:
    """Writes sums in i64, then divides by the count of each output, rounding halves away from −offset."""
    fill = op.zero_point.value.data if bool(op.count_include_pad) else 0
    start = code.filled(0, shape_of(op.y), i64)
    sums = _pool(code, op, padded_image(code, op, x, fill), start, _sum)
    counts, offset = code.constant(op.counts()[:, :, None].astype(np.int64)), op.offset.value.data  # [OH, OW, 1]

    def rounded(total: Value, count: Value) -> Value:
        return mean(total, count, offset).to(element_of(op.y))

    return code.elementwise([sums, counts], tensor_type(op.y), rounded)


def _global_sum_pool(code: TensorCode, op: GlobalSumPoolOp, x: SSAValue) -> SSAValue:
    batch, _, _, channels = shape_of(op.x)
    n, c, row, column = loops(4)

    def add(x: Value, total: Value) -> Value:
        return total + less_zero_point(x, op.zero_point.value.data).to(element_of(op.acc))

    into = (code.filled(0, (batch, channels), element_of(op.acc)), [n, c])
    sums = code.generic([(x, [n, row, column, c])], into, 4, add)
    return code.reshape(sums, shape_of(op.acc))


# ---------------------------------------------------------------------------------------------------------------
# Export of softmax, log-softmax and L2 normalization: reductions along the axis, then a formula on each element.


def greater(x: Value, most: Value) -> Value:
    """The greater of an element and the maximum so far."""
    return most.maximum(x)


def _along_axis(code: TensorCode, op: AlongAxisOp, x: SSAValue) -> SSAValue:
    shape, formula, tables = op.split(), op.formula(), [reader(code.constant(table)) for table in op.tables()]
    before, along, behind = loops(3)
    everywhere, row, rows = [before, along, behind], [before, behind], (shape[0], shape[2])
    read: list[tuple[SSAValue, Place]] = [(code.reshape(x, shape), everywhere)]
    if formula.zero_point is None:
        least = code.filled(-(1 << width_of(op.x) - 1), rows, element_of(op.x))
        read.append((code.generic(read, (least, row), 3, greater), row))

    def adding(index: int) -> Formula:
        def add(x: Value, *others: Value) -> Value:
            return others[-1] + formula.terms(formula.difference(x, others[0]), *tables)[index].to(i64)

        return add

    def element(x: Value, *others: Value) -> Value:
        numbers = len(others) - formula.SUMS - 1
        d, totals = formula.difference(x, (others if numbers else [x])[0]), others[numbers:-1]
        return formula.element(d, formula.shared(totals, *tables), *tables)

    sums = [code.generic(read, (code.filled(0, rows, i64), row), 3, adding(i)) for i in range(formula.SUMS)]
    y = tensor_type(op.results[0])
    into = (code.empty(shape, y.element_type), everywhere)
    return code.reshape(code.generic([*read, *((total, row) for total in sums)], into, 3, element), y.get_shape())


def _row_quotient(code: TensorCode, op: RowQuotientOp, acc: SSAValue, w: SSAValue) -> SSAValue:
    shape, weights, formula = shape_of(op.acc), shape_of(op.w), op.formula()
    *row, k = loops(len(weights))

    def add(w: Value, total: Value) -> Value:
        return total + w.to(i64)

    def divided(acc: Value, total: Value) -> Value:
        return formula.element(acc, formula.shared(total))

    sums = code.generic([(w, [*row, k])], (code.filled(0, weights[:-1], i64), row), len(weights), add)
    return code.elementwise([acc, code.reshape(sums, (*weights[:-1], 1))], tensor_of(element_of(op.y), shape), divided)


def _largest(code: TensorCode, op: OfRowsOp, x: SSAValue) -> SSAValue:
    """The largest magnitude of each row, i64."""
    shape, zero_point = shape_of(op.x), op.zero_point.value.data
    *row, along = loops(len(shape))

    def greater(x: Value, most: Value) -> Value:
        return most.maximum(magnitude(x, zero_point))

    most = code.generic([(x, [*row, along])], (code.filled(0, shape[:-1], i64), row), len(shape), greater)
    return code.reshape(most, (*shape[:-1], 1))


def _row_magnitudes(code: TensorCode, op: RowMagnitudesOp, x: SSAValue) -> SSAValue:
    def stored(most: Value) -> Value:
        return most.minimum(MOST).to(i32)

    return code.elementwise([_largest(code, op, x)], tensor_type(op.y), stored)


def _divide_rows(code: TensorCode, op: DivideRowsOp, x: SSAValue) -> SSAValue:
    formula = op.formula()

    def divided(x: Value, most: Value) -> Value:
        return formula.element(x, formula.reciprocal(most))

    return code.elementwise([x, _largest(code, op, x)], tensor_type(op.y), divided)


def _local_response(code: TensorCode, op: LocalResponseNormalizationOp, x: SSAValue) -> SSAValue:
    """Writes the squares, with zeros around the channels; their sums over windows; and a formula on each element."""
    *pixels, channels = shape_of(op.x)
    shape, formula, (before, after) = (prod(pixels), channels), op.formula(), op.neighbours()
    tables = [reader(code.constant(table)) for table in op.tables()]
    p, c, k = loops(3)
    rows = code.reshape(x, shape)

    def square(x: Value, _: Value) -> Value:
        return formula.square(x)

    def add(square: Value, _: Value, total: Value) -> Value:
        return total + square

    def element(x: Value, total: Value, _: Value) -> Value:
        return formula(x, total, *tables)

    squares = code.generic([(rows, [p, c])], (code.empty(shape, i64), [p, c]), 2, square)
    around, window = code.padded(squares, [0, before], [0, after], 0), code.empty((before + after + 1,), i64)
    sums = code.generic([(around, [p, c + k]), (window, [k])], (code.filled(0, shape, i64), [p, c]), 3, add)
    into = (code.empty(shape, element_of(op.y)), [p, c])
    return code.reshape(code.generic([(rows, [p, c]), (sums, [p, c])], into, 2, element), shape_of(op.y))


# ---------------------------------------------------------------------------------------------------------------
# Export of integer interpolation: a weighted sum over neighbours (taps) along one axis after another.


def _resize(code: TensorCode, op: ResizeOp, x: SSAValue) -> SSAValue:
    sums = element_of(op.acc)

    def start(x: Value) -> Value:
        return less_zero_point(x, op.zero_point.value.data).to(sums)

    x = code.elementwise([x], tensor_of(sums, shape_of(x)), start)
    for axis, taps, weights in op.tables():
        x = _along(code, x, axis, taps, weights)
    if bits := op.dropped.value.data:
        x = code.elementwise([x], tensor_type(op.acc), partial(_fewer, bits=bits))
    assert x.type == tensor_type(op.acc)
    return x


def _fewer(total: Value, bits: int) -> Value:
    return total >> bits


def _along(code: TensorCode, x: SSAValue, axis: int, taps: Array, weights: Array) -> SSAValue:
    """acc[…, o, …] = Σ_t weights[o, t] · x[…, taps[o, t], …]."""
    shape = list(shape_of(x))
    shape[axis] = len(taps)
    *written, tap = loops(len(shape) + 1)

    def weighted(place: Value, weight: Value, acc: Value) -> Value:
        here = [position(acc.code, d) for d in range(len(shape))]
        here[axis] = place.to(INDEX)
        return acc + weight.to(element_of(x)) * element_at(acc.code, x, here)

    read = [(code.constant(table), [written[axis], tap]) for table in (taps, weights)]
    return code.generic(read, (code.filled(0, shape, element_of(x)), written), len(shape) + 1, weighted)


def _interpolate(code: TensorCode, op: InterpolateOp, x: SSAValue) -> SSAValue:
    """Writes one loop nest over all taps, the last axis' taps outermost; sums are in i64 or f32."""
    shape, tables, offset = shape_of(op.y), op.steps(), op.offset.value.data
    wide = f32 if op.computed_in_floats() else i64
    written, ways = loops(len(shape) + len(tables))[: len(shape)], loops(len(shape) + len(tables))[len(shape) :]
    read = [
        (code.constant(table), [written[axis], way])
        for (axis, taps, weights), way in zip(tables, reversed(ways), strict=True)
        for table in (taps, weights)
    ]

    def add(*elements: Value) -> Value:
        *found, total = elements
        here = [position(total.code, d) for d in range(len(shape))]
        for (axis, _, _), place in zip(tables, found[::2], strict=True):
            here[axis] = place.to(INDEX)
        term = (element_at(total.code, x, here).to(i32) + offset).to(wide)
        return total + weighted(term, found[1::2], op.rounding.data)

    def rounded(total: Value) -> Value:
        return (op.rounded(total) - offset).to(element_of(op.y))

    total = code.generic(read, (code.filled(0, shape, wide), written), len(shape) + len(tables), add)
    return code.elementwise([total], tensor_type(op.y), rounded)


RULES = {
    ReduceMaxOp: _extreme,
    ReduceMinOp: _extreme,
    MaxPool2DOp: _max_pool,
    AveragePool2DOp: _average_pool,
    GlobalSumPoolOp: _global_sum_pool,
    SoftmaxOp: _along_axis,
    LogSoftmaxOp: _along_axis,
    L2NormalizationOp: _along_axis,
    LayerNormOp: _along_axis,
    RMSNormOp: _along_axis,
    ExponentialsOp: _along_axis,
    RowQuotientOp: _row_quotient,
    RowMagnitudesOp: _row_magnitudes,
    DivideRowsOp: _divide_rows,
    LocalResponseNormalizationOp: _local_response,
    ResizeOp: _resize,
    InterpolateOp: _interpolate,
}
