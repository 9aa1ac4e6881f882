"""From a range and a histogram to a scale and a zero point. numpy only.

A calibration narrows the range that was observed: values outside it saturate, those inside get a finer step.

    auto            mse where values were counted in enough bins, minmax elsewhere and for inputs of the network
    minmax          the whole range
    moving_average  the mean range of a sample, which profiling takes
    percentile      all but 0.01 % of the values
    kl              least Kullback-Leibler divergence, by Glow's search (divergence.py)
    kl_tvm          the same by TVM's: of windows around zero
    mse             least mean square error; under powers of two, the exponent that has it
    aciq            least error of the normal or Laplace distribution that fits the values

Each is a pure function of a histogram. One that cannot act refuses, with what it needs: a range that silently stays
as it was would look like a result.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from qmlir.dialects.quant.divergence import LEVELS, glow_range, tvm_threshold
from qmlir.dialects.quant.histograms import Float64s, Histogram
from qmlir.dialects.quant.schemas import (
    RANGES,
    Calibration,
    QuantizationError,
    Schema,
    StoredPrecision,
    is_centred,
    power_of_two_above,
    quantization_of_range,
    representable_range,
)

Bounds = tuple[float, float]

PERCENTILE = 0.9999
"""The share of values that `percentile` keeps within the range."""

LEAST_BINS = 64
"""How many bins a range must have for a calibration to narrow it: with fewer, one bin is too large a part of it."""


def choose_quantization(
    lo: float,
    hi: float,
    schema: Schema = "asymmetric",
    precision: StoredPrecision = "int8",
    histogram: Histogram | npt.ArrayLike | None = None,
    calibration: Calibration | None = None,
    *,
    glow_exact: bool = False,
    where: str | None = None,
) -> tuple[float, int]:
    """(scale, zero_point) that store real values of [lo, hi], or of the part of it that a calibration keeps.

    Args:
        lo: The least real value, finite in float32.
        hi: The greatest.
        schema: How scale and zero point are tied (schemas.py).
        precision: The stored integers; uint8 is for schemas with a free zero point.
        histogram: How often values occurred, for calibrations other than minmax: a `Histogram`, or counts in equal
            bins that divide [lo, hi].
        calibration: How to narrow the range; None is minmax.
        glow_exact: The parameters that Glow chooses, bit for bit, with its corners; calibrations are minmax and kl.
        where: What the range belongs to, for errors.

    Raises:
        QuantizationError: A range that is not finite or not in order, a schema that cannot use the precision, or a
            calibration that cannot act: without a histogram, or with too few bins.
    """
    if calibration is not None:
        held = None if histogram is None else _histogram(histogram, lo, hi)
        lo, hi = calibrated_range(lo, hi, schema, precision, held, calibration, glow_exact=glow_exact, where=where)
        if glow_exact and calibration == "kl":
            return _of_narrowed(lo, hi, schema, precision)
    return quantization_of_range(lo, hi, schema, precision, glow_exact=glow_exact, where=where)


def calibrated_range(
    lo: float,
    hi: float,
    schema: Schema,
    precision: StoredPrecision,
    histogram: Histogram | None,
    calibration: Calibration,
    *,
    glow_exact: bool = False,
    where: str | None = None,
) -> Bounds:
    """The part of [lo, hi] that a calibration keeps; arguments as for `choose_quantization`."""
    low, high = representable_range(lo, hi, schema, precision, where=where)
    if calibration == "auto":
        counted = histogram is not None and (high - low) / histogram.width >= LEAST_BINS
        calibration = "mse" if counted and not glow_exact else "minmax"
    if calibration == "minmax" or lo == hi or low == high:
        return lo, hi  # a constant: nothing to weigh
    if calibration == "moving_average":
        raise QuantizationError(
            "the mean range of a sample is no matter of a histogram: it is taken while profiling",
            where=where,
            remedy="profile the network anew, or give that range and calibrate by minmax",
        )
    if glow_exact and calibration != "kl":
        raise QuantizationError("Glow calibrates by minmax and kl only", where=where, got=calibration)
    if histogram is None:
        raise QuantizationError(
            f"calibration {calibration} needs a histogram",
            where=where,
            remedy="profile the network on data, or use minmax",
        )
    spread = histogram if glow_exact else histogram.spread_over(low, high)
    bins = len(histogram.counts) if glow_exact else round((high - low) / spread.width)
    search = _Search(low, high, schema, precision, histogram, spread, bins, glow_exact)
    need = _needed_bins(calibration, precision, glow_exact=glow_exact)
    if search.bins < need:
        raise QuantizationError(
            f"calibration {calibration} needs at least {need} bins for {precision}",
            where=where,
            got=f"{search.bins} over [{low:g}, {high:g}]",
            remedy="profile with more bins, or use minmax",
        )
    found = CALIBRATIONS[calibration](search)
    return found if glow_exact else (max(found[0], low), min(found[1], high))


@dataclass(frozen=True)
class _Search:
    """What a calibration works on.

    low, high  the range that the integers would cover of themselves
    histogram  of the values
    spread     the same in bins of which a moderate number covers the range
    bins       that a divergence takes of this range
    """

    low: float
    high: float
    schema: Schema
    precision: StoredPrecision
    histogram: Histogram
    spread: Histogram
    bins: int
    glow_exact: bool

    @property
    def centred(self) -> bool:
        """Whether the range reaches as far on both sides of 0."""
        return is_centred(self.low, self.schema)

    @property
    def bits(self) -> int:
        """Of the integers."""
        qmin, qmax = RANGES[self.precision]
        return (qmax - qmin).bit_length()


def _histogram(given: Histogram | npt.ArrayLike, lo: float, hi: float) -> Histogram:
    return given if isinstance(given, Histogram) else Histogram.over(lo, hi, given)


def _needed_bins(calibration: Calibration, precision: StoredPrecision, *, glow_exact: bool) -> int:
    """A divergence needs a bin for each integer, less one end; Glow takes 255 integers for any precision."""
    if calibration not in ("kl", "kl_tvm"):
        return LEAST_BINS
    qmin, qmax = RANGES[precision]
    return LEVELS if glow_exact else qmax - qmin


def _of_narrowed(lo: float, hi: float, schema: Schema, precision: StoredPrecision) -> tuple[float, int]:
    """Glow's parameters of a range that is final: it is not centred again, float32 rounding or not."""
    scale, zero_point = quantization_of_range(lo, hi, "asymmetric", precision, glow_exact=True)
    return (power_of_two_above(scale) if schema == "symmetric_with_power2_scale" else scale), zero_point


