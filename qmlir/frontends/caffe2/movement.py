"""Operators that move elements: the stored integers of quantized tensors do not change."""

from collections.abc import Sequence
from math import floor, isfinite, prod
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from qmlir.dialects import nn
from qmlir.dialects.nn.indexing import GatherOp
from qmlir.dialects.nn.movement import BroadcastOp, ConcatOp
from qmlir.errors import UnsupportedError
from qmlir.frontends.caffe2.node import Caffe2Node, Order
from qmlir.frontends.caffe2.windows import Window
from qmlir.frontends.converters import Table
from qmlir.frontends.function import Constant, Ints, Value
from qmlir.frontends.windows import padded, sliced

converts = Table()

# ---------------------------------------------------------------------------------------------------------------
# Copies


@converts(
    "Alias", "Copy", "CopyCPUToIDEEP", "CopyCPUToMKL", "CopyFromCPUInput", "CopyIDEEPToCPU", "CopyMKLToCPU",
    "CopyOnDeviceLike", "EnsureCPUOutput", "EnsureDense", "Identity", "Int8Copy", "ScaleGradient", "StopGradient",
)  # fmt: skip
def copy(node: Caffe2Node, x: Value, *others: Value, scale: float = 1.0) -> Value:
    """The input."""
    node.shape(x)
    return node.movable(x)


@converts("Dropout")
def dropout(node: Caffe2Node, x: Value, *, ratio: float = 0.5, is_test: bool = True) -> Value:
    """The input: a network that runs drops nothing."""
    if not is_test:
        raise UnsupportedError("it is in training mode")
    node.shape(x)
    return node.movable(x)


# ---------------------------------------------------------------------------------------------------------------
# Shapes


def _new_shape(node: Caffe2Node, x: Value, wanted: Sequence[int]) -> list[int]:
    """Returns a shape in which 0 is the size of the input's dimension and −1 is what remains."""
    shape, found = node.shape(x), list(wanted)
    for axis, size in enumerate(found):
        if size == 0 and axis < len(shape):
            found[axis] = shape[axis]
    if found.count(-1) > 1 or min(found, default=0) < -1:
        raise node.error("its shape must have one size that is open at most", wanted)
    rest = prod(size for size in found if size != -1)
    if -1 in found:
        if not rest or prod(shape) % rest:
            raise node.error(f"its shape must fit {list(shape)}", wanted)
        found[found.index(-1)] = prod(shape) // rest
    if prod(found) != prod(shape):
        raise node.error(f"its shape must have {prod(shape)} elements", wanted)
    return found


@converts("Reshape", "Int8Reshape")
def reshape(node: Caffe2Node, x: Value, to: Value | None = None, *, shape: Ints | None = None) -> tuple[Value, ...]:
    """The input in another shape, and the shape that it had."""
    if (to is None) == (shape is None):
        raise node.error("it needs either a second input or its argument shape", "none" if to is None else "both")
    wanted = node.ints(to, "shape") if to is not None else shape or ()
    old = Constant(np.array(node.shape(x), np.int64))
    return node.reshaped(node.movable(x), _new_shape(node, x, wanted)), old


@converts("Flatten", "Int8Flatten")
def flatten(node: Caffe2Node, x: Value, *, axis: int = 1) -> Value:
    """A matrix, whose rows hold the dimensions from an axis on."""
    return node.matrix(node.movable(x), axis)


@converts("FlattenToVec")
def flatten_to_vec(node: Caffe2Node, x: Value) -> Value:
    """The elements as a vector."""
    return node.reshaped(node.movable(x), (prod(node.shape(x)),))


@converts("Squeeze")
def squeeze(node: Caffe2Node, x: Value, *, dims: Ints) -> Value:
    """The input without dimensions of size 1."""
    shape = node.shape(x)
    over = node.axes(dims, len(shape))
    if any(shape[a] != 1 for a in over):
        raise node.error("the dimensions that it removes must be 1", [shape[a] for a in over])
    return node.reshaped(node.movable(x), [n for a, n in enumerate(shape) if a not in over])


