"""Follows constants that a model rounds to integers and scales back, as fake quantization of weights does.

    w = clip(round(w / s), −127, 127) · s          the nodes Div, Round, Clip and Mul, all on constants
    w = (q − z) · s                                the nodes Cast, Sub and Mul, on constants of stored bytes q

Every node of such a chain is computed at import. A constant is `Rounded` from the Clip, the Round or the Cast of bytes
on, and a `Dequantized` constant behind the Mul or Div: the integers, the scale and the zero point of the model. With a
scale for each row of several dimensions, it is a `Blocked` constant, as torchao's groups are: [O, G, size] times [O, G,
1]. For data, which are computed at run time, the pass `fold-fake-quant` does the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from xdsl.dialects.builtin import IntegerType, Signedness
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.quant.syntax import default_range
from qmlir.dialects.quant.types import UniformType
from qmlir.frontends.function import Blocked, Blocks, Constant, Dequantized, Value
from qmlir.ir.interfaces import Array
from qmlir.ir.types import dtype_of, element_type_of

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
    rounded = [i for i in inputs if isinstance(i, Rounded)]
    known = [i for i in rounded if i.shape == result.shape]
    steps = known[0].steps if known else _Steps()
    if len(known) > 1 or (rounded and not known):
        return result
    match operator:
        case "Cast" if not known and result.array.dtype == np.float32 and (stored := _stored_range(inputs[0])):
            return Rounded(result.array, _Steps(True, *stored), result.name)
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
            added = _other(inputs, known[0]).astype(np.float64) * (1 if operator == "Add" else -1)
            # A sum before the clip moves the integers to where they are stored.
            steps = steps if steps.high is None else replace(steps, point=steps.point - added)
            return Rounded(result.array, steps, result.name)
        case "Mul" | "Div" if steps.whole and (operator == "Mul" or inputs[0] is known[0]):
            factor = _other(inputs, known[0]).astype(np.float64)
            return _scaled(known[0], factor if operator == "Mul" else 1 / factor, result) or result
        case _:
            return result


def _other(inputs: Sequence[Value | None], rounded: Rounded) -> Array:
    """The operand of a chain's step beside the rounded constant."""
    return next(i.array for i in inputs if isinstance(i, Constant) and i is not rounded)


def _stored_range(value: Value | None) -> tuple[int, int] | None:
    """The least and the greatest integer of a constant's type; None unless weights are stored in such a type."""
    if not isinstance(value, Constant) or value.array.dtype.name not in ("int4", "uint4", "int8", "uint8"):
        return None
    return default_range(element_type_of(value.array.dtype))


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


def _scaled(rounded: Rounded, scale: Array, result: Constant) -> Dequantized | Blocked | None:
    """The integers of a rounded constant under a scale; None if they make no quantized type and no blocks."""
    steps = rounded.steps
    stored, points = rounded.array.astype(np.float64) + steps.point, np.asarray(steps.point)
    low, high = (stored.min() if steps.low is None else steps.low, stored.max() if steps.high is None else steps.high)
    unsigned = steps.low is not None and steps.low >= 0
    width = _width(low, high, unsigned=unsigned)
    if width is None or not ((stored >= low) & (stored <= high)).all():
        return None
    storage = IntegerType(width, Signedness.UNSIGNED if unsigned else Signedness.SIGNLESS)
    scales = np.asarray(scale, np.float32)
    try:
        type = UniformType.broadcast(storage, result.array.ndim, scales, points, steps.low, steps.high)
    except VerifyException:  # scales along several axes, or one that is not positive
        return _rows(stored, scales, points, result.name, unsigned=unsigned)
    return Dequantized(stored.astype(type.numpy_dtype), type, result.name)


def _width(low: float, high: float, *, unsigned: bool) -> int | None:
    """The fewest bits of storage that hold integers from `low` to `high`; None if these are too many."""
    return next((w for w in WIDTHS if high < 1 << (w - (not unsigned)) and low >= -(1 << w - 1)), None)


def _rows(stored: Array, scales: Array, points: Array, name: str, *, unsigned: bool) -> Blocked | None:
    """Integers [D…, size] of rank 3 or more with a scale for each row, [D…, 1], as blocks; None for others.

    They get the fewest bits that hold them and their zero points, which may be fewer than the model stores.
    """
    if stored.ndim < 3 or scales.shape != (*stored.shape[:-1], 1) or (points % 1).any():
        return None
    ends = min(stored.min(), points.min()), max(stored.max(), points.max())
    if (width := _width(*ends, unsigned=unsigned)) is None or (unsigned and ends[0] < 0):
        return None
    dtype = dtype_of(IntegerType(width, Signedness.UNSIGNED if unsigned else Signedness.SIGNLESS))
    integers, zeros = (a.astype(np.int32).astype(dtype) for a in (stored, np.broadcast_to(points, scales.shape)))
    return Blocked(Blocks(integers, scales, zeros, stored.ndim - 1, stored.shape[-1]), name)