# ---------------------------------------------------------------------------------------------------------------
# The calibrations


def _percentile(search: _Search) -> Bounds:
    """Half of what may saturate goes on each side; where one side has none, all of it on the other."""
    histogram, cut = search.histogram, 1 - PERCENTILE
    if search.centred:
        most = search.spread.magnitudes().point_below(PERCENTILE * histogram.total)
        return -most, most
    if search.low == 0 or search.high == 0:
        bound = histogram.point_below((PERCENTILE if search.low == 0 else cut) * histogram.total)
        return (0.0, bound) if search.low == 0 else (bound, 0.0)
    return histogram.point_below(cut / 2 * histogram.total), histogram.point_below((1 - cut / 2) * histogram.total)


def _glow(search: _Search) -> Bounds:
    counts = rescaled(search.spread, search.low, search.high, search.bins)
    return glow_range(counts, search.low, search.high, symmetric=search.centred, glow_exact=search.glow_exact)


def _tvm(search: _Search) -> Bounds:
    histogram = search.spread
    most = max(-histogram.lo, histogram.hi)
    half = int(np.ceil(most / histogram.width))
    edges: Float64s = histogram.width * (np.arange(2 * half + 2, dtype=np.float64) - half - 0.5)
    counts = np.diff(histogram.below(edges)).astype(np.float32)
    # Where nothing is negative, as after relu, half of the integers of a range around zero would be idle.
    one_sided = search.low == 0 and not search.centred
    threshold = tvm_threshold(counts, histogram.width, 2 * LEVELS + 1 if one_sided else LEVELS)
    return (0.0, threshold) if one_sided else (-threshold, threshold)


def _least_square(search: _Search) -> Bounds:
    """Scales the range down, then each end of it by itself; under powers of two, tries exponents."""
    error = _SquareError(search)
    if search.schema == "symmetric_with_power2_scale":
        return error.best_exponent()
    best = error.least(_SHRINKING[:, None] * np.array([search.low, search.high]))
    best = error.least(_FINER[:, None] * np.array(best))
    if search.centred or search.low == 0 or search.high == 0:
        return best
    for _ in range(2):
        best = error.least(np.stack([best[0] * _FINER, np.full(len(_FINER), best[1])], axis=1))
        best = error.least(np.stack([np.full(len(_FINER), best[0]), best[1] * _FINER], axis=1))
    return best


_SHRINKING: Float64s = np.geomspace(1.0, 2.0**-5, 41)
_FINER: Float64s = np.exp2(np.linspace(0.125, -0.125, 21))