@converts("ExpandDims")
def expand_dims(node: Caffe2Node, x: Value, *, dims: Ints) -> Value:
    """The input with dimensions of size 1, whose places are counted in the result."""
    shape = list(node.shape(x))
    for axis in node.axes(dims, len(shape) + len(dims)):
        shape.insert(axis, 1)
    return node.reshaped(node.movable(x), shape)


@converts("Transpose", "Int8Transpose")
def transpose(node: Caffe2Node, x: Value, *, axes: Ints = ()) -> Value:
    """The input with its dimensions permuted; reversed by default."""
    rank = node.rank(x)
    wanted = axes or tuple(range(rank))[::-1]
    if sorted(wanted) != list(range(rank)):
        raise node.error(f"its axes must be a permutation of {rank} dimensions", wanted)
    return node.permuted(node.movable(x), wanted)


@converts("NCHW2NHWC")
def nchw2nhwc(node: Caffe2Node, x: Value) -> Value:
    """An image with its channels moved behind the spatial dimensions."""
    rank = _image(node, x)
    return node.permuted(node.movable(x), (0, *range(2, rank), 1))


@converts("NHWC2NCHW")
def nhwc2nchw(node: Caffe2Node, x: Value) -> Value:
    """An image with its channels moved before the spatial dimensions."""
    rank = _image(node, x)
    return node.permuted(node.movable(x), (0, rank - 1, *range(1, rank - 1)))


def _image(node: Caffe2Node, x: Value) -> int:
    if node.rank(x) < 3:
        raise node.error("its input must be an image of rank 3 at least", node.shape(x))
    return node.rank(x)


# ---------------------------------------------------------------------------------------------------------------
# Joining and splitting


@converts("Concat", "DepthConcat", "Int8Concat", "Append")
def concat(
    node: Caffe2Node, *inputs: Value, axis: int | None = None, add_axis: bool = False, order: Order = "NCHW"
) -> tuple[Value, ...]:
    """The inputs joined along an axis, by default that of the channels, or along a new axis; and their sizes.

    Integers are requantized to the type of the result: the one that the arguments state, else that of the first input.
    """
    if not inputs:
        raise node.error("it needs inputs", "none")
    rank = node.rank(inputs[0])
    along = axis if axis is not None else node.channel(order)
    at = node.axis(along, rank + 1 if add_axis else rank)
    parts: list[Value] = list(inputs)
    if node.kind == "Int8Concat":
        node.require_quantized(*inputs)
        type = node.stated or node.type_of(inputs[0])
        assert type is not None
        parts = [node.on_type(x, type) for x in inputs]
    elif any(node.is_quantized(x) for x in inputs):
        raise UnsupportedError("it joins plain numbers, and an input is quantized")
    if add_axis:
        if any(node.shape(x) != node.shape(inputs[0]) for x in inputs):
            raise node.error("its inputs must have one shape", str([list(node.shape(x)) for x in inputs][:4]))
        parts = [node.reshaped(x, (*node.shape(x)[:at], 1, *node.shape(x)[at:])) for x in parts]
    sizes = [1 if add_axis else node.shape(x)[at] for x in inputs if add_axis or at < node.rank(x)]
    return node.compute(ConcatOp, [parts], {"axis": at}), Constant(np.array(sizes, np.int32))


