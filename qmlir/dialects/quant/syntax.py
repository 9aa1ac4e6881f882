"""Printing and parsing of storage types, scales and zero points, exactly in upstream MLIR's syntax."""

import math
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    Float4E2M1FNType,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatNanEncoding,
    FloatNonfiniteBehavior,
    IntegerType,
    ReducedPrecisionFloatType,
    Signedness,
    f4E2M1FN,
    f8E4M3FN,
    f8E5M2,
)
from xdsl.ir import Attribute
from xdsl.parser import AttrParser
from xdsl.utils.exceptions import VerifyException

# ---------------------------------------------------------------------------------------------------------------
# Prints floats as MLIR does: the same digits as upstream, and the exact value when parsed again.
#
# Upstream prints a float in the first of three forms that parses to the same float: six significant digits
# (`1.000000e-01`); as many digits as the format needs, without trailing zeros (`0.0039215686274509803`, or
# `3.9215686274509803E-6` below 0.001); or its bits in hexadecimal, if those digits have no decimal point.
#
# The digits follow LLVM's conversion. It first truncates the exact value to slightly more than the wanted digits, then
# rounds half up. The last digit is therefore not always the nearest one, and Python's formatting cannot replace it:
# 0.998 becomes 0.997999 in six digits, which is another number, and prints as `0.998`.


SHORT_DIGITS = 6
MAX_PADDING = 3
"""The largest number of zeros next to the decimal point for which a number is not printed in scientific form."""


@dataclass(frozen=True)
class FloatFormat:
    """The precision and range of a float type.

    precision  number of significand bits, including the hidden bit
    lowest     exponent of the smallest positive value, which is 2 ** lowest
    largest    the largest finite value
    """

    precision: int
    lowest: int
    largest: float

    @property
    def smallest(self) -> float:
        """The smallest positive value."""
        return math.ldexp(1.0, self.lowest)

    def rounded(self, value: float) -> float:
        """Rounds a finite value to the nearest value of the format, half to even; infinity beyond its range."""
        if self == F64 or value == 0:
            return value
        step = max(math.frexp(value)[1] - self.precision, self.lowest)
        nearest = math.ldexp(round(math.ldexp(value, -step)), step)
        return nearest if abs(nearest) <= self.largest else math.copysign(math.inf, value)


F64 = FloatFormat(53, -1074, 1.7976931348623157e308)

_FORMATS: dict[type[Attribute], FloatFormat] = {
    Float16Type: FloatFormat(11, -24, 65504.0),
    BFloat16Type: FloatFormat(8, -133, (2 - 2.0**-7) * 2.0**127),
    Float32Type: FloatFormat(24, -149, (2 - 2.0**-23) * 2.0**127),
    Float64Type: F64,
}


def float_format(type: Attribute) -> FloatFormat | None:
    """Returns the format of a float type; None for f80 and f128, which exceed a Python float, and for other types."""
    if not isinstance(type, ReducedPrecisionFloatType):
        return _FORMATS.get(type.__class__)
    semantics = type.SEMANTICS
    mantissa, bias = semantics.mantissa_bits, semantics.exponent_bias
    lowest = 1 - bias - mantissa if semantics.has_zero else -bias
    top, fraction = semantics.max_exponent, (1 << mantissa) - 1
    if semantics.nonfinite == FloatNonfiniteBehavior.IEEE:
        top -= 1  # all ones are infinity and NaN
    elif (
        semantics.nan_encoding == FloatNanEncoding.ALL_ONES
        and semantics.nonfinite != FloatNonfiniteBehavior.FINITE_ONLY
    ):
        top, fraction = (top, fraction - 1) if mantissa else (top - 1, 0)  # the last encoding is NaN
    return FloatFormat(mantissa + 1, lowest, math.ldexp((1 << mantissa) + fraction, top - bias - mantissa))


