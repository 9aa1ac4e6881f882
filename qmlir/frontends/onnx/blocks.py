"""Tensors that have a scale and a zero point for each block of elements along an axis.

The weights of a fully connected layer stay as they are stored if the blocks lie along its inputs; other constants
become floats.
"""

from math import prod

import numpy as np
from xdsl.ir import SSAValue

from qmlir.dialects.nn.blocked import BlockedFullyConnectedOp
from qmlir.dialects.nn.elementwise import AddOp
from qmlir.dialects.nn.movement import BroadcastOp
from qmlir.errors import UnsupportedError
from qmlir.frontends.function import Blocked, Blocks, Constant, Value
from qmlir.frontends.onnx.node import ONNXNode
from qmlir.frontends.windows import sliced
from qmlir.ir.interfaces import Shape
from qmlir.ir.types import element_type_of, is_integer

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
        raise node.error(f"its scales must be of shape {blocks}", str(list(parameters)))


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
