"""Tensors that have a scale and a zero point for each block of elements along an axis.

The weights of a fully connected layer stay as they are stored if the blocks lie along its inputs; other constants
become floats.
"""

from math import prod

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from qmlir.dialects.nn.blocked import BlockedFullyConnectedOp
from qmlir.dialects.nn.elementwise import AddOp
from qmlir.dialects.nn.movement import BroadcastOp
from qmlir.errors import UnsupportedError
from qmlir.frontends.converters import Table
from qmlir.frontends.function import Blocked, Blocks, Constant, Value
from qmlir.frontends.onnx.node import ONNXNode
from qmlir.frontends.onnx.types import MICROSOFT, element_code, integers_of
from qmlir.frontends.windows import sliced
from qmlir.ir.interfaces import Array, Shape
from qmlir.ir.types import element_type_of, is_integer

converts = Table()

WIDEST = 16
"""The most bits of weights that a layer keeps as they are stored."""


def dequantized_blocks(
    node: ONNXNode, x: Constant, scale: Constant, zero_point: Constant | None, axis: int, block_size: int
) -> Blocked:
    """Returns a constant of integers as one with blocks along an axis.

    Raises:
        UnsupportedError: The scales are not float32.
        NodeError: The parameters do not fit the constant.
    """
    stored, scales = x.array, scale.array
    if scales.dtype != np.float32:
        raise UnsupportedError(f"its scale is {scales.dtype}, and qmlir's are float32")
    over = node.axis(axis, stored.ndim)
    points = np.zeros(scales.shape, stored.dtype) if zero_point is None else zero_point.array
    check_blocks(node, stored.shape, scales.shape, over, block_size)
    if points.shape != scales.shape or points.dtype != stored.dtype:
        needed = f"{stored.dtype} {list(scales.shape)}"
        raise node.error(f"its zero points must be {needed}", f"{points.dtype} {list(points.shape)}")
    return Blocked(Blocks(stored, scales, points, over, block_size), x.name or node.outputs[0])


