"""Floats as MLIR prints them: digit for digit what upstream writes, and exact when read back.

Upstream prints a float in the first of three forms that gives the same float again: six significant digits
(`1.000000e-01`), as many digits as the format needs without trailing zeros (`0.0039215686274509803`, or
`3.9215686274509803E-6` below 0.001), and the bits in hexadecimal where those digits have no point.

The digits come from LLVM's own conversion. It first cuts the exact value to little more than the wanted digits, then
rounds half up, so the last digit is not always the nearest one and Python's formatting cannot stand in: 0.998 cut to
six digits is 0.997999, which is another number, and prints as `0.998`.
"""

import math
import struct
from dataclasses import dataclass

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatNanEncoding,
    FloatNonfiniteBehavior,
    ReducedPrecisionFloatType,
)
from xdsl.ir import Attribute

SHORT_DIGITS = 6
MAX_PADDING = 3
"""Zeros next to the point up to which a number is written out and not in scientific form."""


@dataclass(frozen=True)
class FloatFormat:
    """What a float type can hold.

    precision  bits of the significand, the hidden one among them
    lowest     exponent of the smallest positive value, 2 ** lowest
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
        """The nearest value the format holds, half to even; `value` is finite."""
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
    """What a float type holds; None for f80 and f128, which hold more than a Python float does, and for other types."""
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
        top, fraction = (top, fraction - 1) if mantissa else (top - 1, 0)  # the very last one is NaN
    return FloatFormat(mantissa + 1, lowest, math.ldexp((1 << mantissa) + fraction, top - bias - mantissa))


def float_text(value: float, format: FloatFormat = F64) -> str:
    """A float as upstream prints one of that format.

    Where upstream falls back on the bits, these are always the 64 of the value: upstream writes a narrower format's
    own bits, which it then reads back as another number.
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
    """Up to `most` decimal digits of a positive value, without trailing zeros, and the power of ten of the last one."""
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
