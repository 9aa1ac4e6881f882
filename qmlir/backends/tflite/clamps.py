"""Clamps: which fused activation says the same, and what is left for MAXIMUM and MINIMUM.

TFLite's fused activations clamp the stored integers to those nearest to the bounds, half away from zero. Whether one
of them is what a clamp asks for is seen by comparing the ranges of integers that both leave.
"""

import math

import numpy as np
import tflite  # pyright: ignore[reportMissingTypeStubs]
from xdsl.ir import Attribute

from qmlir.backends.forms import NoForm
from qmlir.backends.tflite.graph import Form
from qmlir.backends.tflite.kernels import KERNELS
from qmlir.dialects.quant import numerics
from qmlir.dialects.quant.types import UniformType

Bounds = tuple[float | None, float | None]
"""The least and the greatest value; None where there is no bound."""

ACTIVATIONS: dict[int, Bounds] = {0: (None, None), 1: (0.0, None), 2: (-1.0, 1.0), 3: (0.0, 6.0)}
"""ActivationFunctionType: NONE, RELU, RELU_N1_TO_1 and RELU6."""

NONE = 0


def fuses(kind: str) -> bool:
    """Whether an operator has a fused activation."""
    return hasattr(tflite, f"{KERNELS[kind].options}AddFusedActivationFunction")


def stored_bounds(element: Attribute, form: Form, bounds: Bounds) -> Bounds:
    """What a tensor's elements must be clamped to beyond what saturation does: integers of a quantized one.

    Args:
        element: The type of the value, whose range may be narrower than its storage.
        form: How it is stored; plain while it is computed on floats.
        bounds: Those of a clamp, real numbers.
    """
    if form.parameters is None:
        return bounds
    assert isinstance(element, UniformType)
    if form.parameters.axis is not None:
        raise NoForm("must have one scale for the whole tensor", str(element)[:160], "quantize it per tensor")
    moved = form.parameters.zero_point - element.zero_point
    limits, ends = np.iinfo(form.dtype), (element.storage_min, element.storage_max)
    low, high = (
        moved + (end if b is None else int(numerics.quantize(
            np.array(b), element.scale, element.zero_point, *ends, np.dtype(np.int64), "float32_away")))
        for b, end in zip(bounds, ends, strict=True)
    )  # fmt: skip
    return None if low == limits.min else low, None if high == limits.max else high


def activation(form: Form, bounds: Bounds, wanted: Bounds) -> tuple[int, Bounds]:
    """(the fused activation, what it leaves to do).

    Args:
        form: How the result is stored.
        bounds: Of the clamp, real numbers.
        wanted: What `stored_bounds` makes of them.
    """
    named = [code for code, own in ACTIVATIONS.items() if own == bounds]
    for code in (*named, *ACTIVATIONS):
        if activated(form, ACTIVATIONS[code]) == wanted:
            return code, (None, None)
    return NONE, wanted


def activated(form: Form, bounds: Bounds) -> Bounds:
    """The bounds that an activation of TFLite's sets, as `stored_bounds` says them."""
    if form.parameters is None:
        return bounds
    limits, scale = np.iinfo(form.dtype), np.float32(form.parameters.scale)
    with np.errstate(over="ignore"):  # the largest float, say, by a scale below 1: beyond what any type stores
        steps = [None if b is None else np.clip(np.float32(b) / scale, -(2.0**62), 2.0**62) for b in bounds]
    ends = [None if s is None else form.parameters.zero_point + _half_away(s) for s in steps]
    low, high = (limits.min if ends[0] is None else ends[0]), (limits.max if ends[1] is None else ends[1])
    return None if low <= limits.min else low, None if high >= limits.max else high


def _half_away(x: np.float32) -> int:
    """The nearest integer, of two the one farther from 0."""
    return int(math.copysign(math.floor(abs(float(x)) + 0.5), float(x)))
