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
    low     the lower bound of the stored integers; None before a Clip or a Max
    high    the upper bound, likewise
    point   what was subtracted from the stored integers since then
    """

    whole: bool = False
    low: int | None = None
    high: int | None = None
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
        case "Clip" | "Max" | "Min" if (bounds := _bounds(operator, inputs)) is not None:
            low, high = bounds
            clipped = replace(
                steps, low=low if steps.low is None else steps.low, high=high if steps.high is None else steps.high
            )
            return Rounded(result.array, clipped, result.name)
        case "Cast" if steps.whole and (result.array == known[0].array).all():
            return Rounded(result.array, steps, result.name)
        case "Add" | "Sub" if steps.whole and (operator == "Add" or inputs[0] is known[0]):
            added = others[0].astype(np.float64) * (1 if operator == "Add" else -1)
            # A sum before the clip moves the integers to where they are stored.
            steps = steps if steps.high is None else replace(steps, point=steps.point - added)
            return Rounded(result.array, steps, result.name)
        case "Mul" | "Div" if steps.whole and (operator == "Mul" or inputs[0] is known[0]):
            factor = others[0].astype(np.float64)
            return _scaled(known[0], factor if operator == "Mul" else 1 / factor, result) or result
        case _:
            return result


def _bounds(operator: str, inputs: Sequence[Value | None]) -> tuple[int | None, int | None] | None:
    """The bounds that an operator sets, of which one may be missing; None unless they are constant whole numbers."""
    limits: list[int | None] = []
    for limit in inputs[1:]:
        array = limit.array.reshape(-1) if isinstance(limit, Constant) else np.full(1, np.nan)
        if limit is not None and (array.size != 1 or not np.isfinite(array[0]) or array[0] % 1):
            return None
        limits.append(None if limit is None else int(array[0]))
    match operator, limits:
        case "Max", [low]:
            return low, None
        case "Min", [high]:
            return None, high
        case "Clip", [low, high]:
            return low, high
        case _:
            return None


def _scaled(rounded: Rounded, scale: Array, result: Constant) -> Dequantized | None:
    """The integers of a rounded constant under a scale; None if they make no quantized type."""
    steps = rounded.steps
    stored = rounded.array.astype(np.float64) + steps.point
    low, high = (stored.min() if steps.low is None else steps.low, stored.max() if steps.high is None else steps.high)
    unsigned = steps.low is not None and steps.low >= 0
    width = next((w for w in WIDTHS if high < 1 << (w - (not unsigned)) and low >= -(1 << w - 1)), None)
    if width is None or not ((stored >= low) & (stored <= high)).all():
        return None
    storage = IntegerType(width, Signedness.UNSIGNED if unsigned else Signedness.SIGNLESS)
    try:
        points = np.asarray(steps.point)
        type = UniformType.broadcast(
            storage, result.array.ndim, np.asarray(scale, np.float32), points, steps.low, steps.high
        )
    except VerifyException:  # scales along several axes, or one that is not positive
        return None
    return Dequantized(stored.astype(type.numpy_dtype), type, result.name)
