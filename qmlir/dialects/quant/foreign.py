"""Upstream's other ("foreign") quantized types, never computed with, and the parser of all of upstream's types."""

from collections.abc import Sequence
from math import prod
from typing import Any, TypeAlias, cast

import numpy as np
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    ArrayAttr,
    FloatData,
    IntAttr,
    IntegerType,
    NoneAttr,
    TensorType,
    UnrankedTensorType,
    f32,
)
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError, VerifyException
from xdsl.utils.lexer import Span

from qmlir.dialects.quant.syntax import (
    Pair,
    StoredFloat,
    canonical,
    default_range,
    expect,
    expressed_format,
    float_text,
    nested_text,
    pair_text,
    parse_axis,
    parse_block_sizes,
    parse_float,
    parse_nested_pairs,
    parse_pair,
    parse_storage,
    storage_text,
    verify_scales,
    verify_storage,
)
from qmlir.dialects.quant.types import (
    PER_TENSOR,
    LayerOrAxisType,
    ScaledType,
    UniformType,
    packed_scales,
    packed_zero_points,
)
from qmlir.ir.types import QuantizedElement
from qmlir.ir.weights import WeightsAttr

# ---------------------------------------------------------------------------------------------------------------
# Upstream's other ("foreign") quantized types: they are parsed, verified, cast and printed, but never computed with.
#
#     !quant.uniform<u8:f32:{0:1, 1:2}, {{2.0:120, 3.0:127}, {4.0, 5.0}}>   sub-channel: a scale for each block
#     !quant.uniform<f8E5M2:f32, 2.0>                                       small floats as storage
#     !quant.any<i8<-8:7>:f32>                                              storage without scale and zero point
#     !quant.calibrated<f32<-0.998:1.2321>>                                 a range, no storage yet
#
# `QuantizedType` is any of these types or a `UniformType`; the casts accept all of them. The rest of the compiler asks
# for `UniformType` and treats a foreign type like any element type that it has no rule for.


def _integers(values: Sequence[int]) -> ArrayAttr[IntAttr]:
    return ArrayAttr([IntAttr(value) for value in values])


def _cast_type(storage: Attribute) -> Attribute:
    """Returns the type that `quant.scast` has on its storage side: integers are signless there."""
    return IntegerType(cast(IntegerType, storage).width.data) if isinstance(storage, IntegerType) else storage


