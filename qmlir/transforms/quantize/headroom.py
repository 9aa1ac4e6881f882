"""Room beyond the values that were observed, for those of data that nobody has seen yet.

The largest value of some samples is a lower bound of what other samples hold. How far it may lie from theirs shows in
how far it lies from the largest value of an average sample: the extremes of independent samples spread as a Gumbel
distribution does, whose expected maximum over n samples is the mean of one plus β·ln n. Over m times as many,

    max' = max + (max − average) · ln m / ln n

and with m some multiples of n, half of the distance. What fills its range on every sample, as pixels and clamped
values do, gets no room; what is clamped gets none beyond its clamp.

Data of 16 bits have bits to spare: their range is twice the observed one, at the price of one bit.

A range is stretched about zero, and its histogram with it, so that whatever calibration follows weighs saturation
against resolution on the values that are expected.
"""

from dataclasses import replace

from xdsl.ir import Block, Operation

from qmlir.dialects.calib import Observation
from qmlir.dialects.nn.base import Clamped
from qmlir.dialects.quant.histograms import Histogram
from qmlir.dialects.quant.schemas import Precision

Clamp = tuple[float | None, float | None]

SHARE = 0.5
"""The room on each side, of the distance between the extreme of all samples and that of an average one."""

WIDE = 2.0
"""How much larger than the observed range that of 16-bit data is."""


def with_headroom(seen: Observation, clamp: Clamp, precision: Precision) -> Observation:
    """What to expect of a tensor of which something was observed.

    Args:
        seen: The observation; without the extremes of an average sample there is nothing to judge by.
        clamp: The bounds that its values cannot leave.
        precision: Of its integers.
    """
    lo, hi = seen.bounds
    if precision == "int16":
        wide = lo * WIDE, hi * WIDE
    elif seen.average is not None:
        wide = lo - SHARE * (seen.average[0] - lo), hi + SHARE * (hi - seen.average[1])
    else:
        return seen
    least, most = clamp
    low = wide[0] if least is None else max(wide[0], least)
    high = wide[1] if most is None else min(wide[1], most)
    factor = (high - low) / (hi - lo) if lo < hi else 1.0
    return _stretched(seen, factor) if factor > 1 else seen


def clamp_of(maker: Operation | Block) -> Clamp:
    """The bounds of the clamp fused to what makes a value."""
    return maker.bounds() if isinstance(maker, Clamped) else (None, None)


def _stretched(seen: Observation, factor: float) -> Observation:
    held = seen.histogram
    return replace(
        seen,
        bounds=(seen.bounds[0] * factor, seen.bounds[1] * factor),
        histogram=None if held is None else Histogram(held.lo * factor, held.width * factor, held.counts),
    )
