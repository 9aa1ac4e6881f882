"""How tensors lie in a device's memories, and operations that only move data, as copies of strided boxes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from xdsl.ir import Operation, SSAValue

from qmlir.devices.description.device import Device
from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.nn.movement import BroadcastOp, ConcatOp, PadOp, ReshapeOp, SliceOp, TransposeOp
from qmlir.dialects.qint.contraction import MatMulOp, WeightedOp
from qmlir.dialects.qint.requantize import width_of
from qmlir.dialects.quant.types import UniformType
from qmlir.ir.interfaces import Array, element_of, shape_of
from qmlir.ir.types import dtype_of

# ---------------------------------------------------------------------------------------------------------------
# How tensors are stored in a device's memories: densely; a quantized tensor is stored as its integers.


def stored_dtype(value: SSAValue) -> np.dtype[Any]:
    """Element type of a tensor in memory; for a quantized tensor, its storage integer type."""
    element = element_of(value)
    return np.dtype(element.numpy_dtype) if isinstance(element, UniformType) else dtype_of(element)


def stored_bytes(value: SSAValue) -> int:
    """The size of a tensor in bytes."""
    return prod(shape_of(value)) * stored_dtype(value).itemsize


def as_images(shape: Sequence[int]) -> tuple[int, tuple[int, int, int]]:
    """The shape of a tensor as images: how many images, and the rows, columns and channels of an image.

    Rows, columns and channels are the last three dimensions; missing dimensions are 1. Dimensions along which numpy
    broadcasts two shapes are therefore the same dimensions in their images.
    """
    rows, columns, channels = (1, 1, 1, *shape)[-3:]
    return prod(shape[:-3]), (rows, columns, channels)


def constant_bytes(operations: Iterable[Operation]) -> int:
    """The size in bytes of the constants that operations read; each constant counts once."""
    read = {operand for op in operations for operand in op.operands}
    return sum(stored_bytes(value) for value in read if isinstance(value.owner, ConstantOp))


def stored_weights(op: WeightedOp, device: Device) -> tuple[Array, int]:
    """The constant weights as the device stores them, and their zero point; 0 if the weights are stored unchanged."""
    assert isinstance(op.w.owner, ConstantOp)
    weights = op.w.owner.value.array
    plain = (f"i{width_of(op.x)}", f"i{width_of(op.w)}")
    narrow = around_zero_point(weights)
    known = any((mode.a, mode.w) == plain for mode in device.array.modes)
    return (weights, 0) if known or narrow is None else narrow


def stored_bias(op: WeightedOp | MatMulOp, device: Device) -> tuple[int, int]:
    """How the device stores a bias: bits of each number, and the left shift, in bits, that it applies before adding.

    A product of two matrices has no bias; its command has the same fields as that of a layer that could have one.
    """
    if (bits := device.quant.bias.moved_bits) is None:
        return width_of(op.acc), 0
    constant = op.b.owner if isinstance(op, WeightedOp) and op.b is not None else None
    return bits, trailing_zeros(constant.value.array) if isinstance(constant, ConstantOp) else 0


MOST_MOVED = 31
"""The largest left shift of a bias, in bits."""


def trailing_zeros(numbers: Array) -> int:
    """How many low bits, at most `MOST_MOVED`, are 0 in all numbers."""
    any_of = int(np.bitwise_or.reduce(numbers.reshape(-1).astype(np.int64), initial=0))
    return min((any_of & -any_of).bit_length() - 1, MOST_MOVED) if any_of else 0


def around_zero_point(weights: Array) -> tuple[Array, int] | None:
    """Rewrites 16-bit weights as 8-bit weights with a zero point; None if the weights span more than 255 steps.

    Such weights come from converters that store weights with a zero point: differences from it have 9 bits.

    Returns:
        The 8-bit weights, and the zero point to subtract from them.
    """
    low, high = int(weights.min(initial=0)), int(weights.max(initial=0))
    if weights.dtype != np.int16 or high - low > 255:
        return None
    zero_point = min(max(0, -128 - low), 127 - high)
    return (weights + zero_point).astype(np.int8), zero_point


# ---------------------------------------------------------------------------------------------------------------
# Operations that only move data, described as copies of strided boxes.


MOST_TRANSFERS = 1 << 10
"""A device refuses an operation that takes more transfers of boxes [rows, columns, dense elements]."""


Loop = tuple[int, int, int]
"""Trip count, source stride and target stride of a loop."""


@dataclass(frozen=True)
class Copy:
    """A copy of a box of any rank from one tensor to another; offsets and strides in elements.

    source          the tensor that the copy reads
    sizes           extents of the box
    there           offset of the box in the source
    there_strides   strides of the box in the source
    here            offset of the box in the target
    here_strides    strides of the box in the target
    """

    source: SSAValue
    sizes: tuple[int, ...]
    there: int
    there_strides: tuple[int, ...]
    here: int
    here_strides: tuple[int, ...]

    def loops(self) -> list[Loop]:
        """The copy as a nest of as few loops as possible, outermost first; the innermost is dense on both sides."""
        return merged([*zip(self.sizes, self.there_strides, self.here_strides, strict=True), (1, 1, 1)])

    def run(self, reads: bool) -> int:
        """How many elements lie adjacent without a gap, in the source if `reads`, otherwise in the target."""
        strides = self.there_strides if reads else self.here_strides
        return merged([*zip(self.sizes, strides, strides_of(self.sizes), strict=True), (1, 1, 1)])[-1][0]


def merged(loops: Sequence[Loop]) -> list[Loop]:
    """Joins loops that continue each other without a gap, outermost first; an innermost loop of 1 stays."""
    found = [loops[-1]]
    for count, there, here in reversed(loops[:-1]):
        inner, inner_there, inner_here = found[0]
        if (there, here) == (inner * inner_there, inner * inner_here):
            found[0] = (count * inner, inner_there, inner_here)
        elif count > 1:
            found.insert(0, (count, there, here))
    return found


def copies(op: Operation) -> list[Copy]:
    """The copies that carry out an operation; empty if the operation does not only move data by strided boxes."""
    (y,) = op.results
    strides = strides_of(shape_of(y))
    match op:
        case ConcatOp():
            axis, found, at = op.axis.value.data, list[Copy](), 0
            for x in op.inputs:
                shape = shape_of(x)
                found.append(Copy(x, shape, 0, strides_of(shape), at * strides[axis], strides))
                at += shape[axis]
            return found
        case PadOp():
            first = sum(low * stride for (low, _), stride in zip(op.pads(), strides, strict=True))
            return [Copy(op.x, shape_of(op.x), 0, strides_of(shape_of(op.x)), first, strides)]
        case TransposeOp():
            there = strides_of(shape_of(op.x))
            order = op.permutation.get_values()
            return [Copy(op.x, shape_of(y), 0, tuple(there[p] for p in order), 0, strides)]
        case BroadcastOp():
            shape = shape_of(op.x)
            padded = (1,) * (len(strides) - len(shape)) + shape
            there = tuple(
                0 if n == 1 else s for n, s in zip(padded, strides_of(padded), strict=True)
            )  # fmt: skip
            return [Copy(op.x, shape_of(y), 0, there, 0, strides)]
        case SliceOp():
            dense, steps = strides_of(shape_of(op.x)), op.steps()
            first = sum(offset * apart for (offset, _, _), apart in zip(steps, dense, strict=True))
            there = tuple(step * apart for (_, _, step), apart in zip(steps, dense, strict=True))
            return [Copy(op.x, shape_of(y), first, there, 0, strides)]
        case _:
            return []


def strides_of(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of a dense tensor, in elements."""
    return tuple(prod(shape[i + 1 :]) for i in range(len(shape)))


def transfers(op: Operation) -> int | None:
    """How many transfers of three-loop boxes an operation takes; None if strided boxes cannot express it."""
    if isinstance(op, ReshapeOp):
        return 0
    found = copies(op)
    return sum(prod(count for count, _, _ in copy.loops()[:-3]) for copy in found) if found else None
