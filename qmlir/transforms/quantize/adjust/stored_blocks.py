"""Layers whose weights are stored in blocks: integers of few bits, each block with a scale and a zero point.

A file of a language model states such blocks (`Affine`), w = scale · q + offset. As (q − z) · scale, with zero points
z = −offset / scale, they are what `nn.blocked_fully_connected` reads. Integers are unsigned, as MatMulNBits has them.
"""

from typing import TypeAlias

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import Rewriter

from qmlir.dialects.nn import BlockedFullyConnectedOp, ConstantOp, FullyConnectedOp
from qmlir.dialects.nn.queries import derived_constant
from qmlir.ir.levels import levels_of
from qmlir.ir.rewriting import replace
from qmlir.numerics import Array
from qmlir.numerics.affine import Affine

Blocks: TypeAlias = tuple[Array, Array, Array, int]
"""The integers of weights, the scales and the zero points of their blocks, and a block's size."""


def in_blocks(layer: FullyConnectedOp, constant: ConstantOp, blocks: Blocks) -> BlockedFullyConnectedOp:
    """Replaces a layer by one that reads its weights, a constant, in blocks; returns the new layer."""
    integers, scales, points, size = blocks
    constants = [derived_constant(integers, constant), ConstantOp(scales), ConstantOp(points)]
    bias = [] if layer.b is None else [layer.b]
    operands: list[SSAValue | list[SSAValue]] = [layer.x, *(c.y for c in constants), bias]
    properties = {name: value for name, value in layer.properties.items() if name in ("min", "max")}
    new = BlockedFullyConnectedOp.make(operands, {**properties, "block": IntegerAttr(size, i64)})
    replace(PatternRewriter(layer), layer, [*constants, new], doing=new)
    if not constant.y.uses:
        Rewriter.erase_op(constant)
    return new


def blocks_of_file(constant: ConstantOp, bits: int) -> Blocks | None:
    """The blocks that the file of the model stores for weights; None if it stores others, or integers of more bits."""
    weights, levels = constant.value.array, levels_of(constant)
    stored = levels.stored(weights) if isinstance(levels, Affine) and levels.bits <= bits else None
    if not isinstance(levels, Affine) or stored is None:
        return None
    if not len(levels.offsets):
        return *unsigned(stored, levels.scales, levels.bits, -levels.least), levels.size
    flat = levels.scales == 0  # blocks that are their offset alone
    stored = np.where(np.repeat(flat, levels.size, axis=1), np.zeros_like(stored), stored)
    points = np.where(flat, np.float32(-1), -levels.offsets / np.where(flat, np.float32(1), levels.scales))
    integers, scales, _ = unsigned(stored, np.where(flat, levels.offsets, levels.scales), levels.bits, 0)
    return integers, scales, points, levels.size


def unsigned(integers: Array, scales: Array, bits: int, zero: int) -> tuple[Array, Array, Array]:
    """Integers from −zero on as unsigned ones with `zero` as their zero point, the scales, and the zero points."""
    own = np.dtype(ml_dtypes.uint4 if bits <= 4 else np.uint8)
    return (integers.astype(np.int16) + zero).astype(own), scales, np.full(scales.shape, zero, own)
