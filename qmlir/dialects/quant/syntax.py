"""The text of quantized types: how their parts are written and read, exactly as upstream has it.

`types.py` puts the parts together; what a wrong text gets is an error at its place.
"""

import re
import struct
from typing import Any, cast

from xdsl.dialects.builtin import IntegerType, Signedness
from xdsl.parser import AttrParser

MAX_STORAGE_BITS = 32

_STORAGE = re.compile(r"(si|ui|i|u)([0-9]+)")


def default_range(storage: IntegerType) -> tuple[int, int]:
    """The range of a storage type when none is written: all its values."""
    bits = storage.width.data
    if storage.signedness.data == Signedness.UNSIGNED:
        return 0, (1 << bits) - 1
    return -(1 << bits - 1), (1 << bits - 1) - 1


def scale_text(scale: float) -> str:
    """A float64 as upstream prints it, exact when read back.

    Seven significant digits where they are exact (`1.000000e-01`), else 17 without trailing zeros: positional from
    0.001 on (`0.0039215686274509803`), scientific below (`3.9215686274509803E-6`) and for integers with more than 17
    digits or three trailing zeros, and the bits in hexadecimal for the other integers, which have no decimal point.
    """
    short = f"{scale:.6e}"
    if float(short) == scale:
        return short
    mantissa, _, exponent_text = f"{scale:.16e}".partition("e")
    digits = mantissa.replace(".", "").rstrip("0")
    exponent = int(exponent_text)  # of the first digit
    trailing = exponent - (len(digits) - 1)  # of the last digit
    if trailing > 3 or (trailing >= 0 and len(digits) + trailing > 17) or exponent < -3:
        return f"{digits[0]}.{digits[1:] or '0'}E{exponent:+d}"
    if trailing >= 0:
        return f"0x{struct.unpack('>Q', struct.pack('>d', scale))[0]:X}"
    if exponent >= 0:
        return f"{digits[: exponent + 1]}.{digits[exponent + 1 :]}"
    return f"0.{'0' * (-exponent - 1)}{digits}"


def pair_text(scale: float, zero_point: int) -> str:
    """A scale, and its zero point where that is not 0."""
    return f"{scale_text(scale)}:{zero_point}" if zero_point else scale_text(scale)


def expect(parser: AttrParser, punctuation: Any) -> None:
    """Reads a punctuation that must be there."""
    if parser.parse_optional_punctuation(punctuation) is None:
        parser.raise_error(f"expected '{punctuation}'")


def parse_storage(parser: AttrParser) -> IntegerType:
    """`i8`, `u8`; `si8` and `ui8` mean the same."""
    start = parser.pos
    word = parser.parse_optional_identifier()
    match = _STORAGE.fullmatch(word or "")
    if word is not None and re.match(r"b?f[0-9]", word):
        parser.raise_error(f"float storage type {word} is not supported; need an integer such as i8 or u8", start)
    if match is None:
        parser.raise_error(f"illegal storage type prefix: need i, u, si or ui and a width, got {word!r}", start)
    bits = int(match[2])
    if bits > 1 << 24:
        parser.raise_error(f"invalid integer width: {bits}", start)
    if not 1 <= bits <= MAX_STORAGE_BITS:
        parser.raise_error(f"illegal storage type size: {bits}; need 1 to {MAX_STORAGE_BITS} bits", start)
    return IntegerType(bits, Signedness.UNSIGNED if match[1] in ("u", "ui") else Signedness.SIGNLESS)


def parse_range(parser: AttrParser, storage: IntegerType) -> tuple[int, int]:
    """The optional `<-127:127>` behind the storage type."""
    least, greatest = default_range(storage)
    if parser.parse_optional_punctuation("<") is None:
        return least, greatest
    low_at = parser.pos
    low = _parse_integer(parser)
    expect(parser, ":")
    high_at = parser.pos
    high = _parse_integer(parser)
    expect(parser, ">")
    if low < least:
        parser.raise_error(f"illegal storage type minimum: {low}; {storage} begins at {least}", low_at)
    if high > greatest:
        parser.raise_error(f"illegal storage type maximum: {high}; {storage} ends at {greatest}", high_at)
    return low, high


def parse_axis(parser: AttrParser) -> int | None:
    """The optional `:axis` behind the expressed type."""
    if parser.parse_optional_punctuation(":") is None:
        return None
    start = parser.pos
    if parser.parse_optional_punctuation("{") is not None:
        parser.raise_error(
            "sub-channel quantization is not supported; need one scale, or one for each index of one axis", start
        )
    axis = _parse_integer(parser)
    if axis < 0:
        parser.raise_error(f"illegal quantized dimension: {axis}", start)
    return axis


def parse_pair(parser: AttrParser) -> tuple[float, int]:
    """`scale` or `scale:zero_point`."""
    scale = _parse_scale(parser)
    zero_point = 0
    if parser.parse_optional_punctuation(":") is not None:
        start = parser.pos
        zero_point = _parse_integer(parser)
        if not -(1 << 63) <= zero_point < 1 << 63:
            parser.raise_error(f"integer value too large: {zero_point}", start)
    return scale, zero_point


def _parse_scale(parser: AttrParser) -> float:
    """A float literal, or 16 hexadecimal digits that are the bits of one; a plain integer is no scale."""
    start = parser.pos
    value = parser.parse_optional_float()
    if value is not None:
        return value
    bits = parser.parse_optional_integer(allow_boolean=False, allow_negative=False)
    text = cast(str, parser.lexer.input.slice(start, start + 2))
    if bits is None or text != "0x" or bits >= 1 << 64:
        parser.raise_error("expected floating point literal", start)
    return struct.unpack(">d", struct.pack(">Q", bits))[0]


def _parse_integer(parser: AttrParser) -> int:
    value = parser.parse_optional_integer(allow_boolean=False)
    if value is None:
        parser.raise_error("expected integer value")
    return value
