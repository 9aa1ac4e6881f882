"""Calibrations: choose a scale and a zero point from a range and a histogram. numpy only.

A calibration narrows the observed range: values outside the narrowed range saturate, values inside get a finer step.

    auto            mse if the histogram has enough bins; minmax otherwise, and for inputs of the network
    minmax          the whole range
    moving_average  the mean range of a sample, computed while profiling
    percentile      the range that contains all but 0.01 % of the values; percentile-99.9: all but 0.1 %
    kl              least Kullback-Leibler divergence, by Glow's search (divergence.py)
    kl_tvm          least Kullback-Leibler divergence, by TVM's search: over windows around zero
    mse             least mean square error; with power-of-two scales, the exponent with the least error
    aciq            least error for the normal or Laplace distribution that fits the values

Each calibration is a pure function of a histogram. A calibration that cannot act raises an error that says what it
needs, because an unchanged range would look like a result. Packages and programs add calibrations (plugins.py): each is
one function, of the same form as those here, from a `Search` to the range to keep.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, cast, get_args, overload

import numpy as np
import numpy.typing as npt

from qmlir.errors import QmlirError, near_misses
from qmlir.numerics import Float32s
from qmlir.numerics.divergence import LEVELS, glow_range, tvm_threshold
from qmlir.numerics.histograms import Float64s, Histogram
from qmlir.numerics.schemas import (
    RANGES,
    Calibration,
    QuantizationError,
    Schema,
    StoredPrecision,
    is_symmetric_from,
    power_of_two_above,
    quantization_of_range,
    representable_range,
)
from qmlir.plugins import CALIBRATIONS as GROUP
from qmlir.plugins import Plugin, choices, is_numbered, plugin, register, without_number

Bounds = tuple[float, float]

PERCENTILE = 0.9999
"""The share of values that `percentile` keeps within the range."""

PERCENTS = (50.0, 100.0)
"""The least and the greatest percent that `percentile-…` may keep."""

LEAST_BINS = 64
"""The least number of bins over a range for a calibration to narrow it: with fewer, a single bin is too coarse."""


def choose_quantization(
    lo: float,
    hi: float,
    schema: Schema = "asymmetric",
    precision: StoredPrecision = "int8",
    histogram: Histogram | npt.ArrayLike | None = None,
    calibration: Calibration | str | None = None,
    *,
    glow_exact: bool = False,
    where: str | None = None,
) -> tuple[float, int]:
    """Chooses (scale, zero_point) for real values in [lo, hi], or in the part of it that a calibration keeps.

    Args:
        lo: The least real value, finite in float32.
        hi: The greatest real value, likewise.
        schema: How scale and zero point are chosen from the range (schemas.py).
        precision: The stored integers; uint8 needs a schema with a free zero point.
        histogram: The distribution of the values, for calibrations other than minmax: a `Histogram`, or counts in
            equal bins that divide [lo, hi].
        calibration: How to narrow the range: one of the names above, or that of a plugin; None is minmax.
        glow_exact: Whether to reproduce Glow's parameters bit for bit; only the calibrations minmax and kl allow it.
        where: The name of the tensor or layer that the range belongs to, for error messages.

    Raises:
        QuantizationError: The range is not finite or not in order, the schema cannot use the precision, or the
            calibration is unknown, has no histogram or too few bins.
        PluginError: The calibration is a plugin that cannot be used.

    >>> choose_quantization(-1.0, 4.0, "symmetric", "int8")  # 4 / 127, in float32
    (0.031496062874794006, 0)
    >>> choose_quantization(0.0, 255.0, "asymmetric", "int8")
    (1.0, -128)
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
    calibration: Calibration | str,
    *,
    glow_exact: bool = False,
    where: str | None = None,
) -> Bounds:
    """Returns the part of [lo, hi] that a calibration keeps; arguments and errors are as in `choose_quantization`."""
    low, high = representable_range(lo, hi, schema, precision, where=where)
    if calibration == "auto":
        counted = histogram is not None and (high - low) / histogram.width >= LEAST_BINS
        calibration = "mse" if counted and not glow_exact else "minmax"
    method = calibration_called(calibration, where=where)
    if calibration == "minmax" or lo == hi or low == high:
        return lo, hi  # minmax, or a constant tensor: there is nothing to narrow
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
    search = Search(low, high, schema, precision, histogram, spread, bins, glow_exact)
    need = _needed_bins(calibration, precision, glow_exact=glow_exact)
    if search.bins < need:
        raise QuantizationError(
            f"calibration {calibration} needs at least {need} bins for {precision}",
            where=where,
            got=f"{search.bins} over [{low:g}, {high:g}]",
            remedy="profile with more bins, or use minmax",
        )
    found = method(search) if not isinstance(method, Plugin) else _by_plugin(method, search, where)
    return found if glow_exact else (max(found[0], low), min(found[1], high))