@irdl_attr_definition
class SubChannelType(ScaledType, QuantizedElement):
    """A quantized type with a scale and a zero point for each block of a tensor; build it with `of`.

    (S1) the numbers of scales and zero points are the product of the shape of the blocks
    (S2) quantized dimensions are not negative and block sizes are positive
    (S3) scales are values of the expressed type, zero points of the storage type, as upstream holds them

    Along a dimension without a block size, one block is as long as the tensor.
    """

    name = "quant.uniform"

    storage: IntegerType
    dimensions: ArrayAttr[IntAttr]
    sizes: ArrayAttr[IntAttr]
    dims: ArrayAttr[IntAttr]

    @classmethod
    def of(
        cls,
        storage: IntegerType,
        block_sizes: Sequence[tuple[int, int]],
        shape: Sequence[int],
        scales: Sequence[float],
        zero_points: Sequence[int] | None = None,
        qmin: int | None = None,
        qmax: int | None = None,
        expressed: Attribute = f32,
    ) -> "SubChannelType":
        """Builds a type with a scale and a zero point for each block.

        Args:
            storage: The integer type; signless or signed means signed, unsigned means unsigned.
            block_sizes: Quantized dimensions, each with the length of its blocks.
            shape: How many blocks there are along each dimension of the tensor.
            scales: The scale of each block in row-major order; scales are rounded to the expressed type.
            zero_points: The zero point of each block, 0 by default. Zero points that only fit the storage type of the
                other signedness are reinterpreted bit for bit, because upstream prints them that way.
            qmin: The least stored integer, if the range is narrower than the storage type.
            qmax: The greatest stored integer, likewise.
            expressed: The float type that the quantized values represent.
        """
        low, high = default_range(storage)
        format = expressed_format(expressed)
        points = [0] * len(scales) if zero_points is None else [_wrapped(int(z), storage) for z in zero_points]
        return SubChannelType(
            canonical(storage),
            IntAttr(low if qmin is None else int(qmin)),
            IntAttr(high if qmax is None else int(qmax)),
            expressed,
            packed_scales([format.rounded(float(s)) for s in scales]),
            packed_zero_points(points),
            _integers([dimension for dimension, _ in block_sizes]),
            _integers([size for _, size in block_sizes]),
            _integers(shape),
        )

    @property
    def block_sizes(self) -> tuple[tuple[int, int], ...]:
        """The quantized dimensions, each with the length of its blocks."""
        return tuple((d.data, s.data) for d, s in zip(self.dimensions, self.sizes, strict=True))

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of blocks along each dimension, which is the shape of the scales."""
        return tuple(d.data for d in self.dims)

    @property
    def storage_type(self) -> IntegerType:
        """The builtin type of the stored integers, signless."""
        return IntegerType(self.storage.width.data)

    def verify(self) -> None:
        super().verify()
        count, points = len(self.scales), len(self.zero_points)
        if not self.shape or count != points or count != prod(self.shape):  # S1
            raise VerifyException(
                f"shape of scales and zeroPoints ({count} vs {points}) does not match: need {self.shape}"
            )
        for dimension, size in zip(self.dimensions, self.sizes, strict=True):  # S2
            if dimension.data < 0:
                raise VerifyException(f"illegal quantized dimension: {dimension.data}")
            if size.data <= 0:
                raise VerifyException(f"illegal block size: {size.data}")
        least, greatest = default_range(self.storage)
        for point in self.zero_points:  # S3
            if not least <= point <= greatest:
                raise VerifyException(f"zero point {point} must match the storage type {self.storage}")

    def parameters_text(self) -> str:
        format = expressed_format(self.expressed)
        blocks = ", ".join(f"{dimension}:{size}" for dimension, size in self.block_sizes)
        pairs = [pair_text(s, z, format) for s, z in zip(self.scales, self.zero_points, strict=True)]
        return f":{{{blocks}}}, {nested_text(pairs, self.shape)}"


def _wrapped(zero_point: int, storage: IntegerType) -> int:
    """Reinterprets a zero point that fits the storage type's bits but not its signedness; returns others unchanged."""
    least, greatest = default_range(storage)
    bits = storage.width.data
    if -(1 << bits - 1) <= zero_point < 1 << bits and not least <= zero_point <= greatest:
        return zero_point + (1 << bits if zero_point < least else -1 << bits)
    return zero_point


@irdl_attr_definition
class FloatStorageType(LayerOrAxisType, QuantizedElement):
    """A uniform quantized type that stores small floats, per tensor or per axis."""

    name = "quant.uniform"

    storage: StoredFloat

    @property
    def storage_type(self) -> Attribute:
        """The type of the stored floats."""
        return self.storage


@irdl_attr_definition
class AnyType(ParametrizedAttribute, TypeAttribute, QuantizedElement):
    """A quantized type with unknown scale and zero point: only a storage type and, if known, an expressed type.

    (Y1) storage and range are those of a `!quant.uniform` (T1, T2)
    (Y2) the expressed type is a float, or absent
    """

    name = "quant.any"

    storage: Attribute
    low: IntAttr
    high: IntAttr
    expressed: Attribute  # NoneAttr: absent

    @property
    def storage_type(self) -> Attribute:
        """The builtin type of the stored values; integers are signless."""
        return _cast_type(self.storage)

    def verify(self) -> None:
        verify_storage(self.storage, self.low.data, self.high.data)  # Y1
        if not isinstance(self.expressed, AnyFloat | NoneAttr):  # Y2
            raise VerifyException(f"expressed type must be floating point, got {self.expressed}")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        expect(parser, "<")
        storage, low, high = parse_storage(parser)
        expressed: Attribute = NoneAttr() if parser.parse_optional_punctuation(":") is None else parser.parse_type()
        expect(parser, ">")
        return (storage, IntAttr(low), IntAttr(high), expressed)

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(storage_text(self.storage, self.low.data, self.high.data))
            if not isinstance(self.expressed, NoneAttr):
                printer.print_string(":")
                printer.print_attribute(self.expressed)


