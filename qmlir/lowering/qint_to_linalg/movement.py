"""Export of data movement: shapes, permutations, padding, slices and gathers."""

from collections.abc import Sequence
from math import prod

from xdsl.dialects import tensor
from xdsl.dialects.builtin import IntegerAttr, i32, i64
from xdsl.dialects.linalg.ops import IndexOp
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr

from qmlir.codegen.code import Code
from qmlir.codegen.upstream import signless
from qmlir.codegen.value import INDEX, Value
from qmlir.dialects.nn.indexing import GatherNDOp, GatherOp, ScatterNDOp
from qmlir.dialects.nn.movement import BroadcastOp, ConcatOp, ConstantOp, PadOp, ReshapeOp, SliceOp, TransposeOp
from qmlir.ir.interfaces import element_of, shape_of
from qmlir.lowering.qint_to_linalg.structured import Place, TensorCode, copied, loops, tensor_of

# ---------------------------------------------------------------------------------------------------------------
# Export of constants and data movement, for any element type; quantized elements become their stored integers.


def _constant(code: TensorCode, op: ConstantOp) -> SSAValue:
    return code.constant(op.value.array)


def _reshape(code: TensorCode, op: ReshapeOp, x: SSAValue) -> SSAValue:
    return code.reshape(x, shape_of(op.y))


def _transpose(code: TensorCode, op: TransposeOp, x: SSAValue) -> SSAValue:
    permutation: Sequence[int] = op.permutation.get_values()
    written = loops(len(permutation))
    read = [written[permutation.index(d)] for d in range(len(permutation))]
    into = (code.empty(shape_of(op.y), element_of(x)), written)
    return code.generic([(x, read)], into, len(permutation), copied)


def _broadcast(code: TensorCode, op: BroadcastOp, x: SSAValue) -> SSAValue:
    def same(x: Value) -> Value:
        return x

    return code.elementwise([x], tensor_of(element_of(x), shape_of(op.y)), same)


def _concat(code: TensorCode, op: ConcatOp, *inputs: SSAValue) -> SSAValue:
    """Writes a concatenation as slices inserted one after another."""
    axis = op.axis.value.data
    y = code.empty(shape_of(op.y), element_of(inputs[0]))
    at = 0
    for x in inputs:
        shape = shape_of(x)
        offsets = [at if d == axis else 0 for d in range(len(shape))]
        y = code.add(tensor.InsertSliceOp.from_static_parameters(x, y, offsets, shape))
        at += shape[axis]
    return y


def _pad(code: TensorCode, op: PadOp, x: SSAValue) -> SSAValue:
    value = signless(op.stored_value())
    number = -int(value) if value.dtype.kind == "b" else value.item()  # an i1 of 1 is the signed number −1
    return code.padded(x, op.low.get_values(), op.high.get_values(), number)


# ---------------------------------------------------------------------------------------------------------------
# Export of slices, gathers and scatters.


def position(code: Code, loop: int) -> Value:
    """The current index of a loop."""
    return code.emit(IndexOp, [], INDEX, {"dim": IntegerAttr(loop, i64)})


def element_at(code: Code, x: SSAValue, places: Sequence[Value]) -> Value:
    """Reads one element of a tensor."""
    return code.emit(tensor.ExtractOp, [x, *(p.ssa for p in places)], element_of(x))


def _place(index: Value, size: int) -> Value:
    """The position of an index in a dimension: negative indices count from the end, then it is clamped to the size."""
    wide = index.to(i64)
    return wide.less(0).choose(wide + size, wide).maximum(0).minimum(size - 1).to(INDEX)


def _columns(indices: SSAValue, rows: Place) -> list[tuple[SSAValue, Place]]:
    """The k columns of indices […, k] as operands of a generic operation, each read at `rows`."""
    return [(indices, [*rows, AffineExpr.constant(d)]) for d in range(shape_of(indices)[-1])]


def _slice(code: TensorCode, op: SliceOp, x: SSAValue) -> SSAValue:
    """Writes a slice: `tensor.extract_slice` if all strides are positive, else reads of single elements.

    Neither upstream's slices nor the usual `linalg` accesses have negative strides.
    """
    shape, steps = shape_of(op.y), op.steps()
    if 0 in shape:
        return code.empty(shape, element_of(x))
    if all(stride > 0 for _, _, stride in steps):
        offsets, sizes, strides = zip(*steps, strict=True) if steps else ((), (), ())
        return code.add(tensor.ExtractSliceOp(x, offsets, sizes, strides, tensor_of(element_of(x), shape)))

    def there(y: Value) -> Value:
        places = [position(y.code, d) * stride + offset for d, (offset, _, stride) in enumerate(steps)]
        return element_at(y.code, x, places)

    return code.generic([], (code.empty(shape, element_of(x)), loops(len(shape))), len(shape), there)


def _gather(code: TensorCode, op: GatherOp, x: SSAValue, indices: SSAValue) -> SSAValue:
    shape, axis, taken = shape_of(op.y), op.axis.value.data, len(shape_of(indices))
    dims = loops(len(shape))

    def found(index: Value, y: Value) -> Value:
        here = [position(y.code, d) for d in range(len(shape))]
        here[axis : axis + taken] = [_place(index, shape_of(x)[axis])]
        return element_at(y.code, x, here)

    into = (code.empty(shape, element_of(x)), dims)
    return code.generic([(indices, dims[axis : axis + taken])], into, len(shape), found)


def _gather_nd(code: TensorCode, op: GatherNDOp, x: SSAValue, indices: SSAValue) -> SSAValue:
    shape, listed = shape_of(op.y), len(shape_of(indices)) - 1
    dims = loops(len(shape))

    def found(*elements: Value) -> Value:
        *named, y = elements
        row = [position(y.code, d) for d in range(listed, len(shape))]
        return element_at(y.code, x, [*map(_place, named, shape_of(x)), *row])

    into = (code.empty(shape, element_of(x)), dims)
    return code.generic(_columns(indices, dims[:listed]), into, len(shape), found)


def _scatter_nd(code: TensorCode, op: ScatterNDOp, x: SSAValue, updates: SSAValue, indices: SSAValue) -> SSAValue:
    """Writes a scatter: finds the last update that names each row, or −1, and then selects the rows.

    The first step is a maximum over the updates' numbers, so the order of its evaluation does not matter.
    """
    *listed, depth = shape_of(indices)
    count = prod(listed)
    if not depth:
        code.refuse("needs indices that name a dimension", got=str(op.indices.type), remedy="use the updates instead")
    if not count:
        return x
    shape, rank = shape_of(x), len(shape_of(x))
    updates = code.reshape(updates, (count, *shape[depth:]))
    *rows, update = loops(depth + 1)

    def last(*elements: Value) -> Value:
        *named, most = elements
        number = position(most.code, depth).to(i32)
        for d, index in enumerate(named):
            hit = _place(index, shape[d]).equals(position(most.code, d))
            number = hit.choose(number, number.same(-1))
        return most.maximum(number)

    columns = _columns(code.reshape(indices, (count, depth)), [update])
    winners = code.generic(columns, (code.filled(-1, shape[:depth], i32), rows), depth + 1, last)
    dims = loops(rank)

    def written(old: Value, winner: Value, y: Value) -> Value:
        row = [position(y.code, d) for d in range(depth, rank)]
        new = element_at(y.code, updates, [winner.maximum(0).to(INDEX), *row])
        return winner.less(0).choose(old, new)

    into = (code.empty(shape, element_of(x)), dims)
    return code.generic([(x, dims), (winners, dims[:depth])], into, rank, written)


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
