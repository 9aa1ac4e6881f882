"""Export of integer interpolation in i32: along each axis, neighbours (taps) are gathered, weighted and summed."""

from math import prod

import numpy as np
from xdsl.ir import SSAValue

from qmlir.codegen.way_out import Array
from qmlir.dialects.qint.resize import InterpolateOp, ResizeOp
from qmlir.ir.interfaces import shape_of
from qmlir.lowering.qint_to_tosa.elementwise import centred
from qmlir.lowering.qint_to_tosa.tensors import TosaCode


def _resize(code: TosaCode, op: ResizeOp, x: SSAValue) -> SSAValue:
    x = centred(code, x, op.zero_point.value.data)
    for axis, taps, weights in op.tables():
        x = _along(code, x, axis, taps, weights)
    return x


def _along(code: TosaCode, x: SSAValue, axis: int, taps: Array, weights: Array) -> SSAValue:
    """y[…, o, …] = Σ_t weights[o, t] · x[…, taps[o, t], …]."""
    before, (length, *after) = shape_of(x)[:axis], shape_of(x)[axis:]
    rows = code.reshape(x, (prod(before), length, prod(after)))
    found = code.rows_at(rows, code.constant(taps.reshape(1, -1).astype(np.int32)))
    side_by_side = code.reshape(found, (prod(before), *taps.shape, prod(after)))
    weighted = code.product(side_by_side, code.constant(weights[None, :, :, None]))
    return code.reshape(code.summed(weighted, 2), (*before, len(taps), *after))


def _interpolate(code: TosaCode, op: InterpolateOp, x: SSAValue) -> SSAValue:
    code.refuse(
        f"rounds a mean {op.rounding.data}, in a way that is not written in tosa",
        remedy="load the model with numerics=default, or lower it with --qint-to-linalg",
    )


RULES = {ResizeOp: _resize, InterpolateOp: _interpolate}
