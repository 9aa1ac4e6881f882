"""What Glow computes besides parameters of ranges: those of biases, and its change of scale. numpy only.

Reproduced to the last bit, in float32 where Glow computes in it; qmlir's own rules differ (a bias counts in the
accumulator's steps, a change of scale has 31 bits), so these serve whoever compares with Glow or goes on from it.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qmlir.dialects.quant.schemas import RANGES, Schema, StoredPrecision, quantization_of_range

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class BiasParameters:
    """The parameters of a bias, and of the weights beside it where they had to give way."""

    scale: float
    zero_point: int
    weight_scale: float


def bias_parameters(
    scale: float,
    zero_point: int,
    input_scale: float,
    weight_scale: float,
    precision: StoredPrecision,
    *,
    is_zero: bool = False,
    per_channel: bool = False,
) -> BiasParameters:
    """Glow's parameters of a bias: s_x·s_w where its values fit that, its own scale where they would saturate.

    An int32 bias has the zero point 0. Per channel an int32 bias always counts in steps of s_x·s_w: where its own
    scale is larger, the weights' grows until the product is that.

    Args:
        scale: The scale that the range of the bias asks for.
        zero_point: The zero point likewise.
        input_scale: s_x, a float32 number as all scales here.
        weight_scale: s_w.
        precision: The stored integers.
        is_zero: Whether the bias is 0 everywhere: then any scale fits.
        per_channel: Whether the weights have a scale for each channel, and this is one of them.
    """
    own, data, weight = np.float32(scale), np.float32(input_scale), np.float32(weight_scale)
    point = 0 if precision == "int32" else zero_point
    product = data * weight
    if product > own or is_zero:
        return BiasParameters(float(product), point, weight_scale)
    if per_channel and precision == "int32":
        weight = own / data
        return BiasParameters(float(data * weight), point, float(weight))
    return BiasParameters(scale, point, weight_scale)


@dataclass(frozen=True)
class StoredBias:
    """A bias in integers: one scale and one zero point, or as many as it has elements."""

    integers: npt.NDArray[np.int64]
    scales: list[float]
    zero_points: list[int]


def stored_bias(
    bias: Array,
    schema: Schema,
    precision: StoredPrecision,
    input_scale: float,
    weight_scales: list[float],
    *,
    per_channel: bool,
) -> StoredBias:
    """What Glow stores of a bias: by the range of all of it, or of each element beside weights per channel.

    Weights per channel are symmetric whatever the schema, and so are the biases beside them, but for
    symmetric_with_uint8.
    """
    if per_channel and schema == "asymmetric":
        schema = "symmetric"
    parts = bias.reshape(-1, 1) if per_channel else bias.reshape(1, -1)
    found: list[BiasParameters] = []
    for part, weight_scale in zip(parts, weight_scales, strict=True):
        own = quantization_of_range(float(part.min()), float(part.max()), schema, precision, glow_exact=True)
        is_zero = not part.any()
        found.append(
            bias_parameters(*own, input_scale, weight_scale, precision, is_zero=is_zero, per_channel=per_channel)
        )
    scales, points = [f.scale for f in found], [f.zero_point for f in found]
    return StoredBias(quantize(bias, scales, points, precision), scales, points)


def quantize(
    x: Array, scale: npt.ArrayLike, zero_point: npt.ArrayLike, precision: StoredPrecision
) -> npt.NDArray[np.int64]:
    """clamp(rint(x / S + Z)): in float32, and the zero point is added before rounding, half to even."""
    steps = x.astype(np.float32) / np.asarray(scale, np.float32) + np.asarray(zero_point, np.float32)
    return np.clip(np.rint(steps), *RANGES[precision]).astype(np.int64)


@dataclass(frozen=True)
class Requantization:
    """y = ((x >> pre)·multiplier + (1 << (post − 1))) >> post, plus the zero point."""

    pre: int
    post: int
    multiplier: int
    zero_point: int


def requantization(scale: float, zero_point: int) -> Requantization:
    """Glow's change of scale of 32-bit integers to 8 bits, in 32-bit arithmetic.

    Powers of two are shifts. Any other factor is scaled up until it has about eight bits before the point: first
    against the shift after the product, then against one before it, which drops low bits of the integer.

    Args:
        scale: The factor, a float32 number > 0.
        zero_point: Of the result.
    """
    fraction, exponent = math.frexp(scale)
    if fraction == 0.5:
        exponent -= 1
        return Requantization(0, max(-exponent, 0), 1 << max(exponent, 0), zero_point)
    factor, pre, post = np.float32(scale), 0, 0
    while factor < 0.5 or (factor < 256 and post < 15):
        factor, post = factor * np.float32(2), post + 1
    while factor < 255 and pre < post // 2:
        factor, pre = factor * np.float32(2), pre + 1
    return Requantization(pre, post, math.floor(float(factor) + 0.5), zero_point)
