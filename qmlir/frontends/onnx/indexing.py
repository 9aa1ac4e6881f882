"""Selection of elements: slices, splits, gathers, scatters and TopK."""

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np
from xdsl.dialects.builtin import BoolAttr, IntegerAttr, StringAttr, i64
from xdsl.ir import Attribute

from qmlir.dialects.nn.indexing import GatherNDOp, GatherOp, ScatterNDOp, ScatterReduceNDOp, SliceOp, TopKOp
from qmlir.dialects.nn.shape import ConcatOp
from qmlir.dialects.windows import ints
from qmlir.frontends.builder import Node
from qmlir.frontends.onnx.converters import converts
from qmlir.frontends.values import Constant, Ints, Value
from qmlir.ir.interfaces import Array, Shape

Steps = Sequence[tuple[int, int, int]]
"""A slice: (offset, size, stride) for each dimension."""


def slice_properties(steps: Steps) -> dict[str, Attribute]:
    """Returns the properties of an nn.slice."""
    offsets, sizes, strides = zip(*steps, strict=True) if steps else ((), (), ())
    return {"offsets": ints(offsets), "sizes": ints(sizes), "strides": ints(strides)}


def whole(shape: Shape) -> list[tuple[int, int, int]]:
    """Returns the slice that takes all of a tensor."""
    return [(0, size, 1) for size in shape]


# ---------------------------------------------------------------------------------------------------------------
# Slices


@converts("Slice")
def slice_attributes(node: Node, x: Value, *, starts: Ints, ends: Ints, axes: Ints | None = None) -> Value:
    """Slices x, with bounds given by attributes."""
    return _slice(node, x, starts, ends, axes, None)


@converts("Slice", since=10)
def slice_inputs(
    node: Node, x: Value, starts: Value, ends: Value, axes: Value | None = None, steps: Value | None = None
) -> Value:
    """Slices x, with bounds given by inputs."""
    over = None if axes is None else node.ints(axes, "axes")
    strides = None if steps is None else node.ints(steps, "steps")
    return _slice(node, x, node.ints(starts, "starts"), node.ints(ends, "ends"), over, strides)


def _slice(node: Node, x: Value, starts: Ints, ends: Ints, axes: Ints | None, strides: Ints | None) -> Value:
    shape = node.shape(x)
    steps = whole(shape)
    over = range(len(starts)) if axes is None else [node.axis(a, len(shape)) for a in axes]
    for axis, start, end, stride in zip(over, starts, ends, strides or (1,) * len(starts), strict=True):
        # ONNX clamps bounds as Python does: to the border, which lies before index 0 for a negative stride.
        taken = range(*slice(start, end, stride).indices(shape[axis]))
        steps[axis] = taken.start, len(taken), stride
    return node.compute(SliceOp, [x], slice_properties(steps))


@converts("Split", since=2)
def split_attributes(node: Node, x: Value, *, axis: int = 0, split: Ints | None = None) -> tuple[Value, ...]:
    """Splits x along an axis into parts of given sizes; into equal parts by default."""
    return _split(node, x, axis, split, len(node.outputs), even=True)


@converts("Split", since=13)
def split_inputs(
    node: Node, x: Value, split: Value | None = None, *, axis: int = 0, num_outputs: int | None = None
) -> tuple[Value, ...]:
    """Splits x along an axis into parts whose sizes are an input; into equal parts by default.

    With `num_outputs`, which version 18 adds, the last parts may be smaller.
    """
    sizes = None if split is None else node.ints(split, "split")
    return _split(node, x, axis, sizes, num_outputs or len(node.outputs), even=num_outputs is None)


