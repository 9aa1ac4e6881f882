"""Export of data movement: shapes, permutations, padding, slices and gathers."""

from collections.abc import Sequence
from math import prod

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.ir import SSAValue

from qmlir.dialects.nn.indexing import GatherNDOp, GatherOp, ScatterNDOp, places
from qmlir.dialects.nn.movement import BroadcastOp, ConcatOp, ConstantOp, PadOp, ReshapeOp, SliceOp, TransposeOp
from qmlir.ir.interfaces import element_of, shape_of
from qmlir.ir.upstream.tosa import shape as tosa
from qmlir.ir.upstream.tosa.reduction import ReduceMaxOp
from qmlir.lowering.qint_to_tosa.tensors import ADD, EQUAL, GREATER_EQUAL, TosaCode

# ---------------------------------------------------------------------------------------------------------------
# Export of constants and data movement, for any element type; quantized elements become their stored integers.


def _constant(code: TosaCode, op: ConstantOp) -> SSAValue:
    return code.constant(op.value.array)


def _reshape(code: TosaCode, op: ReshapeOp, x: SSAValue) -> SSAValue:
    return code.reshape(x, shape_of(op.y))


def _transpose(code: TosaCode, op: TransposeOp, x: SSAValue) -> SSAValue:
    return code.transposed(x, op.permutation.get_values())


def _broadcast(code: TosaCode, op: BroadcastOp, x: SSAValue) -> SSAValue:
    return code.spread(x, shape_of(op.y))


def _concat(code: TosaCode, op: ConcatOp, *inputs: SSAValue) -> SSAValue:
    return code.side_by_side(inputs, op.axis.value.data)


def _pad(code: TosaCode, op: PadOp, x: SSAValue) -> SSAValue:
    return code.padded(x, op.low.get_values(), op.high.get_values(), op.stored_value())


# ---------------------------------------------------------------------------------------------------------------
# Export of slices, gathers and scatters.
#
# TOSA's slices have no strides, so a strided slice is composed: the dimension is split, and the first element of each
# part is taken. TOSA's gather reads rows of a list by i32 indices, which must lie inside the list. TOSA's scatter does
# not define what two updates of the same row do, so a scatter is composed from gathers and comparisons.


MOST_PAIRS = 1 << 24
"""The most (row, update) pairs that a scatter may compare; each pair takes 4 bytes."""


def _slice(code: TosaCode, op: SliceOp, x: SSAValue) -> SSAValue:
    """Writes a slice; dimensions with a negative stride are reversed first, and then sliced with a positive stride."""
    steps = op.steps()
    for axis, (offset, size, stride) in enumerate(steps):
        if stride < 0 and size > 1:
            steps[axis] = (shape_of(x)[axis] - 1 - offset, size, -stride)
            x = code.op(tosa.ReverseOp, [x], element_of(x), shape_of(x), {"axis": IntegerAttr(axis, i32)})
    for axis, (offset, size, stride) in enumerate(steps):
        x = _every(code, code.part(x, axis, offset, (size - 1) * abs(stride) + 1), axis, abs(stride))
    return x


def _every(code: TosaCode, x: SSAValue, axis: int, step: int) -> SSAValue:
    """Takes each `step`-th element along an axis: reshapes the axis to [size, step] and takes the first column."""
    if step == 1 or shape_of(x)[axis] == 1:
        return x
    before, (length, *after) = shape_of(x)[:axis], shape_of(x)[axis:]
    size = (length - 1) // step + 1
    rows = code.reshape(x, (prod(before), length, prod(after)))
    rows = code.padded(rows, [0, 0, 0], [0, size * step - length, 0], 0)
    split = code.reshape(rows, (prod(before), size, step, prod(after)))
    return code.reshape(code.part(split, 2, 0, 1), (*before, size, *after))


def _gather(code: TosaCode, op: GatherOp, x: SSAValue, indices: SSAValue) -> SSAValue:
    axis, shape = op.axis.value.data, shape_of(x)
    rows = code.reshape(x, (prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])))
    flat = code.reshape(_inside(code, op.indices, indices, [shape[axis]]), (1, -1))
    return code.reshape(code.rows_at(rows, flat), shape_of(op.y))


