"""Prints floats as MLIR does: the same digits as upstream, and the exact value when parsed again.

Upstream prints a float in the first of three forms that parses to the same float: six significant digits
(`1.000000e-01`); as many digits as the format needs, without trailing zeros (`0.0039215686274509803`, or
`3.9215686274509803E-6` below 0.001); or its bits in hexadecimal, if those digits have no decimal point.

The digits follow LLVM's conversion. It first truncates the exact value to slightly more than the wanted digits, then
rounds half up. The last digit is therefore not always the nearest one, and Python's formatting cannot replace it: 0.998
becomes 0.997999 in six digits, which is another number, and prints as `0.998`.
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
