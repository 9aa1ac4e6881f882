"""Export of integer pools; an empty tensor of the window's shape gives the bounds of the window's loops."""

import numpy as np
from xdsl.dialects.builtin import i32, i64
from xdsl.ir import SSAValue

from qmlir.codegen.value import Value
from qmlir.dialects.qint.pooling import AveragePool2DOp, GlobalSumPoolOp, MaxPool2DOp, PoolOp
from qmlir.ir.interfaces import element_of, shape_of, tensor_type
from qmlir.ir.predicates import is_integer
from qmlir.lowering.qint_to_linalg.contraction import centred, padded_image, tap
from qmlir.lowering.qint_to_linalg.structured import Formula, TensorCode, loops


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


RULES = {MaxPool2DOp: _max_pool, AveragePool2DOp: _average_pool, GlobalSumPoolOp: _global_sum_pool}
