"""Gemmini's changes of scale: by a float32 factor, and by a shift; halves go to even numbers."""

from typing import Any

import numpy as np

from qmlir.backends.hardware.gemmini.words import InstructionError


def factor(bits: int) -> float:
    """A float32 from its bits."""
    value = float(np.array(bits, np.uint32).view(np.float32))
    if not np.isfinite(value):
        raise InstructionError("a scale must be a finite number", got=f"the bits {bits:#x}")
    return value


def scaled(values: Any, scale: float) -> Any:
    """clamp(round(float32(x) · scale)) in int8: the product rounded to float32, halves to even."""
    product = values.astype(np.float32) * np.float32(scale)
    return np.rint(product).clip(-128, 127).astype(np.int8)


def shifted(values: Any, shift: int) -> Any:
    """x / 2^shift of int32, halves to even."""
    if not shift:
        return values
    wide = values.astype(np.int64)
    return (wide + (1 << shift - 1) - 1 + (wide >> shift & 1)) >> shift
