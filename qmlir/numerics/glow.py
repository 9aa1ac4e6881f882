"""Glow's quantization parameters of biases, and Glow's requantization. numpy only.

The results equal Glow's bit for bit, in float32 where Glow uses float32. qmlir's own rules differ: a bias is stored in
steps of the accumulator, and a requantization multiplier has 31 bits. This module serves comparisons with Glow and
users who migrate from it. Glow's parameters of ranges are in schemas.py.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qmlir.numerics.schemas import RANGES, Schema, StoredPrecision, quantization_of_range

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class BiasParameters:
    """The scale and zero point of a bias, and the scale of its weights, which Glow may enlarge to fit the bias."""

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
    """Chooses Glow's parameters of a bias: the scale s_x·s_w, or the bias's own scale if it would saturate under that.

    An int32 bias has the zero point 0. With per-channel weights, the scale of an int32 bias is always s_x·s_w: if the
    bias needs a larger scale, the weight scale s_w grows until the product is that scale.

    Args:
        scale: The scale that the range of the bias needs.
        zero_point: The zero point that the range of the bias needs.
        input_scale: s_x, the scale of the input; all scales here are float32 numbers.
        weight_scale: s_w, the scale of the weights.
        precision: The stored integers.
        is_zero: Whether the bias is 0 everywhere: then any scale fits.
        per_channel: Whether `weight_scale` is the scale of one channel of per-channel weights.
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
    """A bias as stored integers, with one scale and zero point, or with a scale and zero point for each element."""

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
    """Quantizes a bias as Glow does: by the range of the whole bias, or of each element if weights are per channel.

    With per-channel weights, Glow treats the schema asymmetric as symmetric for the bias too; symmetric_with_uint8
    stays as it is.
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
    """Returns clamp(rint(x / S + Z)) in float32: the zero point is added before rounding, which is half to even."""
    steps = x.astype(np.float32) / np.asarray(scale, np.float32) + np.asarray(zero_point, np.float32)
    return np.clip(np.rint(steps), *RANGES[precision]).astype(np.int64)


@dataclass(frozen=True)
class Requantization:
    """Glow's requantization: y = (((x >> pre)·multiplier + (1 << (post − 1))) >> post) + zero_point."""

    pre: int
    post: int
    multiplier: int
    zero_point: int


def requantization(scale: float, zero_point: int) -> Requantization:
    """Returns Glow's requantization of 32-bit integers to 8 bits, in 32-bit arithmetic.

    A power of two becomes a shift. Any other factor is scaled up to a multiplier of about eight bits. The shift after
    the product compensates first; then a shift before the product, which drops low bits of the integer.

    Args:
        scale: The factor, a float32 number > 0.
        zero_point: The zero point of the result.
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
