"""Unary and binary functions in integer arithmetic as runtimes compute them, in numpy, to fill lookup tables.

Each function takes the operation, the elements minus their zero point (int64) and a rounding contract
(numerics/fixed_point.py). It returns the stored results minus their zero point, not clamped. It returns None if the
runtime does not accept the operation's scales.
"""

import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from qmlir.dialects import nn
from qmlir.dialects.nn.elementwise import FunctionOp, OperandPairOp
from qmlir.dialects.nn.quantizable import uniform
from qmlir.errors import UnsupportedError
from qmlir.ir.interfaces import Array
from qmlir.numerics import fixed_point
from qmlir.numerics.elementary import gemmlowp
from qmlir.numerics.elementary.lanes import Lanes

Way: TypeAlias = Callable[..., Array | None]

_MOST = (1 << 15) - 1


def _scales(op: FunctionOp) -> tuple[np.float32, np.float32]:
    return np.float32(uniform(op.x).scale), np.float32(uniform(op.y).scale)


def _scaled(values: Array, factor: np.floating[Any], contract: str) -> Array:
    """Multiplies by a factor and rounds by the contract; of a negative factor, the result's sign is turned."""
    if factor < 0:
        return -_scaled(values, -factor, contract)
    return fixed_point.requantize(values, *fixed_point.quantize_multiplier(float(factor)), contract)


def _magnitude(op: nn.AbsOp, x: Array, contract: str) -> Array:
    data, result = _scales(op)
    return np.abs(x) if data == result else _scaled(np.abs(x), data / result, contract)


def _negative(op: nn.NegOp, x: Array, contract: str) -> Array:
    """−q of the stored integers q, regardless of scale and zero point; the least q wraps around to itself."""
    q = x + uniform(op.x).zero_point
    return np.where(q == uniform(op.x).storage_min, q, -q) - uniform(op.y).zero_point


def _leaky(op: nn.LeakyReluOp, x: Array, contract: str) -> Array:
    """Leaky ReLU with one factor for each sign of x."""
    data, result = _scales(op)
    slope = np.float32(op.alpha.value.data)
    return np.where(x >= 0, _scaled(x, data / result, contract), _scaled(x, data * slope / result, contract))


def _turned_leaky(op: nn.LeakyReluOp, x: Array, contract: str) -> Array:
    """Leaky ReLU that turns the sign of x, not of the result, where its slope is negative; halves round otherwise."""
    data, result = _scales(op)
    slope = np.float32(op.alpha.value.data)
    turned = -x if slope < 0 else x
    return np.where(x >= 0, _scaled(x, data / result, contract), _scaled(turned, data * abs(slope) / result, contract))


def _short_leaky(op: nn.LeakyReluOp, x: Array, contract: str) -> Array:
    """Leaky ReLU with factors of 8 fractional bits, rounded half up; `_leaky` if a factor does not fit 16 bits."""
    data, result = _scales(op)
    above = data / result
    below = above * np.float32(op.alpha.value.data)
    if not 2.0**-8 <= above <= 2.0**7 or not -(2.0**7) < below <= 2.0**7 or abs(below) < 2.0**-8:
        return _leaky(op, x, contract)
    positive, negative = (round(256 * float(factor)) for factor in (above, below))
    return np.where(x >= 0, x * positive, x * negative) + 128 >> 8


# Sigmoid and tanh in 16 bits: linear interpolation between 256 values of the sigmoid, whose arguments are 1/24 apart.


def _sigmoid_values() -> Array:
    """65536 · sigmoid(i / 24) for i in [0, 256), each raised by half of the interpolation error behind it.

    The error is how far the line to the next value lies below the sigmoid in the middle between the two.
    """

    def sigmoid(i: Array) -> Array:
        return 65536 / (1 + np.exp(-i / 24))

    i = np.arange(256.0)
    sagging = sigmoid(i + 0.5) - (sigmoid(i) + sigmoid(i + 1)) / 2
    values = np.rint(sigmoid(i) + sagging / 2).astype(np.int64)
    values[-1] = (1 << 16) - 1
    return values


_SIGMOID = _sigmoid_values()


_SNAPPED: Mapping[type[FunctionOp], tuple[int, ...]] = {nn.SigmoidOp: (-12,), nn.TanhOp: (-12, -11)}
"""Exponents e: a scale that lies within 0.07 % of 2^e is treated as 2^e."""


