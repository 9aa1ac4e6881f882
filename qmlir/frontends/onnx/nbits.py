"""onnxruntime's MatMulNBits: a product with constant weights of a few bits, with a scale for each block of a column.

The weights keep their bits, and layers with them are computed in integers where their data are.
"""

import ml_dtypes
import numpy as np

from qmlir.errors import UnsupportedError
from qmlir.frontends.builder import Node
from qmlir.frontends.function import Blocked, Blocks, Constant, Value
from qmlir.frontends.onnx.blocks import blocked_layer
from qmlir.frontends.onnx.converters import Table
from qmlir.frontends.onnx.quantization import MICROSOFT
from qmlir.ir.interfaces import Array

converts = Table()

TYPES = {2: np.dtype(ml_dtypes.uint2), 4: np.dtype(ml_dtypes.uint4), 8: np.dtype(np.uint8)}
"""Bits of stored weights → their type."""


@converts("MatMulNBits", domain=MICROSOFT)
def matmul_n_bits(
    node: Node, a: Value, b: Value, scales: Value, zero_points: Value | None = None, g_idx: Value | None = None,
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
    node: Node, b: Value, scales: Value, zero_points: Value | None, shape: tuple[int, int], bits: int, size: int
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


def _points(node: Node, zero_points: Value | None, outputs: int, blocks: int, bits: int) -> Array:
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
    """Returns the integers of rows of bytes, the lowest bits first."""
    places = np.arange(0, 8, bits, dtype=np.uint8)
    apart = (stored[:, :, None] >> places & np.uint8((1 << bits) - 1)).reshape(len(stored), -1)
    return apart.astype(TYPES[bits])
