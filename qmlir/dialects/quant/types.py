"""`!quant.uniform` with integer storage, per tensor or per axis: the quantized types that the compiler computes with.

Types are read and printed in upstream MLIR's exact syntax: mlir-opt reads what this module prints, and vice versa.

    !quant.uniform<i8:f32, 3.906250e-03:-128>                    per tensor: one scale and zero point
    !quant.uniform<i8<-127:127>:f32:0, {2.000000e-02,1.5e-02:3}>   per axis: one pair for each index of dimension 0

`i8` is signed storage and `u8` unsigned. The range stands in angle brackets; a zero point of 0 and the storage type's
default range are not printed. Beside a side file, more than 64 scales without zero points are an array of it:

    !quant.uniform<i8:f32:0, #qmlir.weights<tensor<576xf32>, "net.safetensors#weights">>

The verifiers reject the same types as upstream. The other types that upstream writes
as `!quant.uniform` are in foreign.py: they can be read, checked, cast and printed, but no other code accepts them.

A per-axis type on a wide layer holds thousands of scales and is compared for each operation that uses it. The scales
and zero points are therefore packed into bytes: equality is one memcmp, the hash is computed once, and unpacking is
cached.
"""

import struct
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from xdsl.dialects.builtin import (
    BytesAttr,
    IntAttr,
    IntegerType,
    Signedness,
    TensorType,
    f32,
)
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.quant.syntax import canonical, default_range, pair_text, storage_text, verify_scales, verify_storage
from qmlir.ir.types import IntegerElement, element_type
from qmlir.ir.weights import INLINE_LIMIT, WeightsAttr, WeightsPrinter
from qmlir.numerics import Array, Float64s, Int64s
from qmlir.numerics.schemas import exponent_of

SCALES = (np.float16, np.float32, np.float64)
"""The types in which side files hold scales: the narrowest that has all of them."""

PER_TENSOR = -1
"""The value of `LayerOrAxisType.dimension` for a type with a single scale."""


@dataclass(frozen=True, init=False)
class ScaledType(ParametrizedAttribute, TypeAttribute, ABC):
    """Base of every `!quant.uniform` type: a storage type with its range, an expressed type, scales and zero points.

    (T1) storage is an integer of 1 to 32 bits, or one of the small floats
    (T2) the storage range is not empty and lies within the storage type
    (T3) the expressed type is a float of at most 64 bits
    (T4) scales are positive, finite and within the expressed type's range

    A zero point may lie outside the storage range, as in upstream MLIR.
    """

    storage: Attribute  # a signless integer means signed; unsigned prints as `u8`
    low: IntAttr
    high: IntAttr
    expressed: Attribute
    packed_scales: BytesAttr  # float64, little-endian
    packed_zero_points: BytesAttr  # int64, little-endian

    @property
    def storage_min(self) -> int:
        """The least stored value."""
        return self.low.data

    @property
    def storage_max(self) -> int:
        """The greatest stored value."""
        return self.high.data

    @property
    def scales(self) -> tuple[float, ...]:
        """All scales: one for a per-tensor type, one for each index of the axis, or one for each block."""
        return _unpacked_floats(self.packed_scales.data)

    @property
    def zero_points(self) -> tuple[int, ...]:
        """All zero points, in the order of `scales`."""
        return _unpacked_ints(self.packed_zero_points.data)

    @property
    def exponents(self) -> tuple[int | None, ...]:
        """The exponent e of each scale in the order of `scales`; None for a scale that is not exactly 2^e."""
        return _exponents(self.packed_scales.data)

    @abstractmethod
    def parameters_text(self) -> str:
        """The text of the scales and zero points, which follows the expressed type."""

    def verify(self) -> None:
        verify_storage(self.storage, self.low.data, self.high.data)  # T1, T2
        verify_scales(self.expressed, self.scales)  # T3, T4

    @property
    def text_alias(self) -> str:
        """How the name of an alias begins that stands for the type in the text of a module; empty if it needs none."""
        return "scales" if len(self.packed_scales.data) > 8 * INLINE_LIMIT else ""

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(storage_text(self.storage, self.low.data, self.high.data) + ":")
            printer.print_attribute(self.expressed)
            printer.print_string(self.parameters_text())


