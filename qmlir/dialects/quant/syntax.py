"""Printing and parsing of scales and zero points, exactly in upstream MLIR's syntax.

The quantized types assemble these parts. The parsing functions report an error at the position of the wrong text.
"""

import struct
from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Attribute
from xdsl.parser import AttrParser
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.quant.float_text import F64, FloatFormat, float_format, float_text

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