@converts("Split", "DepthSplit")
def split(
    node: Caffe2Node, x: Value, lengths: Value | None = None, *, axis: int | None = None, split: Ints = (),
    order: Order = "NCHW",
) -> tuple[Value, ...]:  # fmt: skip
    """The parts of a tensor along an axis, by default that of the channels; of one size if none are given."""
    at = node.axis(axis if axis is not None else node.channel(order), node.rank(x))
    size, count = node.shape(x)[at], len(node.outputs)
    sizes = node.ints(lengths, "sizes") if lengths is not None else split
    if not sizes and (not count or size % count):
        raise node.error(f"its {count} parts must have one size", str(size))
    sizes = sizes or (size // count,) * count
    if sum(sizes) != size or len(sizes) != count or min(sizes) < 0:
        raise node.error(f"its {count} parts must have {size} elements together", sizes)
    return tuple(_slice(node, x, at, sum(sizes[:i]), part) for i, part in enumerate(sizes))


def _slice(node: Caffe2Node, x: Value, axis: int, offset: int, size: int) -> SSAValue:
    shape = list(node.shape(x))
    offsets = [offset if a == axis else 0 for a in range(len(shape))]
    return sliced(node, node.quantized(x), offsets, [size if a == axis else n for a, n in enumerate(shape)])


@converts("Slice", "Int8Slice")
def slice_(
    node: Caffe2Node, x: Value, first: Value | None = None, last: Value | None = None, *, starts: Ints = (),
    ends: Ints = (),
) -> Value:  # fmt: skip
    """Elements from a start up to an end along each dimension; a negative number counts from one behind the end."""
    shape = node.shape(x)
    begins = node.ints(first, "starts") if first is not None else starts
    stops = node.ints(last, "ends") if last is not None else ends
    if len(begins) != len(stops) or len(begins) > len(shape):
        raise node.error(f"it needs as many starts as ends, at most {len(shape)}", f"{len(begins)} and {len(stops)}")
    rest = len(shape) - len(begins)
    offsets, sizes = list[int](), list[int]()
    for size, begin, stop in zip(shape, (*begins, *[0] * rest), (*stops, *[-1] * rest), strict=True):
        low, high = (v + size + 1 if v < 0 else min(v, size) for v in (begin, stop))
        if low < 0 or high < 0:
            raise node.error(f"its starts and ends must lie in {list(shape)}", f"{list(begins)} and {list(stops)}")
        offsets.append(low if low < high else 0)
        sizes.append(max(high - low, 0))
    return sliced(node, node.quantized(x), offsets, sizes)


@converts("Tile")
def tile(node: Caffe2Node, x: Value, times: Value | None = None, *, tiles: int = 1, axis: int = 0) -> Value:
    """The input repeated along an axis."""
    shape = node.shape(x)
    count = tiles if times is None else node.ints(times, "tiles")[0]
    if count < 0:
        raise node.error("its tiles must not be negative", str(count))
    at = node.axis(axis, len(shape))
    apart = node.reshaped(node.movable(x), (*shape[:at], 1, *shape[at:]))
    wide = node.insert(BroadcastOp, [node.quantized(apart)], {"shape": (*shape[:at], count, *shape[at:])})
    return node.reshaped(wide, (*shape[:at], count * shape[at], *shape[at + 1 :]))


@converts("Expand")
def expand(node: Caffe2Node, x: Value, to: Value | None = None, *, shape: Ints = ()) -> Value:
    """The input broadcast with a shape, as numpy's arrays broadcast; −1 keeps a dimension."""
    wanted = list(node.ints(to, "shape") if to is not None else shape)
    own = node.shape(x)
    for back in range(1, min(len(own), len(wanted)) + 1):
        wanted[-back] = own[-back] if wanted[-back] == -1 else wanted[-back]
    return node.insert(BroadcastOp, [node.quantized(x)], {"shape": np.broadcast_shapes(own, tuple(wanted))})


@converts("PadImage")
def pad_image(
    node: Caffe2Node, x: Value, *, window: Window, mode: str = "constant", value: float = 0.0, order: Order = "NCHW"
) -> Value:
    """An image with a margin of one value."""
    if mode != "constant":
        raise UnsupportedError(f"its margin is of mode {mode}")
    image = node.channels_last(node.real(x), order)
    space = node.rank(image) - 2
    low, high = window.margins(node, space)
    if min(low + high) < 0:
        raise UnsupportedError("its margin is negative")
    return node.in_order(padded(node, image, [0, *low, 0], [0, *high, 0], value), order)


@converts("ChannelShuffle", "Int8ChannelShuffle")
def channel_shuffle(node: Caffe2Node, x: Value, *, group: int, kernel: int = 1, order: Order = "NCHW") -> Value:
    """The channels of the groups in turn: the first of each group, then the second of each, and so on."""
    axis = node.channel(order) % max(_image(node, x), 1)
    shape = node.shape(x)
    if group < 1 or shape[axis] % group:
        raise node.error(f"its groups must divide {shape[axis]} channels", str(group))
    apart = (*shape[:axis], group, shape[axis] // group, *shape[axis + 1 :])
    order_of = [*range(axis), axis + 1, axis, *range(axis + 2, len(shape) + 1)]
    turned = node.permuted(node.reshaped(node.movable(x), apart), order_of)
    return node.reshaped(turned, shape)


# ---------------------------------------------------------------------------------------------------------------
# Gathers


@converts("Gather", "BatchGather")
def gather(
    node: Caffe2Node, x: Value, indices: Value, *, axis: int | None = None, match_outer: bool = False,
    wrap_indices: bool = False,
) -> Value:  # fmt: skip
    """Elements of x along an axis, 0 by default, and 1 for `BatchGather`."""
    if match_outer:
        raise UnsupportedError("its indices differ from row to row")
    if node.element(indices) not in ("i32", "i64"):
        raise node.error("its indices must be int32 or int64", node.element(indices))
    along = axis if axis is not None else int(node.kind == "BatchGather")
    return node.moved_elements(GatherOp, [x, indices], {"axis": node.axis(along, node.rank(x))})


@converts("TopK")
def top_k(node: Caffe2Node, x: Value, count: Value | None = None, *, k: int = 0, axis: int = -1) -> tuple[Value, ...]:
    """The k greatest elements along an axis, greatest first, and their int64 indices; then those in the flat tensor."""
    if count is not None:
        k = node.ints(count, "k")[0]
    rank = node.rank(node.real(x))
    at = node.axis(axis, rank)
    if not 0 < k <= node.shape(x)[at]:
        raise node.error(f"its k must lie in [1, {node.shape(x)[at]}]", str(k))
    places = node.also(nn.TopKOp, [x], {"axis": at, "k": k}, output=1)
    shape = node.shape(x)
    rows, behind = prod(shape[:at]), prod(shape[at + 1 :])
    node.room((rows, k, behind))
    starts = np.arange(rows).reshape(-1, 1, 1) * shape[at] * behind + np.arange(behind)
    offsets = np.broadcast_to(starts, (rows, k, behind)).reshape(node.shape(places))
    steps = places if behind == 1 else node.insert(nn.MulOp, [places, Constant(np.array(behind, np.int64))])
    flat = node.insert(nn.AddOp, [steps, Constant(np.ascontiguousarray(offsets))])
    return node.compute(GatherOp, [node.reshaped(x, (prod(shape),)), flat], {"axis": 0}), places, flat


# ---------------------------------------------------------------------------------------------------------------
# Resizing


def _nearest(node: Caffe2Node, x: Value, order: Order, scales: Sequence[float]) -> Value:
    """Adds a resize to the nearest element before the place of each output element."""
    axes = (2, 3) if order == "NCHW" else (1, 2)
    if node.rank(x) != 4:
        raise node.error("its input must have rank 4", node.shape(x))
    if not all(isfinite(s) and s > 0 for s in scales):
        raise node.error("its scales must be above 0", scales)
    y: SSAValue = node.quantized(x)
    for axis, scale in zip(axes, scales, strict=True):
        length = node.shape(x)[axis]
        size = floor(length * np.float32(scale))
        if size < 1:
            raise node.error("its scales must leave something of its input", scales)
        node.room((size,))
        at = np.floor(np.arange(size, dtype=np.float32) / np.float32(scale)).astype(np.int64)
        taps = Constant(np.minimum(at, length - 1))
        y = (node.compute if axis == axes[1] else node.insert)(GatherOp, [y, taps], {"axis": axis})
    return y


@converts("ResizeNearest", "Int8ResizeNearest")
def resize_nearest(
    node: Caffe2Node, x: Value, scales: Value | None = None, *, height_scale: float = 1.0, width_scale: float = 1.0,
    order: Order | None = None,
) -> Value:  # fmt: skip
    """An image of other sizes, each element that at its place divided by the scale, rounded down."""
    factors: Any = (height_scale, width_scale)
    if scales is not None:
        factors = [float(v) for v in node.array(scales, "scales").reshape(-1)]
        if len(factors) != 2:
            raise node.error("it needs two scales", len(factors))
    # Caffe2's integer operator knows images in NHWC only.
    return _nearest(node, x, order or ("NHWC" if node.kind.startswith("Int8") else "NCHW"), factors)


@converts("UpsampleNearest")
def upsample_nearest(node: Caffe2Node, x: Value, *, scale: int = 2, order: Order = "NCHW") -> Value:
    """An image whose elements are repeated in both directions."""
    return _nearest(node, x, order, (float(scale), float(scale)))