def float_text(value: float, format: FloatFormat = F64) -> str:
    """Prints a float as upstream prints a value of that format.

    The hexadecimal form always has the 64 bits of the float64 value. Upstream prints the bits of a narrower format,
    which it then parses as another number.
    """
    if not math.isfinite(value):
        return _bits(value)
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    if value == 0:
        return f"{sign}0.000000e+00"
    digits, exponent = _digits(abs(value), SHORT_DIGITS)
    short = f"{sign}{digits[0]}.{digits[1:]:0<{SHORT_DIGITS}}e{exponent + len(digits) - 1:+03d}"
    if format.rounded(float(short)) == value:
        return short
    most = 2 + format.precision * 59 // 196
    digits, exponent = _digits(abs(value), most)
    leading = exponent + len(digits) - 1  # the power of ten of the first digit
    if exponent >= 0:
        scientific = exponent > MAX_PADDING or len(digits) + exponent > most
    else:
        scientific = -leading > MAX_PADDING
    if scientific:
        return f"{sign}{digits[0]}.{digits[1:] or '0'}E{leading:+d}"
    if exponent >= 0:
        return _bits(value)
    if leading >= 0:
        return f"{sign}{digits[: leading + 1]}.{digits[leading + 1 :]}"
    return f"{sign}0.{'0' * (-leading - 1)}{digits}"


def _bits(value: float) -> str:
    return f"0x{struct.unpack('>Q', struct.pack('>d', value))[0]:016X}"


