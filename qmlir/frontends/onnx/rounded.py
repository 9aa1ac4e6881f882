"""Follows constants that a model rounds to integers and scales back, as fake quantization of weights does.

    w = clip(round(w / s), −127, 127) · s          the nodes Div, Round, Clip and Mul, all on constants

Every node of such a chain is computed at import. A constant is `Rounded` from the Clip or the Round on, and a
`Dequantized` constant behind the Mul or Div: the integers, the scale and the zero point of the model. For data, which
are computed at run time, the pass `fold-fake-quant` does the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from xdsl.dialects.builtin import IntegerType, Signedness
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.quant.types import UniformType
from qmlir.frontends.function import Constant, Dequantized, Value
from qmlir.ir.interfaces import Array

WIDTHS = (4, 8, 16)
"""The bits of storage that the integers may get: the fewest that hold their bounds, or the integers themselves."""


@dataclass(frozen=True)
class _Steps:
    """What a chain has done to a constant.

    whole   whether its elements are rounded
    bounds  the bounds of the stored integers; None before a clip
    point   what was subtracted from the stored integers since then
    """

    whole: bool = False
    bounds: tuple[int, int] | None = None
    point: Array | float = 0.0


class Rounded(Constant):
    """A constant within a chain that rounds it or clips it to whole bounds."""

    def __init__(self, array: Array, steps: _Steps, name: str = ""):
        super().__init__(array, name)
        self.steps = steps


def followed(operator: str, inputs: Sequence[Value | None], result: Constant) -> Constant:
    """Returns the result of an ONNX operator on constants, with what is known of its integers."""
    if type(result) is not Constant or result.array.size < 2 or result.array.dtype.kind not in "fiu":
        return result
    known = [i for i in inputs if isinstance(i, Rounded)]
    others = [i.array for i in inputs if isinstance(i, Constant) and not isinstance(i, Rounded)]
    steps = known[0].steps if known else _Steps()
    if len(known) > 1 or (known and known[0].shape != result.shape):
        return result
    match operator:
        case "Round" if result.array.dtype == np.float32:
            return Rounded(result.array, replace(steps, whole=True), result.name)
        case "Clip" if steps.bounds is None and (bounds := _bounds(inputs)) is not None:
            return Rounded(result.array, replace(steps, bounds=bounds), result.name)
        case "Cast" if steps.whole and (result.array == known[0].array).all():
            return Rounded(result.array, steps, result.name)
        case "Add" | "Sub" if steps.whole and (operator == "Add" or inputs[0] is known[0]):
            added = others[0].astype(np.float64) * (1 if operator == "Add" else -1)
            # A sum before the clip moves the integers to where they are stored.
            steps = steps if steps.bounds is None else replace(steps, point=steps.point - added)
            return Rounded(result.array, steps, result.name)
        case "Mul" | "Div" if steps.whole and (operator == "Mul" or inputs[0] is known[0]):
            factor = others[0].astype(np.float64)
            return _scaled(known[0], factor if operator == "Mul" else 1 / factor, result) or result
        case _:
            return result


def _bounds(inputs: Sequence[Value | None]) -> tuple[int, int] | None:
    """The bounds of a Clip, if they are constant whole numbers."""
    arrays = [i.array.reshape(-1) for i in inputs[1:] if isinstance(i, Constant)]
    if len(arrays) != 2 or any(a.size != 1 or not np.isfinite(a[0]) or a[0] % 1 for a in arrays):
        return None
    low, high = (int(a[0]) for a in arrays)
    return (low, high) if low < high else None


def _scaled(rounded: Rounded, scale: Array, result: Constant) -> Dequantized | None:
    """The integers of a rounded constant under a scale; None if they make no quantized type."""
    stored = rounded.array.astype(np.float64) + rounded.steps.point
    low, high = rounded.steps.bounds or (int(stored.min()), int(stored.max()))
    unsigned = low >= 0 and rounded.steps.bounds is not None
    width = next((w for w in WIDTHS if high < 1 << (w - (not unsigned)) and low >= -(1 << w - 1)), None)
    if width is None or not ((stored >= low) & (stored <= high)).all():
        return None
    storage = IntegerType(width, Signedness.UNSIGNED if unsigned else Signedness.SIGNLESS)
    limits = rounded.steps.bounds or (None, None)
    try:
        points = np.asarray(rounded.steps.point)
        type = UniformType.broadcast(storage, result.array.ndim, np.asarray(scale, np.float32), points, *limits)
    except VerifyException:  # scales along several axes, or one that is not positive
        return None
    return Dequantized(stored.astype(type.numpy_dtype), type, result.name)
