"""onnxruntime's operators on constants of a few bits with a scale for each block: MatMulNBits, GatherBlockQuantized.

The constants keep their bits, and layers with them are computed in integers where their data are.
"""

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import f32

from qmlir.errors import UnsupportedError
from qmlir.frontends.converters import Table
from qmlir.frontends.function import Blocked, Blocks, Constant, Value
from qmlir.frontends.onnx.blocks import blocked_layer, check_blocks, spread
from qmlir.frontends.onnx.node import ONNXNode
from qmlir.frontends.onnx.quantization import MICROSOFT, integers_of
from qmlir.frontends.onnx.types import element_code
from qmlir.ir.interfaces import Array

converts = Table()

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
        raise node.error(f"its data must have {K} elements in the last dimension", str(list(shape)))
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
        raise node.error(f"it must have {outputs * blocks} scales, one for each block", str(steps.size))
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
        raise node.error(f"it must have {width} zero points for each output", str(list(given.shape)))
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
        raise node.error(f"its zero points must be of shape {list(steps.shape)}", str(list(points.shape)))
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
