"""Ranges of what only functions with flat ends read: they end where the functions do not change any more.

The sum before a gate of a recurrent cell may reach hundreds, while its sigmoid is 0 or 1, as far as its type
can tell, beyond ±15 in 16 bits and ±10 in 8. Numbers beyond saturate, and the steps between are finer. The functions
themselves say where their ends begin: no list of functions is needed.

What such a sum is computed from ends with it: an addend beyond the sum's range plus the range of the other addend
leaves the sum at its end, whatever the other addend is. So does a number that a constant multiplies.

The memory of a recurrent cell is such a sum that the next step reads as well, so that its range cannot end. Where most
of the range is flat for the function, the sum, its product with the gate and the function stay float (`memories`): in
networks of 16 bits always, in networks of 8 bits where the function is steep for what 8 bits leave of the sum.

Functions that grow at one end, as exponentials do, keep their ranges: where new data reach further than those that were
observed, such a function alone decides how far off the result is.
"""

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import replace

import numpy as np
from xdsl.ir import Block, Operation, SSAValue

from qmlir.dialects.calib import Bounds, Observation, ObserveOp
from qmlir.dialects.nn import AddOp, ConstantOp, MulOp, SubOp
from qmlir.dialects.nn.elementwise import BinaryOp, FunctionOp, StepOp
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
    """The values that only functions with flat ends read, with the ranges in which these functions change.

    Args:
        observed: What was observed of values, in the order in which the network computes them.
        op_config: The config of a value.
    """
    finding = _FlatEnds(observed, op_config)
    for value, seen in reversed(list(observed.items())):
        if not seen.derived and (ends := finding.ends_of(value, seen)):
            low, high = min(low for low, _ in ends), max(high for _, high in ends)
            further = expected(value, seen, op_config(value)).bounds
            low = further[0] if low <= seen.bounds[0] else low
            high = further[1] if high >= seen.bounds[1] else high
            if high - low <= GAIN * (seen.bounds[1] - seen.bounds[0]):
                finding.found[value] = replace(seen, bounds=(low, high), derived=True)
    return finding.found


def memories(
    observed: Mapping[SSAValue, Observation], op_config: Callable[[SSAValue], OpConfig]
) -> dict[Operation, FunctionOp]:
    """The operations that compute memories of recurrent cells, m ← gate · m + x, and functions that these saturate.

    Returns:
        Operation → the function that tells only a part of the memory's range apart.
    """
    found: dict[Operation, FunctionOp] = {}
    for value, seen in observed.items():
        if (kept := _kept_share(value)) is None:
            continue
        bits = weight_bits(op_config(value).integers)
        readers = [op for _, op in _readers(value)]
        for op in readers:
            if len(readers) > 1 and isinstance(op, FunctionOp) and not isinstance(op, StepOp):
                low, high = _changing(op, seen.bounds, bits)
                if high - low <= GAIN * (seen.bounds[1] - seen.bounds[0]):
                    found |= dict.fromkeys((*kept, op), op)
    return found


def _kept_share(value: SSAValue) -> tuple[Operation, Operation] | None:
    """The sum that makes a memory and the product with what the memory was before; None if the value is none."""
    if not isinstance(op := value.owner, AddOp):
        return None
    for product in (source_of(v).owner for v in op.operands):
        if isinstance(product, MulOp):
            before, gate = (source_of(v).owner for v in product.operands)
            for one, other in ((before, gate), (gate, before)):
                if isinstance(one, Block | AddOp) and isinstance(other, FunctionOp):
                    return op, product
    return None


def source_of(value: SSAValue, known: Container[SSAValue] = ()) -> SSAValue:
    """The value that a value is moved from; the last of those before it that is known, if one is."""
    while value not in known and isinstance(value.owner, MovementOp) and len(value.owner.operands) == 1:
        value = value.owner.operands[0]
    return value


class _FlatEnds:
    """The search from the functions to what they read.

    found  the values whose ranges end earlier, with these ranges
    """

    def __init__(self, observed: Mapping[SSAValue, Observation], op_config: Callable[[SSAValue], OpConfig]):
        self.observed, self.op_config = observed, op_config
        self.found: dict[SSAValue, Observation] = {}

    def ends_of(self, value: SSAValue, seen: Observation) -> list[Bounds]:
        """The part of a value's range that each reader tells apart; empty if a reader tells all of it apart."""
        bits, ends = weight_bits(self.op_config(value).integers), list[Bounds]()
        for moved, op in _readers(value):
            if isinstance(op, FunctionOp) and not isinstance(op, StepOp):
                # The second look is at the part that the first found, with more points in it.
                ends.append(_changing(op, _changing(op, seen.bounds, bits), bits))
            elif isinstance(op, BinaryOp) and op.y in self.found and (before := self._before(op, moved)) is not None:
                ends.append(before)
            else:
                return []
        return ends

    def _before(self, op: BinaryOp, value: SSAValue) -> Bounds | None:
        """The range of an operand in which a result stays in its range; None if the other operand's is unknown."""
        low, high = self.found[op.y].bounds
        other = op.rhs if value is op.lhs else op.lhs
        if isinstance(op, MulOp) and isinstance(other.owner, ConstantOp):
            factors = other.owner.value.array.astype(np.float64)
            ends = np.divide.outer(np.array([low, high]), factors[factors != 0])
            return (float(ends.min()), float(ends.max())) if ends.size else (0.0, 0.0)
        if not isinstance(op, AddOp | SubOp) or (reach := self._reach(other)) is None:
            return None
        if isinstance(op, AddOp):
            return low - reach[1], high - reach[0]
        return (low + reach[0], high + reach[1]) if value is op.lhs else (reach[0] - high, reach[1] - low)

    def _reach(self, value: SSAValue) -> Bounds | None:
        """The range that is expected of a value, or of what it is moved from; None if it is unknown."""
        value = source_of(value, self.observed)
        if isinstance(value.owner, ConstantOp):
            return float(value.owner.value.array.min()), float(value.owner.value.array.max())
        seen = self.observed.get(value)
        return None if seen is None else expected(value, seen, self.op_config(value)).bounds


def _readers(value: SSAValue) -> Iterator[tuple[SSAValue, Operation]]:
    """The operations that read a value, moved or as it is, each with the value as it reads it."""
    for op in (u.operation for u in value.uses if not isinstance(u.operation, ObserveOp)):
        if isinstance(op, MovementOp) and len(op.operands) == 1:
            yield from _readers(op.results[0])
        else:
            yield value, op


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
