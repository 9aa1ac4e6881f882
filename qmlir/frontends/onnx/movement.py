"""Data movement: shapes, permutations, padding, slices, gathers and scatters."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IntegerAttr, i64
from xdsl.ir import Attribute, SSAValue

from qmlir.dialects.nn.indexing import GatherNDOp, GatherOp, ScatterNDOp, ScatterReduceNDOp, TopKOp
from qmlir.dialects.nn.movement import BroadcastOp, ConcatOp, PadOp, ReshapeOp, SliceOp, TransposeOp
from qmlir.errors import UnsupportedError
from qmlir.frontends.builder import Properties
from qmlir.frontends.converters import Table
from qmlir.frontends.detection import first_ones
from qmlir.frontends.function import Constant, Floats, Ints, Value
from qmlir.frontends.onnx.node import ONNXNode
from qmlir.frontends.onnx.types import element_dtype
from qmlir.ir.interfaces import Array, Shape, element_of
from qmlir.ir.types import dtype_of, is_integer

converts = Table()

# ---------------------------------------------------------------------------------------------------------------
# Data movement: reshapes, transposes, concatenation, padding, and constants.


def _reshape(node: ONNXNode, x: Value, shape: Shape) -> Value:
    return node.compute(ReshapeOp, [x], {"shape": shape})


@converts("Constant")
def constant(
    node: ONNXNode, *, value: Array | None = None, value_float: float | None = None, value_floats: Floats | None = None,
    value_int: int | None = None, value_ints: Ints | None = None, sparse_value: Array | None = None,
) -> Value:  # fmt: skip
    """Returns the value of the single attribute that is present."""
    attributes = (
        (value, None),
        (sparse_value, None),
        (value_float, np.float32),
        (value_floats, np.float32),
        (value_int, np.int64),
        (value_ints, np.int64),
    )
    given = [np.asarray(v, dtype) for v, dtype in attributes if v is not None]
    if len(given) != 1:
        raise node.error("it must have exactly one value", len(given))
    return Constant(given[0], node.outputs[0])


@converts("Reshape", since=5)
def reshape(node: ONNXNode, x: Value, shape: Value, *, allowzero: int = 0) -> Value:
    """Reshapes x; a size of 0 keeps the dimension unless `allowzero`, −1 takes the remaining elements."""
    return _reshape(node, x, reshaped(node.shape(x), node.ints(shape, "shape"), bool(allowzero)))


def reshaped(old: Shape, wanted: Ints, allowzero: bool) -> Shape:
    """Returns the shape that a Reshape of shape `old` to `wanted` gives.

    Raises:
        ValueError: `wanted` is not a shape, or does not have as many elements as `old`.
    """
    kept = [old[i] if d == 0 and not allowzero and i < len(old) else d for i, d in enumerate(wanted)]
    if kept.count(-1) > 1 or min(kept, default=0) < -1:
        raise ValueError(f"{list(wanted)} is not a shape")
    rest, size = int(np.prod([d for d in kept if d != -1])), int(np.prod(old))
    if -1 in kept:
        if rest == 0 or size % rest:
            raise ValueError(f"{list(old)} cannot become {list(wanted)}")
        kept[kept.index(-1)] = size // rest
    if int(np.prod(kept)) != size:
        raise ValueError(f"{list(old)} cannot become {list(wanted)}")
    return tuple(kept)


@converts("Flatten")
def flatten(node: ONNXNode, x: Value, *, axis: int = 1) -> Value:
    """Reshapes x to the matrix [d0 · … · d(axis−1), d(axis) · …]."""
    shape = node.shape(x)
    first = axis if axis == len(shape) else node.axis(axis, len(shape))
    return _reshape(node, x, (int(np.prod(shape[:first])), int(np.prod(shape[first:]))))


@converts("Squeeze", since=13, attributes=["axes"])
def squeeze(node: ONNXNode, x: Value, axes: Value | None = None) -> Value:
    """Drops dimensions of size 1; all of them by default."""
    shape = node.shape(x)
    ones = [i for i, d in enumerate(shape) if d == 1]
    drop = ones if axes is None else node.axes(node.ints(axes, "axes"), len(shape))
    if any(shape[i] != 1 for i in drop):
        raise node.error("the dimensions it drops must have size 1", shape)
    return _reshape(node, x, tuple(d for i, d in enumerate(shape) if i not in drop))


@converts("Unsqueeze", since=13, attributes=["axes"])
def unsqueeze(node: ONNXNode, x: Value, axes: Value) -> Value:
    """Inserts dimensions of size 1; `axes` are axes of the result."""
    shape, inserted = list(node.shape(x)), node.ints(axes, "axes")
    for axis in node.axes(inserted, len(shape) + len(inserted)):
        shape.insert(axis, 1)
    return _reshape(node, x, tuple(shape))


@converts("Transpose")
def transpose(node: ONNXNode, x: Value, *, perm: Ints | None = None) -> Value:
    """Permutes the dimensions; reverses them by default."""
    permutation = tuple(reversed(range(node.rank(x)))) if perm is None else perm
    return node.compute(TransposeOp, [x], {"permutation": permutation})


@converts("Concat", since=4)
def concat(node: ONNXNode, *inputs: Value, axis: int) -> Value:
    """Joins the inputs along an axis."""
    if not inputs:
        raise node.error("it needs an input", "none")
    return node.compute(ConcatOp, [inputs], {"axis": node.axis(axis, node.rank(inputs[0]))})


@converts("Expand", since=8)
def expand(node: ONNXNode, x: Value, shape: Value) -> Value:
    """Broadcasts x and a shape against each other."""
    wanted = np.broadcast_shapes(node.shape(x), node.ints(shape, "shape"))
    return node.compute(BroadcastOp, [x], {"shape": wanted})


@converts("Tile", since=6)
def tile(node: ONNXNode, x: Value, repeats: Value) -> Value:
    """Repeats x along each axis: [d0, d1] → [1, d0, 1, d1] → [r0, d0, r1, d1] → [r0·d0, r1·d1]."""
    shape, counts = node.shape(x), node.ints(repeats, "repeats")
    if len(counts) != len(shape) or min(counts, default=0) < 0:
        raise node.error(f"it needs {len(shape)} repeats, none negative", counts)
    split = node.reshaped(x, [n for size in shape for n in (1, size)])
    result = [n for size, count in zip(shape, counts, strict=True) for n in (count, size)]
    spread = node.insert(BroadcastOp, [split], {"shape": result})
    return _reshape(node, spread, tuple(size * count for size, count in zip(shape, counts, strict=True)))


@converts("DepthToSpace")
def depth_to_space(node: ONNXNode, x: Value, *, blocksize: int, mode: str = "DCR") -> Value:
    """Moves channels to blocks of pixels: [N, b, b, C, H, W] (DCR) or [N, C, b, b, H, W] (CRD) → [N, C, H, b, W, b]."""
    n, depth, height, width = _image(node, x)
    channels = depth // blocksize**2 if blocksize > 0 else 0
    if channels * blocksize**2 != depth or mode not in ("DCR", "CRD"):
        raise node.error("its channels must be a multiple of blocksize², its mode DCR or CRD", f"{depth}, {mode}")
    b = blocksize
    blocks, permutation = {
        "DCR": ((n, b, b, channels, height, width), (0, 3, 4, 1, 5, 2)),
        "CRD": ((n, channels, b, b, height, width), (0, 1, 4, 2, 5, 3)),
    }[mode]
    moved = node.compute(TransposeOp, [node.reshaped(x, blocks)], {"permutation": permutation})
    return node.reshaped(moved, (n, channels, height * b, width * b))


@converts("SpaceToDepth")
def space_to_depth(node: ONNXNode, x: Value, *, blocksize: int) -> Value:
    """Moves blocks of pixels to channels: [N, C, H, b, W, b] → [N, b, b, C, H, W]."""
    n, channels, height, width = _image(node, x)
    if blocksize < 1 or height % blocksize or width % blocksize:
        raise node.error("its rows and columns must be multiples of blocksize", f"{height} and {width}")
    b = blocksize
    blocks = node.reshaped(x, (n, channels, height // b, b, width // b, b))
    moved = node.compute(TransposeOp, [blocks], {"permutation": (0, 3, 5, 1, 2, 4)})
    return node.reshaped(moved, (n, channels * b * b, height // b, width // b))


def _image(node: ONNXNode, x: Value) -> Shape:
    shape = node.shape(x)
    if len(shape) != 4:
        raise node.error("its input must be [N, C, H, W]", shape)
    return shape


@converts("EyeLike", since=9)
def eye_like(node: ONNXNode, x: Value, *, dtype: int | None = None, k: int = 0) -> Value:
    """Returns a matrix of x's shape with ones on diagonal k; the values of x do not matter."""
    shape = node.shape(x)
    element = dtype_of(element_of(node.builder.ssa(x))) if dtype is None else element_dtype(dtype)
    if len(shape) != 2 or element is None:
        raise node.error("it needs a matrix and a dtype", f"{list(shape)} and {dtype}")
    return Constant(np.eye(*node.room(shape), k=k).astype(element), node.outputs[0])