@dataclass(frozen=True)
class Search:
    """The input of a calibration: a tensor's range, the distribution of its values, and how it will be stored.

    low, high   the real range that the integers cover without calibration, low ≤ 0 ≤ high
    schema      how a range becomes a scale and a zero point
    precision   the stored integers
    histogram   the histogram of the values, in real units
    spread      the same histogram, in bins wide enough that a moderate number of them covers the range
    bins        the number of bins over the range that a divergence search uses
    glow_exact  whether to reproduce Glow's numbers
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
    def symmetric(self) -> bool:
        """Whether the schema makes the range symmetric around 0."""
        return is_symmetric_from(self.low, self.schema)

    @property
    def bits(self) -> int:
        """The number of bits of the stored integers."""
        qmin, qmax = RANGES[self.precision]
        return (qmax - qmin).bit_length()


def calibration_called(name: str, *, where: str | None = None) -> Callable[[Search], Bounds] | Plugin:
    """Returns the calibration of a name: qmlir's function, or a plugin.

    Raises:
        QuantizationError: There is no such calibration; the error proposes similar names.
        PluginError: Several calibrations have the name.
    """
    if (found := plugin(GROUP, name, BUILT_IN)) is not None:
        return found
    if is_numbered(Calibration, name):
        percent = without_number(name)[1]
        if percent is None or not PERCENTS[0] <= percent <= PERCENTS[1]:
            need = f"a percentile keeps {PERCENTS[0]:g} to {PERCENTS[1]:g} percent of the values"
            raise QuantizationError(need, where=where, got=name, remedy="write calibration=percentile-99.9")
        return partial(_percentile, share=round(percent / 100, 12))  # 99.99 / 100 is not 0.9999
    if name not in BUILT_IN:
        remedy = near_misses(name, choices(Calibration) or ())
        raise QuantizationError("there is no such calibration", where=where, got=name, remedy=remedy)
    return CALIBRATIONS.get(cast(Calibration, name), _whole)


def _whole(search: Search) -> Bounds:
    return search.low, search.high


def _by_plugin(method: Plugin, search: Search, where: str | None) -> Bounds:
    """Returns the range that a plugin keeps.

    Raises:
        PluginError: The plugin is no function, fails, or returns something else than two finite numbers in order.
    """
    function = method.load()
    if not callable(function):
        raise method.fault("must be a function", got=repr(function), where=where)
    try:
        found: Any = function(search)
        lo, hi = (float(bound) for bound in found)
    except QmlirError:
        raise
    except Exception as error:  # it is not our code
        got = " ".join(f"{type(error).__name__}: {error}".split())
        raise method.fault("must return the range to keep, (lowest, highest)", got=got, where=where) from error
    if not -math.inf < lo <= hi < math.inf or lo > search.high or hi < search.low:
        need = f"must return finite numbers in order, within [{search.low:g}, {search.high:g}]"
        raise method.fault(need, got=f"({lo:g}, {hi:g})", where=where)
    return lo, hi


F = TypeVar("F", bound=Callable[[Search], Bounds])


@overload
def register_calibration(name: str) -> Callable[[F], F]: ...


@overload
def register_calibration(name: str, function: F) -> F: ...


def register_calibration(name: str, function: Callable[[Search], Bounds] | None = None) -> Any:
    """Adds a calibration, which is then an option's value: `quantize(net, profile, calibration="clip-tails")`.

    Args:
        name: Letters, digits, `-` and `_`. A name that the program registered before gets the new function.
        function: From a `Search`, which holds the histogram of a tensor, to the real range to keep, (lowest, highest);
            values beyond it saturate. What reaches beyond the tensor's range is cut. None to use this as a decorator.

    Returns:
        The function itself.

    Raises:
        PluginError: The name is no name, or is that of another calibration.

    >>> @register_calibration("clip-tails")
    ... def clip_tails(search):
    ...     most = search.histogram.magnitudes().point_below(0.99 * search.histogram.total)
    ...     return -most, most
    >>> counts = [1] + [100] * 98 + [1]  # one value in each of the outermost bins
    >>> choose_quantization(-1.0, 1.0, "symmetric", "int8", counts, "clip-tails")
    (0.0076409294269979, 0)
    """
    if function is None:
        return partial(register_calibration, name)
    register(GROUP, name, function, BUILT_IN)
    return function


def _histogram(given: Histogram | npt.ArrayLike, lo: float, hi: float) -> Histogram:
    return given if isinstance(given, Histogram) else Histogram.over(lo, hi, given)


def _needed_bins(calibration: str, precision: StoredPrecision, *, glow_exact: bool) -> int:
    """Returns the least number of bins over the range that a calibration needs.

    A divergence search needs a bin for each stored integer but one; Glow uses 255 quantized bins for any precision.
    """
    if calibration not in ("kl", "kl_tvm"):
        return LEAST_BINS
    qmin, qmax = RANGES[precision]
    return LEVELS if glow_exact else qmax - qmin


def _of_narrowed(lo: float, hi: float, schema: Schema, precision: StoredPrecision) -> tuple[float, int]:
    """Returns Glow's parameters of a range narrowed by kl: the range is not made symmetric a second time."""
    scale, zero_point = quantization_of_range(lo, hi, "asymmetric", precision, glow_exact=True)
    return (power_of_two_above(scale) if schema == "symmetric_with_power2_scale" else scale), zero_point


