"""Integers divided by sums of their neighbours: a maximum and a sum along the axis, then each element by itself."""

from xdsl.dialects import tensor
from xdsl.dialects.builtin import i32, i64
from xdsl.ir import SSAValue

from qmlir.dialects.interfaces import element_of, shape_of
from qmlir.dialects.qint.normalization import SoftmaxOp
from qmlir.lowering.qint_to_linalg.requantize import narrowed
from qmlir.lowering.qint_to_linalg.structured import TensorCode, loops
from qmlir.lowering.value import INDEX, Value


def _softmax(code: TensorCode, op: SoftmaxOp, x: SSAValue) -> SSAValue:
    shape, division, table = op.split(), op.division_by_sum(), code.constant(op.table.array)
    inverse = code.constant((op.inverse or op.table).array)
    before, along, behind = loops(3)
    everywhere, row = [before, along, behind], [before, behind]
    rows = (shape[0], shape[2])

    def exponential(x: Value, most: Value) -> Value:
        place = (most.to(i64) - x.to(i64)).to(INDEX)
        return x.code.emit(tensor.ExtractOp, [table, place.ssa], i32).to(i64)

    def knot(place: Value) -> Value:
        return place.code.emit(tensor.ExtractOp, [inverse, place.to(INDEX).ssa], element_of(inverse)).to(i64)

    def further(x: Value, most: Value) -> Value:
        return most.maximum(x)

    def add(x: Value, most: Value, total: Value) -> Value:
        return total + division.term(exponential(x, most))

    def share(x: Value, most: Value, total: Value, _: Value) -> Value:
        return narrowed(op, division.share(exponential(x, most), *division.shares(total, knot)))

    flat = code.reshape(x, shape)
    least = code.filled(-(len(op.table.array) >> 1), rows, element_of(op.x))
    most = code.generic([(flat, everywhere)], (least, row), 3, further)
    total = code.generic([(flat, everywhere), (most, row)], (code.filled(0, rows, i64), row), 3, add)
    into = (code.empty(shape, element_of(op.y)), everywhere)
    return code.reshape(code.generic([(flat, everywhere), (most, row), (total, row)], into, 3, share), shape_of(op.y))


RULES = {SoftmaxOp: _softmax}