@converts("Pad", since=2)
def pad_attributes(node: ONNXNode, x: Value, *, mode: str = "constant", pads: Ints, value: float = 0.0) -> Value:
    """Pads x by amounts given by an attribute."""
    return _pad(node, x, mode, pads, value, range(node.rank(x)))


@converts("Pad", since=11)
def pad(
    node: ONNXNode, x: Value, pads: Value, constant_value: Value | None = None, axes: Value | None = None, *,
    mode: str = "constant",
) -> Value:  # fmt: skip
    """Pads x by amounts given by an input; since version 18, `axes` may select the padded axes."""
    rank = node.rank(x)
    value = 0.0
    if constant_value is not None and node.array(constant_value, "constant_value").size:
        value = node.array(constant_value, "constant_value").reshape(-1)[0].item()
    over = range(rank) if axes is None else [node.axis(a, rank) for a in node.ints(axes, "axes")]
    return _pad(node, x, mode, node.ints(pads, "pads"), value, over)


def _pad(node: ONNXNode, x: Value, mode: str, pads: Ints, value: float, axes: Sequence[int]) -> Value:
    if len(pads) != 2 * len(axes):
        raise node.error(f"its pads need {2 * len(axes)} values", len(pads))
    if mode != "constant" and mode not in PAD_MODES:
        raise node.error(f"its mode must be constant, {', '.join(PAD_MODES)}", mode)
    low, high = [0] * node.rank(x), [0] * node.rank(x)
    for i, axis in enumerate(axes):
        low[axis], high[axis] = pads[i], pads[i + len(axes)]
    if min(pads, default=0) < 0:  # negative pads crop x, before positive pads extend it
        sizes = [n + min(b, 0) + min(a, 0) for n, b, a in zip(node.shape(x), low, high, strict=True)]
        if min(sizes) < 0:
            raise node.error("its negative pads must leave something", pads)
        padded = max(pads) > 0
        offsets = [max(-before, 0) for before in low]
        properties = slice_properties(list(zip(offsets, sizes, [1] * len(sizes), strict=True)))
        x = (node.insert if padded else node.compute)(SliceOp, [x], properties)
        if not padded:
            return x
        low, high = [max(before, 0) for before in low], [max(after, 0) for after in high]
    if mode == "constant":
        return pad_constant(node, x, low, high, value)
    todo = [axis for axis in range(len(low)) if low[axis] or high[axis]]
    for axis in todo:
        if node.shape(x)[axis] == 0:
            raise node.error(f"it pads in mode {mode} axes that are not empty", node.shape(x))
        node.room((low[axis] + node.shape(x)[axis] + high[axis],))
        places = np.pad(np.arange(node.shape(x)[axis]), (low[axis], high[axis]), mode=PAD_MODES[mode])
        write = node.compute if axis == todo[-1] else node.insert
        x = write(GatherOp, [x, Constant(places)], {"axis": axis})
    return x if todo else node.reshaped(x, node.shape(x))