# ---------------------------------------------------------------------------------------------------------------
# The calibrations


def _percentile(search: Search, share: float = PERCENTILE) -> Bounds:
    """Saturates all but a share: by magnitude if symmetric, at the far end of a range from 0, else half per side."""
    histogram, cut = search.histogram, 1 - share
    if search.symmetric:
        most = search.spread.magnitudes().point_below(share * histogram.total)
        return -most, most
    if search.low == 0 or search.high == 0:
        bound = histogram.point_below((share if search.low == 0 else cut) * histogram.total)
        return (0.0, bound) if search.low == 0 else (bound, 0.0)
    return histogram.point_below(cut / 2 * histogram.total), histogram.point_below((1 - cut / 2) * histogram.total)


def _glow(search: Search) -> Bounds:
    counts = rescaled(search.spread, search.low, search.high, search.bins)
    return glow_range(counts, search.low, search.high, symmetric=search.symmetric, glow_exact=search.glow_exact)


def _tvm(search: Search) -> Bounds:
    histogram = search.spread
    most = max(-histogram.lo, histogram.hi)
    half = int(np.ceil(most / histogram.width))
    edges: Float64s = histogram.width * (np.arange(2 * half + 2, dtype=np.float64) - half - 0.5)
    counts = np.diff(histogram.below(edges)).astype(np.float32)
    # If no value is negative, as after relu, a symmetric range would leave half of the integers unused.
    one_sided = search.low == 0 and not search.symmetric
    threshold = tvm_threshold(counts, histogram.width, 2 * LEVELS + 1 if one_sided else LEVELS)
    return (0.0, threshold) if one_sided else (-threshold, threshold)


def _least_square(search: Search) -> Bounds:
    """Searches the least square error: scales the whole range down, then each end; or tries power-of-two exponents."""
    error = _SquareError(search)
    if search.schema == "symmetric_with_power2_scale":
        return error.best_exponent()
    best = error.least(_SHRINKING[:, None] * np.array([search.low, search.high]))
    best = error.least(_FINER[:, None] * np.array(best))
    if search.symmetric or search.low == 0 or search.high == 0:
        return best
    for _ in range(2):
        best = error.least(np.stack([best[0] * _FINER, np.full(len(_FINER), best[1])], axis=1))
        best = error.least(np.stack([np.full(len(_FINER), best[0]), best[1] * _FINER], axis=1))
    return best


_SHRINKING: Float64s = np.geomspace(1.0, 2.0**-5, 41)
_FINER: Float64s = np.exp2(np.linspace(0.125, -0.125, 21))


