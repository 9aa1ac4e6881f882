"""Schemas: choose a scale and a zero point from a range of real values, by Glow's rules; and Glow's own biases."""

import math
import warnings
from dataclasses import dataclass
from typing import Annotated, Literal, get_args

import numpy as np
import numpy.typing as npt

from qmlir.errors import QmlirError, QmlirWarning
from qmlir.numerics import Array, Float64s, Int64s
from qmlir.plugins import CALIBRATIONS, Extensible

# ---------------------------------------------------------------------------------------------------------------
# Schemas: choose a scale and a zero point from a range of real values, by Glow's four rules. numpy only.
#
#     asymmetric                    scale and zero point are free: the integer range covers [lo, hi] exactly
#     symmetric                     zero point 0; int8 uses −128 too: scale = max(|lo| / 128, hi / 127)
#     symmetric_with_uint8          as symmetric, but a range without negative values uses all integers: zero point qmin
#     symmetric_with_power2_scale   as symmetric, with the scale rounded up to a power of two: rescaling is a shift; an
#                                   attribute marks functions quantized so, and they are verified (dialects/qmlir.py)
#
# Each range is first widened to contain 0, which is always represented exactly. Scales are float32 values, stored as
# Python floats. Weights have separate rules: they are symmetric under every schema, so that kernels never subtract a
# weight's zero point. They use the narrow range [−127, 127], so that the sum of two products of an int8 activation and
# a weight fits 16 bits.


Schema = Literal["asymmetric", "symmetric", "symmetric_with_uint8", "symmetric_with_power2_scale"]
Precision = Literal["int8", "uint8", "int16"]
StoredPrecision = Precision | Literal["int32"]
WeightPrecision = Literal["same", "int2", "int3", "int4", "int5", "int6", "int7", "int8", "int16"]
Calibration = Annotated[
    Literal["auto", "minmax", "moving_average", "percentile", "kl", "kl_tvm", "mse", "aciq"],
    Extensible(CALIBRATIONS, numbered=("percentile",)),
]

SCHEMAS: tuple[Schema, ...] = get_args(Schema)

STORAGE_RANGES: dict[Precision, tuple[int, int]] = {
    "int8": (-128, 127),
    "uint8": (0, 255),
    "int16": (-32768, 32767),
}
"""The least and the greatest integer of each precision."""

RANGES: dict[StoredPrecision, tuple[int, int]] = {**STORAGE_RANGES, "int32": (-(2**29), 2**29 - 1)}
"""`STORAGE_RANGES` and Glow's range of int32: a quarter, so that an integer minus its zero point fits 32 bits."""

ZERO_RANGE_SCALE = float(np.float32(0.1))
"""The scale of a range that holds only 0, as in Glow, unless the layer's bias needs a smaller scale; any is exact."""

ZERO_WEIGHTS_SCALE = 2.0**-7
"""The weight scale of a layer whose weights are all 0, unless its bias needs a smaller scale; a power of two."""

SMALLEST_SCALE = 2.0**-126
"""The least scale that the schemas choose: float32's smallest normal number."""

_FLOAT32_MAX = float(np.finfo(np.float32).max)
_FLOAT32_EPSILON = float(np.finfo(np.float32).eps)


class QuantizationError(QmlirError):
    """Raised when no quantization parameters exist for a range, a schema and a precision."""


def is_symmetric(schema: Schema) -> bool:
    """Whether a schema forces the zero point of every tensor to 0."""
    return schema in ("symmetric", "symmetric_with_power2_scale")


def quantization_of_range(
    lo: float,
    hi: float,
    schema: Schema = "asymmetric",
    precision: StoredPrecision = "int8",
    *,
    glow_exact: bool = False,
    where: str | None = None,
) -> tuple[float, int]:
    """Chooses (scale, zero_point) for real values in [lo, hi].

    qmin and qmax are the bounds of the precision's integers. lo and hi are float32 and widened so that lo ≤ 0 ≤ hi:

        symmetric:  r = max(lo / qmin, hi / qmax);  lo, hi = r · qmin, r · qmax
        scale = (hi − lo) / (qmax − qmin) in float64;  0.1 if that is 0
        zero_point = round(qmin − lo / scale) or round(qmax − hi / scale), whichever adds smaller terms, half away,
                     within [qmin, qmax]
        power of two:  scale = 2^ceil(log2 scale)

    With `glow_exact`, this is Glow's chooseQuantizationParams bit for bit. Without it, four corner cases differ:

    - Glow sets the zero point to 0 if |lo + hi| ≤ 2^-23, so a small one-sided range such as [0, 1e-8] saturates at
      half its height. Here the tolerance is relative to the larger bound.
    - Glow applies that rule to unsigned integers too, whose least value is 0. Here it applies to signed integers only.
    - Scales are at least 2^-126, where Glow yields denormal and zero scales.
    - Symmetric schemas give the zero point 0, and power-of-two schemas a power of two, for extreme ranges too, where
      Glow's assertions fail.

    Args:
        lo: The least real value, finite in float32.
        hi: The greatest real value, likewise.
        schema: How scale and zero point are chosen from the range.
        precision: The stored integers; uint8 needs a schema with a free zero point.
        glow_exact: Whether to reproduce Glow's corner cases too.
        where: The name of the tensor or layer that the range belongs to, for error messages.

    Raises:
        QuantizationError: The range is not finite or not in order, or the schema cannot use the precision.
    """
    low, high = representable_range(lo, hi, schema, precision, where=where)
    qmin, qmax = RANGES[precision]
    scale = (high - low) / (qmax - qmin)
    if scale == 0.0:
        scale = 0.1
    if not glow_exact:
        scale = max(scale, SMALLEST_SCALE)
    zero_point = _zero_point(low, high, scale, (qmin, qmax), glow_exact)
    if glow_exact and zero_point == qmin and -low > scale and where is not None:
        text = f"{where}: Glow stores [{lo:.6g}, {hi:.6g}] with the zero point {qmin}, so that all below 0 is lost; "
        warnings.warn(text + "choose int8, or leave glow-exact out", QmlirWarning, stacklevel=2)
    if is_symmetric_from(low, schema) and not glow_exact:
        zero_point = 0
    if schema == "symmetric_with_power2_scale":
        scale = power_of_two_above(scale)
    return _float32(scale), zero_point