def _in_table_steps(op: FunctionOp, x: Array) -> Array:
    """The argument in steps of 1 / (3 · 4096): multiplied by a multiplier of 15 bits, which is truncated."""
    scale = np.float32(uniform(op.x).scale)
    logarithm = np.log(scale) * (np.float32(1) / np.log(np.float32(2)))
    exponent = int(np.rint(logarithm))
    if exponent in _SNAPPED[type(op)] and abs(logarithm - np.float32(exponent)) < np.float32(1e-3):
        return x * (3 << exponent + 12)
    factor, bits = float(scale) * 3 * 4096, 0
    if factor >= 1 << 31:
        raise UnsupportedError("needs a scale whose 12288-fold 31 bits hold", f"{scale:g}", "follow other numerics")
    while factor <= 32767 / 2 and bits <= 30:
        factor, bits = 2 * factor, bits + 1
    return x * int(factor) + ((1 << bits) >> 1) >> bits


def _on_lines(steps: Array, bits: int) -> tuple[Array, Array]:
    """Interpolates the sigmoid at magnitudes, given in steps of which 2^bits lie between two table values.

    Returns:
        2^bits · 65536 · sigmoid, and whether each magnitude lies beyond the table.
    """
    place = np.minimum(steps >> bits, len(_SIGMOID) - 2)
    base = _SIGMOID[place]
    line = (base << bits) + (steps & (1 << bits) - 1) * (_SIGMOID[place + 1] - base)
    return line, steps >> bits >= len(_SIGMOID) - 1


def _sigmoid(op: nn.SigmoidOp, x: Array, contract: str) -> Array:
    steps = _in_table_steps(op, x)
    line, beyond = _on_lines(np.abs(steps), 9)
    line = np.where(beyond, _MOST << 10, line)
    return np.where(steps >= 0, line + (1 << 9), (1 << 25) - line + (1 << 9) - 1) >> 10


def _tanh(op: nn.TanhOp, x: Array, contract: str) -> Array:
    steps = _in_table_steps(op, x)
    line, beyond = _on_lines(np.abs(steps), 8)
    line = np.where(beyond, ((1 << 16) - 1) << 8, line)
    return np.where(steps >= 0, line - (1 << 23) + (1 << 7), (1 << 23) - line + (1 << 7) - 1) >> 8


# Sigmoid and tanh of numbers of 16 bits that are fractions, in gemmlowp's arithmetic.


def _fraction_function(function: Callable[[Lanes, int, int], Lanes]) -> Way:
    """Makes the way of a function with results in Q(0); it takes data of 16 bits with a scale from 2^−15 to 2^−9."""

    @cache  # a recurrent layer has the same functions in each of its steps
    def values_of(integer_bits: int) -> Array:
        return function(Lanes(np.arange(-_MOST - 1, _MOST + 1)), integer_bits, gemmlowp.HALF_WORD).array

    def values(op: FunctionOp, x: Array, contract: str) -> Array | None:
        fraction, exponent = math.frexp(uniform(op.x).scale)
        integer_bits = gemmlowp.HALF_WORD + exponent - 1
        if fraction != 0.5 or not 0 <= integer_bits <= 6 or uniform(op.y).scale != 2.0**-gemmlowp.HALF_WORD:
            return None
        return None if uniform(op.x).zero_point else values_of(integer_bits)

    return values


GEMMLOWP: Mapping[type[FunctionOp], Way] = {
    nn.SigmoidOp: _fraction_function(gemmlowp.logistic),
    nn.TanhOp: _fraction_function(gemmlowp.hyperbolic_tangent),
}
"""Unary operation → the function that LiteRT's LSTM computes."""


# Hard swish, in 16 bits.


def _high_half(a: Array, b: int) -> Array:
    """a · b / 2^15, rounded half up, also below zero."""
    return a * b + (1 << 14) >> 15


def _saturated(x: Array) -> Array:
    return np.clip(x, -_MOST - 1, _MOST)


def _half_away(x: Array, bits: int) -> Array:
    """x · 2^−bits, rounded half away from zero."""
    magnitude = np.abs(x) + ((1 << bits) >> 1) >> bits
    return np.sign(x) * magnitude