@irdl_attr_definition
class CalibratedType(ParametrizedAttribute, TypeAttribute, QuantizedElement):
    """A float type with the observed range of its values.

    (C1) the expressed type is a float
    (C2) the range is not empty
    """

    name = "quant.calibrated"

    expressed: Attribute
    low: FloatData
    high: FloatData

    @property
    def storage_type(self) -> Attribute:
        """`NoneAttr`: the type has no storage yet."""
        return NoneAttr()

    def verify(self) -> None:
        if not isinstance(self.expressed, AnyFloat):  # C1
            raise VerifyException(f"expecting float expressed type, got {self.expressed}")
        low, high = self.low.data, self.high.data
        if not low < high:  # C2
            raise VerifyException(f"illegal min and max: ({low:.6e}:{high:.6e})")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        expect(parser, "<")
        start = parser.pos
        expressed = parser.parse_type()
        if not isinstance(expressed, AnyFloat):
            parser.raise_error(
                f"invalid kind of type specified: expecting float expressed type, got {expressed}", start
            )
        try:
            expect(parser, "<")
            low = parse_float(parser)
            expect(parser, ":")
            high = parse_float(parser)
            expect(parser, ">")
        except ParseError as error:
            parser.raise_error(f"calibrated values must be present: {error.msg}", cast("Span[str]", error.span))
        expect(parser, ">")
        return (expressed, FloatData(low), FloatData(high))

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_attribute(self.expressed)
            with printer.in_angle_brackets():
                printer.print_string(f"{float_text(self.low.data)}:{float_text(self.high.data)}")


QuantizedType: TypeAlias = UniformType | SubChannelType | FloatStorageType | AnyType | CalibratedType
"""Every type of upstream's quant dialect; each has an `expressed` type and a `storage_type`, or `NoneAttr` for none."""


# ---------------------------------------------------------------------------------------------------------------
# Checks that the blocks of a sub-channel type fit the tensor they quantize: upstream's rules and error messages.


Shape: TypeAlias = tuple[int | None, ...] | None
"""The shape of a ranked tensor, `UNRANKED`, or None for a scalar."""

UNRANKED: tuple[None] = (None,)
"""The shape of a tensor of unknown rank."""


def shape_of(type: Attribute) -> Shape:
    """Returns the shape of a tensor or a scalar type."""
    if isinstance(type, TensorType):
        return cast(TensorType[Attribute], type).get_shape()
    return UNRANKED if isinstance(type, UnrankedTensorType) else None


def verify_blocks(op_name: str, blocks: SubChannelType, shape: Shape) -> None:
    """Checks that a sub-channel type can be the element type of a tensor of this shape.

    Raises:
        VerifyException: The type does not fit the tensor; the message names the operation.
    """
    if shape is None:
        raise VerifyException(f"'{op_name}' scalar types may not use sub-channel quantization: got {blocks}")
    if shape == UNRANKED:
        raise VerifyException(f"'{op_name}' tensor containing the sub-channel quantized type must be ranked")
    lengths = cast(tuple[int, ...], shape)
    rank = len(lengths)
    counts = [1] * rank  # a dimension without a block size is one block
    for axis, size in blocks.block_sizes:
        if axis >= rank:
            raise VerifyException(f"'{op_name}' quantized dimension {axis} must be less than tensor rank {rank}")
        if lengths[axis] != DYNAMIC_INDEX and lengths[axis] % size != 0:
            raise VerifyException(
                f"'{op_name}' tensor dimension size {lengths[axis]} at axis {axis} "
                f"must be divisible by the corresponding block size {size}"
            )
        counts[axis] = DYNAMIC_INDEX if lengths[axis] == DYNAMIC_INDEX else lengths[axis] // size
    if 0 in lengths:
        raise VerifyException(f"'{op_name}' tensor dimension size of zero is not allowed with sub-channel quantization")
    if len(blocks.shape) != rank:
        raise VerifyException(
            f"'{op_name}' Rank of scales {len(blocks.shape)} must match the rank of the tensor {rank}"
        )
    for axis, (count, there) in enumerate(zip(counts, blocks.shape, strict=True)):
        if count not in (DYNAMIC_INDEX, there):
            raise VerifyException(
                f"'{op_name}' dimension size {there} of scales tensor at axis {axis} should match "
                f"(tensor dimension at axis / block sizes at axis) = {count}"
            )