def _split(node: Node, x: Value, axis: int, sizes: Ints | None, count: int, even: bool) -> tuple[Value, ...]:
    shape = node.shape(x)
    axis = node.axis(axis, len(shape))
    if sizes is None:
        if even and shape[axis] % count:
            raise node.error(f"the dimension it splits must be a multiple of {count}", str(shape[axis]))
        each = -(-shape[axis] // count)
        sizes = tuple(min(each, max(shape[axis] - i * each, 0)) for i in range(count))
    if sum(sizes) != shape[axis] or min(sizes, default=0) < 0:
        raise node.error(f"its parts must add up to {shape[axis]}", str(list(sizes)))
    parts: list[Value] = []
    at = 0
    for output, size in enumerate(sizes):
        steps = whole(shape)
        steps[axis] = at, size, 1
        named = output < len(node.outputs) and bool(node.outputs[output])
        parts.append(node.compute(SliceOp, [x], slice_properties(steps), output=output) if named else x)
        at += size
    return tuple(parts)


# ---------------------------------------------------------------------------------------------------------------
# Gathers


@converts("Gather")
def gather(node: Node, x: Value, indices: Value, *, axis: int = 0) -> Value:
    """Picks the elements of x at indices along an axis; constant indices with a fixed step make a slice."""
    shape = node.shape(x)
    axis = node.axis(axis, len(shape))
    if isinstance(indices, Constant):
        places = known_places(node, indices.array, shape[axis])
        if (step := _progression(places)) is not None:
            steps = whole(shape)
            steps[axis] = step
            taken = node.compute(SliceOp, [x], slice_properties(steps))
            return node.reshaped(taken, (*shape[:axis], *places.shape, *shape[axis + 1 :]))
    return node.compute(GatherOp, [x, indices], {"axis": IntegerAttr(axis, i64)})


def known_places(node: Node, indices: Array, size: int) -> Array:
    """Returns constant indices into a dimension of the given size, with negative indices counted from zero.

    Raises:
        NodeError: An index lies outside the dimension.
    """
    if indices.size and not (-size <= indices.min() and indices.max() < size):
        outside = indices.min() if indices.min() < -size else indices.max()
        raise node.error(f"its indices must lie in [{-size}, {size - 1}]", str(outside))
    return np.where(indices < 0, indices + size, indices)


def _progression(places: Array) -> tuple[int, int, int] | None:
    """Returns (first, count, step) of indices with a constant nonzero step; None for other indices."""
    flat = places.reshape(-1)
    if flat.size == 0:
        return None
    steps = np.diff(flat)
    if flat.size > 1 and (steps[0] == 0 or np.any(steps != steps[0])):
        return None
    return int(flat[0]), flat.size, int(steps[0]) if flat.size > 1 else 1


@converts("GatherElements", since=11)
def gather_elements(node: Node, x: Value, indices: Value, *, axis: int = 0) -> Value:
    """Picks elements of x at the result's own coordinates, with `indices` in the place of those along `axis`."""
    axis = node.axis(axis, node.rank(x))
    return node.compute(GatherNDOp, [x, coordinates(node, node.shape(indices), {axis: indices})])


@converts("GatherND", since=11)
def gather_nd(node: Node, x: Value, indices: Value, *, batch_dims: int = 0) -> Value:
    """Picks the rows of x at the coordinates in the last dimension of `indices`, within each batch."""
    listed = node.shape(indices)
    if batch_dims:
        node.room((*listed[:-1], batch_dims))
        own = np.indices(listed[:batch_dims], sparse=False).reshape(batch_dims, -1).T
        spread = np.broadcast_to(
            own.reshape(*listed[:batch_dims], *[1] * (len(listed) - batch_dims - 1), batch_dims),
            (*listed[:-1], batch_dims),
        )
        indices = _joined(node, [Constant(spread.astype(_dtype(node, indices))), indices])
    return node.compute(GatherNDOp, [x, indices])


def coordinates(node: Node, shape: Shape, known: Mapping[int, Value]) -> Value:
    """Returns the coordinates of each element of a tensor, [*shape, rank], with some coordinates replaced.

    `known` maps an axis to the coordinates that replace the elements' own along this axis; they have the given shape.
    """
    dtype = _dtype(node, next(iter(known.values())))
    node.room((*shape, len(shape)))
    own = np.indices(shape, dtype)
    columns: list[Value] = []
    at = 0
    for axis in sorted(known):
        columns += [Constant(np.moveaxis(own[at:axis], 0, -1)), node.reshaped(known[axis], (*shape, 1))]
        at = axis + 1
    columns.append(Constant(np.moveaxis(own[at:], 0, -1)))
    return _joined(node, [c for c in columns if node.shape(c)[-1]])


def _dtype(node: Node, indices: Value) -> np.dtype[np.generic]:
    return np.dtype(np.int32 if node.element(indices) == "i32" else np.int64)


def _joined(node: Node, columns: Sequence[Value]) -> Value:
    """Joins values along the last axis."""
    if all(isinstance(c, Constant) for c in columns):
        return Constant(np.concatenate([c.array for c in columns if isinstance(c, Constant)], -1))
    if len(columns) == 1:
        return columns[0]
    return node.insert(ConcatOp, [columns], {"axis": IntegerAttr(node.rank(columns[0]) - 1, i64)})


@converts("Compress", since=9)
def compress(node: Node, x: Value, condition: Value, *, axis: int | None = None) -> Value:
    """Picks the elements, or the rows along an axis, for which the constant condition is true."""
    shape = node.shape(x)
    keep = np.flatnonzero(node.array(condition, "condition"))
    if axis is None:
        x, shape, axis = node.reshaped(x, (prod(shape),)), (prod(shape),), 0
    axis = node.axis(axis, len(shape))
    return gather_known(node, x, known_places(node, keep, shape[axis]), axis)


def gather_known(node: Node, x: Value, places: Array, axis: int) -> Value:
    """Picks the elements of x at constant indices along an axis, as the node's output."""
    return gather(node, x, Constant(places), axis=axis)


# ---------------------------------------------------------------------------------------------------------------
# Scatters


@converts("Scatter", since=9)
@converts("ScatterElements", since=11)
def scatter_elements(
    node: Node, x: Value, indices: Value, updates: Value, *, axis: int = 0, reduction: str = "none"
) -> Value:
    """Replaces or combines elements of x at the updates' own coordinates, with `indices` along one axis."""
    axis = node.axis(axis, node.rank(x))
    return scatter_rows(node, x, updates, coordinates(node, node.shape(indices), {axis: indices}), reduction)


@converts("ScatterND", since=11)
def scatter_nd(node: Node, x: Value, indices: Value, updates: Value, *, reduction: str = "none") -> Value:
    """Replaces or combines rows of x at the given coordinates."""
    return scatter_rows(node, x, updates, indices, reduction)


def scatter_rows(node: Node, x: Value, updates: Value, places: Value, reduction: str) -> Value:
    """Replaces rows of x by updates, or combines them by an ONNX `reduction`."""
    if reduction == "none":
        return node.compute(ScatterNDOp, [x, updates, places])
    return node.compute(ScatterReduceNDOp, [x, updates, places], {"reduction": StringAttr(reduction)})


# ---------------------------------------------------------------------------------------------------------------
# Sorting


@converts("TopK")
def top_k_attribute(node: Node, x: Value, *, k: int, axis: int = -1) -> tuple[Value, ...]:
    """Returns the k greatest elements along an axis, and their indices."""
    return _top_k(node, x, k, axis, True)


@converts("TopK", since=10)
def top_k(node: Node, x: Value, k: Value, *, axis: int = -1, largest: int = 1, sorted: int = 1) -> tuple[Value, ...]:
    """Returns the k greatest or least elements along an axis, always sorted, and their indices."""
    (count,) = node.ints(k, "k")
    return _top_k(node, x, count, axis, bool(largest))


def _top_k(node: Node, x: Value, k: int, axis: int, largest: bool) -> tuple[Value, ...]:
    axis = node.axis(axis, node.rank(x))
    properties = {
        "axis": IntegerAttr(axis, i64), "k": IntegerAttr(k, i64), "largest": BoolAttr.from_bool(largest)
    }  # fmt: skip
    names = [i < len(node.outputs) and bool(node.outputs[i]) for i in range(2)]
    places = node.compute(TopKOp, [x], properties, output=1) if names[1] else node.insert(TopKOp, [x], properties)
    if not names[0]:
        return x, places
    values = node.compute(GatherNDOp, [x, coordinates(node, node.shape(places), {axis: places})])
    return values, places