def representable_range(
    lo: float, hi: float, schema: Schema, precision: StoredPrecision, *, where: str | None = None
) -> tuple[float, float]:
    """Returns the float32 range that the integers of a precision cover for the real range [lo, hi].

    The result contains 0. If the schema is symmetric, the result is widened to the ratio qmin : qmax.

    Raises:
        QuantizationError: The range is not finite or not in order, or the schema cannot use the precision.
    """
    if is_symmetric(schema) and precision == "uint8":
        raise QuantizationError(
            f"schema {schema} needs signed integers", where=where, got=precision, remedy="use int8, or another schema"
        )
    qmin, qmax = RANGES[precision]
    low, high = _checked_range(lo, hi, where)
    low, high = min(low, 0.0), max(high, 0.0)
    if not is_symmetric_from(low, schema):
        return low, high
    if precision == "uint8":
        raise QuantizationError(
            f"schema {schema} stores negative values as signed integers",
            where=where,
            got=f"{precision} for [{lo}, {hi}]",
            remedy="use int8, or schema asymmetric",
        )
    low_ratio, high_ratio = low / qmin, high / qmax
    if low_ratio > high_ratio:
        return low, _float32(low_ratio * qmax)
    return _float32(high_ratio * qmin), high


def is_symmetric_from(low: float, schema: Schema) -> bool:
    """Whether a schema makes a range with the lower bound `low` (0 or less) symmetric around 0."""
    return is_symmetric(schema) or (schema == "symmetric_with_uint8" and low < 0)


def _checked_range(lo: float, hi: float, where: str | None) -> tuple[float, float]:
    """Returns the bounds as float32 values; raises QuantizationError unless they are finite and in order."""
    if not (abs(lo) <= _FLOAT32_MAX and abs(hi) <= _FLOAT32_MAX):  # false for NaN too
        raise QuantizationError(
            "a range must be two finite float32 numbers",
            where=where,
            got=f"[{lo}, {hi}]",
            remedy="write a range that float32 holds, or profile again",
        )
    if lo > hi:
        raise QuantizationError("a range must be in order, lowest first", where=where, got=f"[{lo}, {hi}]")
    return _float32(lo), _float32(hi)


def _zero_point(low: float, high: float, scale: float, limits: tuple[int, int], glow_exact: bool) -> int:
    """Returns the integer nearest to the position of 0.0."""
    qmin, qmax = limits
    from_low, from_high = qmin - low / scale, qmax - high / scale
    smaller_low = abs(qmin) + abs(low / scale) < abs(qmax) + abs(high / scale)
    point = from_low if smaller_low else from_high
    tolerance = _FLOAT32_EPSILON if glow_exact else _FLOAT32_EPSILON * max(-low, high)
    if _float32(abs(high + low)) <= tolerance and (glow_exact or qmin < 0):
        point = 0.0
    rounded = math.copysign(math.floor(abs(point) + 0.5), point)  # half away from zero
    return int(min(max(rounded, qmin), qmax))


def power_of_two_above(scale: float) -> float:
    """Returns the smallest power of two that is at least `scale`: 2^ceil(log2 scale), exactly."""
    fraction, exponent = math.frexp(scale)
    return math.ldexp(1.0, exponent - 1 if fraction == 0.5 else exponent)


def exponent_of(scale: float) -> int | None:
    """Returns the exponent e if a positive, finite scale is exactly 2^e; else None."""
    fraction, exponent = math.frexp(scale)
    return exponent - 1 if fraction == 0.5 else None