PAD_MODES: dict[str, Any] = {"reflect": "reflect", "edge": "edge", "wrap": "wrap"}
"""ONNX's modes of Pad that repeat elements, with numpy's names for them."""


def pad_constant(node: ONNXNode, x: Value, low: Sequence[int], high: Sequence[int], value: float) -> Value:
    """Pads x with one value, as the node's output."""
    element = element_of(node.builder.ssa(x))
    attribute: Attribute
    if is_integer(element):
        attribute = IntegerAttr(int(value), element)
    elif isinstance(element, AnyFloat):
        attribute = FloatAttr(value, element)
    else:
        raise UnsupportedError(f"it pads {element}")
    return node.compute(PadOp, [x], {"low": low, "high": high, "value": attribute})


@converts("CenterCropPad", since=18)
def center_crop_pad(node: ONNXNode, x: Value, shape: Value, *, axes: Ints | None = None) -> Value:
    """Crops x to its middle, or pads it with zeros on both sides, for each axis."""
    rank = node.rank(x)
    over = range(rank) if axes is None else [node.axis(a, rank) for a in axes]
    wanted = node.ints(shape, "shape")
    if len(wanted) != len(over):
        raise node.error(f"its shape needs {len(over)} values", len(wanted))
    more = [size - node.shape(x)[axis] for axis, size in zip(over, wanted, strict=True)]
    # An odd element is added or removed at the end.
    low = [m // 2 if m > 0 else -(-m // 2) for m in more]
    high = [m - before for m, before in zip(more, low, strict=True)]
    return _pad(node, x, "constant", (*low, *high), 0.0, list(over))


@converts("Shape")
def shape_of_tensor(node: ONNXNode, x: Value, *, start: int = 0, end: int | None = None) -> Value:
    """Returns the dimensions of x; constants, except for a number of elements that depends on the data."""
    shape = np.array(node.shape(x), np.int64)
    known = node.builder.counted.get(x) if isinstance(x, SSAValue) else None
    if known is None or known.axis not in range(len(shape))[start:end]:
        return Constant(shape[start:end])
    sizes: list[Value] = [Constant(each) for each in shape.reshape(-1, 1)]
    sizes[known.axis] = node.reshaped(known.count, (1,))
    return _joined(node, sizes[start:end])


@converts("Size")
def size_of_tensor(node: ONNXNode, x: Value) -> Value:
    """Returns the number of elements of x as a constant."""
    return Constant(np.array(np.prod(node.shape(x)), np.int64))


# ---------------------------------------------------------------------------------------------------------------
# Selection of elements: slices, splits, gathers, scatters and TopK.


Steps = Sequence[tuple[int, int, int]]
"""A slice: (offset, size, stride) for each dimension."""


def slice_properties(steps: Steps) -> Properties:
    """Returns the properties of an nn.slice."""
    offsets, sizes, strides = zip(*steps, strict=True) if steps else ((), (), ())
    return {"offsets": offsets, "sizes": sizes, "strides": strides}


def whole(shape: Shape) -> list[tuple[int, int, int]]:
    """Returns the slice that takes all of a tensor."""
    return [(0, size, 1) for size in shape]


# ---------------------------------------------------------------------------------------------------------------
# Slices


@converts("Slice", since=10, attributes=["starts", "ends", "axes"])
def slices(
    node: ONNXNode, x: Value, starts: Value, ends: Value, axes: Value | None = None, steps: Value | None = None
) -> Value:
    """Slices x between bounds along axes, by default the first ones, in steps of 1 by default."""
    shape = node.shape(x)
    taken = whole(shape)
    over, strides = (None if v is None else node.ints(v, w) for v, w in ((axes, "axes"), (steps, "steps")))
    first, last = node.ints(starts, "starts"), node.ints(ends, "ends")
    along = range(len(first)) if over is None else [node.axis(a, len(shape)) for a in over]
    for axis, start, end, stride in zip(along, first, last, strides or (1,) * len(first), strict=True):
        # ONNX clamps bounds as Python does: to the border, which lies before index 0 for a negative stride.
        places = range(*slice(start, end, stride).indices(shape[axis]))
        taken[axis] = places.start, len(places), stride
    return node.compute(SliceOp, [x], slice_properties(taken))


@converts("Split", since=2)
def split_attributes(node: ONNXNode, x: Value, *, axis: int = 0, split: Ints | None = None) -> tuple[Value, ...]:
    """Splits x along an axis into parts of given sizes; into equal parts by default."""
    return _split(node, x, axis, split, len(node.outputs), even=True)


@converts("Split", since=13)
def split_inputs(
    node: ONNXNode, x: Value, split: Value | None = None, *, axis: int = 0, num_outputs: int | None = None
) -> tuple[Value, ...]:
    """Splits x along an axis into parts whose sizes are an input; into equal parts by default.

    With `num_outputs`, which version 18 adds, the last parts may be smaller.
    """
    sizes = None if split is None else node.ints(split, "split")
    return _split(node, x, axis, sizes, num_outputs or len(node.outputs), even=num_outputs is None)


def _split(node: ONNXNode, x: Value, axis: int, sizes: Ints | None, count: int, even: bool) -> tuple[Value, ...]:
    shape = node.shape(x)
    axis = node.axis(axis, len(shape))
    if sizes is None:
        if even and shape[axis] % count:
            raise node.error(f"the dimension it splits must be a multiple of {count}", str(shape[axis]))
        each = -(-shape[axis] // count)
        sizes = tuple(min(each, max(shape[axis] - i * each, 0)) for i in range(count))
    if sum(sizes) != shape[axis] or min(sizes, default=0) < 0:
        raise node.error(f"its parts must add up to {shape[axis]}", sizes)
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
def gather(node: ONNXNode, x: Value, indices: Value, *, axis: int = 0) -> Value:
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
    return node.compute(GatherOp, [x, indices], {"axis": axis})


def known_places(node: ONNXNode, indices: Array, size: int) -> Array:
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
def gather_elements(node: ONNXNode, x: Value, indices: Value, *, axis: int = 0) -> Value:
    """Picks elements of x at the result's own coordinates, with `indices` in the place of those along `axis`."""
    axis = node.axis(axis, node.rank(x))
    return node.compute(GatherNDOp, [x, coordinates(node, node.shape(indices), {axis: indices})])


@converts("GatherND", since=11)
def gather_nd(node: ONNXNode, x: Value, indices: Value, *, batch_dims: int = 0) -> Value:
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


def coordinates(node: ONNXNode, shape: Shape, known: Mapping[int, Value]) -> Value:
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


def _dtype(node: ONNXNode, indices: Value) -> np.dtype[np.generic]:
    return np.dtype(np.int32 if node.element(indices) == "i32" else np.int64)


def _joined(node: ONNXNode, columns: Sequence[Value]) -> Value:
    """Joins values along the last axis."""
    if all(isinstance(c, Constant) for c in columns):
        return Constant(np.concatenate([c.array for c in columns if isinstance(c, Constant)], -1))
    if len(columns) == 1:
        return columns[0]
    return node.insert(ConcatOp, [columns], {"axis": node.rank(columns[0]) - 1})


def gather_known(node: ONNXNode, x: Value, places: Array, axis: int) -> Value:
    """Picks the elements of x at constant indices along an axis, as the node's output."""
    return gather(node, x, Constant(places), axis=axis)


# ---------------------------------------------------------------------------------------------------------------
# Scatters


@converts("Scatter", since=9)
@converts("ScatterElements", since=11)
def scatter_elements(
    node: ONNXNode, x: Value, indices: Value, updates: Value, *, axis: int = 0, reduction: str = "none"
) -> Value:
    """Replaces or combines elements of x at the updates' own coordinates, with `indices` along one axis."""
    axis = node.axis(axis, node.rank(x))
    return scatter_rows(node, x, updates, coordinates(node, node.shape(indices), {axis: indices}), reduction)


@converts("ScatterND", since=11)
def scatter_nd(node: ONNXNode, x: Value, indices: Value, updates: Value, *, reduction: str = "none") -> Value:
    """Replaces or combines rows of x at the given coordinates."""
    return scatter_rows(node, x, updates, indices, reduction)


def scatter_rows(node: ONNXNode, x: Value, updates: Value, places: Value, reduction: str) -> Value:
    """Replaces rows of x by updates, or combines them by an ONNX `reduction`."""
    if reduction == "none":
        return node.compute(ScatterNDOp, [x, updates, places])
    return node.compute(ScatterReduceNDOp, [x, updates, places], {"reduction": reduction})


# ---------------------------------------------------------------------------------------------------------------
# Sorting


@converts("TopK")
def top_k_attribute(node: ONNXNode, x: Value, *, k: int, axis: int = -1) -> tuple[Value, ...]:
    """Returns the k greatest elements along an axis, and their indices."""
    return _top_k(node, x, k, axis, True)


@converts("TopK", since=10)
def top_k(
    node: ONNXNode, x: Value, k: Value, *, axis: int = -1, largest: int = 1, sorted: int = 1
) -> tuple[Value, ...]:
    """Returns the k greatest or least elements along an axis, always sorted, and their indices.

    If k is computed at run time, the results are all elements in order, of which the first k count.
    """
    if isinstance(k, Constant):
        (count,) = node.ints(k, "k")
        return _top_k(node, x, count, axis, bool(largest))
    along = node.axis(axis, node.rank(x))
    found = _top_k(node, x, node.shape(x)[along], axis, bool(largest))
    number = node.converted(node.reshaped(k, ()), i64)
    return tuple(first_ones(node, value, number, along) for value in found)


def _top_k(node: ONNXNode, x: Value, k: int, axis: int, largest: bool) -> tuple[Value, ...]:
    axis = node.axis(axis, node.rank(x))
    properties = {"axis": axis, "k": k, "largest": largest}
    names = [i < len(node.outputs) and bool(node.outputs[i]) for i in range(2)]
    places = node.compute(TopKOp, [x], properties, output=1) if names[1] else node.insert(TopKOp, [x], properties)
    if not names[0]:
        return x, places
    values = node.compute(GatherNDOp, [x, coordinates(node, node.shape(places), {axis: places})])
    return values, places
