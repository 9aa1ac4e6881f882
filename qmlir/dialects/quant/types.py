"""`!quant.uniform`: integers that stand for real values, real = scale · (q − zero_point).

Text enters and leaves in upstream MLIR's exact syntax, so that mlir-opt reads what we print and we read what it does:

    !quant.uniform<i8:f32, 3.906250e-03:-128>                    per tensor: one scale and zero point
    !quant.uniform<i8<-127:127>:f32:0, {2.000000e-02,1.5e-02:3}>   per axis: one pair for each index of dimension 0

`i8` is signed storage and `u8` unsigned; the range in angle brackets, the zero point 0 and the storage's default
range are not printed. Rejections happen where upstream rejects. Sub-channel (blockwise) parameters and float storage
are refused in words.

A per-axis type on a wide layer holds thousands of scales and is compared for each operation that touches it, so the
parameters are packed into bytes: equality is one memcmp, the hash is computed once, and unpacking is cached.
"""

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    BytesAttr,
    Float16Type,
    Float32Type,
    Float64Type,
    IntAttr,
    IntegerType,
    Signedness,
    TensorType,
    UnrankedTensorType,
    f32,
)
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.quant.syntax import (
    MAX_STORAGE_BITS,
    default_range,
    expect,
    pair_text,
    parse_axis,
    parse_pair,
    parse_range,
    parse_storage,
)

PER_TENSOR = -1
"""The stored dimension of a type with a single scale."""

_EXPRESSED: dict[type[Attribute], tuple[float, float]] = {
    Float16Type: (2.0**-24, 65504.0),
    BFloat16Type: (2.0**-133, (2 - 2.0**-7) * 2.0**127),
    Float32Type: (2.0**-149, (2 - 2.0**-23) * 2.0**127),
    Float64Type: (5e-324, 1.7976931348623157e308),
}
"""Expressed types → their smallest and largest positive values, between which a scale must lie."""