class _SquareError:
    """The square error of quantization, assuming that values are spread evenly over their histogram bins.

    Write x = s·(n + r), where s is the scale, n the stored integer and s·r the error. The integral of the squared
    error from 0 to x is s³·(n/12 + r³/3). Beyond the representable range, n stays constant and r grows.
    """

    def __init__(self, search: Search):
        self.search = search
        histogram = search.histogram
        density = np.concatenate([[0.0], histogram.counts / histogram.width, [0.0]])
        weights = density[:-1] - density[1:]
        counted = weights != 0  # few values leave most bins empty
        self.edges, self.weights = histogram.edges[counted], weights[counted]

    def least(self, ranges: Float64s) -> Bounds:
        """Returns the range with the least error among `ranges`, [n, 2], each clipped to the search's whole range."""
        ranges = np.unique(np.clip(ranges, self.search.low, self.search.high), axis=0)[::-1]
        qmin, qmax = RANGES[self.search.precision]
        scales = np.maximum((ranges[:, 1] - ranges[:, 0]) / (qmax - qmin), np.finfo(np.float64).tiny)
        zero_points = np.clip(np.rint(qmin - ranges[:, 0] / scales), qmin, qmax)
        lo, hi = ranges[self.of(scales, qmin - zero_points, qmax - zero_points).argmin()].tolist()
        return lo, hi

    def best_exponent(self) -> Bounds:
        """Returns the range of the power-of-two scale with the least error.

        The candidates are the smallest power of two that covers all values, and the four powers below it.
        """
        qmin, qmax = RANGES[self.search.precision]
        highest = power_of_two_above((self.search.high - self.search.low) / (qmax - qmin))
        scales: Float64s = np.ldexp(highest, -np.arange(5))
        limits = np.full(len(scales), float(qmin)), np.full(len(scales), float(qmax))
        scale = float(scales[self.of(scales, *limits).argmin()])
        return scale * qmin, scale * qmax

    def of(self, scales: Float64s, lowest: Float64s, highest: Float64s) -> Float64s:
        """Returns the error of each scale.

        Args:
            scales: The candidate scales, [n].
            lowest: The least stored integer minus the zero point for each scale, [n].
            highest: The greatest stored integer minus the zero point for each scale, [n].
        """
        x = self.edges[:, None] / scales
        n = np.clip(np.rint(x), lowest, highest)
        x -= n
        return scales**3 * (self.weights @ (n / 12 + x * x * x / 3))


def _aciq(search: Search) -> Bounds:
    """Returns mean ± α, where α minimizes the error for the distribution (Laplace or normal) that fits better.

    The better fit is the distribution whose ratio of standard deviation to mean absolute deviation is nearer to that
    of the values. The sum of clipping and rounding error is least where its derivative by α vanishes. For a Laplace
    distribution and t = α / b, that is t·exp(t) = 3·4^bits; for a normal distribution and t = α / σ, it is
    t / (6·4^bits) = φ(t) − t·Q(t). Values of one sign form half of such a distribution and use all integers for that
    half, which is worth one more bit.
    """
    one_sided = search.low == 0 or search.high == 0
    histogram = search.spread.magnitudes() if one_sided and search.low == 0 else search.histogram
    weights, x = histogram.counts / histogram.total, histogram.centers
    mean = 0.0 if one_sided or search.symmetric else float(weights @ x)
    deviation, sigma = float(weights @ np.abs(x - mean)), math.sqrt(float(weights @ (x - mean) ** 2))
    bits = search.bits + (one_sided and not search.symmetric)
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
    """Returns the zero of a rising function in (0, 64), by bisection."""
    low, high = 1e-6, 64.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if rising(middle) > 0 else (middle, high)
    return high


CALIBRATIONS: dict[Calibration, Callable[[Search], Bounds]] = {
    "percentile": _percentile,
    "kl": _glow,
    "kl_tvm": _tvm,
    "mse": _least_square,
    "aciq": _aciq,
}
"""The calibrations that work on a histogram, by name."""

BUILT_IN: tuple[str, ...] = get_args(get_args(Calibration)[0])
"""The names that plugins cannot have."""


def rescaled(histogram: Histogram, lo: float, hi: float, new_bins: int) -> Float32s:
    """Redistributes a histogram to `new_bins` bins over [lo, hi] as Glow does: whole counts, in float32 arithmetic.

    Each new bin takes its share of the count of each old bin that it overlaps, rounded half away from zero, but no
    more than is left of that count.
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
