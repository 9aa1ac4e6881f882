"""Export of reductions, pools, normalizations and weighted sums of neighbours."""

import numpy as np
from xdsl.dialects import tensor
from xdsl.dialects.builtin import Signedness, f32, i32, i64
from xdsl.ir import SSAValue

from qmlir.codegen.value import INDEX, Value
from qmlir.codegen.way_out import Array, check_comparable
from qmlir.dialects.nn.reduction import ExtremeOp, ReduceMaxOp, ReduceMinOp
from qmlir.dialects.qint.normalization import (
    ExponentialsOp,
    L2NormalizationOp,
    LogSoftmaxOp,
    SoftmaxOp,
    logarithm_of_share,
)
from qmlir.dialects.qint.pooling import (
    AveragePool2DOp,
    GlobalSumPoolOp,
    InterpolateOp,
    MaxPool2DOp,
    PoolOp,
    ResizeOp,
    weighted,
)
from qmlir.dialects.qint.requantize import centred
from qmlir.ir.interfaces import element_of, shape_of, tensor_type
from qmlir.ir.types import is_integer
from qmlir.lowering.qint_to_linalg.contraction import padded_image, tap
from qmlir.lowering.qint_to_linalg.movement import element_at, position
from qmlir.lowering.qint_to_linalg.structured import Formula, TensorCode, loops, tensor_of

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

    def mean(total: Value, count: Value) -> Value:
        if offset:
            total = total + count * offset
        sign = total >> 63  # −1 or 0
        magnitude = ((total ^ sign) - sign + count.logical_shift(1)).truncated_quotient(count)
        return ((magnitude ^ sign) - sign - offset).to(element_of(op.y))

    return code.elementwise([sums, counts], tensor_type(op.y), mean)


def _global_sum_pool(code: TensorCode, op: GlobalSumPoolOp, x: SSAValue) -> SSAValue:
    batch, _, _, channels = shape_of(op.x)
    n, c, row, column = loops(4)

    def add(x: Value, total: Value) -> Value:
        return total + centred(x, op.zero_point.value.data)

    into = (code.filled(0, (batch, channels), i32), [n, c])
    sums = code.generic([(x, [n, row, column, c])], into, 4, add)
    return code.reshape(sums, shape_of(op.acc))


# ---------------------------------------------------------------------------------------------------------------
# Export of softmax, log-softmax and L2 normalization: reductions along the axis, then a formula on each element.


def _read(table: SSAValue, place: Value) -> Value:
    """Reads an entry of a table, as i64."""
    return place.code.emit(tensor.ExtractOp, [table, place.to(INDEX).ssa], element_of(table)).to(i64)


def _difference(x: Value, most: Value) -> Value:
    return most.to(i64) - x.to(i64)


def _maxima(code: TensorCode, op: ExponentialsOp, flat: SSAValue) -> SSAValue:
    """The maximum along the axis: [before the axis, behind the axis]."""

    def further(x: Value, most: Value) -> Value:
        return most.maximum(x)

    before, along, behind = loops(3)
    rows = (op.split()[0], op.split()[2])
    least = code.filled(-(len(op.table.array) >> 1), rows, element_of(op.x))
    return code.generic([(flat, [before, along, behind])], (least, [before, behind]), 3, further)


def _softmax(code: TensorCode, op: SoftmaxOp, x: SSAValue) -> SSAValue:
    shape, division, table = op.split(), op.division_by_sum(), code.constant(op.table.array)
    inverse = code.constant((op.inverse or op.table).array)
    before, along, behind = loops(3)
    everywhere, row = [before, along, behind], [before, behind]
    rows = (shape[0], shape[2])

    def exponential(x: Value, most: Value) -> Value:
        return _read(table, _difference(x, most))

    def add(x: Value, most: Value, total: Value) -> Value:
        return total + division.term(exponential(x, most))

    def share(x: Value, most: Value, total: Value, _: Value) -> Value:
        shares = division.shares(total, lambda place: _read(inverse, place))
        return op.narrowing()(division.share(exponential(x, most), *shares))

    flat = code.reshape(x, shape)
    most = _maxima(code, op, flat)
    total = code.generic([(flat, everywhere), (most, row)], (code.filled(0, rows, i64), row), 3, add)
    into = (code.empty(shape, element_of(op.y)), everywhere)
    return code.reshape(code.generic([(flat, everywhere), (most, row), (total, row)], into, 3, share), shape_of(op.y))


