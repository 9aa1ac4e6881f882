"""Room beyond the values that were observed, for those of data that nobody has seen yet.

The largest value of some samples is a lower bound of what other samples hold, and what saturates on them costs more
than all rounding. How much more to expect, the samples tell by how they differ. If the greatest value of a sample
follows an extreme value distribution of Gumbel's, with mean μ and spread β, the greatest of n samples is expected at

    M(n) = μ + β·ln n

Profiles know μ, the mean over samples, and M(n) as it was seen: what n^(1+κ) samples will hold follows without n,

    M(n^(1+κ)) = M(n) + κ·(M(n) − μ)

and so for the least value. A tensor that is alike on all samples gets no room, one of which a few samples stand out
gets much, and one that was seen on a single sample gets none, as nothing is known of how it varies.

Data of 16 bits have bits to spare: their range is twice the observed one, at the price of one bit.

A range is stretched about zero, and its histogram with it, so that whatever calibration follows weighs saturation
against resolution on the values that are expected. Only calibration `auto` does so; others keep to what was seen.
"""

from dataclasses import replace

from xdsl.ir import SSAValue

from qmlir.dialects.calib import Bounds, Observation
from qmlir.dialects.nn.base import Clamped
from qmlir.dialects.quant.histograms import Histogram
from qmlir.recipe import Recipe
from qmlir.transforms.quantize.inputs import argument_of

FURTHER = 0.3
"""κ: room is for n^(1+κ) samples like the n that were observed.

Profiled on one random half of a network's calibration data and scored on the other, 0.5 is better in the mean over six
networks than 0 and 1, though not on each. What a half expects with 0.5 all of the data expect with 0.3: (n/2)^1.5 are
about n^1.3 where n is 100. It is no blind choice: what the scored samples of these networks say of 0, 0.25 and 0.5 was
known by then, and that one picture there goes 2.4 times as far as all that are profiled.
"""

WIDE = 2.0
"""How much larger than the observed range that of 16-bit data is."""


def leaves_room(recipe: Recipe) -> bool:
    """Whether the ranges of a recipe go further than what was observed."""
    return recipe.calibration == "auto" and not recipe.glow_exact


def expected(value: SSAValue, seen: Observation, recipe: Recipe) -> Observation:
    """What to expect of a tensor of which something was observed.

    Args:
        value: The tensor; an input of the network is as it was seen, and nothing leaves a clamp.
        seen: The observation; of a tensor without a histogram the range is what somebody said it is.
        recipe: The options in effect for it.
    """
    lo, hi = seen.bounds
    if not leaves_room(recipe) or seen.histogram is None or argument_of(value) is not None or lo == hi:
        return seen
    low, high = (lo * WIDE, hi * WIDE) if recipe.precision == "int16" else _of_more_samples(seen)
    least, most = value.owner.bounds() if isinstance(value.owner, Clamped) else (None, None)
    low = low if least is None else max(low, least)
    high = high if most is None else min(high, most)
    factor = (high - low) / (hi - lo)
    return _stretched(seen, seen.histogram, factor) if factor > 1 else seen


def _of_more_samples(seen: Observation) -> Bounds:
    """The range of n^(1+κ) samples, of which n were observed."""
    (lo, hi), (mean_lo, mean_hi) = seen.bounds, seen.average or seen.bounds
    return lo - FURTHER * (mean_lo - lo), hi + FURTHER * (hi - mean_hi)


def _stretched(seen: Observation, held: Histogram, factor: float) -> Observation:
    bounds = seen.bounds[0] * factor, seen.bounds[1] * factor
    return replace(seen, bounds=bounds, histogram=Histogram(held.lo * factor, held.width * factor, held.counts))
