"""Floats of 16 bits: the formats float16 and bfloat16, and how float32 is rounded to them.

Rounding is stated on the bits of a float32, so that it depends on no processor and no version of numpy:

    finite      the nearest number of the format, ties to the one whose last bit is 0
    too large   ±∞ from the middle between the largest number and the next power of two on
    ±∞          ±∞
    NaN         the quiet NaN without payload; its sign, kept here, is open: machine code may yield the other
    subnormal   numbers below the least normal number are rounded to multiples of the least number, as all others
"""

from dataclasses import dataclass
from typing import Any, Literal

import ml_dtypes
import numpy as np
import numpy.typing as npt

from qmlir.numerics import Array, Float32s

HalfPrecision = Literal["float16", "bfloat16"]

Uint32s = npt.NDArray[np.uint32]

_FRACTION = 23
"""The bits of float32's fraction."""

_BIAS = 127
"""The bias of float32's exponent."""


@dataclass(frozen=True)
class HalfFormat:
    """A float format of 16 bits: a sign, an exponent of 15 − `fraction` bits, and a fraction.

    dtype     the numpy dtype of its arrays
    fraction  the bits of the fraction
    bias      the bias of the exponent
    """

    dtype: np.dtype[Any]
    fraction: int
    bias: int

    @property
    def infinity(self) -> int:
        """The bits of ∞: an exponent of ones, and no fraction."""
        return 0x7FFF >> self.fraction << self.fraction

    @property
    def nan(self) -> int:
        """The bits of NaN: those of ∞, and the first bit of the fraction."""
        return self.infinity | 1 << self.fraction - 1

    def rounded(self, x: Float32s) -> Array:
        """Rounds float32 numbers to the format, by the rules at the head of this module."""
        bits = np.ascontiguousarray(x, np.float32).view(np.uint32).reshape(np.shape(x))
        magnitude = bits & np.uint32(0x7FFF_FFFF)
        found = np.minimum(self._normal(magnitude), np.uint32(self.infinity))
        if self.bias != _BIAS:
            found = np.where(magnitude < (1 + _BIAS - self.bias) << _FRACTION, self._subnormal(magnitude), found)
        found = np.where(magnitude > 0xFF << _FRACTION, np.uint32(self.nan), found)
        return (found | bits >> 16 & 0x8000).astype(np.uint16).view(self.dtype)

    def _normal(self, magnitude: Uint32s) -> Uint32s:
        """The bits of numbers from the least normal number on; a carry goes from the fraction into the exponent."""
        dropped = _FRACTION - self.fraction
        kept = magnitude - np.uint32((_BIAS - self.bias) << _FRACTION)
        last = kept >> np.uint32(dropped) & np.uint32(1)
        return (kept + np.uint32((1 << dropped - 1) - 1) + last) >> np.uint32(dropped)

    def _subnormal(self, magnitude: Uint32s) -> Uint32s:
        """The bits of numbers below the least normal number: how many times the format's least number they are."""
        least_normal = np.float32(2.0 ** (1 - self.bias))
        small = np.fmin(magnitude.view(np.float32), least_normal)  # the rest, NaN included, is not used
        return np.rint(small * np.float32(2.0 ** (self.bias + self.fraction - 1))).astype(np.uint32)


HALVES: dict[HalfPrecision, HalfFormat] = {
    "float16": HalfFormat(np.dtype(np.float16), fraction=10, bias=15),
    "bfloat16": HalfFormat(np.dtype(ml_dtypes.bfloat16), fraction=7, bias=127),
}
"""The formats by the names of their dtypes: IEEE 754's binary16, and float32 without its last 16 bits."""

HALF_FORMATS: dict[np.dtype[Any], HalfFormat] = {format.dtype: format for format in HALVES.values()}
"""The formats by their dtypes."""


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether a dtype holds floats of 16 bits or more; numpy does not count bfloat16 among its floats."""
    return dtype.kind == "f" or dtype in HALF_FORMATS
