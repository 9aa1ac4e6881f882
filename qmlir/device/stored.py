"""How tensors lie in a device's memories: of quantized ones their integers, dense."""

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.ir import Operation, SSAValue

from qmlir.device.description import Device
from qmlir.dialects.dtypes import dtype_of
from qmlir.dialects.interfaces import element_of, shape_of
from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.qint.base import width_of
from qmlir.dialects.qint.contraction import WeightedOp
from qmlir.dialects.quant.types import UniformType

Array = npt.NDArray[Any]


def stored_dtype(value: SSAValue) -> np.dtype[Any]:
    """Of the elements of a tensor as they lie in memory: of a quantized one its integers."""
    element = element_of(value)
    return np.dtype(element.numpy_dtype) if isinstance(element, UniformType) else dtype_of(element)


def stored_bytes(value: SSAValue) -> int:
    """Of a whole tensor."""
    return prod(shape_of(value)) * stored_dtype(value).itemsize


def as_images(shape: Sequence[int]) -> tuple[int, tuple[int, int, int]]:
    """How many images a tensor is, and what each is: rows, columns, channels.

    These are the last three dimensions, 1 where there are fewer, so that dimensions at which numpy broadcasts two
    shapes are the same in their images.
    """
    rows, columns, channels = (1, 1, 1, *shape)[-3:]
    return prod(shape[:-3]), (rows, columns, channels)


def constant_bytes(operations: Iterable[Operation]) -> int:
    """Of the constants that operations read, each once."""
    read = {operand for op in operations for operand in op.operands}
    return sum(stored_bytes(value) for value in read if isinstance(value.owner, ConstantOp))


def stored_weights(op: WeightedOp, device: Device) -> tuple[Array, int]:
    """Constant weights as a device has them, and their zero point: 0 where it multiplies them as they are."""
    assert isinstance(op.w.owner, ConstantOp)
    weights = op.w.owner.value.array
    plain = (f"i{width_of(op.x)}", f"i{width_of(op.w)}")
    narrow = around_zero_point(weights)
    known = any((mode.a, mode.w) == plain for mode in device.array.modes)
    return (weights, 0) if known or narrow is None else narrow


def stored_bias(op: WeightedOp, device: Device) -> tuple[int, int]:
    """The bits of each number of a bias as a device has it, and by how many bits it moves these left to add them."""
    if (bits := device.quant.bias.moved_bits) is None:
        return width_of(op.acc), 0
    constant = op.b.owner if op.b is not None else None
    return bits, trailing_zeros(constant.value.array) if isinstance(constant, ConstantOp) else 0


MOST_MOVED = 31
"""The most bits by which a bias is moved."""


def trailing_zeros(numbers: Array) -> int:
    """How many bits, `MOST_MOVED` at the most, are 0 at the end of all numbers."""
    any_of = int(np.bitwise_or.reduce(numbers.reshape(-1).astype(np.int64), initial=0))
    return min((any_of & -any_of).bit_length() - 1, MOST_MOVED) if any_of else 0


def around_zero_point(weights: Array) -> tuple[Array, int] | None:
    """Weights of 16 bits as numbers of 8, and what to subtract from these; None where they lie too far apart.

    So come those that another converter stored with a zero point: as differences from it, which have 9 bits.
    """
    low, high = int(weights.min(initial=0)), int(weights.max(initial=0))
    if weights.dtype != np.int16 or high - low > 255:
        return None
    zero_point = min(max(0, -128 - low), 127 - high)
    return (weights + zero_point).astype(np.int8), zero_point