# ---------------------------------------------------------------------------------------------------------------
# The parser of `!quant.uniform<…>`, a name that three classes share although xDSL looks up a single class by name.
#
# The dialect registers `UniformSyntax`. It parses the text and returns an instance of the class that the text
# describes, which prints itself under the same name. No value ever has `UniformSyntax` as its type.


@irdl_attr_definition
class UniformSyntax(ParametrizedAttribute, TypeAttribute):
    """Parses the name `quant.uniform` for the three classes that share it; see the module docstring."""

    name = "quant.uniform"

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        """Parses the type; returns it as the single parameter."""
        start = parser.pos
        try:
            return [_parse_uniform(parser)]
        except VerifyException as error:
            parser.raise_error(str(error), start)

    @classmethod
    def new(cls, params: Sequence[Attribute]) -> Any:
        """Returns the parsed type, whatever its class."""
        (read,) = params
        return read


def _side_pairs(parser: AttrParser, expressed: Attribute) -> list[Pair]:
    """Parses scales that are an array of the side file, `#qmlir.weights<…>`, with zero points of 0."""
    start, weights = parser.pos, parser.parse_attribute()
    if not isinstance(weights, WeightsAttr) or weights.array.ndim != 1 or weights.array.dtype.kind != "f":
        parser.raise_error("expected scales, or #qmlir.weights with a dimension of floats", start)
    scales = weights.array.astype(np.float64).tolist()
    try:
        verify_scales(expressed, scales)
    except VerifyException as error:
        parser.raise_error(str(error), start)
    return [(scale, 0) for scale in scales]


def _parse_uniform(parser: AttrParser) -> Attribute:
    expect(parser, "<")
    storage_at = parser.pos
    storage, low, high = parse_storage(parser)
    expect(parser, ":")
    expressed_at = parser.pos
    expressed = parser.parse_type()
    try:
        expressed_format(expressed)
    except VerifyException as error:
        parser.raise_error(str(error), expressed_at)
    if parser.parse_optional_punctuation(":") is None:
        expect(parser, ",")
        pairs, axis = [parse_pair(parser, expressed)], PER_TENSOR
    elif parser.lexer.input.slice(parser.pos, parser.pos + 1) == "{":
        blocks = parse_block_sizes(parser)
        expect(parser, ",")
        pairs, shape = parse_nested_pairs(parser, expressed)
        expect(parser, ">")
        if not isinstance(storage, IntegerType):
            parser.raise_error(f"sub-channel quantization needs integers as storage, got {storage}", storage_at)
        scales, zero_points = zip(*pairs, strict=True)
        return SubChannelType.of(storage, blocks, shape, scales, zero_points, low, high, expressed)
    else:
        axis = parse_axis(parser)
        expect(parser, ",")
        if parser.lexer.input.slice(parser.pos, parser.pos + 1) == "#":
            pairs = _side_pairs(parser, expressed)
        else:
            pairs = parser.parse_comma_separated_list(parser.Delimiter.BRACES, lambda: parse_pair(parser, expressed))
    expect(parser, ">")
    parameters = (
        IntAttr(low),
        IntAttr(high),
        expressed,
        packed_scales([scale for scale, _ in pairs]),
        packed_zero_points([zero_point for _, zero_point in pairs]),
        IntAttr(axis),
    )
    if isinstance(storage, IntegerType):
        return UniformType(storage, *parameters)
    return FloatStorageType(storage, *parameters)
