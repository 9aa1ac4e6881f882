"""Converters of operators that select elements: slices, splits, gathers, reversals."""

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, i64

from qmlir.dialects.nn.indexing import GatherNDOp, GatherOp, SliceOp
from qmlir.dialects.nn.shape import ConcatOp
from qmlir.dialects.windows import ints
from qmlir.frontends.tflite.converters import converts
from qmlir.frontends.tflite.node import TFLiteNode
from qmlir.frontends.values import Constant, Refusal, Value
from qmlir.ir.interfaces import Shape


def part(
    node: TFLiteNode, x: Value, offsets: Sequence[int], sizes: Sequence[int], strides: Sequence[int] = (), *,
    output: int = 0,
) -> Value:  # fmt: skip
    """Adds a slice as an output of the node: `sizes` elements of x from `offsets` on in steps of `strides`."""
    properties = {"offsets": ints(list(offsets)), "sizes": ints(list(sizes)),
                  "strides": ints(list(strides) or [1] * len(sizes))}  # fmt: skip
    return node.moved_elements(SliceOp, [x], properties, output)


@converts("SLICE", options="SliceOptions")
def slice_(node: TFLiteNode, x: Value, begin: Value, size: Value) -> Value:
    """`size` elements from `begin` on; a size of −1 takes all elements up to the end."""
    shape, first, count = node.shape(x), node.ints(begin, "begin"), node.ints(size, "size")
    if not len(first) == len(count) == len(shape):
        raise node.error(f"it needs {len(shape)} begins and sizes", f"{len(first)} and {len(count)}")
    sizes = [d - b if s == -1 else s for d, b, s in zip(shape, first, count, strict=True)]
    if any(b < 0 or s < 0 or b + s > d for d, b, s in zip(shape, first, sizes, strict=True)):
        raise node.error(f"its part must lie inside {list(shape)}", f"{list(count)} from {list(first)}")
    return part(node, x, [b if s else 0 for b, s in zip(first, sizes, strict=True)], sizes)


@converts("STRIDED_SLICE", options="StridedSliceOptions")
def strided_slice(
    node: TFLiteNode, x: Value, begin: Value, end: Value, strides: Value, *, begin_mask: int, end_mask: int,
    ellipsis_mask: int, new_axis_mask: int, shrink_axis_mask: int, offset: bool,
) -> Value:  # fmt: skip
    """x[begin:end:strides] as in numpy; mask bits ignore a bound, add or remove an axis, or mark an ellipsis."""
    if offset:
        raise Refusal("its ends are offsets")
    starts, stops, steps = (node.ints(v, w) for v, w in ((begin, "begin"), (end, "end"), (strides, "strides")))
    if not len(starts) == len(stops) == len(steps) or 0 in steps:
        raise node.error("it needs as many begins as ends and strides, which are not 0", f"{starts}, {stops}, {steps}")
    if ellipsis_mask & (ellipsis_mask - 1):
        raise node.error("it must have one ellipsis at most", bin(ellipsis_mask))
    shape, consumed = node.shape(x), sum(
        not (ellipsis_mask | new_axis_mask) >> i & 1 for i in range(len(starts))
    )  # fmt: skip
    if consumed > len(shape):
        raise node.error(f"it must slice at most {len(shape)} dimensions", str(consumed))
    taken, kept, axis = list[tuple[int, int, int]](), list[int](), 0

    def whole(count: int) -> None:
        for size in shape[axis : axis + count]:
            kept.append(size)
            taken.append((0, size, 1))

    for i, (start, stop, step) in enumerate(zip(starts, stops, steps, strict=True)):
        if ellipsis_mask >> i & 1:
            whole(len(shape) - consumed)
            axis += len(shape) - consumed
        elif new_axis_mask >> i & 1:
            kept.append(1)
        else:
            size = shape[axis]
            if shrink_axis_mask >> i & 1:
                if not -size <= start < size:
                    raise node.error(f"its index must lie in [{-size}, {size - 1}]", str(start))
                places = range(start % size, start % size + 1)
            else:
                low, high = None if begin_mask >> i & 1 else start, None if end_mask >> i & 1 else stop
                places = range(*slice(low, high, step).indices(size))
                kept.append(len(places))
            taken.append((places.start if len(places) else 0, len(places), places.step))
            axis += 1
    whole(len(shape) - axis)
    offsets, sizes, by = zip(*taken, strict=True) if taken else ((), (), ())
    return node.reshape(part(node, x, offsets, sizes, by), kept)