def check_blocks(node: ONNXNode, shape: Shape, parameters: Shape, axis: int, block_size: int) -> None:
    """Checks that parameters are those of blocks along an axis.

    Raises:
        NodeError: They have another shape, or a block has no elements.
    """
    if block_size < 1:
        raise node.error("its block_size must be positive", str(block_size))
    blocks = [-(-n // block_size) if i == axis else n for i, n in enumerate(shape)]
    if list(parameters) != blocks:
        raise node.error(f"its scales must be of shape {blocks}", parameters)


def spread(node: ONNXNode, x: Value, shape: Shape, axis: int, block_size: int) -> Value:
    """Repeats the parameters of blocks, so that each element of a tensor of the given shape has its own."""
    check_blocks(node, shape, node.shape(x), axis, block_size)
    if isinstance(x, Constant):
        repeated = np.repeat(x.array, block_size, axis=axis)
        return Constant(repeated.take(range(shape[axis]), axis=axis), x.name)
    before, blocks, behind = shape[:axis], node.shape(x)[axis], shape[axis + 1 :]
    apart = node.reshaped(x, (*before, blocks, 1, *behind))
    wide = node.insert(BroadcastOp, [apart], {"shape": (*before, blocks, block_size, *behind)})
    whole = node.builder.ssa(node.reshaped(wide, (*before, blocks * block_size, *behind)))
    return whole if node.shape(whole) == shape else sliced(node, whole, [0] * len(shape), list(shape))


def blocked_layer(node: ONNXNode, x: Value, w: Constant, bias: Value | None, *, outputs: int = 0) -> SSAValue | None:
    """Adds a fully connected layer x [N,I] · wᵀ + bias whose weights w keep the integers that the model stores.

    Args:
        node: The node that computes the product.
        x: The data, f32 or halves.
        w: The weights, with their outputs along the axis `outputs` and their inputs along the other.
        bias: The bias [O], if there is one.
        outputs: 0 or 1.

    Returns:
        The result [N,O]; None if the weights have no blocks along their inputs.
    """
    if not isinstance(w, Blocked) or (blocks := w.blocks) is None or blocks.axis == outputs:
        return None
    element = element_type_of(blocks.stored.dtype)
    if blocks.stored.ndim != 2 or not is_integer(element) or element.width.data > WIDEST or not prod(w.shape):
        return None
    if outputs == 1:
        blocks = blocks.transposed((1, 0))
    known = bias is None or isinstance(bias, Constant)
    own = node.widened(bias) if bias is not None and known else None
    operands = [x, Constant(blocks.stored, w.name), Constant(blocks.scales), Constant(blocks.points), own]
    y = node.compute(BlockedFullyConnectedOp, operands, {"block": blocks.size}, part=None if known else "product")
    return y if known else node.compute(AddOp, [y, bias])


# ---------------------------------------------------------------------------------------------------------------
# onnxruntime's operators on constants of a few bits with a scale for each block: MatMulNBits, GatherBlockQuantized.
#
# The constants keep their bits, and layers with them are computed in integers where their data are.


TYPES = {2: np.dtype(ml_dtypes.uint2), 4: np.dtype(ml_dtypes.uint4), 8: np.dtype(np.uint8)}
"""Bits of stored weights → their type."""


@converts("MatMulNBits", domain=MICROSOFT)
def matmul_n_bits(
    node: ONNXNode, a: Value, b: Value, scales: Value, zero_points: Value | None = None, g_idx: Value | None = None,
    bias: Value | None = None, *,
    K: int, N: int, accuracy_level: int = 0, bits: int = 4, block_size: int,
) -> Value:  # fmt: skip
    """y = a [B…, M, K] · w + bias, where w [K, N] is (stored − zero point) · scale; y is computed in f32.

    `accuracy_level` is the least accuracy that the model asks for, which f32 meets at every level.
    """
    if g_idx is not None:
        raise UnsupportedError("its rows have groups by an index, and qmlir's groups are blocks of neighbours")
    if bits not in TYPES:
        raise UnsupportedError(f"it stores {bits} bits, and qmlir takes {', '.join(map(str, TYPES))}")
    if min(K, N, block_size) < 1 or block_size * bits % 8:
        raise node.error("its K, N and block_size must be positive, and blocks whole bytes", f"{K}, {N}, {block_size}")
    shape = node.shape(a)
    if shape[-1:] != (K,):
        raise node.error(f"its data must have {K} elements in the last dimension", shape)
    if bias is not None and node.element(bias) != node.element(a):
        raise node.error(f"its bias must be {node.element(a)} like its data", node.element(bias))
    weights = _weights(node, b, scales, zero_points, (N, K), bits, block_size)
    rows = node.reshaped(a, (int(np.prod(shape[:-1])), K))
    y = blocked_layer(node, rows, weights, bias)
    assert y is not None
    return node.reshaped(y, (*shape[:-1], N))


def _weights(
    node: ONNXNode, b: Value, scales: Value, zero_points: Value | None, shape: tuple[int, int], bits: int, size: int
) -> Blocked:
    """Unpacks the weights [N, K], an integer a byte."""
    outputs, inputs = shape
    blocks = -(-inputs // size)
    stored, steps = node.array(b, "weights"), node.array(scales, "scales")
    if stored.dtype != np.uint8 or stored.size != outputs * blocks * size * bits // 8:
        needed = [outputs, blocks, size * bits // 8]
        raise node.error(f"its weights must be bytes of shape {needed}", f"{stored.dtype} {list(stored.shape)}")
    if steps.dtype != np.float32:
        raise UnsupportedError(f"its scale is {steps.dtype}, and qmlir's are float32")
    if steps.size != outputs * blocks:
        raise node.error(f"it must have {outputs * blocks} scales, one for each block", steps.size)
    points = _points(node, zero_points, outputs, blocks, bits)
    if not node.builder.budget.take((outputs, blocks * size), 1):
        raise UnsupportedError(node.builder.budget.refusal((outputs, blocks * size)))
    name = b.name if isinstance(b, Constant) else ""
    integers = _unpacked(stored.reshape(outputs, -1), bits)[:, :inputs]
    return Blocked(Blocks(integers, steps.reshape(outputs, blocks), points, 1, size), name)


def _points(node: ONNXNode, zero_points: Value | None, outputs: int, blocks: int, bits: int) -> Array:
    """Returns the zero points [N, blocks]: unpacked from bytes, floats, or by default half of the range."""
    if zero_points is None:
        return np.full((outputs, blocks), 1 << bits - 1, np.uint8).astype(TYPES[bits])
    given = node.array(zero_points, "zero points")
    packed = given.dtype == np.uint8
    if not packed and given.dtype != np.float32:
        raise UnsupportedError(f"its zero points are {given.dtype}, and qmlir's are bytes or float32")
    width = -(-blocks * bits // 8) if packed else blocks
    if given.size != outputs * width:
        raise node.error(f"it must have {width} zero points for each output", given.shape)
    rows = given.reshape(outputs, width)
    return _unpacked(rows, bits)[:, :blocks] if packed else rows


def _unpacked(stored: Array, bits: int) -> Array:
    """Returns the integers of rows of bytes, the lowest bits first, in their own type."""
    return _apart(stored, bits).astype(TYPES[bits])


@converts("GatherBlockQuantized", domain=MICROSOFT)
def gather_block_quantized(
    node: ONNXNode, data: Value, indices: Value, scales: Value, zero_points: Value | None = None, *,
    bits: int = 4, block_size: int = 128, gather_axis: int = 0, quantize_axis: int = 1,
) -> Value:  # fmt: skip
    """Rows of constant integers by index, dequantized: (stored − zero point) · scale with parameters of blocks.

    Bytes hold several integers of the last dimension. The rows are gathered as integers: the table is never floats.
    """
    stored, steps = node.array(data, "data"), node.array(scales, "scales")
    packed = stored.dtype == np.uint8
    if bits not in TYPES or (packed and bits * (8 // bits) != 8):
        raise UnsupportedError(f"it stores {bits} bits, and qmlir takes {', '.join(map(str, TYPES))}")
    points = np.zeros(steps.shape, np.int8) if zero_points is None else node.array(zero_points, "zero points")
    if packed:
        middle = np.full(steps.shape, 1 << bits - 1, np.uint8)
        stored, points = _apart(stored, bits), middle if zero_points is None else _apart(points, bits)
        points = points[..., : steps.shape[-1]] if steps.ndim else points
    rank, indexed = stored.ndim, node.rank(indices)
    axis, along = node.axis(gather_axis, rank), node.axis(quantize_axis, rank)
    if axis == along:
        raise node.error("its gather_axis and quantize_axis must differ", str(axis))
    if points.shape != steps.shape:
        raise node.error(f"its zero points must be of shape {list(steps.shape)}", points.shape)
    check_blocks(node, stored.shape, steps.shape, along, block_size)
    q, s, z = (
        node.operator("Gather", Constant(array), indices, since=13, axis=axis)
        for array in (integers_of(stored), steps, integers_of(points).astype(np.float32))
    )
    behind = along + (indexed - 1 if along > axis else 0)
    s, z = (spread(node, v, node.shape(q), behind, block_size) for v in (s, z))
    y = node.newest("Mul", node.newest("Sub", node.converted(q, f32), z), node.widened(s))
    half = node.half_of(scales)
    return y if half is None else node.newest("Cast", y, to=element_code(half))


def _apart(stored: Array, bits: int) -> Array:
    """Returns the integers of bytes along the last dimension, the lowest bits first, each in a byte."""
    places = np.arange(0, 8, bits, dtype=np.uint8)
    return (stored[..., None] >> places & np.uint8((1 << bits) - 1)).reshape(*stored.shape[:-1], -1)
