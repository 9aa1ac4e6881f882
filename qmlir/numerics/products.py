"""Sums of products: float32 sums by fused multiply-adds, sums of other types by a product and an addition.

A fused multiply-add rounds x·w + s once. Processors have it as one instruction (FMA of x86, fmla of AArch64), numpy has
not. It is computed here from float64 numbers, and every bit is that of the instruction:

1. A product of two float32 numbers has at most 48 significant bits and lies above 2^-299: it is exact in float64.
2. Let E be the exact x·w + s, S = E rounded to float64, and R = S rounded to float32. Rounding is monotonic, and all
   midpoints between neighbouring float32 numbers are float64 numbers. So if S is not a midpoint, S and E lie on the
   same side of every midpoint, and R is E rounded to float32. (This includes overflow, whose midpoint lies half a step
   above the largest float32, and signs of zeros.)
3. If S is a midpoint, the error E − S decides. It is a float64 number too, and an exact transformation of the sum
   yields it (TwoSum by Knuth). If E = S, the tie is broken to the even number, as it must be. Else S is rounded to odd:
   if its last bit is 0, S is moved by one place toward E. Then its last bit is 1, which no midpoint's is.
4. In the normal range of float32, S is a midpoint if the low 29 bits of its 52-bit fraction are 1 followed by zeros. In
   the subnormal range |S| < 2^-126 other bits tell. But there S = E if no product is smaller than 2^-125 other than 0:
   the sum then cancels, |s| is between half and twice |x·w|, and such a difference is exact (Sterbenz). Hence the
   smallest factors of all products tell beforehand whether the subnormal range needs to be looked at.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np

from qmlir.numerics import Array, Float32s, Float64s

BLOCK = 1 << 15
"""The most sums that are computed at a time, so that the float64 temporaries stay in a second-level cache."""

SPARE = 29
"""Bits of a float64's fraction beyond those of a float32."""

MIDPOINT = np.int64(-(1 << 63))
"""The low `SPARE` bits of a midpoint, shifted to the upper end of an i64."""

SMALLEST_NORMAL = 2.0**-126

Adder = Callable[[Array, Array, Array], bool]
"""Does what `add_products` does for float32, with the same bits; returns False where it does not."""

_adder: ContextVar[Adder | None] = ContextVar("adder", default=None)


@contextmanager
def added_by(adder: Adder) -> Generator[None]:
    """While the context lasts, sums of float32 products are asked of `adder`, such as the processor's instruction."""
    before = _adder.set(adder)
    try:
        yield
    finally:
        _adder.reset(before)


def add_products(total: Array, x: Array, w: Array) -> None:
    """Adds x[k] · w[k] to `total` for k = 0, 1, …, in this order.

    Float32 sums of float32 factors are rounded once for each product. All others are numpy's: sums of other floats, and
    of float32 by stored integers or by float64, whose products have another type, are rounded after the product and
    after the addition; sums of integers wrap around.

    Args:
        total: The sums, changed in place.
        x: Factors [K, …]; each x[k] has the rank of `total`, at least 1, and broadcasts to its shape.
        w: The other factors, likewise.
    """
    if total.size == 0:
        return
    with np.errstate(all="ignore"):
        if not total.dtype == x.dtype == w.dtype == np.float32:
            for a, b in zip(x, w, strict=True):
                total += a * b
            return
        if (adder := _adder.get()) is not None and adder(total, x, w):
            return
        has_tiny = _least(x) * _least(w) < 2 * SMALLEST_NORMAL
        longest = int(np.argmax(total.shape)) - total.ndim
        total, x, w = (np.moveaxis(v, longest, -1) for v in (total, x, w))  # numpy's loops run over the last dimension
        _add_in_blocks(total, x, w, has_tiny)


def _add_in_blocks(total: Float32s, x: Float32s, w: Float32s, has_tiny: bool) -> None:
    """Halves the longest dimension until the sums fit a block."""
    if total.size <= BLOCK:
        _add_to_block(total, x.astype(np.float64, order="C"), w.astype(np.float64, order="C"), has_tiny)
        return
    axis = int(np.argmax(total.shape))
    middle = total.shape[axis] // 2
    for half in (slice(None, middle), slice(middle, None)):
        place = (*(slice(None),) * axis, half)
        a, b = (v if v.shape[axis + 1] == 1 else v[(slice(None), *place)] for v in (x, w))
        _add_in_blocks(total[place], a, b, has_tiny)


def _add_to_block(total: Float32s, x: Float64s, w: Float64s, has_tiny: bool) -> None:
    """Adds the products one after another; `sums` always holds float32 numbers."""
    sums, single = total.astype(np.float64, order="C"), total.copy(order="C")
    exact = np.empty_like(sums)
    bits = exact.view(np.int64)
    low = np.empty_like(bits)
    for a, b in zip(x, w, strict=True):
        np.multiply(a, b, out=exact)
        np.add(exact, sums, out=exact)
        np.left_shift(bits, 64 - SPARE, out=low)
        if low.min() == MIDPOINT:
            _round_to_odd(exact, a, b, sums, low == MIDPOINT)
        if has_tiny:
            _round_to_odd(exact, a, b, sums, np.abs(exact) < SMALLEST_NORMAL)
        np.copyto(single, exact, casting="same_kind")
        np.copyto(sums, single)
    total[...] = single


def _least(x: Float32s) -> float:
    """The smallest magnitude other than 0; at least a NaN's bits if there is none."""
    bits = x.view(np.uint32) << np.uint32(1)  # without the sign, magnitudes are ordered as their bits
    return float(((bits - np.uint32(1)).min(initial=0xFFFFFFFE) + np.uint32(1) >> np.uint32(1)).view(np.float32))


def _round_to_odd(exact: Float64s, a: Float64s, b: Float64s, sums: Float64s, chosen: Array) -> None:
    """Rounds the chosen sums, which are rounded to nearest, to odd: their last bit becomes 1 if they are not exact."""
    place = np.nonzero(chosen)
    s, addend = exact[place], sums[place]
    product = np.broadcast_to(a, exact.shape)[place] * np.broadcast_to(b, exact.shape)[place]
    part = s - product
    error = (product - (s - part)) + (addend - part)
    stays = (error == 0) | (s.view(np.int64) & 1 == 1)
    exact[place] = np.where(stays, s, np.nextafter(s, np.copysign(np.inf, error)))