def _split(node: TFLiteNode, x: Value, axis: int, sizes: Sequence[int]) -> tuple[Value, ...]:
    shape, results, at = node.shape(x), list[Value](), 0
    if len(sizes) != len(node.outputs) or sum(sizes) != shape[axis] or min(sizes, default=0) < 0:
        raise node.error(f"its {len(node.outputs)} parts must make up {shape[axis]} elements", str(list(sizes))[:80])
    for output, size in enumerate(sizes):
        offsets = [at if size and i == axis else 0 for i in range(len(shape))]
        results.append(part(node, x, offsets, _with(shape, axis, size), output=output))
        at += size
    return tuple(results)


def _with(shape: Shape, axis: int, size: int) -> list[int]:
    return [size if i == axis else d for i, d in enumerate(shape)]


def only(node: TFLiteNode, axis: Value, what: str = "axis") -> int:
    """Returns the value of an input that must be a constant with one element."""
    values = node.ints(axis, what)
    if len(values) != 1:
        raise node.error(f"it needs one {what}", str(list(values)))
    return values[0]


@converts("SPLIT", options="SplitOptions")
def split(node: TFLiteNode, axis: Value, x: Value, *, num_splits: int) -> tuple[Value, ...]:
    """x split into equal parts along an axis."""
    at, count = node.axis(only(node, axis), node.rank(x)), len(node.outputs)
    if not node.rank(x) or num_splits not in (0, count) or node.shape(x)[at] % count:
        raise node.error(f"its {count} outputs must be equal parts of {list(node.shape(x))}", str(num_splits))
    return _split(node, x, at, [node.shape(x)[at] // count] * count)


@converts("SPLIT_V", options="SplitVOptions")
def split_v(node: TFLiteNode, x: Value, sizes: Value, axis: Value, *, num_splits: int) -> tuple[Value, ...]:
    """x split along an axis into parts of the given sizes; one size may be −1 and takes the remaining elements."""
    at, found = node.axis(only(node, axis), node.rank(x)), list(node.ints(sizes, "sizes"))
    if not node.rank(x):
        raise node.error("its input must have an axis", "a scalar")
    if found.count(-1) == 1:
        found[found.index(-1)] = node.shape(x)[at] - sum(found) - 1
    return _split(node, x, at, found)


@converts("UNPACK", options="UnpackOptions")
def unpack(node: TFLiteNode, x: Value, *, axis: int) -> tuple[Value, ...]:
    """x split into slices of size 1 along an axis, with that axis removed."""
    shape, at = node.shape(x), node.axis(axis, node.rank(x))
    if not shape:
        raise node.error("its input must have an axis", "a scalar")
    parts = _split(node, x, at, [1] * len(node.outputs))
    return tuple(node.reshape(p, (*shape[:at], *shape[at + 1 :]), i) for i, p in enumerate(parts))


def places_of(node: TFLiteNode, indices: Value) -> Value:
    """Returns indices in an element type that nn takes, i32 or i64."""
    return indices if node.element(indices) in ("i32", "i64") else node.converted(indices, i64)


@converts("GATHER", options="GatherOptions")
def gather(node: TFLiteNode, x: Value, indices: Value, *, axis: int, batch_dims: int) -> Value:
    """x at the indices along an axis; x and the indices share their first `batch_dims` dimensions as batches."""
    at = node.axis(axis, node.rank(x))
    if not node.rank(x):
        raise node.error("its input must have an axis", "a scalar")
    if isinstance(indices, Constant):
        values = indices.array.astype(np.int64)
        if values.size and not (0 <= values.min() and values.max() < node.shape(x)[at]):
            raise node.error(f"its indices must lie in [0, {node.shape(x)[at]})", str(values.reshape(-1)[:8].tolist()))
    if not batch_dims:
        return node.moved_elements(GatherOp, [x, places_of(node, indices)], {"axis": IntegerAttr(at, i64)})
    batch = batch_dims + node.rank(indices) if batch_dims < 0 else batch_dims
    if not 0 <= batch <= min(at, node.rank(indices)) or node.shape(x)[:batch] != node.shape(indices)[:batch]:
        raise node.error("its input and indices must begin with the same dimensions, before its axis",
                         f"{list(node.shape(x))}, {list(node.shape(indices))}, {batch}")  # fmt: skip
    return _gather_batches(node, x, indices, at, batch)


def _gather_batches(node: TFLiteNode, x: Value, indices: Value, at: int, batch: int) -> Value:
    """Gathers with batch dimensions: moves the axis behind the batches and builds coordinates for nn.gather_nd."""
    rank, shape = node.rank(x), node.shape(indices)
    order = [*range(batch), at, *(i for i in range(batch, rank) if i != at)]
    moved = node.permuted(x if isinstance(x, Constant) else node.quantized(x), order)
    fixed = np.indices(node.room((*shape, batch + 1))[:-1], dtype=np.int64)[:batch]
    parts: list[Value] = [Constant(i[..., None]) for i in fixed]
    parts.append(node.reshaped(node.converted(indices, i64), (*shape, 1)))
    coordinates = node.insert(ConcatOp, [parts], {"axis": IntegerAttr(len(shape), i64)})
    found = node.moved_elements(GatherNDOp, [moved, coordinates])
    between = at - batch  # the number of x's dimensions that precede the indices' own dimensions in the result
    own = range(batch, len(shape))
    first = range(len(shape), len(shape) + between)
    return node.permuted(found, [*range(batch), *first, *own, *range(len(shape) + between, node.rank(found))])


@converts("EMBEDDING_LOOKUP")
def embedding_lookup(node: TFLiteNode, indices: Value, x: Value) -> Value:
    """Rows of a table at the indices."""
    if node.is_quantized(x) and node.output_type() is None:
        raise Refusal("its table is stored as integers and its result is not")
    return gather(node, x, indices, axis=0, batch_dims=0)


@converts("GATHER_ND", options="GatherNdOptions")
def gather_nd(node: TFLiteNode, x: Value, indices: Value) -> Value:
    """x at index tuples into its first dimensions."""
    return node.moved_elements(GatherNDOp, [x, places_of(node, indices)])


@converts("REVERSE_V2", options="ReverseV2Options")
def reverse_v2(node: TFLiteNode, x: Value, axes: Value) -> Value:
    """x reversed along axes."""
    shape, over = node.shape(x), node.axes(node.ints(axes, "axes"), node.rank(x))
    offsets = [size - 1 if i in over and size else 0 for i, size in enumerate(shape)]
    return part(node, x, offsets, shape, [-1 if i in over else 1 for i in range(len(shape))])


@converts("REVERSE_SEQUENCE", options="ReverseSequenceOptions")
def reverse_sequence(node: TFLiteNode, x: Value, lengths: Value, *, seq_dim: int, batch_dim: int) -> Value:
    """x with the first `lengths[b]` elements of batch b along `seq_dim` reversed."""
    shape, (along, batch) = node.shape(x), (node.axis(d, node.rank(x)) for d in (seq_dim, batch_dim))
    counts = np.array(node.ints(lengths, "lengths"), np.int64)
    if along == batch or counts.shape != (shape[batch],) or ((counts < 0) | (counts > shape[along])).any():
        raise node.error(f"it needs lengths along axis {along} for each of axis {batch} of {list(shape)}",
                         str(counts.tolist()[:8]))  # fmt: skip
    order = [batch, along, *(i for i in range(len(shape)) if i not in (batch, along))]
    node.room((shape[batch], shape[along]))
    steps = np.arange(shape[along], dtype=np.int64)
    places = np.where(steps < counts[:, None], counts[:, None] - 1 - steps, steps)
    each = np.broadcast_to(np.arange(shape[batch], dtype=np.int64)[:, None], places.shape)
    moved = node.permuted(x if isinstance(x, Constant) else node.quantized(x), order)
    found = node.moved_elements(GatherNDOp, [moved, Constant(np.stack([each, places], axis=2))])
    return node.permuted(found, [order.index(i) for i in range(len(shape))])