def _short_multiplier(factor: np.float32) -> tuple[int, int]:
    """A factor as a multiplier of 15 bits and a shift."""
    multiplier, shift = fixed_point.quantize_multiplier(float(factor))
    return min(multiplier + (1 << 15) >> 16, _MOST), shift


def _hard_swish(op: nn.HardSwishOp, x: Array, contract: str) -> Array | None:
    """x · relu6(x + 3) / 6, where relu6(x + 3) / 6 is a 16-bit fraction: (x / 3 + 1) / 2, saturated.

    Returns:
        The results; None if s_x / (128 · s_y) needs a left shift.
    """
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


_ROOT_BITS = 20
"""Fractional bits of an inverse square root."""


def _inverse_root(op: nn.RsqrtOp, x: Array, contract: str) -> Array | None:
    """1 / √x by Newton's method, then multiplied by the factor between the scales.

    For x = 0 the result is the greatest value, and so it is for negative x, where LiteRT stops with an error. The
    factor's divisor √s_x · s_y is rounded to float32 twice.

    Returns:
        The results; None if the factor is 2^20 or more.
    """
    data, result = _scales(op)
    factor = 1 / float(np.sqrt(data) * result)
    if factor >= 2.0**_ROOT_BITS:
        return None
    root, shift = gemmlowp.inverse_root(Lanes(np.maximum(x, 1)))
    fine = gemmlowp.product(root.same(1) << _ROOT_BITS - shift, root).array
    return np.where(x > 0, _scaled(fine, np.float64(factor * 2.0**-_ROOT_BITS), contract), 1 << _ROOT_BITS)


FIXED_POINT: Mapping[type[FunctionOp], Way] = {
    nn.AbsOp: _magnitude,
    nn.NegOp: _negative,
    nn.LeakyReluOp: _leaky,
    nn.HardSwishOp: _hard_swish,
    nn.SigmoidOp: _sigmoid,
    nn.TanhOp: _tanh,
    nn.RsqrtOp: _inverse_root,
}
"""Unary operation → the function that LiteRT's kernel computes."""

TURNED: Mapping[type[FunctionOp], Way] = {nn.LeakyReluOp: _turned_leaky}
"""Unary operation → the function that LiteRT's optimized kernel of 16 bits computes."""

SHORT: Mapping[type[FunctionOp], Way] = {nn.LeakyReluOp: _short_leaky}
"""Unary operation → the function that XNNPACK's kernel computes, with factors of 8 fractional bits."""


# Functions of two elements.


def _leaky_by_tensor(op: nn.PReluOp, x: Array, slope: Array, contract: str) -> Array:
    """PReLU: one factor for x where x ≥ 0, another factor for x · slope elsewhere."""
    data, slopes, result = (np.float32(uniform(v).scale) for v in (op.lhs, op.rhs, op.y))
    return np.where(x >= 0, _scaled(x, data / result, contract), _scaled(x * slope, data * slopes / result, contract))


def _squared_difference(op: nn.SquaredDifferenceOp, x: Array, y: Array, contract: str) -> Array:
    """(x − y)²: both operands are brought to one scale, and the square of their difference to the result's scale.

    The common scale is twice the greater operand scale, after a left shift of both operands by 7 bits.
    """
    lhs, rhs, result = (float(np.float32(uniform(v).scale)) for v in (op.lhs, op.rhs, op.y))
    twice, left = 2 * max(lhs, rhs), 7
    scaled = (_scaled(z << left, np.float64(scale / twice), contract) for z, scale in ((x, lhs), (y, rhs)))
    return _scaled(np.subtract(*scaled) ** 2, np.float64(twice * twice / ((1 << 2 * left) * result)), contract)


def _quotient(op: nn.DivOp, x: Array, y: Array, contract: str) -> Array:
    """x / y, multiplied by the factor between the scales."""
    lhs, rhs, result = (np.float32(uniform(v).scale) for v in (op.lhs, op.rhs, op.y))
    multiplier, shift = fixed_point.quantize_multiplier(float(lhs / (rhs * result)))
    return gemmlowp.quotient(Lanes(x), Lanes(y), multiplier, shift, wraps=True).array


FIXED_POINT_PAIRS: Mapping[type[OperandPairOp], Callable[..., Array]] = {
    nn.PReluOp: _leaky_by_tensor,
    nn.SquaredDifferenceOp: _squared_difference,
    nn.DivOp: _quotient,
}
"""Binary operation → the function that LiteRT's kernel computes."""