@dataclass(frozen=True, init=False)
class LayerOrAxisType(ScaledType, ABC):
    """Base of the types with one scale for the tensor (layer), or one scale for each index of an axis.

    (T5) there are as many zero points as scales: one per tensor, one or more per axis; the axis is not negative
    """

    dimension: IntAttr

    @property
    def is_per_axis(self) -> bool:
        """Whether each index of a dimension has its own parameters."""
        return self.dimension.data != PER_TENSOR

    @property
    def axis(self) -> int | None:
        """The dimension whose indices have their own scales, or None for a per-tensor type."""
        return self.dimension.data if self.is_per_axis else None

    def verify(self) -> None:
        super().verify()
        count, points = len(self.scales), len(self.zero_points)
        if count != points or count < 1 or (count > 1 and not self.is_per_axis):  # T5
            raise VerifyException(f"illegal number of scales and zeroPoints: {count}, {points}")
        if self.dimension.data < PER_TENSOR:  # T5
            raise VerifyException(f"illegal quantized dimension: {self.dimension.data}")

    def parameters_text(self) -> str:
        pairs = ",".join(pair_text(s, z) for s, z in zip(self.scales, self.zero_points, strict=True))
        return f":{self.dimension.data}, {{{pairs}}}" if self.is_per_axis else f", {pairs}"

    def print_parameters(self, printer: Printer) -> None:
        scales = np.array(self.scales)
        if not isinstance(printer, WeightsPrinter) or not printer.has_side_scales or len(scales) <= INLINE_LIMIT:
            return super().print_parameters(printer)
        if any(self.zero_points):
            return super().print_parameters(printer)
        with np.errstate(over="ignore"):
            held = next(a for t in SCALES if np.array_equal(a := scales.astype(t), scales))
        with printer.in_angle_brackets():
            printer.print_string(storage_text(self.storage, self.low.data, self.high.data) + ":")
            printer.print_attribute(self.expressed)
            printer.print_string(f":{self.dimension.data}, ")
            printer.print_attribute(WeightsAttr(held))


