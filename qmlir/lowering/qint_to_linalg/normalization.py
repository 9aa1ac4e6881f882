"""Export of softmax, log-softmax and L2 normalization: reductions along the axis, then a formula on each element."""

from xdsl.dialects import tensor
from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from qmlir.codegen.value import INDEX, Value
from qmlir.dialects.qint.normalization import (
    ExponentialsOp,
    L2NormalizationOp,
    LogSoftmaxOp,
    SoftmaxOp,
    logarithm_of_share,
)
from qmlir.ir.interfaces import element_of, shape_of
from qmlir.lowering.qint_to_linalg.requantize import narrowed
from qmlir.lowering.qint_to_linalg.structured import TensorCode, loops


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
        return narrowed(op, division.share(exponential(x, most), *shares))

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
        return narrowed(op, root.share(x.to(i64) - zero_point, *root.factor(total)))

    flat = code.reshape(x, shape)
    total = code.generic([(flat, everywhere)], (code.filled(0, (shape[0], shape[2]), i64), row), 3, add)
    into = (code.empty(shape, element_of(op.y)), everywhere)
    return code.reshape(code.generic([(flat, everywhere), (total, row)], into, 3, share), shape_of(op.y))


RULES = {SoftmaxOp: _softmax, LogSoftmaxOp: _log_softmax, L2NormalizationOp: _l2_normalization}