@irdl_attr_definition
class UniformType(ParametrizedAttribute, TypeAttribute):
    """A uniform quantized type, per tensor or per axis; build it with `per_tensor` or `per_axis`.

    (T1) storage is an integer of 1 to 32 bits
    (T2) its range is not empty and lies within the storage type
    (T3) the expressed type is f16, bf16, f32 or f64
    (T4) scales are positive, finite and within the expressed type's range
    (T5) there are as many zero points as scales: one per tensor, one or more per axis; the axis is not negative

    A zero point may lie outside the storage range, as upstream has it.
    """

    name = "quant.uniform"

    storage: IntegerType  # signless means signed; unsigned prints as `u8`
    low: IntAttr
    high: IntAttr
    expressed: Attribute
    dimension: IntAttr
    packed_scales: BytesAttr  # float64, little-endian
    packed_zero_points: BytesAttr  # int64, little-endian

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
        unsigned = storage.signedness.data == Signedness.UNSIGNED
        low, high = default_range(storage)
        return UniformType(
            IntegerType(storage.width.data, Signedness.UNSIGNED if unsigned else Signedness.SIGNLESS),
            IntAttr(low if limits[0] is None else int(limits[0])),
            IntAttr(high if limits[1] is None else int(limits[1])),
            expressed,
            IntAttr(dimension),
            BytesAttr(struct.pack(f"<{len(scales)}d", *scales)),
            BytesAttr(struct.pack(f"<{len(zero_points)}q", *zero_points)),
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
        """One scale and zero point for all elements.

        Args:
            storage: The integer type; signless or signed means signed, unsigned means unsigned.
            scale: The real value of one step.
            zero_point: The integer that stands for 0.0.
            qmin: The least stored integer, where the range is narrower than the storage type.
            qmax: The greatest.
            expressed: The float type it stands for.
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
        """One scale and zero point for each index of dimension `axis`; zero points default to 0."""
        if axis < 0:
            raise VerifyException(f"illegal quantized dimension: {axis}")
        points = [0] * len(scales) if zero_points is None else [int(z) for z in zero_points]
        return cls._build(storage, axis, [float(s) for s in scales], points, (qmin, qmax), expressed)

    # What it says.

    @property
    def storage_width(self) -> int:
        """Bits of one stored integer."""
        return self.storage.width.data

    @property
    def is_signed(self) -> bool:
        """Whether stored integers are signed."""
        return self.storage.signedness.data != Signedness.UNSIGNED

    @property
    def storage_min(self) -> int:
        """The least integer that is stored."""
        return self.low.data

    @property
    def storage_max(self) -> int:
        """The greatest integer that is stored."""
        return self.high.data

    @property
    def is_per_axis(self) -> bool:
        """Whether each index of a dimension has its own parameters."""
        return self.dimension.data != PER_TENSOR

    @property
    def axis(self) -> int | None:
        """The dimension with parameters of its own, or None per tensor."""
        return self.dimension.data if self.is_per_axis else None

    @property
    def scales(self) -> tuple[float, ...]:
        """All scales: one per tensor, one for each index per axis."""
        return _unpacked_floats(self.packed_scales.data)

    @property
    def zero_points(self) -> tuple[int, ...]:
        """All zero points, as many as scales."""
        return _unpacked_ints(self.packed_zero_points.data)

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
        """The builtin type of the stored integers: always signless, as upstream's `quant.scast` has it."""
        return IntegerType(self.storage_width)

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """The narrowest numpy integer that holds a stored integer: int8 for i4, uint8 for u8, …"""
        bits = next(b for b in (8, 16, 32) if self.storage_width <= b)
        return np.dtype(f"{'' if self.is_signed else 'u'}int{bits}")

    def parameters_along(self, rank: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
        """Scales and zero points as arrays that broadcast against a tensor of this type and rank."""
        shape = [1] * rank
        if self.is_per_axis:
            shape[self.dimension.data] = len(self.scales)
        scales = np.frombuffer(self.packed_scales.data, "<f8").reshape(shape)
        zero_points = np.frombuffer(self.packed_zero_points.data, "<i8").reshape(shape)
        return scales, zero_points

    # Its rules.

    def verify(self) -> None:
        bits = self.storage_width
        if not 1 <= bits <= MAX_STORAGE_BITS:  # T1
            raise VerifyException(f"illegal storage type size: {bits}; need 1 to {MAX_STORAGE_BITS} bits")
        least, greatest = default_range(self.storage)
        low, high = self.low.data, self.high.data
        if not least <= low < high <= greatest:  # T2
            raise VerifyException(
                f"illegal storage min and storage max: ({low}:{high}); need a range within [{least}, {greatest}]"
            )
        if type(self.expressed) not in _EXPRESSED:  # T3
            known = isinstance(self.expressed, AnyFloat)
            reason = "must be f16, bf16, f32 or f64" if known else "must be floating point"
            raise VerifyException(f"expressed type {reason}, got {self.expressed}")
        smallest, largest = _EXPRESSED[type(self.expressed)]
        for scale in self.scales:
            if not smallest <= scale <= largest:  # T4; false for NaN too
                raise VerifyException(
                    f"illegal scale: scale out of expressed type range [{smallest:.6g}, {largest:.6g}], got {scale}"
                )
        count, points = len(self.scales), len(self.zero_points)
        if count != points or count < 1 or (count > 1 and not self.is_per_axis):  # T5
            raise VerifyException(f"illegal number of scales and zeroPoints: {count}, {points}")
        if self.dimension.data < PER_TENSOR:  # T5
            raise VerifyException(f"illegal quantized dimension: {self.dimension.data}")

    # Its text; syntax.py has the parts.

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        start = parser.pos
        expect(parser, "<")
        storage = parse_storage(parser)
        low, high = parse_range(parser, storage)
        expect(parser, ":")
        expressed = parser.parse_type()
        axis = parse_axis(parser)
        expect(parser, ",")
        if axis is None:
            pairs = [parse_pair(parser)]
        else:
            pairs = parser.parse_comma_separated_list(parser.Delimiter.BRACES, lambda: parse_pair(parser))
        expect(parser, ">")
        try:
            scales, zero_points = [s for s, _ in pairs], [z for _, z in pairs]
            built = cls._build(
                storage, PER_TENSOR if axis is None else axis, scales, zero_points, (low, high), expressed
            )
        except VerifyException as error:
            parser.raise_error(str(error), start)
        return built.parameters

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(f"{'i' if self.is_signed else 'u'}{self.storage_width}")
            if (self.low.data, self.high.data) != default_range(self.storage):
                printer.print_string(f"<{self.low.data}:{self.high.data}>")
            printer.print_string(":")
            printer.print_attribute(self.expressed)
            pairs = ",".join(pair_text(s, z) for s, z in zip(self.scales, self.zero_points, strict=True))
            printer.print_string(f":{self.dimension.data}, {{{pairs}}}" if self.is_per_axis else f", {pairs}")


# Unpacking, shared by all types with the same parameters.


@lru_cache(maxsize=4096)
def _unpacked_floats(packed: bytes) -> tuple[float, ...]:
    return struct.unpack(f"<{len(packed) // 8}d", packed)


@lru_cache(maxsize=4096)
def _unpacked_ints(packed: bytes) -> tuple[int, ...]:
    return struct.unpack(f"<{len(packed) // 8}q", packed)


# Tensors of quantized elements.


def element_type(type: Attribute) -> Attribute:
    """A tensor's element type, or the scalar type itself."""
    if isinstance(type, TensorType | UnrankedTensorType):
        return cast(TensorType[Attribute], type).element_type
    return type


def quantized_element(type: Attribute) -> UniformType | None:
    """The quantized type of a tensor's elements, or of a scalar; None where it is not quantized."""
    element = element_type(type)
    return element if isinstance(element, UniformType) else None


def storage_tensor(tensor: TensorType[Attribute]) -> TensorType[IntegerType]:
    """The same shape with the integers that a quantized tensor stores."""
    element = quantized_element(tensor)
    assert element is not None, f"{tensor} is no quantized tensor"
    return TensorType(element.storage_type, tensor.get_shape(), tensor.encoding)


def expressed_tensor(tensor: TensorType[Attribute]) -> TensorType[Attribute]:
    """The same shape with the floats that a quantized tensor stands for."""
    element = quantized_element(tensor)
    assert element is not None, f"{tensor} is no quantized tensor"
    return TensorType(element.expressed, tensor.get_shape(), tensor.encoding)
