"""Export of integer interpolation: a weighted sum over neighbours (taps) along one axis after another, in i32."""

from xdsl.dialects.builtin import f32, i32, i64
from xdsl.ir import SSAValue

from qmlir.codegen.value import INDEX, Value
from qmlir.codegen.way_out import Array
from qmlir.dialects.qint.resize import InterpolateOp, ResizeOp, weighted
from qmlir.ir.interfaces import element_of, shape_of, tensor_type
from qmlir.lowering.qint_to_linalg.contraction import centred
from qmlir.lowering.qint_to_linalg.indexing import element_at, position
from qmlir.lowering.qint_to_linalg.structured import TensorCode, loops, tensor_of


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


RULES = {ResizeOp: _resize, InterpolateOp: _interpolate}
