"""The tensors of the source model, which a converter takes and returns.

A tensor is either an SSA value, computed at run time, or a `Constant`, known at import. Shapes, axes and everything
computed from constants alone stay `Constant`s and never enter the IR; weights enter the IR when an operation uses them.
A constant that the model stores as integers is a `Dequantized`: its `array` is floats, and the IR holds the integers.
"""

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from xdsl.ir import SSAValue

from qmlir.dialects.quant.types import UniformType
from qmlir.ir.interfaces import Array, Shape
from qmlir.numerics import fixed_point

Ints = tuple[int, ...]
Floats = tuple[float, ...]


class Constant:
    """A tensor whose values are known at import, with the name it has in the source model."""

    def __init__(self, array: Array, name: str = ""):
        self._array, self.name = array, name

    @property
    def array(self) -> Array:
        """The values of the tensor."""
        return self._array

    @property
    def shape(self) -> Shape:
        """The dimensions of the tensor."""
        return self.array.shape

    def reshaped(self, shape: Sequence[int]) -> "Constant":
        """Returns the constant under another shape, with the same elements in row-major order."""
        return Constant(self.array.reshape(shape), self.name)

    def transposed(self, permutation: Sequence[int]) -> "Constant":
        """Returns the constant with its dimensions permuted."""
        return Constant(self.array.transpose(permutation), self.name)

    def reversed(self, axes: Sequence[int]) -> "Constant":
        """Returns the constant with `axes` in reverse order; its quantized axis must not be among them."""
        return Constant(np.flip(self.array, tuple(axes)), self.name)


class Wide(Constant):
    """A constant of 64-bit integers with their scales, which no quantized type can hold: storage ends at 32 bits."""

    def __init__(self, array: Array, scales: Floats, name: str = ""):
        super().__init__(array, name)
        self.scales = scales

    def reshaped(self, shape: Sequence[int]) -> Constant:
        """Returns the constant under another shape, with the same elements and scales."""
        return Wide(self.array.reshape(shape), self.scales, self.name)


class Dequantized(Constant):
    """A constant that the model stores as integers.

    stored  the integers, in the numpy type of `type`
    type    their quantized type, per tensor or per axis
    """

    def __init__(self, stored: Array, type: UniformType, name: str = ""):
        self.stored, self.type, self.name = stored, type, name

    @property
    def array(self) -> Array:
        """The floats that the stored integers represent."""
        return self._floats

    @cached_property
    def _floats(self) -> Array:
        scale, zero_point = self.type.parameters_along(self.stored.ndim)
        return fixed_point.dequantize(self.stored, scale, zero_point)

    @property
    def shape(self) -> Shape:
        return self.stored.shape

    def reshaped(self, shape: Sequence[int]) -> Constant:
        """Returns the constant in another shape: integers if the quantized axis stays a dimension, else floats."""
        axis, old, new = self.type.axis, self.shape, tuple(shape)
        if axis is None:
            return Dequantized(self.stored.reshape(new), self.type, self.name)
        before = int(np.prod(old[:axis]))
        for at, size in enumerate(new):
            if size == old[axis] and int(np.prod(new[:at])) == before:
                return Dequantized(self.stored.reshape(new), along(self.type, at), self.name)
        return super().reshaped(shape)

    def transposed(self, permutation: Sequence[int]) -> Constant:
        axis = self.type.axis
        moved = self.type if axis is None else along(self.type, list(permutation).index(axis))
        return Dequantized(self.stored.transpose(permutation), moved, self.name)

    def reversed(self, axes: Sequence[int]) -> Constant:
        return Dequantized(np.flip(self.stored, tuple(axes)), self.type, self.name)


class Blocked(Constant):
    """A constant of floats that the model stores as integers, with a scale and a zero point for each block.

    block  the number of elements in a block
    """

    def __init__(self, array: Array, name: str, block: int):
        super().__init__(array, name)
        self.block = block

    def reshaped(self, shape: Sequence[int]) -> Constant:
        return Blocked(self.array.reshape(shape), self.name, self.block)

    def transposed(self, permutation: Sequence[int]) -> Constant:
        return Blocked(self.array.transpose(permutation), self.name, self.block)

    def reversed(self, axes: Sequence[int]) -> Constant:
        return Blocked(np.flip(self.array, tuple(axes)), self.name, self.block)


def along(type: UniformType, axis: int) -> UniformType:
    """Returns a per-axis quantized type with its quantized axis moved to `axis`."""
    return UniformType.per_axis(
        type.storage, axis, type.scales, type.zero_points, type.storage_min, type.storage_max, type.expressed
    )


Value = SSAValue | Constant


class Refusal(Exception):
    """Raised by a converter for a node that nn cannot express: the node becomes `qmlir.opaque` with this reason.

    A user never sees it as an exception.
    """

    reason: str

    def __init__(self, reason: str):
        self.reason = reason
        super().__init__(reason)


LARGEST = 1 << 40
"""The most elements a tensor may have: more than any machine holds, and few enough to count their bits in 64 bits."""


def sized(shape: Sequence[int]) -> Shape:
    """Returns the shape of a tensor as a tuple, after checking its size.

    Raises:
        Refusal: The tensor has more than `LARGEST` elements.
    """
    if math.prod(shape) > LARGEST:
        raise Refusal(f"a tensor of shape {list(shape)} has more than 2^{LARGEST.bit_length() - 1} elements")
    return tuple(shape)


def once(array: Array) -> Array:
    """Returns the array without its repetitions, which have stride 0 in memory; the result broadcasts to the array."""
    return array[tuple(slice(0, 1) if step == 0 else slice(None) for step in array.strides)]


def filled(shape: Sequence[int], value: np.generic | Array, name: str = "") -> Constant:
    """Makes a constant with one value everywhere, which takes the memory of a single value."""
    return Constant(np.broadcast_to(value, sized(shape)), name)
