"""Adds a range margin to observed ranges, for the values of data that were not observed.

The largest value of some samples is a lower bound for other samples, and values that saturate cost more than all
rounding. How much more to expect follows from how the samples differ. If the greatest value of a sample has a Gumbel
distribution (an extreme value distribution) with mean μ and spread β, the greatest value of n samples is expected at

    M(n) = μ + β·ln n

A profile knows μ, the mean over samples, and the observed M(n). The value for n^(1+κ) samples follows without n,

    M(n^(1+κ)) = M(n) + κ·(M(n) − μ)

and the least value likewise. A tensor that is alike on all samples gets no margin. A tensor that is much larger on a
few samples gets a wide margin. A tensor that was observed on a single sample gets no margin, as nothing is known of
how it varies.

Data of 16 bits have bits to spare: their range is twice the observed range, at the price of one bit. Where single
values are so large that this would leave less than `SPARE` dB of the others, the margin is that of 8 bits. A result of
the network with numbers of both signs, such as coordinates, reaches on each side at least as far as if its range were
doubled about its middle: what adds to all numbers of a sample takes the end beside zero far beyond twice its distance.

Results of a network that reach further below 0 than above it get no margin where their scale is a power of two of
least error. A margin would often double the step of all their values; no layer reads what saturates, and the largest
logits, which decide, do not: profiled on 60 samples, logits of cifar that are rounded alone have 37.6 dB without a
margin, 33.1 dB with one. Where the largest logits would saturate, they would tie.

A range is stretched about zero, and its histogram with it, so that the calibration that follows weighs saturation
against resolution on the expected values. Only calibration `auto` adds a margin; other calibrations keep to what was
observed.
"""

import math
from dataclasses import replace

from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, SSAValue

from qmlir.dialects.calib import Bounds, Observation, ObserveOp
from qmlir.dialects.nn import CastOp, ReshapeOp, TransposeOp
from qmlir.dialects.nn.base import Clamped
from qmlir.ir.states import state_values
from qmlir.ir.traversal import reached
from qmlir.numerics.histograms import Histogram
from qmlir.settings.quant_config import OpConfig
from qmlir.transforms.quantize.op_configs import argument_of

MOVERS = (CastOp, ReshapeOp, TransposeOp)
"""Operations whose result has the values of their operand, all of them, in another order, shape or type of floats."""

FURTHER = 0.3
"""κ: the margin is for n^(1+κ) samples like the n that were observed.

Profiled on one random half of a network's calibration data and scored on the other, 0.5 is better in the mean over six
networks than 0 and 1, though not on each network. The margin that a half needs 0.5 for, all of the data need 0.3 for:
(n/2)^1.5 is about n^1.3 where n is 100. The choice is not blind: how 0, 0.25 and 0.5 do on the scored samples of these
networks was known by then, and that a picture among these goes 2.4 times as far as all profiled pictures.
"""

WIDE = 2.0
"""The range of 16-bit data, as a multiple of the observed range."""

BULK = 0.9
"""The share of a tensor's values, from the smallest magnitude on, that are its bulk."""

SPARE = 40.0
"""The SQNR in dB that rounding to 16 bits must leave of a tensor's bulk for the range to be `WIDE`."""


def leaves_room(op_config: OpConfig) -> bool:
    """Whether a quantization config gives ranges a margin beyond the observed values."""
    return op_config.calibration == "auto" and not op_config.glow_exact


def expected(value: SSAValue, seen: Observation, op_config: OpConfig) -> Observation:
    """The observation of a tensor, stretched to the range that is expected of other data.

    Args:
        value: The tensor. An input of the network gets no margin, nor does a result that is mostly negative if a power
            of two is searched for it, and the result of a clamp stays within its bounds.
        seen: The observation. A range that was given or derived, not observed, gets no margin.
        op_config: The options in effect for the tensor.
    """
    lo, hi = seen.bounds
    given = seen.derived or argument_of(value) is not None
    if given or seen.histogram is None or not leaves_room(op_config) or lo == hi:
        return seen
    if op_config.searches_exponents and op_config.integers != "int16" and -lo > hi and _is_result(value):
        return seen
    wide = op_config.integers == "int16" and _has_spare_bits(seen.histogram, max(-lo, hi) * WIDE)
    low, high = (lo * WIDE, hi * WIDE) if wide else _of_more_samples(seen)
    least, most = value.owner.bounds() if isinstance(value.owner, Clamped) else (None, None)
    low = low if least is None else max(low, least)
    high = high if most is None else min(high, most)
    factor = (high - low) / (hi - lo)
    if factor <= 1:
        return seen
    if wide and lo < 0 < hi and least is None and most is None and _is_result(value):
        further = (hi - lo) * (WIDE - 1) / 2
        return _moved(seen, seen.histogram, min(low, lo - further), max(high, hi + further))
    return _stretched(seen, seen.histogram, factor)


def _has_spare_bits(held: Histogram, largest: float) -> bool:
    """Whether 16 bits for a range leave enough of a tensor's bulk; a bulk of zeros loses nothing."""
    signal, noise = held.power(BULK), (largest / 2**15) ** 2 / 12
    return signal == 0 or 10 * math.log10(signal / noise) >= SPARE


def _is_result(value: SSAValue) -> bool:
    """Whether a value is a result of its function, itself or moved, and nothing else reads it; a state is none."""
    block = value.owner.parent_block() if isinstance(value.owner, Operation) else None
    if block is None:
        return False
    states = {after for _, after in state_values(block)}

    def readers(value: SSAValue) -> list[Operation]:
        return [u.operation for u in value.uses if not isinstance(u.operation, ObserveOp)]

    return all(
        v not in states and (found := readers(v)) and all(isinstance(o, (ReturnOp, *MOVERS)) for o in found)
        for v in reached([value], lambda v: [o.y for o in readers(v) if isinstance(o, MOVERS)])
    )


def _of_more_samples(seen: Observation) -> Bounds:
    """The expected range of n^(1+κ) samples, from the observation of n samples."""
    (lo, hi), (mean_lo, mean_hi) = seen.bounds, seen.average or seen.bounds
    return lo - FURTHER * (mean_lo - lo), hi + FURTHER * (hi - mean_hi)


def _stretched(seen: Observation, held: Histogram, factor: float) -> Observation:
    bounds = seen.bounds[0] * factor, seen.bounds[1] * factor
    return replace(seen, bounds=bounds, histogram=Histogram(held.lo * factor, held.width * factor, held.counts))


def _moved(seen: Observation, held: Histogram, low: float, high: float) -> Observation:
    """An observation whose ends are moved to others, with its histogram between them."""
    factor = (high - low) / (seen.bounds[1] - seen.bounds[0])
    least = low + (held.lo - seen.bounds[0]) * factor
    return replace(seen, bounds=(low, high), histogram=Histogram(least, held.width * factor, held.counts))
