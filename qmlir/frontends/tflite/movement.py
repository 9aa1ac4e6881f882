"""Data movement and interpolation: shapes, padding, slices, gathers, resizes."""

from collections.abc import Sequence
from math import isnan
from typing import cast

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, IntegerType, i64
from xdsl.ir import Attribute, OpResult, SSAValue

from qmlir.dialects.interpolation import Places
from qmlir.dialects.nn.functions import RequantizeOp
from qmlir.dialects.nn.indexing import GatherNDOp, GatherOp
from qmlir.dialects.nn.movement import BroadcastOp, ConcatOp, DilateOp, PadOp, SliceOp, TransposeOp
from qmlir.dialects.nn.resize import ResizeOp
from qmlir.dialects.quant.types import UniformType
from qmlir.errors import UnsupportedError
from qmlir.frontends.builder import Properties
from qmlir.frontends.converters import Table
from qmlir.frontends.function import Constant, Dequantized, Value
from qmlir.frontends.tflite.node import TFLiteNode
from qmlir.ir.facts import INTEGER_OPERATOR
from qmlir.ir.interfaces import Shape, element_of
from qmlir.ir.types import element_type_of
from qmlir.ir.weights import WeightsAttr

converts = Table()

# ---------------------------------------------------------------------------------------------------------------
# Converters of operators that move elements: reshape, transpose, concatenation, tiling, padding, blocks.


