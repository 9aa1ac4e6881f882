"""What requantizations round off, and the room that their products leave in 64 bits.

A requantization computes y = round(a · m · 2^(s − 31)) by a contract. Two errors separate y from a · M, where M is the
real factor that scales define: that of the contract's rounding, and that of the multiplier, |a| · |m · 2^(s−31) − M|.
Only accumulators count whose result is not clamped. Errors are bounds, exact fractions of a step of the result.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from qmlir.dialects import qint
from qmlir.errors import NodeError
from qmlir.ir.rewriting import node_name
from qmlir.numerics import fixed_point
from qmlir.numerics.contracts import CONTRACTS

UNITS = 1 << 20
"""Errors are written as multiples of 2^−20 steps, rounded up."""


@dataclass(frozen=True)
class Requantized:
    """What is proved about a requantization.

    least, most      the range of the rounded products, before the zero point is added and the result is clamped
    slack            how many times the accumulators could double before they leave the contract's limit
    lowest, highest  the interval of the accumulators, one or one for each channel
    """

    least: int
    most: int
    slack: int
    lowest: tuple[int, ...]
    highest: tuple[int, ...]


def requantized(op: qint.RequantizeOp, lowest: npt.NDArray[Any], highest: npt.NDArray[Any]) -> Requantized:
    """Returns what is proved about a requantization of accumulators, [1] or one interval for each channel.

    Raises:
        NodeError: An accumulator may be beyond the contract's limit.
    """
    factors = op.multiplier.get_values(), op.shift.get_values()
    return rounded((op.name, node_name(op)), op.contract.data, factors, (lowest, highest), op.summand())


def rounded(
    where: tuple[str, str],
    name: str,
    factors: tuple[Sequence[int], Sequence[int]],
    ends: tuple[npt.NDArray[Any], npt.NDArray[Any]],
    constant: float = 0.0,
) -> Requantized:
    """Returns what is proved about the rounding of accumulators by a contract.

    Within its contract's limit, no step of a requantization leaves 64 bits (numerics/contracts.py).

    Args:
        where: The operation and its node, for the error.
        name: The contract.
        factors: Multipliers and shifts, one or one for each channel.
        ends: The least and the greatest accumulator, [1] or one of each for each channel.
        constant: What a contract with `sums` adds.

    Raises:
        NodeError: An accumulator may be beyond the contract's limit.
    """
    limit, count = CONTRACTS[name].limit, max(*map(len, ends), *map(len, factors))
    lows, highs, ms, ss = (spread(v, count) for v in (*(end.tolist() for end in ends), *factors))
    for channel, (low, high) in enumerate(zip(lows, highs, strict=True)):
        if low < -limit or high > limit:
            at = f" in channel {channel}" if count > 1 else ""
            need = f"must have accumulators that contract {name} takes, within ±{limit}"
            remedy = "choose a contract for 64-bit accumulators, or a lower precision"
            raise NodeError(*where, need, got=f"{low} to {high}{at}", remedy=remedy)
    slack = limit.bit_length() - max(map(abs, (*lows, *highs))).bit_length()
    found = [
        fixed_point.requantize(np.array(v, np.int64), np.array(ms), np.array(ss), name, constant=constant)
        for v in (lows, highs)
    ]
    return Requantized(int(found[0].min()), int(found[1].max()), slack, tuple(lows), tuple(highs))


V = TypeVar("V", int, float)


def spread(values: Sequence[V], count: int) -> list[V]:
    """Returns one value for each of `count` channels, where one value may stand for all of them."""
    return list(values) if len(values) == count else [values[0]] * count


def rounding_error(contract: str, multiplier: int, shift: int, magnitude: int) -> Fraction | None:
    """The largest |y − a · m · 2^(s − 31)| for |a| ≤ `magnitude`; None for contracts in floats.

    The first step of the two-step contracts saturates at 32 bits. What it cuts off is part of the error.
    """
    half, right = Fraction(1, 2), max(-shift, 0)
    cut = max((magnitude << max(shift, 0)) - ((1 << 31) - 1), 0) * Fraction(multiplier, 1 << 31 + right)
    if not multiplier:
        return Fraction(0)
    match contract:
        case "single" | "shift" | "away" | "even" | "single64" | "away64" | "away16":
            return half
        case "double" | "double64" | "upup":
            return half + cut + (half / (1 << right) if right else 0)
        case "updown":
            return half / (1 << right) + 1 - Fraction(1, 1 << right) + cut
        case "reduced16":
            reduced = min((multiplier + (1 << 15)) >> 16, (1 << 15) - 1) << 16
            return half + magnitude * abs(reduced - multiplier) * Fraction(2) ** (shift - 31)
        case _:
            return None


def largest_error(op: qint.RequantizeOp, found: Requantized, factors: Sequence[float] | None) -> Fraction | None:
    """The largest error of a requantization in steps, before it is clamped; None for contracts in floats.

    Args:
        op: The requantization.
        found: What is proved about it.
        factors: The real factors, one or one for each channel; None if they are not known, so that only the
            contract's rounding counts.
    """
    count = len(found.lowest)
    ms, ss = (spread(v.get_values(), count) for v in (op.multiplier, op.shift))
    reals = [None] * count if factors is None else spread(factors, count)
    point, low, high = op.zero_point.value.data, op.lower.value.data, op.upper.value.data
    reach = max(abs(low - point), abs(high - point)) + 1
    worst = Fraction(0)
    for a_low, a_high, m, s, real in zip(found.lowest, found.highest, ms, ss, reals, strict=True):
        stored = m * Fraction(2) ** (s - 31)
        magnitude = max(-a_low, a_high)
        if least := stored if real is None else min(stored, Fraction(real)):
            magnitude = min(magnitude, math.ceil(reach / least))
        if (error := rounding_error(op.contract.data, m, s, magnitude)) is None:
            return None
        worst = max(worst, error if real is None else error + magnitude * abs(stored - Fraction(real)))
    return worst


def in_steps(error: Fraction) -> float:
    """An error as it is written: rounded up to a multiple of 2^−20."""
    return math.ceil(error * UNITS) / UNITS
