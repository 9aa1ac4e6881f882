"""Functions of one element in integers, as runtimes compute them: their tables are made with numpy.

Each takes the operation, elements minus their zero point (int64) and a contract (dialects/quant/numerics.py), and
returns stored results without their zero point, not clamped; None where the runtime does not take such scales.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from qmlir.dialects import nn
from qmlir.dialects.interfaces import Array
from qmlir.dialects.nn.pointwise import FunctionOp
from qmlir.dialects.quant import numerics
from qmlir.legality import uniform

Way: TypeAlias = Callable[..., Array | None]


def _scales(op: FunctionOp) -> tuple[np.float32, np.float32]:
    return np.float32(uniform(op.x).scale), np.float32(uniform(op.y).scale)


def _scaled(values: Array, factor: np.floating[Any], contract: str) -> Array:
    """A product with a factor of either sign."""
    if factor < 0:
        return _scaled(-values, -factor, contract)
    return numerics.requantize(values, *numerics.quantize_multiplier(float(factor)), contract)


def _magnitude(op: nn.AbsOp, x: Array, contract: str) -> Array:
    data, result = _scales(op)
    return np.abs(x) if data == result else _scaled(np.abs(x), data / result, contract)


def _negative(op: nn.NegOp, x: Array, contract: str) -> Array:
    """−x; of the least integer itself, as it wraps around."""
    return np.where(x == -(1 << uniform(op.x).storage_width - 1), x, -x)


def _leaky(op: nn.LeakyReluOp, x: Array, contract: str) -> Array:
    """One factor for each sign."""
    data, result = _scales(op)
    slope = np.float32(op.alpha.value.data)
    return np.where(x >= 0, _scaled(x, data / result, contract), _scaled(x, data * slope / result, contract))


def _short_leaky(op: nn.LeakyReluOp, x: Array, contract: str) -> Array:
    """Factors of 8 bits behind the point, half up; where they do not fit 16 bits as `_leaky`."""
    data, result = _scales(op)
    above = data / result
    below = above * np.float32(op.alpha.value.data)
    if not 2.0**-8 <= above <= 2.0**7 or not -(2.0**7) < below <= 2.0**7 or abs(below) < 2.0**-8:
        return _leaky(op, x, contract)
    positive, negative = (round(256 * float(factor)) for factor in (above, below))
    return np.where(x >= 0, x * positive, x * negative) + 128 >> 8


# Hard swish, in 16 bits.

_MOST = (1 << 15) - 1


def _high_half(a: Array, b: int) -> Array:
    """a · b / 2^15, half up, also below zero."""
    return a * b + (1 << 14) >> 15


def _saturated(x: Array) -> Array:
    return np.clip(x, -_MOST - 1, _MOST)


def _half_away(x: Array, bits: int) -> Array:
    """x · 2^−bits, half away from zero."""
    magnitude = np.abs(x) + ((1 << bits) >> 1) >> bits
    return np.sign(x) * magnitude


def _short_multiplier(factor: np.float32) -> tuple[int, int]:
    """A factor's multiplier with 15 bits, and its shift."""
    multiplier, shift = numerics.quantize_multiplier(float(factor))
    return min(multiplier + (1 << 15) >> 16, _MOST), shift


def _hard_swish(op: nn.HardSwishOp, x: Array, contract: str) -> Array | None:
    """x · relu6(x + 3) / 6: the second factor as a 16-bit fraction of (x / 3 + 1) / 2."""
    data, result = _scales(op)
    fine = np.float32(1 / 128) * data
    (multiplier, shift), (slope, slope_shift) = map(_short_multiplier, (fine / result, fine / np.float32(3 / 32768)))
    if shift > 0:
        return None
    wide = x << 7
    scaled, third = _high_half(wide, multiplier), wide
    if slope_shift > 0:
        third = _saturated(third << slope_shift - 1)
    third = _high_half(third, slope)
    third = _saturated(third << 1) if slope_shift > 0 else _half_away(third, -slope_shift)
    product = scaled * (third + (1 << 15) >> 1)
    return _half_away(np.sign(product) * (np.abs(product) >> 15), -shift)


FIXED_POINT: Mapping[type[FunctionOp], Way] = {
    nn.AbsOp: _magnitude,
    nn.NegOp: _negative,
    nn.LeakyReluOp: _leaky,
    nn.HardSwishOp: _hard_swish,
}
"""What LiteRT's kernels compute."""

SHORT: Mapping[type[FunctionOp], Way] = {nn.LeakyReluOp: _short_leaky}
"""What XNNPACK computes."""
