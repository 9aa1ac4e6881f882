"""Room beyond the values that were observed, for those of data that nobody has seen yet.

The largest value of some samples is a lower bound of what other samples hold, and what saturates on them costs more
than all rounding: pictures of another source leave the range of a tensor by a third, or by its double.

Data of 16 bits have bits to spare: their range is twice the observed one, at the price of one bit. Data of 8 bits have
none: on calibration data kept aside, room for them gained on the few samples that need it what it lost on all others.

A range is stretched about zero, and its histogram with it, so that whatever calibration follows weighs saturation
against resolution on the values that are expected. Only calibration `auto` does so; others keep to what was seen.
"""

from dataclasses import replace

from xdsl.ir import Block, SSAValue

from qmlir.dialects.calib import Observation
from qmlir.dialects.nn.base import Clamped
from qmlir.dialects.quant.histograms import Histogram
from qmlir.recipe import Recipe

WIDE = 2.0
"""How much larger than the observed range that of 16-bit data is."""


def expected(value: SSAValue, seen: Observation, recipe: Recipe) -> Observation:
    """What to expect of a tensor of which something was observed.

    Args:
        value: The tensor; an input of the network is as it was seen, and nothing leaves a clamp.
        seen: The observation; of a tensor without a histogram the range is what somebody said it is.
        recipe: The options in effect for it.
    """
    roomy = recipe.calibration == "auto" and recipe.precision == "int16" and not recipe.glow_exact
    lo, hi = seen.bounds
    if not roomy or seen.histogram is None or isinstance(value.owner, Block) or lo == hi:
        return seen
    least, most = value.owner.bounds() if isinstance(value.owner, Clamped) else (None, None)
    low = lo * WIDE if least is None else max(lo * WIDE, least)
    high = hi * WIDE if most is None else min(hi * WIDE, most)
    factor = (high - low) / (hi - lo)
    return _stretched(seen, seen.histogram, factor) if factor > 1 else seen


def _stretched(seen: Observation, held: Histogram, factor: float) -> Observation:
    bounds = seen.bounds[0] * factor, seen.bounds[1] * factor
    return replace(seen, bounds=bounds, histogram=Histogram(held.lo * factor, held.width * factor, held.counts))