def _digits(value: float, most: int) -> tuple[str, int]:
    """Returns up to `most` digits of a positive value, without trailing zeros, and the last digit's power of ten."""
    fraction, power = math.frexp(value)
    whole, power = int(math.ldexp(fraction, 53)), power - 53
    zeros = (whole & -whole).bit_length() - 1
    whole, power = whole >> zeros, power + zeros
    exponent = min(power, 0)
    whole *= 2**power if power > 0 else 5**-power  # n · 2^-p is n · 5^p · 10^-p
    # 196 / 59 bits are a little more than one decimal digit.
    surplus = (whole.bit_length() - (most * 196 + 58) // 59) * 59 // 196
    if surplus > 0:
        whole //= 10**surplus
        exponent += surplus
    text = str(whole)
    cut = len(text) - most
    if cut > 0:
        whole = whole // 10**cut + (text[most] >= "5")
        text, exponent = str(whole), exponent + cut
    significant = text.rstrip("0")
    return significant, exponent + len(text) - len(significant)


# ---------------------------------------------------------------------------------------------------------------
# The quantized types assemble these parts. The parsing functions report an error at the position of the wrong text.


Pair = tuple[float, int]
"""A scale and a zero point."""


def pair_text(scale: float, zero_point: int, format: FloatFormat = F64) -> str:
    """Prints a scale, followed by its zero point unless that is 0."""
    text = float_text(scale, format)
    if not text.startswith("0x") and not format.smallest <= float(text) <= format.largest:
        text = float_text(scale)  # few digits of an extreme scale may leave the range, which parsers reject
    return f"{text}:{zero_point}" if zero_point else text


def nested_text(parts: Sequence[str], shape: Sequence[int]) -> str:
    """Joins texts in nested braces: `{{a, b}, {c, d}}` for shape 2x2."""
    level = list(parts)
    for size in reversed(shape):
        level = [f"{{{', '.join(level[i : i + size])}}}" for i in range(0, len(level), size)]
    return level[0]


def expressed_format(expressed: Attribute) -> FloatFormat:
    """Returns the format of an expressed type: its precision and range.

    Raises:
        VerifyException: The type is not a float, or it is wider than the 64 bits of a scale.
    """
    format = float_format(expressed)
    if format is None:
        wide = " of at most 64 bits" if isinstance(expressed, AnyFloat) else ""
        raise VerifyException(f"expressed type must be floating point{wide}, got {expressed}")
    return format


def verify_scales(expressed: Attribute, scales: Sequence[float]) -> None:
    """Checks that scales are positive, finite and within the expressed type's range; NaN is rejected."""
    format = expressed_format(expressed)
    for scale in scales:
        if not format.smallest <= scale <= format.largest:
            raise VerifyException(
                f"illegal scale: scale out of expressed type range [{format.smallest:.6g}, {format.largest:.6g}], "
                f"got {scale}"
            )


def expect(parser: AttrParser, punctuation: Any) -> None:
    """Parses a required punctuation."""
    if parser.parse_optional_punctuation(punctuation) is None:
        parser.raise_error(f"expected '{punctuation}'")


def parse_axis(parser: AttrParser) -> int:
    """Parses the axis of a per-axis type, or of a block size: an integer of at least 0."""
    start = parser.pos
    axis = parse_integer(parser)
    if axis < 0:
        parser.raise_error(f"illegal quantized dimension: {axis}", start)
    return axis


def parse_block_sizes(parser: AttrParser) -> list[tuple[int, int]]:
    """Parses `{0:1, 1:2}`: axes and the lengths of the blocks along them."""

    def parse_block() -> tuple[int, int]:
        axis = parse_axis(parser)
        expect(parser, ":")
        start = parser.pos
        size = parse_integer(parser)
        if size <= 0:
            parser.raise_error(f"illegal block size: {size}", start)
        return axis, size

    return parser.parse_comma_separated_list(parser.Delimiter.BRACES, parse_block)


def parse_pair(parser: AttrParser, expressed: Attribute) -> Pair:
    """Parses `scale` or `scale:zero_point`."""
    start = parser.pos
    scale = parse_float(parser)
    try:
        verify_scales(expressed, [scale])
    except VerifyException as error:
        parser.raise_error(str(error), start)
    return scale, 0 if parser.parse_optional_punctuation(":") is None else parse_integer(parser)


def parse_nested_pairs(parser: AttrParser, expressed: Attribute) -> tuple[list[Pair], tuple[int, ...]]:
    """Parses scales and zero points in nested braces; returns the pairs in row-major order, and their shape."""
    expect(parser, "{")
    pairs: list[Pair] = []
    inner: tuple[int, ...] | None = None
    count = 0
    while True:
        start = parser.pos
        shape: tuple[int, ...] = ()
        if _at_brace(parser):
            below, shape = parse_nested_pairs(parser, expressed)
            pairs += below
        else:
            pairs.append(parse_pair(parser, expressed))
        if inner is not None and shape != inner:
            parser.raise_error("tensor literal is invalid; ranks are not consistent between elements", start)
        inner = shape
        count += 1
        if parser.parse_optional_punctuation(",") is None:
            expect(parser, "}")
            return pairs, (count, *inner)


def _at_brace(parser: AttrParser) -> bool:
    return parser.lexer.input.slice(parser.pos, parser.pos + 1) == "{"


def parse_float(parser: AttrParser) -> float:
    """Parses a float literal, or the bits of a float64 as up to 16 hexadecimal digits; rejects a plain integer."""
    start = parser.pos
    value = parser.parse_optional_float()
    if value is not None:
        return value
    bits = parser.parse_optional_integer(allow_boolean=False, allow_negative=False)
    text = cast(str, parser.lexer.input.slice(start, start + 2))
    if bits is None or text != "0x" or bits >= 1 << 64:
        parser.raise_error("expected floating point literal", start)
    return struct.unpack(">d", struct.pack(">Q", bits))[0]


def parse_integer(parser: AttrParser) -> int:
    """Parses a signed integer that fits 64 bits."""
    start = parser.pos
    value = parser.parse_optional_integer(allow_boolean=False)
    if value is None:
        parser.raise_error("expected integer value")
    if not -(1 << 63) <= value < 1 << 63:
        parser.raise_error(f"integer value too large: {value}", start)
    return value


# ---------------------------------------------------------------------------------------------------------------
# Storage types of quantized values: their widths and ranges, and how they are printed and parsed.
#
#     i8   u8   i4<-7:7>        integers of 1 to 32 bits, signed or unsigned; angle brackets give a narrower range
#     f8E5M2  f8E4M3FN  f4E2M1FN    the small floats; the bounds of their range are integers too
#
# `si8` and `ui8` are read as `i8` and `u8`, which is how upstream prints them. A range that covers the whole storage
# type is not printed.


MAX_STORAGE_BITS = 32

StoredFloat: TypeAlias = Float8E5M2Type | Float8E4M3FNType | Float4E2M1FNType

_FLOATS: dict[str, StoredFloat] = {"f8E5M2": f8E5M2, "f8E4M3FN": f8E4M3FN, "f4E2M1FN": f4E2M1FN}
_FLOAT_RANGES: dict[Attribute, tuple[int, int]] = {
    f8E5M2: (-57344, 57344),
    f8E4M3FN: (-448, 448),
    f4E2M1FN: (-6, 6),
}
_INTEGER = re.compile(r"(si|ui|i|u)([0-9]+)")
_DIGITS = 20


def _integer(storage: Attribute) -> IntegerType | None:
    return cast(IntegerType, storage) if isinstance(storage, IntegerType) else None


def canonical(storage: IntegerType) -> IntegerType:
    """Returns the canonical form of an integer storage type: signed types become signless, unsigned ones stay."""
    unsigned = storage.signedness.data == Signedness.UNSIGNED
    return IntegerType(storage.width.data, Signedness.UNSIGNED if unsigned else Signedness.SIGNLESS)


def default_range(storage: Attribute) -> tuple[int, int]:
    """Returns the default range of a storage type: all its values."""
    integer = _integer(storage)
    if integer is None:
        return _FLOAT_RANGES[storage]
    bits = integer.width.data
    if integer.signedness.data == Signedness.UNSIGNED:
        return 0, (1 << bits) - 1
    return -(1 << bits - 1), (1 << bits - 1) - 1


def storage_text(storage: Attribute, low: int, high: int) -> str:
    """Prints a storage type, followed by its range unless that is the default range."""
    integer = _integer(storage)
    name = storage.name
    if integer is not None:
        name = f"{'u' if integer.signedness.data == Signedness.UNSIGNED else 'i'}{integer.width.data}"
    return name if (low, high) == default_range(storage) else f"{name}<{low}:{high}>"


def verify_storage(storage: Attribute, low: int, high: int) -> None:
    """Checks that a storage type is supported, and that its range is not empty and lies within the type.

    Raises:
        VerifyException: The storage type or its range is illegal.
    """
    integer = _integer(storage)
    if integer is not None:
        bits = integer.width.data
        if not 1 <= bits <= MAX_STORAGE_BITS:
            raise VerifyException(f"illegal storage type size: {bits}; need 1 to {MAX_STORAGE_BITS} bits")
    elif storage not in _FLOAT_RANGES:
        raise VerifyException(f"illegal storage type: need an integer or one of {', '.join(_FLOATS)}, got {storage}")
    least, greatest = default_range(storage)
    if not least <= low < high <= greatest:
        raise VerifyException(
            f"illegal storage min and storage max: ({low}:{high}); need a range within [{least}, {greatest}]"
        )


def parse_storage(parser: AttrParser) -> tuple[IntegerType | StoredFloat, int, int]:
    """Parses a storage type and its range; returns the type, the least and the greatest stored value."""
    storage = _parse_type(parser)
    least, greatest = default_range(storage)
    if parser.parse_optional_punctuation("<") is None:
        return storage, least, greatest
    low_at = parser.pos
    low = parse_integer(parser)
    expect(parser, ":")
    high_at = parser.pos
    high = parse_integer(parser)
    expect(parser, ">")
    if low < least:
        parser.raise_error(f"illegal storage type minimum: {low}; {storage} begins at {least}", low_at)
    if high > greatest:
        parser.raise_error(f"illegal storage type maximum: {high}; {storage} ends at {greatest}", high_at)
    return storage, low, high


def _parse_type(parser: AttrParser) -> IntegerType | StoredFloat:
    start = parser.pos
    word = parser.parse_optional_identifier()
    if word in _FLOATS:
        return _FLOATS[word]
    match = _INTEGER.fullmatch(word or "")
    if match is None:
        parser.raise_error(
            f"illegal storage type prefix: need i, u, si or ui and a width, or one of {', '.join(_FLOATS)}, "
            f"got {word!r}",
            start,
        )
    digits = match[2][:_DIGITS]  # these digits suffice to see that the width is too large
    bits = int(digits)
    if bits > 1 << 24:
        parser.raise_error(f"invalid integer width: {digits}", start)
    if not 1 <= bits <= MAX_STORAGE_BITS:
        parser.raise_error(f"illegal storage type size: {bits}; need 1 to {MAX_STORAGE_BITS} bits", start)
    return IntegerType(bits, Signedness.UNSIGNED if match[1] in ("u", "ui") else Signedness.SIGNLESS)