class _SquareError:
    """The mean square error that quantizing adds, of values spread evenly over their bins.

    With x = s·(n + r), n the stored integer and s·r the error, the integral of the squared error up to x is
    s³·(n/12 + r³/3); beyond the range n stays and r grows.
    """

    def __init__(self, search: _Search):
        self.search = search
        histogram = search.histogram
        self.edges = histogram.edges
        density = np.concatenate([[0.0], histogram.counts / histogram.width, [0.0]])
        self.weights = density[:-1] - density[1:]

    def least(self, ranges: Float64s) -> Bounds:
        """Of [n, 2] ranges the one with the least error; none is larger than the whole."""
        ranges = np.unique(np.clip(ranges, self.search.low, self.search.high), axis=0)[::-1]
        qmin, qmax = RANGES[self.search.precision]
        scales = np.maximum((ranges[:, 1] - ranges[:, 0]) / (qmax - qmin), np.finfo(np.float64).tiny)
        zero_points = np.clip(np.rint(qmin - ranges[:, 0] / scales), qmin, qmax)
        lo, hi = ranges[self.of(scales, qmin - zero_points, qmax - zero_points).argmin()].tolist()
        return lo, hi

    def best_exponent(self) -> Bounds:
        """The range of the power of two with the least error, from the one that holds all values downwards."""
        qmin, qmax = RANGES[self.search.precision]
        highest = power_of_two_above((self.search.high - self.search.low) / (qmax - qmin))
        scales: Float64s = np.ldexp(highest, -np.arange(5))
        limits = np.full(len(scales), float(qmin)), np.full(len(scales), float(qmax))
        scale = float(scales[self.of(scales, *limits).argmin()])
        return scale * qmin, scale * qmax

    def of(self, scales: Float64s, lowest: Float64s, highest: Float64s) -> Float64s:
        """The error for each scale, with the least and the greatest integer, zero at 0."""
        x = self.edges[:, None] / scales
        n = np.clip(np.rint(x), lowest, highest)
        x -= n
        return scales**3 * (self.weights @ (n / 12 + x * x * x / 3))


def _aciq(search: _Search) -> Bounds:
    """±α around the mean, with α of the distribution whose mean absolute deviation is nearer to the values'.

    Clipping and rounding together cost least where the cost of moving α vanishes: with t = α / b for a Laplace
    distribution, t·exp(t) = 3·4^bits; with t = α / σ for a normal one, t / (6·4^bits) = φ(t) − t·Q(t). What has one
    sign is half of such a distribution, with all integers on its side: as if there were a bit more.
    """
    one_sided = search.low == 0 or search.high == 0
    histogram = search.spread.magnitudes() if one_sided and search.low == 0 else search.histogram
    weights, x = histogram.counts / histogram.total, histogram.centers
    mean = 0.0 if one_sided or search.centred else float(weights @ x)
    deviation, sigma = float(weights @ np.abs(x - mean)), math.sqrt(float(weights @ (x - mean) ** 2))
    bits = search.bits + (one_sided and not search.centred)
    laplace = abs(sigma - math.sqrt(2) * deviation) < abs(sigma - math.sqrt(math.pi / 2) * deviation)
    alpha = deviation * _laplace_clip(bits) if laplace else sigma * _normal_clip(bits)
    return mean - alpha, mean + alpha


def _laplace_clip(bits: int) -> float:
    return _root(lambda t: t + math.log(t) - math.log(3 * 4.0**bits))


def _normal_clip(bits: int) -> float:
    def cost(t: float) -> float:
        density, tail = math.exp(-t * t / 2) / math.sqrt(2 * math.pi), math.erfc(t / math.sqrt(2)) / 2
        return t / (6 * 4.0**bits) - density + t * tail

    return _root(cost)


def _root(rising: Callable[[float], float]) -> float:
    """Where a rising function of (0, 64) is zero."""
    low, high = 1e-6, 64.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if rising(middle) > 0 else (middle, high)
    return high


CALIBRATIONS: dict[Calibration, Callable[[_Search], Bounds]] = {
    "percentile": _percentile,
    "kl": _glow,
    "kl_tvm": _tvm,
    "mse": _least_square,
    "aciq": _aciq,
}
"""Those that work on a histogram."""


def rescaled(histogram: Histogram, lo: float, hi: float, new_bins: int) -> npt.NDArray[np.float32]:
    """Counts in `new_bins` over [lo, hi], as Glow moves them to as many: whole numbers, in float32 arithmetic.

    Each new bin takes its share of an old one, rounded half away, while there is some left of it.
    """
    one = np.float32
    counts, bins = histogram.counts.astype(np.float32), len(histogram.counts)
    first, last = one(histogram.lo), one(histogram.hi)
    low, high = one(lo), one(hi)
    if (first, last, bins) == (low, high, new_bins):
        return counts
    width, new_width = (last - first) / one(bins), (high - low) / one(new_bins)
    index = np.nonzero(counts)[0]
    held = counts[index]
    starts, stops = first + index.astype(one) * width, first + (index + 1).astype(one) * width
    from_bin = np.clip(np.floor((starts - low) / new_width), 0, new_bins - 1).astype(np.int64)
    to_bin = np.clip(np.ceil((stops - low) / new_width), 0, new_bins - 1).astype(np.int64)
    result, left = np.zeros(new_bins, np.float32), held.copy()
    for step in range(int((to_bin - from_bin).max(initial=-1)) + 1):
        new = from_bin + step
        inside = new <= to_bin
        new_start, new_stop = low + new.astype(one) * new_width, low + (new + 1).astype(one) * new_width
        share = (np.minimum(stops, new_stop) - np.maximum(starts, new_start)) / width
        wanted = np.floor((np.clip(share, one(0), one(1)) * held).astype(np.float64) + 0.5).astype(np.float32)
        moved = np.where(inside, np.minimum(wanted, left), one(0))
        np.add.at(result, np.minimum(new, new_bins - 1), moved)
        left -= moved
    return result
