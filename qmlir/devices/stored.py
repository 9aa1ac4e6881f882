"""How tensors are stored in a device's memories: densely; a quantized tensor is stored as its integers."""

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.ir import Operation, SSAValue

from qmlir.devices.description import Device
from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.qint.base import width_of
from qmlir.dialects.qint.contraction import WeightedOp
from qmlir.dialects.quant.types import UniformType
from qmlir.ir.dtypes import dtype_of
from qmlir.ir.interfaces import element_of, shape_of

Array = npt.NDArray[Any]


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


def stored_bias(op: WeightedOp, device: Device) -> tuple[int, int]:
    """How the device stores a bias: bits of each number, and the left shift, in bits, that it applies before adding."""
    if (bits := device.quant.bias.moved_bits) is None:
        return width_of(op.acc), 0
    constant = op.b.owner if op.b is not None else None
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
