"""Ranges of what only functions with flat ends read: they end where the functions do not change any more.

The sum before a gate of a recurrent cell may reach hundreds, while its sigmoid is 0 or 1, as far as its type
can tell, beyond ±15 in 16 bits and ±10 in 8. Numbers beyond saturate, and the steps between are finer. The functions
themselves say where their ends begin: no list of functions is needed.

Functions that grow at one end, as exponentials do, keep their ranges: where new data reach further than those that were
observed, such a function alone decides how far off the result is.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np
from xdsl.ir import SSAValue

from qmlir.dialects.calib import Bounds, Observation, ObserveOp
from qmlir.dialects.nn.elementwise import FunctionOp, StepOp
from qmlir.dialects.nn.movement import MovementOp
from qmlir.numerics.schemas import weight_bits
from qmlir.settings.quant_config import OpConfig
from qmlir.transforms.quantize.ranges.margins import expected

POINTS = 4096
"""The arguments at which a function is looked at."""

SHARE = 2.0**-6
"""How far an end may be from flat, in steps of the result."""

GROWTH = 4.0
"""A function is bounded if it spans at most so many times as much on a range three times as far in both directions."""

GAIN = 0.5
"""Ranges stay as they were observed unless they become at most this share of it: a bit."""


def ranges_of_flat(
    observed: Mapping[SSAValue, Observation], op_config: Callable[[SSAValue], OpConfig]
) -> dict[SSAValue, Observation]:
    """The values that only functions with flat ends read, with the ranges in which these functions change."""
    found: dict[SSAValue, Observation] = {}
    for value, seen in observed.items():
        functions = _functions(value)
        if not functions or seen.derived:
            continue
        bits = weight_bits(op_config(value).integers)
        # The second look is at the part that the first found, with more points in it.
        ends = [_changing(f, _changing(f, seen.bounds, bits), bits) for f in functions]
        low, high = min(low for low, _ in ends), max(high for _, high in ends)
        further = expected(value, seen, op_config(value)).bounds
        low, high = (f if end == b else end for f, end, b in zip(further, (low, high), seen.bounds, strict=True))
        if high - low <= GAIN * (seen.bounds[1] - seen.bounds[0]):
            found[value] = replace(seen, bounds=(low, high), derived=True)
    return found


def _functions(value: SSAValue) -> list[FunctionOp]:
    """The functions that read a value, moved or as it is; empty if anything else reads it."""

    def read(value: SSAValue) -> Iterator[FunctionOp | None]:
        for op in (u.operation for u in value.uses if not isinstance(u.operation, ObserveOp)):
            if isinstance(op, MovementOp) and len(op.operands) == 1:
                yield from read(op.results[0])
            else:
                yield op if isinstance(op, FunctionOp) and not isinstance(op, StepOp) else None

    readers = list(read(value))
    functions = [op for op in readers if op is not None]
    return functions if len(functions) == len(readers) else []


def _changing(function: FunctionOp, bounds: Bounds, bits: int) -> Bounds:
    """The part of a range in which a function changes by more than a share of a step of its result."""
    x = np.linspace(*bounds, POINTS)
    with np.errstate(all="ignore"):
        y = np.asarray(function.scalar(x), np.float64)
    if not np.isfinite(y).all() or not (span := float(np.ptp(y))) or not _is_bounded(function, bounds, span):
        return bounds
    flat = span * 2.0**-bits * SHARE
    first = int(np.argmax(np.abs(y - y[0]) > flat))
    last = POINTS - 1 - int(np.argmax(np.abs(y - y[-1])[::-1] > flat))
    return float(x[max(first - 1, 0)]), float(x[min(last + 1, POINTS - 1)])


def _is_bounded(function: FunctionOp, bounds: Bounds, span: float) -> bool:
    """Whether a function stays near what it spans on a range where its argument goes further."""
    width = bounds[1] - bounds[0]
    with np.errstate(all="ignore"):
        y = np.asarray(function.scalar(np.linspace(bounds[0] - 3 * width, bounds[1] + 3 * width, POINTS)), np.float64)
    return bool(np.isfinite(y).all()) and float(np.ptp(y)) <= GROWTH * span
