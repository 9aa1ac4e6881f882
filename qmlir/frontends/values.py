"""What a converter is given and gives back: the tensors of the source model.

A tensor is either computed, an SSA value, or known at import, a `Constant`. Shapes, axes and whatever is computed from
constants alone stay `Constant` and never enter the IR; weights enter it when an operation uses them. A constant that
the model keeps quantized is `Dequantized`: floats for whoever asks, stored integers in the IR.
"""

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from xdsl.ir import SSAValue

from qmlir.dialects.interfaces import Array, Shape
from qmlir.dialects.quant import numerics
from qmlir.dialects.quant.types import UniformType

Ints = tuple[int, ...]
Floats = tuple[float, ...]


class Constant:
    """A tensor whose values are known at import, with the name it has in the source model."""

    def __init__(self, array: Array, name: str = ""):
        self._array, self.name = array, name

    @property
    def array(self) -> Array:
        """Its values."""
        return self._array

    @property
    def shape(self) -> Shape:
        """Its dimensions."""
        return self.array.shape

    def reshaped(self, shape: Sequence[int]) -> "Constant":
        """The same elements in row-major order under another shape."""
        return Constant(self.array.reshape(shape), self.name)

    def transposed(self, permutation: Sequence[int]) -> "Constant":
        """Its dimensions permuted."""
        return Constant(self.array.transpose(permutation), self.name)

    def reversed(self, axes: Sequence[int]) -> "Constant":
        """Its elements in reverse order along some axes, none of them quantized."""
        return Constant(np.flip(self.array, tuple(axes)), self.name)


class Wide(Constant):
    """A constant of 64-bit integers and the scales of what they stand for, of which no quantized type can speak."""

    def __init__(self, array: Array, scales: Floats, name: str = ""):
        super().__init__(array, name)
        self.scales = scales

    def reshaped(self, shape: Sequence[int]) -> Constant:
        """The same elements, and scales, under another shape."""
        return Wide(self.array.reshape(shape), self.scales, self.name)


class Dequantized(Constant):
    """A constant that the model stores as integers.

    stored  the integers, in the numpy type of `type`
    type    what they stand for, per tensor or per axis
    """

    def __init__(self, stored: Array, type: UniformType, name: str = ""):
        self.stored, self.type, self.name = stored, type, name

    @property
    def array(self) -> Array:
        """The floats it stands for."""
        return self._floats

    @cached_property
    def _floats(self) -> Array:
        scale, zero_point = self.type.parameters_along(self.stored.ndim)
        return numerics.dequantize(self.stored, scale, zero_point)

    @property
    def shape(self) -> Shape:
        return self.stored.shape

    def reshaped(self, shape: Sequence[int]) -> Constant:
        """As integers where the quantized axis stays a dimension, else as floats."""
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
    """A constant that the model stores as integers with parameters for each block, and that is floats here.

    block  the size of a block
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
    """A type quantized per axis, along another axis."""
    return UniformType.per_axis(
        type.storage, axis, type.scales, type.zero_points, type.storage_min, type.storage_max, type.expressed
    )


Value = SSAValue | Constant


class Refusal(Exception):
    """A converter's answer to a node that has no meaning in nn: it becomes `qmlir.opaque` with this reason.

    Never seen by a user as an exception.
    """

    reason: str

    def __init__(self, reason: str):
        self.reason = reason
        super().__init__(reason)


LARGEST = 1 << 40
"""The most elements of a tensor: more than any machine holds, and few enough to count their bits in 64 bits."""


def sized(shape: Sequence[int]) -> Shape:
    """The shape of a tensor.

    Raises:
        Refusal: It has more elements than `LARGEST`.
    """
    if math.prod(shape) > LARGEST:
        raise Refusal(f"a tensor of shape {list(shape)} has more than 2^{LARGEST.bit_length() - 1} elements")
    return tuple(shape)


def once(array: Array) -> Array:
    """The part of an array that it holds once, where it repeats one in memory; it broadcasts to the array."""
    return array[tuple(slice(0, 1) if step == 0 else slice(None) for step in array.strides)]


def filled(shape: Sequence[int], value: np.generic | Array, name: str = "") -> Constant:
    """A constant with one value everywhere, which takes the memory of that value."""
    return Constant(np.broadcast_to(value, sized(shape)), name)
