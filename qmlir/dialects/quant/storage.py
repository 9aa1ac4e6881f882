"""Storage types of quantized values: their widths and ranges, and how they are printed and parsed.

    i8   u8   i4<-7:7>        integers of 1 to 32 bits, signed or unsigned; angle brackets give a narrower range
    f8E5M2  f8E4M3FN  f4E2M1FN    the small floats; the bounds of their range are integers too

`si8` and `ui8` are read as `i8` and `u8`, which is how upstream prints them. A range that covers the whole storage
type is not printed.
"""

import re
from typing import TypeAlias, cast

from xdsl.dialects.builtin import (
    Float4E2M1FNType,
    Float8E4M3FNType,
    Float8E5M2Type,
    IntegerType,
    Signedness,
    f4E2M1FN,
    f8E4M3FN,
    f8E5M2,
)
from xdsl.ir import Attribute
from xdsl.parser import AttrParser
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.quant.syntax import expect, parse_integer

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