@irdl_attr_definition
class UniformType(LayerOrAxisType, IntegerElement):
    """A uniform quantized type with integer storage; build it with `per_tensor` or `per_axis`."""

    name = "quant.uniform"

    storage: IntegerType

    @classmethod
    def _build(
        cls,
        storage: IntegerType,
        dimension: int,
        scales: Sequence[float],
        zero_points: Sequence[int],
        limits: tuple[int | None, int | None],
        expressed: Attribute,
    ) -> "UniformType":
        low, high = default_range(storage)
        return UniformType(
            canonical(storage),
            IntAttr(low if limits[0] is None else int(limits[0])),
            IntAttr(high if limits[1] is None else int(limits[1])),
            expressed,
            packed_scales(scales),
            packed_zero_points(zero_points),
            IntAttr(dimension),
        )

    @classmethod
    def per_tensor(
        cls,
        storage: IntegerType,
        scale: float,
        zero_point: int = 0,
        qmin: int | None = None,
        qmax: int | None = None,
        expressed: Attribute = f32,
    ) -> "UniformType":
        """Builds a type with one scale and one zero point for all elements.

        Args:
            storage: The integer type; signless or signed means signed, unsigned means unsigned.
            scale: The real value of one step.
            zero_point: The integer that stands for 0.0.
            qmin: The least stored integer, if the range is narrower than the storage type.
            qmax: The greatest stored integer, likewise.
            expressed: The float type that the quantized values represent.
        """
        return cls._build(storage, PER_TENSOR, [float(scale)], [int(zero_point)], (qmin, qmax), expressed)

    @classmethod
    def per_axis(
        cls,
        storage: IntegerType,
        axis: int,
        scales: Sequence[float],
        zero_points: Sequence[int] | None = None,
        qmin: int | None = None,
        qmax: int | None = None,
        expressed: Attribute = f32,
    ) -> "UniformType":
        """Builds a type with a scale and a zero point for each index of dimension `axis`; zero points default to 0."""
        if axis < 0:
            raise VerifyException(f"illegal quantized dimension: {axis}")
        points = [0] * len(scales) if zero_points is None else [int(z) for z in zero_points]
        return cls._build(storage, axis, [float(s) for s in scales], points, (qmin, qmax), expressed)

    @classmethod
    def broadcast(
        cls,
        storage: IntegerType,
        rank: int,
        scales: Array,
        zero_points: Array,
        qmin: int | None = None,
        qmax: int | None = None,
    ) -> "UniformType":
        """Builds the type of a tensor of the given rank whose scales and zero points broadcast against it.

        Raises:
            VerifyException: Scales or zero points vary along several axes, zero points are no integers, or the
                parameters break a rule of the type.
        """
        if (zero_points % 1 != 0).any():
            raise VerifyException("zero points must be integers")
        extents = np.broadcast_shapes(scales.shape, zero_points.shape)
        every_scale, every_point = (np.broadcast_to(a, extents).ravel().tolist() for a in (scales, zero_points))
        long = [i for i, n in enumerate(extents) if n != 1]
        if not long:
            return cls.per_tensor(storage, every_scale[0], int(every_point[0]), qmin, qmax)
        if len(long) > 1:
            raise VerifyException(f"scales of shape {list(extents)} are not one for each index of one axis")
        axis = long[0] + rank - len(extents)
        return cls.per_axis(storage, axis, every_scale, [int(p) for p in every_point], qmin, qmax)

    # Properties of the type.

    @property
    def storage_width(self) -> int:
        """The number of bits of a stored integer."""
        return self.storage.width.data

    @property
    def is_signed(self) -> bool:
        """Whether stored integers are signed."""
        return self.storage.signedness.data != Signedness.UNSIGNED

    @property
    def scale(self) -> float:
        """The scale of a per-tensor type."""
        assert not self.is_per_axis, "a per-axis type has many scales"
        return self.scales[0]

    @property
    def zero_point(self) -> int:
        """The zero point of a per-tensor type."""
        assert not self.is_per_axis, "a per-axis type has many zero points"
        return self.zero_points[0]

    @property
    def storage_type(self) -> IntegerType:
        """The builtin type of the stored integers: always signless, as upstream's `quant.scast` requires."""
        return IntegerType(self.storage_width)

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """The narrowest numpy integer that holds a stored integer: int8 for i4, uint8 for u8, …"""
        bits = next(b for b in (8, 16, 32) if self.storage_width <= b)
        return np.dtype(f"{'' if self.is_signed else 'u'}int{bits}")

    def within(self, low: int, high: int) -> "UniformType":
        """Returns the type with the same scales and zero points and another range of stored integers."""
        limits = IntAttr(low), IntAttr(high)
        packed = self.packed_scales, self.packed_zero_points
        return UniformType(self.storage, *limits, self.expressed, *packed, self.dimension)

    def in_one_scale(self) -> "UniformType | None":
        """Returns the type per tensor with the same parameters; None if those of a type per axis differ."""
        parameters = set(zip(self.scales, self.zero_points, strict=True))
        if len(parameters) != 1:
            return None
        ((scale, point),) = parameters
        return UniformType.per_tensor(self.storage, scale, point, self.storage_min, self.storage_max, self.expressed)

    def parameters_along(self, rank: int) -> tuple[Float64s, Int64s]:
        """Returns scales and zero points as arrays that broadcast against a tensor of this type and rank."""
        shape = [1] * rank
        if self.is_per_axis:
            shape[self.dimension.data] = len(self.scales)
        scales = np.frombuffer(self.packed_scales.data, "<f8").reshape(shape)
        zero_points = np.frombuffer(self.packed_zero_points.data, "<i8").reshape(shape)
        return scales, zero_points


# Packing, and unpacking shared by all types with the same parameters.


def packed_scales(scales: Sequence[float]) -> BytesAttr:
    """Packs scales into the bytes that a type stores: little-endian float64."""
    return BytesAttr(struct.pack(f"<{len(scales)}d", *scales))


def packed_zero_points(zero_points: Sequence[int]) -> BytesAttr:
    """Packs zero points into the bytes that a type stores: little-endian int64."""
    return BytesAttr(struct.pack(f"<{len(zero_points)}q", *zero_points))


@lru_cache(maxsize=4096)
def _unpacked_floats(packed: bytes) -> tuple[float, ...]:
    return struct.unpack(f"<{len(packed) // 8}d", packed)


@lru_cache(maxsize=4096)
def _exponents(packed: bytes) -> tuple[int | None, ...]:
    return tuple(map(exponent_of, _unpacked_floats(packed)))


@lru_cache(maxsize=4096)
def _unpacked_ints(packed: bytes) -> tuple[int, ...]:
    return struct.unpack(f"<{len(packed) // 8}q", packed)


# Tensors of quantized elements.


def quantized_element(type: Attribute) -> UniformType | None:
    """Returns a tensor's element type, or the scalar type itself, if it is a `UniformType`; else None."""
    element = element_type(type)
    return element if isinstance(element, UniformType) else None


def storage_tensor(tensor: TensorType[Attribute]) -> TensorType[IntegerType]:
    """Returns the tensor type with the same shape and the integers that a quantized tensor stores as elements."""
    element = quantized_element(tensor)
    assert element is not None, f"{tensor} is no quantized tensor"
    return TensorType(element.storage_type, tensor.get_shape(), tensor.encoding)
