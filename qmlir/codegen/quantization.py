"""The division and rounding of a quantization as loops-level code; the numpy form is `numerics.QUANTIZATIONS`."""

from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import f64

from qmlir.codegen.value import Value

Array = npt.NDArray[Any]


def divisor(scales: Array, quantization: str) -> Array:
    """Scales in the form that `rounded_steps` takes: as given for `exact`, else in float32, or float32 reciprocals."""
    if quantization == "exact":
        return scales
    narrow = scales.astype(np.float32)
    return np.float32(1) / narrow if quantization == "float32_reciprocal" else narrow


def rounded_steps(x: Value, scale: Value, quantization: str) -> Value:
    """round(x / scale) as f64, for x in f32 and a scale from `divisor`."""
    if quantization == "exact":
        return (x.to(f64) / scale).round_even()
    if quantization == "float32_reciprocal":
        return (x * scale).to(f64).round_even()
    quotient = (x / scale).to(f64)
    if quantization == "float32_away":
        return (quotient.magnitude() + 0.5).floor().with_sign_of(quotient)
    return quotient.round_even()