def _gather_nd(code: TosaCode, op: GatherNDOp, x: SSAValue, indices: SSAValue) -> SSAValue:
    rows = _rows(code, x, shape_of(indices)[-1])
    return code.reshape(code.rows_at(rows, _flat(code, op.indices, indices, shape_of(x))), shape_of(op.y))


def _scatter_nd(code: TosaCode, op: ScatterNDOp, x: SSAValue, updates: SSAValue, indices: SSAValue) -> SSAValue:
    """Writes a scatter: a maximum finds for each row the last update that names it, or −1; then rows are selected."""
    depth = shape_of(indices)[-1]
    rows, at = _rows(code, x, depth), _flat(code, op.indices, indices, shape_of(x))
    (_, places, width), (_, count) = shape_of(rows), shape_of(at)
    if places * count > MOST_PAIRS:
        code.refuse(
            f"compares each row with each update in tosa, at most {MOST_PAIRS} pairs",
            got=f"{places} rows and {count} updates",
            remedy="lower it with --qint-to-linalg",
        )
    own = code.constant(np.arange(places, dtype=np.int32)[None])
    numbers = code.constant(np.arange(count, dtype=np.int32)[:, None])
    hits = code.chosen(code.compared(EQUAL, code.reshape(at, (count, 1)), own), numbers, code.number(-1, numbers))
    last = code.op(ReduceMaxOp, [hits], i32, (1, places), {"axis": IntegerAttr(0, i32)})
    written = code.compared(GREATER_EQUAL, last, code.number(0, last))
    new = code.rows_at(code.reshape(updates, (1, count, width)), code.bounded(last, 0, count - 1))
    return code.reshape(code.chosen(code.reshape(written, (1, places, 1)), new, rows), shape_of(op.y))


def _rows(code: TosaCode, x: SSAValue, depth: int) -> SSAValue:
    """Reshapes a tensor to the list of rows [1, K, C] that indices into its first `depth` dimensions select."""
    shape = shape_of(x)
    return code.reshape(x, (1, prod(shape[:depth]), prod(shape[depth:])))


def _flat(code: TosaCode, source: SSAValue, indices: SSAValue, sizes: Sequence[int]) -> SSAValue:
    """Converts indices […, k] to positions in the list of rows, [1, W]."""
    *listed, depth = shape_of(indices)
    inside = code.reshape(_inside(code, source, indices, sizes[:depth]), (prod(listed), depth))
    steps = np.array([prod(sizes[d + 1 : depth]) for d in range(depth)], np.int32)
    return code.reshape(code.summed(code.product(inside, code.constant(steps[None])), 1), (1, -1))


def _inside(code: TosaCode, source: SSAValue, indices: SSAValue, sizes: Sequence[int]) -> SSAValue:
    """Converts indices to i32 positions: negative indices count from the end, indices outside move to the border.

    Args:
        code: Receives the new operations.
        source: The indices before they were lowered; positions of constant indices are computed here.
        indices: The lowered indices.
        sizes: The sizes of the dimensions that the indices refer to: one size, or one for each column of the indices.

    Raises:
        UnsupportedError: The indices are computed, and are not i32.
    """
    if isinstance(source.owner, ConstantOp):
        return code.constant(places(source.owner.value.array, np.array(sizes)).astype(np.int32))
    if element_of(indices) != i32:
        code.refuse("needs indices of i32 in tosa", got=str(element_of(indices)), remedy="make the input i32")
    bounds = code.constant(np.array(sizes, np.int32))
    negative = code.compared(GREATER_EQUAL, code.number(-1, indices), indices)
    counted = code.chosen(negative, code.combine(ADD, indices, bounds), indices)
    return code.bounded(counted, 0, code.constant(np.array(sizes, np.int32) - 1))


RULES = {
    ConstantOp: _constant,
    ReshapeOp: _reshape,
    TransposeOp: _transpose,
    BroadcastOp: _broadcast,
    ConcatOp: _concat,
    PadOp: _pad,
    SliceOp: _slice,
    GatherOp: _gather,
    GatherNDOp: _gather_nd,
    ScatterNDOp: _scatter_nd,
}