@converts("RESHAPE")
def reshape(node: TFLiteNode, x: Value, shape: Value | None = None, *, new_shape: tuple[int, ...]) -> Value:
    """x under another shape, in which one dimension may be −1."""
    wanted = new_shape if shape is None else node.ints(shape, "shape")
    size, known = int(np.prod(node.shape(x))), int(np.prod([d for d in wanted if d != -1]))
    if list(wanted).count(-1) > 1 or min(wanted, default=0) < -1:
        raise node.error("its shape must have one −1 at most and no other negative number", wanted)
    found = [size // known if d == -1 and known else max(d, 0) for d in wanted]
    if int(np.prod(found)) != size:
        raise node.error(f"its shape must have {size} elements", wanted)
    return node.reshape(x, found)


@converts("DENSIFY")
def densify(node: TFLiteNode, x: Value) -> Value:
    """A sparse constant with zeros where it has no values, which the reader puts there (sparse.py)."""
    if not isinstance(x, Constant):
        raise UnsupportedError("its input is computed, and only constants can be sparse")
    return x


@converts("SQUEEZE")
def squeeze(node: TFLiteNode, x: Value, *, squeeze_dims: tuple[int, ...]) -> Value:
    """x without the named dimensions of size 1, or without all dimensions of size 1."""
    shape = node.shape(x)
    axes = node.axes(squeeze_dims, len(shape)) if squeeze_dims else [i for i, d in enumerate(shape) if d == 1]
    if any(shape[a] != 1 for a in axes):
        raise node.error("the dimensions that it removes must be of size 1", f"{axes} of {list(shape)}")
    return node.reshape(x, [d for i, d in enumerate(shape) if i not in axes])


@converts("EXPAND_DIMS")
def expand_dims(node: TFLiteNode, x: Value, axis: Value) -> Value:
    """x with one more dimension of size 1."""
    shape = node.shape(x)
    at = node.axis(node.only(axis, "axis"), len(shape) + 1)
    return node.reshape(x, (*shape[:at], 1, *shape[at:]))


@converts("TRANSPOSE")
def transpose(node: TFLiteNode, x: Value, permutation: Value) -> Value:
    """x with its dimensions permuted."""
    order = node.ints(permutation, "permutation")
    if sorted(order) != list(range(node.rank(x))):
        raise node.error(f"its permutation must name each of {node.rank(x)} dimensions once", order)
    return node.moved_elements(TransposeOp, [x], {"permutation": order})


@converts("CONCATENATION")
def concatenation(node: TFLiteNode, *inputs: Value, axis: int, fused_activation_function: int) -> Value:
    """The inputs concatenated along an axis; quantized inputs are requantized to the output's type."""
    if not inputs:
        raise node.error("it needs inputs", "none")
    if fused_activation_function:
        raise UnsupportedError("it has a fused activation")
    return joined(node, inputs, node.axis(axis, node.rank(inputs[0])))


def joined(node: TFLiteNode, inputs: Sequence[Value], axis: int) -> Value:
    """Concatenates tensors along an axis, requantized to the output's type if the output is quantized."""
    out = node.output_type()
    parts: Sequence[Value] = inputs
    if out is not None:
        parts = [_on_scale(node, x, out) for x in inputs]
    return node.compute(ConcatOp, [parts], {"axis": axis})


def _on_scale(node: TFLiteNode, x: Value, type: UniformType) -> SSAValue:
    """Requantizes a part of a concatenation to the result's type.

    LiteRT's CONCATENATION rounds this change of scale like no other operator. INTEGER_OPERATOR marks it.
    """
    value = node.quantized(x)
    if element_of(value) == type:
        return value
    scaled = node.insert(RequantizeOp, [value], element=type)
    if isinstance(scaled, OpResult):
        INTEGER_OPERATOR.put(scaled.op)
    return scaled


@converts("PACK")
def pack(node: TFLiteNode, *inputs: Value, axis: int) -> Value:
    """The inputs stacked along a new axis."""
    if not inputs:
        raise node.error("it needs inputs", "none")
    shape = node.shape(inputs[0])
    at = node.axis(axis, len(shape) + 1)
    wide = (*shape[:at], 1, *shape[at:])
    if any(node.shape(x) != shape for x in inputs):
        raise node.error("its inputs must have one shape", [list(node.shape(x)) for x in inputs])
    return joined(node, [node.reshaped(node.movable(x), wide) for x in inputs], at)


@converts("TILE")
def tile(node: TFLiteNode, x: Value, multiples: Value) -> Value:
    """x repeated along each dimension."""
    shape, times = node.shape(x), node.ints(multiples, "multiples")
    if len(times) != len(shape) or min(times, default=0) < 0:
        raise node.error(f"it needs {len(shape)} multiples that are not negative", times)
    split = [d for size in shape for d in (1, size)]
    whole = [d for size, n in zip(shape, times, strict=True) for d in (n, size)]
    wide = node.moved_elements(BroadcastOp, [node.reshaped(node.movable(x), split)], {"shape": whole})
    return node.reshape(wide, [size * n for size, n in zip(shape, times, strict=True)])


@converts("BROADCAST_TO")
def broadcast_to(node: TFLiteNode, x: Value, shape: Value) -> Value:
    """x broadcast to a shape."""
    wanted = node.ints(shape, "shape")
    return node.moved_elements(BroadcastOp, [x], {"shape": wanted})


@converts("FILL")
def fill(node: TFLiteNode, shape: Value, value: Value) -> Value:
    """A tensor filled with one value."""
    wanted = node.ints(shape, "shape")
    return node.moved_elements(BroadcastOp, [value], {"shape": wanted})


@converts("SHAPE")
def shape_of_tensor(node: TFLiteNode, x: Value, *, out_type: int) -> Value:
    """The dimensions of x, as a constant."""
    return Constant(np.array(node.shape(x), np.int64 if node.tensors[0].dtype == np.int64 else np.int32))


@converts("RANK")
def rank(node: TFLiteNode, x: Value) -> Value:
    """The number of dimensions of x, as a constant."""
    return Constant(np.array(node.rank(x), np.int32))


# ---------------------------------------------------------------------------------------------------------------
# Padding


def pad_value(node: TFLiteNode, x: Value, low: Sequence[int], high: Sequence[int], value: float) -> SSAValue:
    """Pads x with a real value; in a quantized tensor 0.0 is stored as the zero point."""
    return node.insert(PadOp, [node.quantized(x)], _pads(node, x, low, high, value))


def _pads(node: TFLiteNode, x: Value, low: Sequence[int], high: Sequence[int], value: float) -> Properties:
    return {"low": low, "high": high, "value": _element(node, x, value)}


def _element(node: TFLiteNode, x: Value, value: float) -> float | IntegerAttr:
    real = _takes_real_value(node, x)
    return float(value) if real else IntegerAttr(int(value), cast(IntegerType, _integer(node, x)))


def _takes_real_value(node: TFLiteNode, x: Value) -> bool:
    return node.is_quantized(x) or node.element(x).startswith(("f", "bf"))


def _integer(node: TFLiteNode, x: Value) -> Attribute:
    return element_of(node.builder.ssa(x))


def paddings_of(node: TFLiteNode, paddings: Value, rank: int) -> list[tuple[int, int]]:
    """Returns constant paddings [rank, 2] as (before, after) pairs; negative paddings are an error."""
    if node.shape(paddings) != (rank, 2):
        raise node.error(f"its paddings must be of shape [{rank}, 2]", node.shape(paddings))
    values = node.ints(paddings, "paddings")
    pairs = list(zip(values[::2], values[1::2], strict=True))
    if min(values, default=0) < 0:
        raise node.error("its paddings must not be negative", str(pairs))
    return pairs


@converts("PAD")
def pad(node: TFLiteNode, x: Value, paddings: Value) -> Value:
    """x with zeros around it."""
    return _padded(node, x, paddings, 0.0)


@converts("PADV2")
def pad_v2(node: TFLiteNode, x: Value, paddings: Value, value: Value) -> Value:
    """x with elements of one value around it."""
    return _padded(node, x, paddings, _filling(node, x, value))


def _filling(node: TFLiteNode, x: Value, value: Value) -> float:
    """Returns the real number, or the plain integer, that an operator puts beside the elements of x.

    TFLite puts there the stored integer of the input that holds it, without a change of scale.
    """
    filling = node.array(value, "padding value").reshape(-1)
    if filling.size != 1 or (filling.dtype.kind == "f" and isnan(float(filling[0]))):
        raise node.error("its padding value must be one number", str(filling.tolist()[:4]))
    own, type, real = node.type_of(value), node.type_of(x), _takes_real_value(node, x)
    if isinstance(value, Dequantized) and own is not None and (type is not None or not real):
        filling = value.stored.reshape(-1)
    if not real and (found := str(element_type_of(filling.dtype))) != node.element(x):
        raise node.error(f"its padding value must be of its input's type, {node.element(x)}", found)
    if type is not None and filling.dtype.kind in "iu":
        return (float(filling[0]) - type.zero_point) * type.scale
    return filling[0]


@converts("DILATE")
def dilate(node: TFLiteNode, x: Value, dilations: Value, value: Value) -> Value:
    """x with elements of one value between its own, along each dimension."""
    steps = node.ints(dilations, "dilations")
    if len(steps) != node.rank(x) or min(steps, default=1) < 1:
        raise node.error(f"it needs {node.rank(x)} dilations of at least 1", steps)
    return node.moved_elements(
        DilateOp, [x], {"dilations": steps, "value": _element(node, x, _filling(node, x, value))}
    )


def _padded(node: TFLiteNode, x: Value, paddings: Value, value: float) -> Value:
    low, high = zip(*paddings_of(node, paddings, node.rank(x)), strict=True) if node.rank(x) else ((), ())
    y = node.compute(PadOp, [node.quantized(x)], _pads(node, x, low, high, value))
    return node.retyped(y, node.output_type()) if node.is_quantized(x) else y


@converts("MIRROR_PAD")
def mirror_pad(node: TFLiteNode, x: Value, paddings: Value, *, mode: int) -> Value:
    """x padded with its own reflection; mode 1 repeats the border element, mode 0 does not."""
    shape, y = node.shape(x), node.movable(x)
    for axis, (low, high) in enumerate(paddings_of(node, paddings, len(shape))):
        if max(low, high) > shape[axis] - (0 if mode else 1):
            raise node.error(f"its paddings must be less than axis {axis}'s {shape[axis]}", str((low, high)))
        if low or high:
            node.room((low + shape[axis] + high,))
            places = np.pad(np.arange(shape[axis], dtype=np.int64), (low, high), "symmetric" if mode else "reflect")
            y = node.insert(GatherOp, [y if isinstance(y, SSAValue) else node.quantized(y), Constant(places)],
                            {"axis": axis})  # fmt: skip
    return node.retyped(node.quantized(y), node.output_type())


# ---------------------------------------------------------------------------------------------------------------
# Blocks


def rearranged(node: TFLiteNode, x: Value, split: Sequence[int], order: Sequence[int], shape: Shape) -> Value:
    """Reshapes x to `split`, permutes the dimensions by `order`, and reshapes the result to `shape`."""
    y = node.permuted(node.reshaped(node.movable(x), split), order)
    return node.reshape(y, shape)


@converts("SPACE_TO_DEPTH")
def space_to_depth(node: TFLiteNode, x: Value, *, block_size: int) -> Value:
    """Moves blocks of `block_size` × `block_size` pixels into channels."""
    (n, h, w, c), b = _image(node, x), block_size
    if b < 1 or h % b or w % b:
        raise node.error(f"its block size must divide {h} and {w}", str(b))
    split, order = (n, h // b, b, w // b, b, c), (0, 1, 3, 2, 4, 5)
    return rearranged(node, x, split, order, (n, h // b, w // b, b * b * c))


@converts("DEPTH_TO_SPACE")
def depth_to_space(node: TFLiteNode, x: Value, *, block_size: int) -> Value:
    """Moves channels into blocks of `block_size` × `block_size` pixels."""
    (n, h, w, c), b = _image(node, x), block_size
    if b < 1 or c % (b * b):
        raise node.error(f"the square of its block size must divide {c}", str(b))
    return rearranged(node, x, (n, h, w, b, b, c // b // b), (0, 1, 3, 2, 4, 5), (n, h * b, w * b, c // b // b))


def _image(node: TFLiteNode, x: Value) -> Shape:
    if node.rank(x) != 4:
        raise node.error("its input must have rank 4 [N, H, W, C]", node.shape(x))
    return node.shape(x)


@converts("SPACE_TO_BATCH_ND")
def space_to_batch_nd(node: TFLiteNode, x: Value, block_shape: Value, paddings: Value) -> Value:
    """Pads the spatial axes, and moves each position within a block to a batch of its own."""
    blocks = _blocks(node, x, block_shape)
    pairs = [(0, 0), *paddings_of(node, paddings, len(blocks)), *[(0, 0)] * (node.rank(x) - 1 - len(blocks))]
    y = pad_value(node, x, [p[0] for p in pairs], [p[1] for p in pairs], 0.0)
    n, *shape = node.shape(y)
    if any(size % b for size, b in zip(shape, blocks, strict=False)):
        raise node.error(f"its blocks must divide {shape[: len(blocks)]}", str(blocks))
    m, rest = len(blocks), shape[len(blocks) :]
    counts = [size // b for size, b in zip(shape, blocks, strict=False)]
    split = [n, *(d for pair in zip(counts, blocks, strict=True) for d in pair), *rest]
    order = [*range(2, 2 * m + 1, 2), 0, *range(1, 2 * m, 2), *range(2 * m + 1, 2 * m + 1 + len(rest))]
    return rearranged(node, y, split, order, (int(np.prod(blocks)) * n, *counts, *rest))


@converts("BATCH_TO_SPACE_ND")
def batch_to_space_nd(node: TFLiteNode, x: Value, block_shape: Value, crops: Value) -> Value:
    """Moves batches to positions within blocks of the spatial axes, and crops the result."""
    blocks, (n, *shape) = _blocks(node, x, block_shape), node.shape(x)
    m, rest = len(blocks), shape[len(blocks) :]
    if n % int(np.prod(blocks)):
        raise node.error(f"its blocks must divide {n} batches", str(blocks))
    pairs, batch = paddings_of(node, crops, m), n // int(np.prod(blocks))
    order = [m, *(d for i in range(m) for d in (m + 1 + i, i)), *range(2 * m + 1, 2 * m + 1 + len(rest))]
    sizes = [size * b for size, b in zip(shape, blocks, strict=False)]
    y = node.reshaped(node.permuted(node.reshaped(node.movable(x), (*blocks, batch, *shape)), order),
                      (batch, *sizes, *rest))  # fmt: skip
    if any(a + b > size for (a, b), size in zip(pairs, sizes, strict=True)):
        raise node.error(f"its crops must fit {sizes}", str(pairs))
    kept = [size - a - b for (a, b), size in zip(pairs, sizes, strict=True)]
    return part(node, y, [0, *(a for a, _ in pairs), *[0] * len(rest)], [batch, *kept, *rest])


def _blocks(node: TFLiteNode, x: Value, block_shape: Value) -> list[int]:
    blocks = list(node.ints(block_shape, "block shape"))
    if min(blocks, default=1) < 1 or len(blocks) >= node.rank(x) or max(blocks, default=1) > 1 << 20:
        raise node.error(f"its blocks must be at least 1, for at most {node.rank(x) - 1} axes", str(blocks))
    return blocks


# ---------------------------------------------------------------------------------------------------------------
# Converters of operators that select elements: slices, splits, gathers, reversals.


def part(
    node: TFLiteNode, x: Value, offsets: Sequence[int], sizes: Sequence[int], strides: Sequence[int] = (), *,
    output: int = 0,
) -> Value:  # fmt: skip
    """Adds a slice as an output of the node: `sizes` elements of x from `offsets` on in steps of `strides`."""
    properties = {"offsets": offsets, "sizes": sizes, "strides": strides or [1] * len(sizes)}
    return node.moved_elements(SliceOp, [x], properties, output)


@converts("SLICE")
def slice_(node: TFLiteNode, x: Value, begin: Value, size: Value) -> Value:
    """`size` elements from `begin` on; a size of −1 takes all elements up to the end."""
    shape, first, count = node.shape(x), node.ints(begin, "begin"), node.ints(size, "size")
    if not len(first) == len(count) == len(shape):
        raise node.error(f"it needs {len(shape)} begins and sizes", f"{len(first)} and {len(count)}")
    sizes = [d - b if s == -1 else s for d, b, s in zip(shape, first, count, strict=True)]
    if any(b < 0 or s < 0 or b + s > d for d, b, s in zip(shape, first, sizes, strict=True)):
        raise node.error(f"its part must lie inside {list(shape)}", f"{list(count)} from {list(first)}")
    return part(node, x, [b if s else 0 for b, s in zip(first, sizes, strict=True)], sizes)


@converts("STRIDED_SLICE")
def strided_slice(
    node: TFLiteNode, x: Value, begin: Value, end: Value, strides: Value, *, begin_mask: int, end_mask: int,
    ellipsis_mask: int, new_axis_mask: int, shrink_axis_mask: int, offset: bool,
) -> Value:  # fmt: skip
    """x[begin:end:strides] as in numpy; mask bits ignore a bound, add or remove an axis, or mark an ellipsis."""
    if offset:
        raise UnsupportedError("its ends are offsets")
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


@converts("SPLIT")
def split(node: TFLiteNode, axis: Value, x: Value, *, num_splits: int) -> tuple[Value, ...]:
    """x split into equal parts along an axis."""
    at, count = node.axis(node.only(axis, "axis"), node.rank(x)), len(node.outputs)
    if not node.rank(x) or num_splits not in (0, count) or node.shape(x)[at] % count:
        raise node.error(f"its {count} outputs must be equal parts of {list(node.shape(x))}", str(num_splits))
    return _split(node, x, at, [node.shape(x)[at] // count] * count)


@converts("SPLIT_V")
def split_v(node: TFLiteNode, x: Value, sizes: Value, axis: Value, *, num_splits: int) -> tuple[Value, ...]:
    """x split along an axis into parts of the given sizes; one size may be −1 and takes the remaining elements."""
    at, found = node.axis(node.only(axis, "axis"), node.rank(x)), list(node.ints(sizes, "sizes"))
    if not node.rank(x):
        raise node.error("its input must have an axis", "a scalar")
    if found.count(-1) == 1:
        found[found.index(-1)] = node.shape(x)[at] - sum(found) - 1
    return _split(node, x, at, found)


@converts("UNPACK")
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


@converts("GATHER")
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
        return node.moved_elements(GatherOp, [x, places_of(node, indices)], {"axis": at})
    batch = batch_dims + node.rank(indices) if batch_dims < 0 else batch_dims
    if not 0 <= batch <= min(at, node.rank(indices)) or node.shape(x)[:batch] != node.shape(indices)[:batch]:
        raise node.error("its input and indices must begin with the same dimensions, before its axis",
                         f"{list(node.shape(x))}, {list(node.shape(indices))}, {batch}")  # fmt: skip
    return _gather_batches(node, x, indices, at, batch)


def _gather_batches(node: TFLiteNode, x: Value, indices: Value, at: int, batch: int) -> Value:
    """Gathers with batch dimensions: moves the axis behind the batches and builds coordinates for nn.gather_nd."""
    rank, shape = node.rank(x), node.shape(indices)
    order = [*range(batch), at, *(i for i in range(batch, rank) if i != at)]
    moved = node.permuted(node.movable(x), order)
    fixed = np.indices(node.room((*shape, batch + 1))[:-1], dtype=np.int64)[:batch]
    parts: list[Value] = [Constant(i[..., None]) for i in fixed]
    parts.append(node.reshaped(node.converted(indices, i64), (*shape, 1)))
    coordinates = node.insert(ConcatOp, [parts], {"axis": len(shape)})
    found = node.moved_elements(GatherNDOp, [moved, coordinates])
    between = at - batch  # the number of x's dimensions that precede the indices' own dimensions in the result
    own = range(batch, len(shape))
    first = range(len(shape), len(shape) + between)
    return node.permuted(found, [*range(batch), *first, *own, *range(len(shape) + between, node.rank(found))])


@converts("EMBEDDING_LOOKUP")
def embedding_lookup(node: TFLiteNode, indices: Value, x: Value) -> Value:
    """Rows of a table at the indices."""
    if node.is_quantized(x) and node.output_type() is None:
        raise UnsupportedError("its table is stored as integers and its result is not")
    return gather(node, x, indices, axis=0, batch_dims=0)


@converts("GATHER_ND")
def gather_nd(node: TFLiteNode, x: Value, indices: Value) -> Value:
    """x at index tuples into its first dimensions."""
    return node.moved_elements(GatherNDOp, [x, places_of(node, indices)])


@converts("REVERSE_V2")
def reverse_v2(node: TFLiteNode, x: Value, axes: Value) -> Value:
    """x reversed along axes."""
    shape, over = node.shape(x), node.axes(node.ints(axes, "axes"), node.rank(x))
    offsets = [size - 1 if i in over and size else 0 for i, size in enumerate(shape)]
    return part(node, x, offsets, shape, [-1 if i in over else 1 for i in range(len(shape))])


@converts("REVERSE_SEQUENCE")
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
    moved = node.permuted(node.movable(x), order)
    found = node.moved_elements(GatherNDOp, [moved, Constant(np.stack([each, places], axis=2))])
    return node.permuted(found, [order.index(i) for i in range(len(shape))])


# ---------------------------------------------------------------------------------------------------------------
# Converters of image resizing: each axis gets a table of source positions (taps) and their weights.


def _sizes(node: TFLiteNode, x: Value, size: Value) -> list[tuple[int, int, int]]:
    """Returns (axis, input length, output length) for rows and columns."""
    wanted = node.ints(size, "size")
    if node.rank(x) != 4 or len(wanted) != 2 or min(*wanted, *node.shape(x)[1:3]) < 1:
        raise node.error("it needs an image [N, H, W, C] and a size [rows, columns], none of them 0",
                         f"{list(node.shape(x))} and {list(wanted)}")  # fmt: skip
    node.room((sum(wanted), 4))
    return [(axis, node.shape(x)[axis], n) for axis, n in zip((1, 2), wanted, strict=True)]


@converts("RESIZE_BILINEAR")
def resize_bilinear(node: TFLiteNode, x: Value, size: Value, *, align_corners: bool, half_pixel_centers: bool) -> Value:
    """Bilinear interpolation: each output pixel from the four input pixels around its place."""
    tables = [
        Places(length, wanted, bool(align_corners), bool(half_pixel_centers)).linear()
        for _, length, wanted in _sizes(node, x, size)
    ]
    properties = {
        "axes": [1, 2],
        "taps": ArrayAttr([WeightsAttr(taps) for taps, _ in tables]),
        "weights": ArrayAttr([WeightsAttr(weights) for _, weights in tables]),
    }
    return node.pointwise(ResizeOp, [x], properties)


@converts("RESIZE_NEAREST_NEIGHBOR")
def resize_nearest_neighbor(
    node: TFLiteNode, x: Value, size: Value, *, align_corners: bool, half_pixel_centers: bool
) -> Value:
    """Nearest neighbour: each output pixel from the input pixel nearest to its place."""
    y: SSAValue = node.quantized(x)
    for axis, length, wanted in _sizes(node, x, size):
        places = np.arange(wanted, dtype=np.float32) + np.float32(0.5 if half_pixel_centers else 0)
        at = places * Places(length, wanted, bool(align_corners), False).step()
        # With aligned corners places are rounded, half away from zero; else they are rounded down.
        near = np.floor(at + np.float32(0.5)) if align_corners else np.floor(at)
        taps = Constant(np.clip(near, 0, length - 1).astype(np.int64))
        write = node.insert if axis == 1 else node.compute
        y = write(GatherOp, [y, taps], {"axis": axis})
    return node.retyped(y, node.output_type())