def _log_softmax(code: TensorCode, op: LogSoftmaxOp, x: SSAValue) -> SSAValue:
    shape, table, differences = op.split(), code.constant(op.table.array), code.constant(op.differences.array)
    before, along, behind = loops(3)
    everywhere, row = [before, along, behind], [before, behind]

    def add(x: Value, most: Value, total: Value) -> Value:
        return total + _read(table, _difference(x, most))

    def share(x: Value, most: Value, total: Value, y: Value) -> Value:
        difference = _read(differences, _difference(x, most))
        return logarithm_of_share(difference, op.log_of_sum()(total)).to(y.element)

    flat = code.reshape(x, shape)
    most = _maxima(code, op, flat)
    total = code.generic([(flat, everywhere), (most, row)], (code.filled(0, (shape[0], shape[2]), i64), row), 3, add)
    into = (code.empty(shape, element_of(op.y)), everywhere)
    return code.reshape(code.generic([(flat, everywhere), (most, row), (total, row)], into, 3, share), shape_of(op.y))


def _l2_normalization(code: TensorCode, op: L2NormalizationOp, x: SSAValue) -> SSAValue:
    shape, root, zero_point = op.split(), op.root(), op.input_zero_point.value.data
    before, along, behind = loops(3)
    everywhere, row = [before, along, behind], [before, behind]

    def add(x: Value, total: Value) -> Value:
        d = x.to(i64) - zero_point
        return total + d * d

    def share(x: Value, total: Value, _: Value) -> Value:
        return op.narrowing()(root.share(x.to(i64) - zero_point, *root.factor(total)))

    flat = code.reshape(x, shape)
    total = code.generic([(flat, everywhere)], (code.filled(0, (shape[0], shape[2]), i64), row), 3, add)
    into = (code.empty(shape, element_of(op.y)), everywhere)
    return code.reshape(code.generic([(flat, everywhere), (total, row)], into, 3, share), shape_of(op.y))


# ---------------------------------------------------------------------------------------------------------------
# Export of integer interpolation: a weighted sum over neighbours (taps) along one axis after another, in i32.


def _resize(code: TensorCode, op: ResizeOp, x: SSAValue) -> SSAValue:
    def start(x: Value) -> Value:
        return centred(x, op.zero_point.value.data)

    x = code.elementwise([x], tensor_of(i32, shape_of(x)), start)
    for axis, taps, weights in op.tables():
        x = _along(code, x, axis, taps, weights)
    assert x.type == tensor_type(op.acc)
    return x


def _along(code: TensorCode, x: SSAValue, axis: int, taps: Array, weights: Array) -> SSAValue:
    """acc[…, o, …] = Σ_t weights[o, t] · x[…, taps[o, t], …]."""
    shape = list(shape_of(x))
    shape[axis] = len(taps)
    *written, tap = loops(len(shape) + 1)

    def weighted(place: Value, weight: Value, acc: Value) -> Value:
        here = [position(acc.code, d) for d in range(len(shape))]
        here[axis] = place.to(INDEX)
        return acc + weight * element_at(acc.code, x, here)

    read = [(code.constant(table), [written[axis], tap]) for table in (taps, weights)]
    return code.generic(read, (code.filled(0, shape, i32), written), len(shape) + 1, weighted)


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
    SoftmaxOp: _softmax,
    LogSoftmaxOp: _log_softmax,
    L2NormalizationOp: _l2_normalization,
    ResizeOp: _resize,
    InterpolateOp: _interpolate,
}