def nearest_exponent(scale: float) -> int:
    """Returns the exponent e for which |scale − 2^e| is least; of two equally near ones, the larger."""
    fraction, exponent = math.frexp(scale)
    return exponent if fraction >= 0.75 else exponent - 1


def scale_text(scale: float) -> str:
    """Formats a scale for people: `2^-7` for a power of two, six digits for any other scale."""
    exponent = exponent_of(scale)
    return f"{scale:.6g}" if exponent is None else f"2^{exponent}"


def _float32(value: float) -> float:
    """Rounds to the nearest float32, saturated at the largest finite float32; returns a Python float."""
    return float(np.float32(min(max(value, -_FLOAT32_MAX), _FLOAT32_MAX)))


# Weights.


def weight_precision_beside(precision: Precision) -> WeightPrecision:
    """Returns the default precision of weights for a precision of activations: always signed, so int8 for uint8."""
    return "int16" if precision == "int16" else "int8"


def weight_bits(precision: WeightPrecision | Precision) -> int:
    """Returns the number of bits of a weight precision."""
    return int(precision.removeprefix("u").removeprefix("int"))


def weight_range(precision: WeightPrecision | Precision, *, narrow: bool = True) -> tuple[int, int]:
    """Returns the least and the greatest stored weight, always signed; `narrow` excludes −2^(n−1)."""
    qmax = (1 << weight_bits(precision) - 1) - 1
    return (-qmax if narrow else -qmax - 1), qmax


def choose_weight_quantization(
    weights: Array,
    axis: int | None = None,
    schema: Schema = "symmetric",
    precision: WeightPrecision | Precision = "int8",
    *,
    narrow: bool = True,
    searched: bool = False,
    where: str | None = None,
) -> Float64s:
    """Chooses the scales of weights; the zero point is 0 for every schema.

    For int8 and the whole tensor, or each index of `axis`:

        scale = max |w| / 127                                                              narrow
        scale = max(−min w / 128, max w / 127)                                             not narrow, Glow's

    The scale is rounded to float32, or up to a power of two. A channel whose weights are all 0 takes the largest
    scale of the other channels, since any scale stores it exactly. The layer's bias, which is stored in steps of
    s_x · scale, may need a smaller scale.

    With `searched`, power-of-two scales and scales of less than 8 bits are searched: smaller scales, under which the
    largest weights saturate, are tried too, and the scale with the least square error wins. A power of two may waste
    a bit otherwise.

    Returns:
        float64, shape [1] per tensor or [size of `axis`].

    Raises:
        QuantizationError: The weights are empty or not finite.
    """
    if not weights.size or not np.isfinite(weights).all():
        got = "none" if not weights.size else f"{int((~np.isfinite(weights)).sum())} NaN or infinite values"
        raise QuantizationError("weights must be finite numbers", where=where, got=got)
    qmin, qmax = weight_range(precision, narrow=narrow)
    rows = weights.reshape(1, -1) if axis is None else np.moveaxis(weights, axis, 0).reshape(weights.shape[axis], -1)
    low, high = (bound.astype(np.float64) for bound in (rows.min(axis=1), rows.max(axis=1)))
    scales = np.maximum(low / qmin, high / qmax)
    largest = float(scales.max())
    scales = np.where(scales > 0, scales, largest if largest > 0 else ZERO_WEIGHTS_SCALE)
    scales = np.clip(scales, SMALLEST_SCALE, _FLOAT32_MAX)
    factors = np.ones(1)
    if schema == "symmetric_with_power2_scale":
        scales, factors = np.array([power_of_two_above(float(scale)) for scale in scales]), np.array([1.0, 0.5, 0.25])
    elif weight_bits(precision) < 8:
        factors = np.linspace(1.0, 0.5, 26)
    if searched and len(factors) > 1:
        candidates = np.maximum(scales * factors[:, None], SMALLEST_SCALE)
        scales = np.take_along_axis(candidates, _square_errors(rows, candidates, (qmin, qmax)).argmin(axis=0)[None], 0)[
            0
        ]
    return scales.astype(np.float32).astype(np.float64)


def _square_errors(rows: Array, candidates: Array, limits: tuple[int, int]) -> Float64s:
    """Returns the square error of each row of weights under each of its candidate scales: [candidates, rows]."""
    real = rows.astype(np.float64)
    return np.array(
        [((np.clip(np.rint(real / s), *limits) * s - real) ** 2).sum(axis=1) for s in candidates[..., None]]
    )


# ---------------------------------------------------------------------------------------------------------------
# Glow's quantization parameters of biases, and Glow's requantization. numpy only.
#
# The results equal Glow's bit for bit, in float32 where Glow uses float32. qmlir's own rules differ: a bias is stored
# in steps of the accumulator, and a requantization multiplier has 31 bits. These functions serve comparisons with Glow,
# and users who migrate from it. Glow's parameters of ranges are above.


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

    integers: Int64s
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


def quantize(x: Array, scale: npt.ArrayLike, zero_point: npt.ArrayLike, precision: StoredPrecision) -> Int64s:
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
