"""How a quantization divides and rounds, in code: what numerics.QUANTIZATIONS has for numpy."""

from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import f64

from qmlir.lowering.value import Value

Array = npt.NDArray[Any]


def divisor(scales: Array, quantization: str) -> Array:
    """Scales as `rounded_steps` takes them: in f64 or in f32, or their reciprocals."""
    if quantization == "exact":
        return scales
    narrow = scales.astype(np.float32)
    return np.float32(1) / narrow if quantization == "float32_reciprocal" else narrow


def rounded_steps(x: Value, scale: Value, quantization: str) -> Value:
    """round(x / scale) as f64 of an x in f32; the scale as `divisor` has it."""
    if quantization == "exact":
        return (x.to(f64) / scale).round_even()
    if quantization == "float32_reciprocal":
        return (x * scale).to(f64).round_even()
    quotient = (x / scale).to(f64)
    if quantization == "float32_away":
        return (quotient.magnitude() + 0.5).floor().with_sign_of(quotient)
    return quotient.round_even()
