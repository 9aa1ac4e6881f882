"""Conversion of floats of 16 bits and fewer, with integer operations and exact f64 arithmetic.

Buffers hold the bits of these floats as integers (kernel.py): i16 for f16 and bf16, i8 for all narrower floats. The
results are the same on every processor.
"""

import math
from dataclasses import dataclass

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float4E2M1FNType,
    Float8E4M3FNType,
    Float8E4M3FNUZType,
    Float8E5M2FNUZType,
    Float8E5M2Type,
    Float16Type,
    f32,
    f64,
    i16,
    i32,
    i64,
)
from xdsl.ir import Attribute

from qmlir.codegen.value import Value
from qmlir.numerics.elementary.exponential import EXPONENT_BIAS, FRACTION_BITS


@dataclass(frozen=True)
class NarrowFloat:
    """A binary float format with a sign, an exponent and a fraction.

    width       the width in bits
    fraction    the bits of the fraction
    bias        the bias of the exponent
    largest     the largest finite number
    infinity    the bits of ∞; None if the format has no infinity
    nan         the bits of NaN, None if the format has no NaN; if only the sign bit is set, the format has no −0
    """

    width: int
    fraction: int
    bias: int
    largest: float
    infinity: int | None
    nan: int | None

    @property
    def sign(self) -> int:
        """The integer in which only the sign bit is set."""
        return 1 << self.width - 1

    @property
    def _rebiased(self) -> int:
        """The difference between the exponent biases of f64 and this format, shifted to f64's exponent field."""
        return (EXPONENT_BIAS - self.bias) << FRACTION_BITS

    def decoded(self, x: Value) -> Value:
        """Decodes a buffer's integer to the f64 number of the same value."""
        bits = x.to(i64) & (self.sign * 2 - 1)
        magnitude = bits & (self.sign - 1)
        normal = ((magnitude << FRACTION_BITS - self.fraction) + self._rebiased).bits(f64)
        subnormal = magnitude.to(f64) * 2.0 ** (1 - self.bias - self.fraction)
        number = magnitude.less(1 << self.fraction).choose(subnormal, normal)
        if self.infinity is not None:
            beyond = magnitude.equals(self.infinity).choose(math.inf, number.same(math.nan))
            number = magnitude.less(self.infinity).choose(number, beyond)
        elif self.nan is not None and self.nan < self.sign:
            number = magnitude.equals(self.nan).choose(math.nan, number)
        number = number.with_sign_of((bits << 64 - self.width).bits(f64))
        return bits.equals(self.sign).choose(math.nan, number) if self.nan == self.sign else number

    def encoded(self, x: Value, *, saturate: bool) -> Value:
        """Encodes an f64 as the nearest number of the format, ties to even; returns the bits as an i64.

        Numbers beyond the range become the largest number if `saturate`, else infinity, or NaN if there is no infinity.
        """
        a = x.magnitude()
        bounded = a.minimum_number(self.largest if saturate else 4 * self.largest)
        # The result's last bit lies `fraction` bits below the leading bit, but not below the last bit of subnormals.
        leading = ((bounded.bits(i64) >> FRACTION_BITS) - EXPONENT_BIAS).maximum(1 - self.bias)
        scale = ((leading + (EXPONENT_BIAS - self.fraction)) << FRACTION_BITS).bits(f64)
        rounded = (bounded / scale).round_even() * scale
        normal = (rounded.bits(i64) - self._rebiased) >> FRACTION_BITS - self.fraction
        subnormal = (rounded * 2.0 ** (self.bias + self.fraction - 1)).to(i64)
        bits = rounded.less(2.0 ** (1 - self.bias)).choose(subnormal, normal)
        beyond = self.infinity if self.infinity is not None else self.nan
        if beyond is not None:
            bits = rounded.less_equal(self.largest).choose(bits, bits.same(beyond))
        sign = (x.bits(i64) >> 64 - self.width) & self.sign
        if self.nan == self.sign:
            bits = bits.equals(0).choose(0, bits | sign)
        else:
            bits = bits | sign
        if self.nan is not None:
            bits = x.is_nan().choose(self.nan, bits)
        else:
            bits = x.is_nan().choose(self.sign, bits)  # a format without NaN gets −0
        return bits


FORMATS: dict[type[Attribute], NarrowFloat] = {
    Float16Type: NarrowFloat(16, 10, 15, 65504.0, 0x7C00, 0x7E00),
    Float8E4M3FNType: NarrowFloat(8, 3, 7, 448.0, None, 0x7F),
    Float8E4M3FNUZType: NarrowFloat(8, 3, 8, 240.0, None, 0x80),
    Float8E5M2Type: NarrowFloat(8, 2, 15, 57344.0, 0x7C, 0x7E),
    Float8E5M2FNUZType: NarrowFloat(8, 2, 16, 57344.0, None, 0x80),
    Float4E2M1FNType: NarrowFloat(4, 1, 1, 6.0, None, None),
}


def from_narrow(x: Value, element: Attribute) -> Value:
    """Decodes a buffer's integer to a number: bf16 to f32, all other formats to f64."""
    if isinstance(element, BFloat16Type):
        return (x.to(i32) << 16).bits(f32)
    return FORMATS[type(element)].decoded(x)


def to_narrow(x: Value, element: Attribute, stored: Attribute, *, saturate: bool) -> Value:
    """Encodes a float as a buffer's integer: f16 is rounded from f64 directly, all other formats from f32."""
    if isinstance(element, BFloat16Type):
        return _to_bfloat(x.to(f32))
    if isinstance(element, Float16Type):
        return FORMATS[Float16Type].encoded(x.to(f64), saturate=False).to(stored)
    format = FORMATS[type(element)]
    return format.encoded(x.to(f32).to(f64), saturate=saturate or format.nan is None).to(stored)


def _to_bfloat(x: Value) -> Value:
    """Encodes an f32 as the nearest bf16, ties to even; returns the bits as an i16."""
    bits = x.bits(i32)
    rounded = bits + 0x7FFF + ((bits >> 16) & 1)
    quiet = (bits & -0x80000000) | 0x7FC00000
    return (x.is_nan().choose(quiet, rounded) >> 16).to(i16)
