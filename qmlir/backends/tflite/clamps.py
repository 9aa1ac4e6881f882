"""Chooses the fused activation that equals a clamp, and the bounds that are left for MAXIMUM and MINIMUM.

TFLite's fused activations clamp the stored integers to the bounds, which are rounded to integers half away from zero. A
fused activation replaces a clamp if both leave the same range of stored integers.
"""

import math

import numpy as np
import tflite  # pyright: ignore[reportMissingTypeStubs]
from xdsl.ir import Attribute

from qmlir.backends.tflite.graph import Form
from qmlir.dialects.quant.types import UniformType
from qmlir.errors import UnsupportedError
from qmlir.formats.tflite import ACTIVATIONS, Bounds, options_of
from qmlir.numerics import fixed_point

NONE = 0


def fuses(kind: str) -> bool:
    """Whether TFLite's options of an operator have a fused activation."""
    return hasattr(tflite, f"{options_of(kind)}AddFusedActivationFunction")


def stored_bounds(element: Attribute, form: Form, bounds: Bounds) -> Bounds:
    """Returns the bounds to which a tensor's stored elements must be clamped; None where saturation suffices.

    The bounds of a quantized tensor are stored integers; those of a plain tensor are `bounds` unchanged.

    Args:
        element: The element type of the value, whose storage range may be narrower than its storage type.
        form: The storage of the tensor; plain while the value is computed on floats.
        bounds: The clamp's bounds as real numbers.

    Raises:
        UnsupportedError: The tensor is quantized per axis.
    """
    if form.parameters is None:
        return bounds
    assert isinstance(element, UniformType)
    if form.parameters.axis is not None:
        raise UnsupportedError("must have one scale for the whole tensor", str(element)[:160], "quantize it per tensor")
    moved = form.parameters.zero_point - element.zero_point
    limits, ends = np.iinfo(form.dtype), (element.storage_min, element.storage_max)
    low, high = (
        moved + (end if b is None else int(fixed_point.quantize(
            np.array(b), element.scale, element.zero_point, *ends, np.dtype(np.int64), "float32_away")))
        for b, end in zip(bounds, ends, strict=True)
    )  # fmt: skip
    return None if low == limits.min else low, None if high == limits.max else high


def activation(form: Form, bounds: Bounds, wanted: Bounds) -> tuple[int, Bounds]:
    """Returns (the code of the fused activation, the bounds that remain to be clamped).

    Args:
        form: The storage of the result.
        bounds: The clamp's bounds as real numbers.
        wanted: The bounds that `stored_bounds` returns for the clamp.
    """
    named = [code for code, own in ACTIVATIONS.items() if own == bounds]
    for code in (*named, *ACTIVATIONS):
        if _is_prepared(form, ACTIVATIONS[code]) and activated(form, ACTIVATIONS[code]) == wanted:
            return code, (None, None)
    return NONE, wanted


def _is_prepared(form: Form, bounds: Bounds) -> bool:
    """Whether LiteRT takes an activation: it stops where a bound, in steps of the result, exceeds 32 bits."""
    return form.parameters is None or all(b is None or abs(b) < 2.0**30 * form.parameters.scale for b in bounds)


def activated(form: Form, bounds: Bounds) -> Bounds:
    """Returns the bounds that TFLite's activation with these real bounds sets, in the terms of `stored_bounds`."""
    if form.parameters is None:
        return bounds
    limits, scale = np.iinfo(form.dtype), np.float32(form.parameters.scale)
    with np.errstate(over="ignore"):  # a large bound divided by a scale below 1 may overflow, beyond all stored types
        steps = [None if b is None else np.clip(np.float32(b) / scale, -(2.0**62), 2.0**62) for b in bounds]
    ends = [None if s is None else form.parameters.zero_point + _half_away(s) for s in steps]
    low, high = (limits.min if ends[0] is None else ends[0]), (limits.max if ends[1] is None else ends[1])
    return None if low <= limits.min else low, None if high >= limits.max else high


def _half_away(x: np.float32) -> int:
    """Rounds to the nearest integer, half away from zero."""
    return int(math.copysign(math.floor(abs(float(x)) + 0.5), float(x)))
