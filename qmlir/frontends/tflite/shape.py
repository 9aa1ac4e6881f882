"""Converters of operators that move elements: reshape, transpose, concatenation, tiling, padding, blocks."""

from collections.abc import Sequence
from math import isnan
from typing import cast

import numpy as np
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, IntegerType, UnitAttr, f32, i64
from xdsl.ir import Attribute, OpResult, SSAValue

from qmlir.dialects.nn.activation import RequantizeOp
from qmlir.dialects.nn.indexing import GatherOp
from qmlir.dialects.nn.shape import BroadcastOp, ConcatOp, PadOp, TransposeOp
from qmlir.dialects.quant.types import UniformType
from qmlir.dialects.windows import ints
from qmlir.frontends.tflite.converters import converts
from qmlir.frontends.tflite.node import TFLiteNode
from qmlir.frontends.values import Constant, Dequantized, Refusal, Value
from qmlir.ir.interfaces import Shape, element_of
from qmlir.ir.marks import INTEGER_OPERATOR


@converts("RESHAPE", options="ReshapeOptions")
def reshape(node: TFLiteNode, x: Value, shape: Value | None = None, *, new_shape: tuple[int, ...]) -> Value:
    """x under another shape, in which one dimension may be −1."""
    wanted = new_shape if shape is None else node.ints(shape, "shape")
    size, known = int(np.prod(node.shape(x))), int(np.prod([d for d in wanted if d != -1]))
    if list(wanted).count(-1) > 1 or min(wanted, default=0) < -1:
        raise node.error("its shape must have one −1 at most and no other negative number", str(list(wanted)))
    found = [size // known if d == -1 and known else max(d, 0) for d in wanted]
    if int(np.prod(found)) != size:
        raise node.error(f"its shape must have {size} elements", str(list(wanted)))
    return node.reshape(x, found)


@converts("SQUEEZE", options="SqueezeOptions")
def squeeze(node: TFLiteNode, x: Value, *, squeeze_dims: tuple[int, ...]) -> Value:
    """x without the named dimensions of size 1, or without all dimensions of size 1."""
    shape = node.shape(x)
    axes = node.axes(squeeze_dims, len(shape)) if squeeze_dims else [i for i, d in enumerate(shape) if d == 1]
    if any(shape[a] != 1 for a in axes):
        raise node.error("the dimensions that it removes must be of size 1", f"{axes} of {list(shape)}")
    return node.reshape(x, [d for i, d in enumerate(shape) if i not in axes])


@converts("EXPAND_DIMS", options="ExpandDimsOptions")
def expand_dims(node: TFLiteNode, x: Value, axis: Value) -> Value:
    """x with one more dimension of size 1."""
    shape, axes = node.shape(x), node.ints(axis, "axis")
    if len(axes) != 1:
        raise node.error("it needs one axis", str(list(axes)))
    at = node.axis(axes[0], len(shape) + 1)
    return node.reshape(x, (*shape[:at], 1, *shape[at:]))


@converts("TRANSPOSE", options="TransposeOptions")
def transpose(node: TFLiteNode, x: Value, permutation: Value) -> Value:
    """x with its dimensions permuted."""
    order = node.ints(permutation, "permutation")
    if sorted(order) != list(range(node.rank(x))):
        raise node.error(f"its permutation must name each of {node.rank(x)} dimensions once", str(list(order)))
    return node.moved_elements(TransposeOp, [x], {"permutation": ints(list(order))})


@converts("CONCATENATION", options="ConcatenationOptions")
def concatenation(node: TFLiteNode, *inputs: Value, axis: int, fused_activation_function: int) -> Value:
    """The inputs concatenated along an axis; quantized inputs are requantized to the output's type."""
    if not inputs:
        raise node.error("it needs inputs", "none")
    if fused_activation_function:
        raise Refusal("it has a fused activation")
    return joined(node, inputs, node.axis(axis, node.rank(inputs[0])))


def joined(node: TFLiteNode, inputs: Sequence[Value], axis: int) -> Value:
    """Concatenates tensors along an axis, requantized to the output's type if the output is quantized."""
    out = node.output_type()
    parts: Sequence[Value] = inputs
    if out is not None:
        parts = [_on_scale(node, x, out) for x in inputs]
    return node.compute(ConcatOp, [parts], {"axis": IntegerAttr(axis, i64)})


def _on_scale(node: TFLiteNode, x: Value, type: UniformType) -> SSAValue:
    """Requantizes a part of a concatenation to the result's type.

    LiteRT's CONCATENATION rounds this change of scale like no other operator. INTEGER_OPERATOR marks it.
    """
    value = node.quantized(x)
    if element_of(value) == type:
        return value
    scaled = node.insert(RequantizeOp, [value], element=type)
    if isinstance(scaled, OpResult):
        scaled.op.attributes[INTEGER_OPERATOR] = UnitAttr()
    return scaled


@converts("PACK", options="PackOptions")
def pack(node: TFLiteNode, *inputs: Value, axis: int) -> Value:
    """The inputs stacked along a new axis."""
    if not inputs:
        raise node.error("it needs inputs", "none")
    shape = node.shape(inputs[0])
    at = node.axis(axis, len(shape) + 1)
    wide = (*shape[:at], 1, *shape[at:])
    if any(node.shape(x) != shape for x in inputs):
        raise node.error("its inputs must have one shape", str([list(node.shape(x)) for x in inputs]))
    return joined(node, [node.reshaped(x if isinstance(x, Constant) else node.quantized(x), wide) for x in inputs], at)


@converts("TILE", options="TileOptions")
def tile(node: TFLiteNode, x: Value, multiples: Value) -> Value:
    """x repeated along each dimension."""
    shape, times = node.shape(x), node.ints(multiples, "multiples")
    if len(times) != len(shape) or min(times, default=0) < 0:
        raise node.error(f"it needs {len(shape)} multiples that are not negative", str(list(times)))
    split = [d for size in shape for d in (1, size)]
    whole = [d for size, n in zip(shape, times, strict=True) for d in (n, size)]
    wide = node.moved_elements(BroadcastOp, [node.reshaped(_moving(node, x), split)], {"shape": ints(whole)})
    return node.reshape(wide, [size * n for size, n in zip(shape, times, strict=True)])


def _moving(node: TFLiteNode, x: Value) -> Value:
    """Returns the operand of a movement operation: a constant unchanged, another value under its quantized type."""
    return x if isinstance(x, Constant) else node.quantized(x)


@converts("BROADCAST_TO", options="BroadcastToOptions")
def broadcast_to(node: TFLiteNode, x: Value, shape: Value) -> Value:
    """x broadcast to a shape."""
    wanted = node.ints(shape, "shape")
    return node.moved_elements(BroadcastOp, [x], {"shape": ints(list(wanted))})


@converts("FILL", options="FillOptions")
def fill(node: TFLiteNode, shape: Value, value: Value) -> Value:
    """A tensor filled with one value."""
    wanted = node.ints(shape, "shape")
    return node.moved_elements(BroadcastOp, [value], {"shape": ints(list(wanted))})


@converts("SHAPE", options="ShapeOptions")
def shape_of_tensor(node: TFLiteNode, x: Value, *, out_type: int) -> Value:
    """The dimensions of x, as a constant."""
    return Constant(np.array(node.shape(x), np.int64 if node.tensors[0].dtype == np.int64 else np.int32))


@converts("RANK", options="RankOptions")
def rank(node: TFLiteNode, x: Value) -> Value:
    """The number of dimensions of x, as a constant."""
    return Constant(np.array(node.rank(x), np.int32))


# ---------------------------------------------------------------------------------------------------------------
# Padding


def pad_value(node: TFLiteNode, x: Value, low: Sequence[int], high: Sequence[int], value: float) -> SSAValue:
    """Pads x with a real value; in a quantized tensor 0.0 is stored as the zero point."""
    return node.insert(PadOp, [_moving(node, x) if node.is_quantized(x) and not isinstance(x, Constant)
                               else node.quantized(x)], _pads(node, x, low, high, value))  # fmt: skip


def _pads(node: TFLiteNode, x: Value, low: Sequence[int], high: Sequence[int], value: float) -> dict[str, Attribute]:
    real = node.is_quantized(x) or node.element(x).startswith(("f", "bf"))
    filling = FloatAttr(value, f32) if real else IntegerAttr(int(value), cast(IntegerType, _integer(node, x)))
    return {"low": ints(list(low)), "high": ints(list(high)), "value": filling}


def _integer(node: TFLiteNode, x: Value) -> Attribute:
    return element_of(node.builder.ssa(x))


def paddings_of(node: TFLiteNode, paddings: Value, rank: int) -> list[tuple[int, int]]:
    """Returns constant paddings [rank, 2] as (before, after) pairs; negative paddings are an error."""
    if node.shape(paddings) != (rank, 2):
        raise node.error(f"its paddings must be of shape [{rank}, 2]", str(list(node.shape(paddings))))
    values = node.ints(paddings, "paddings")
    pairs = list(zip(values[::2], values[1::2], strict=True))
    if min(values, default=0) < 0:
        raise node.error("its paddings must not be negative", str(pairs))
    return pairs


@converts("PAD", options="PadOptions")
def pad(node: TFLiteNode, x: Value, paddings: Value) -> Value:
    """x with zeros around it."""
    return _padded(node, x, paddings, 0.0)


@converts("PADV2", options="PadV2Options")
def pad_v2(node: TFLiteNode, x: Value, paddings: Value, value: Value) -> Value:
    """x with elements of one value around it."""
    filling = node.array(value, "padding value").reshape(-1)
    if filling.size != 1 or (filling.dtype.kind == "f" and isnan(float(filling[0]))):
        raise node.error("its padding value must be one number", str(filling.tolist()[:4]))
    own, type = node.type_of(value), node.type_of(x)
    if type is not None and isinstance(value, Dequantized) and own is not None:
        # TFLite writes the stored integer of the value without a change of scale.
        return _padded(node, x, paddings, (float(value.stored.reshape(-1)[0]) - type.zero_point) * type.scale)
    return _padded(node, x, paddings, filling[0])


def _padded(node: TFLiteNode, x: Value, paddings: Value, value: float) -> Value:
    low, high = zip(*paddings_of(node, paddings, node.rank(x)), strict=True) if node.rank(x) else ((), ())
    y = node.compute(PadOp, [node.quantized(x)], _pads(node, x, low, high, value))
    return node.retyped(y, node.output_type()) if node.is_quantized(x) else y


@converts("MIRROR_PAD", options="MirrorPadOptions")
def mirror_pad(node: TFLiteNode, x: Value, paddings: Value, *, mode: int) -> Value:
    """x padded with its own reflection; mode 1 repeats the border element, mode 0 does not."""
    shape, y = node.shape(x), _moving(node, x)
    for axis, (low, high) in enumerate(paddings_of(node, paddings, len(shape))):
        if max(low, high) > shape[axis] - (0 if mode else 1):
            raise node.error(f"its paddings must be less than axis {axis}'s {shape[axis]}", str((low, high)))
        if low or high:
            node.room((low + shape[axis] + high,))
            places = np.pad(np.arange(shape[axis], dtype=np.int64), (low, high), "symmetric" if mode else "reflect")
            y = node.insert(GatherOp, [y if isinstance(y, SSAValue) else node.quantized(y), Constant(places)],
                            {"axis": IntegerAttr(axis, i64)})  # fmt: skip
    return node.retyped(node.quantized(y), node.output_type())


# ---------------------------------------------------------------------------------------------------------------
# Blocks


def rearranged(node: TFLiteNode, x: Value, split: Sequence[int], order: Sequence[int], shape: Shape) -> Value:
    """Reshapes x to `split`, permutes the dimensions by `order`, and reshapes the result to `shape`."""
    y = node.permuted(node.reshaped(_moving(node, x), split), order)
    return node.reshape(y, shape)


@converts("SPACE_TO_DEPTH", options="SpaceToDepthOptions")
def space_to_depth(node: TFLiteNode, x: Value, *, block_size: int) -> Value:
    """Moves blocks of `block_size` × `block_size` pixels into channels."""
    (n, h, w, c), b = _image(node, x), block_size
    if b < 1 or h % b or w % b:
        raise node.error(f"its block size must divide {h} and {w}", str(b))
    split, order = (n, h // b, b, w // b, b, c), (0, 1, 3, 2, 4, 5)
    return rearranged(node, x, split, order, (n, h // b, w // b, b * b * c))


@converts("DEPTH_TO_SPACE", options="DepthToSpaceOptions")
def depth_to_space(node: TFLiteNode, x: Value, *, block_size: int) -> Value:
    """Moves channels into blocks of `block_size` × `block_size` pixels."""
    (n, h, w, c), b = _image(node, x), block_size
    if b < 1 or c % (b * b):
        raise node.error(f"the square of its block size must divide {c}", str(b))
    return rearranged(node, x, (n, h, w, b, b, c // b // b), (0, 1, 3, 2, 4, 5), (n, h * b, w * b, c // b // b))


def _image(node: TFLiteNode, x: Value) -> Shape:
    if node.rank(x) != 4:
        raise node.error("its input must have rank 4 [N, H, W, C]", str(list(node.shape(x))))
    return node.shape(x)


@converts("SPACE_TO_BATCH_ND", options="SpaceToBatchNDOptions")
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


@converts("BATCH_TO_SPACE_ND", options="BatchToSpaceNDOptions")
def batch_to_space_nd(node: TFLiteNode, x: Value, block_shape: Value, crops: Value) -> Value:
    """Moves batches to positions within blocks of the spatial axes, and crops the result."""
    from qmlir.frontends.tflite.indexing import part

    blocks, (n, *shape) = _blocks(node, x, block_shape), node.shape(x)
    m, rest = len(blocks), shape[len(blocks) :]
    if n % int(np.prod(blocks)):
        raise node.error(f"its blocks must divide {n} batches", str(blocks))
    pairs, batch = paddings_of(node, crops, m), n // int(np.prod(blocks))
    order = [m, *(d for i in range(m) for d in (m + 1 + i, i)), *range(2 * m + 1, 2 * m + 1 + len(rest))]
    sizes = [size * b for size, b in zip(shape, blocks, strict=False)]
    y = node.reshaped(node.permuted(node.reshaped(_moving(node, x), (*blocks, batch, *shape)), order),
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
