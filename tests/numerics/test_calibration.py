"""Calibrations: what each keeps of known distributions, what it costs, and when it refuses."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qmlir.dialects.calib import HistogramAttr
from qmlir.numerics.calibration import (
    CALIBRATIONS,
    calibrated_range,
    choose_quantization,
)
from qmlir.numerics.fixed_point import dequantize, quantize
from qmlir.numerics.histograms import MOST_BINS, Histogram
from qmlir.numerics.schemas import (
    SCHEMAS,
    STORAGE_RANGES,
    Calibration,
    QuantizationError,
    Schema,
    bias_parameters,
    exponent_of,
    requantization,
)
from qmlir.plugins import choices
from qmlir.profiles.tensor_profile import TensorProfile
from tests.conftest import crossed

RNG = np.random.default_rng(11)
NORMAL = RNG.standard_normal(200_000)
SAMPLES = {
    "normal": NORMAL,
    "rectified": np.maximum(NORMAL, 0),
    "negative": np.minimum(NORMAL, 0),
    "laplace": RNG.laplace(size=200_000),
    "outlier": np.concatenate([NORMAL, [60.0]]),
    "uniform": RNG.uniform(-1, 3, 200_000),
}
BY_HISTOGRAM = tuple(CALIBRATIONS)


def histogram_of(values: Any, bins: int = 2000) -> Histogram:
    lo, hi = float(values.min()), float(values.max())
    return Histogram.over(lo, hi, np.histogram(values, bins, (lo, hi))[0])


def kept(values: Any, calibration: Calibration, schema: Schema = "asymmetric", bins: int = 2000) -> tuple[float, float]:
    lo, hi = float(values.min()), float(values.max())
    return calibrated_range(lo, hi, schema, "int8", histogram_of(values, bins), calibration)


def square_error(values: Any, parameters: tuple[float, int]) -> float:
    qmin, qmax = STORAGE_RANGES["int8"]
    again = dequantize(quantize(values, *parameters, qmin, qmax, np.dtype(np.int8)), *parameters)
    return float(((again - values) ** 2).mean())


@crossed({"name": SAMPLES, "schema": SCHEMAS})
def test_mse_is_never_worse_than_the_whole_range(name: str, schema: Schema) -> None:
    values = SAMPLES[name]
    lo, hi = float(values.min()), float(values.max())
    errors = {
        c: square_error(values, choose_quantization(lo, hi, schema, "int8", histogram_of(values), c))
        for c in (*BY_HISTOGRAM, "minmax")
    }
    assert errors["mse"] <= min(errors.values()) * 1.02, errors


def test_searched_exponents() -> None:
    """Glow rounds the exponent up; the search may take a lower one, and then is better."""
    values = SAMPLES["normal"]
    lo, hi = float(values.min()), float(values.max())
    schema: Schema = "symmetric_with_power2_scale"
    above = choose_quantization(lo, hi, schema)
    searched = choose_quantization(lo, hi, schema, "int8", histogram_of(values), "mse")
    assert (exponent_of(above[0]), exponent_of(searched[0])) == (-4, -5)
    assert square_error(values, searched) < square_error(values, above)


@pytest.mark.parametrize("calibration", [c for c in BY_HISTOGRAM if c != "mse"])
def test_a_lone_outlier_saturates(calibration: Calibration) -> None:
    """Under mse too if it weighs less: here its square is that of all the others together."""
    lo, hi = kept(SAMPLES["outlier"], calibration)
    assert -5 <= lo <= -2.5
    assert 2.5 <= hi <= 8


@crossed({"schema": SCHEMAS, "name": SAMPLES, "calibration": BY_HISTOGRAM})
def test_ranges_stay_within_what_was_seen(calibration: Calibration, name: str, schema: Schema) -> None:
    values = SAMPLES[name]
    lo, hi = kept(values, calibration, schema)
    most = float(np.abs(values).max()) * 128 / 127
    assert -most <= lo <= 0 <= hi <= most
    if schema == "asymmetric":
        assert min(float(values.min()), 0.0) <= lo
        assert hi <= max(float(values.max()), 0.0)


def test_known_ranges() -> None:
    uniform = SAMPLES["uniform"]
    assert kept(uniform, "percentile") == pytest.approx((-1, 3), abs=0.01)
    assert kept(uniform, "percentile", "symmetric") == pytest.approx((-3, 3), abs=0.01)
    assert kept(SAMPLES["rectified"], "percentile") == pytest.approx((0, 3.72), abs=0.2)
    assert kept(SAMPLES["negative"], "percentile") == pytest.approx((-3.72, 0), abs=0.2)
    # Banner, Nahshan, Soudry: α = 3.92 σ for a normal distribution in 8 bits, 9.89 b for Laplace's.
    wide = np.concatenate([NORMAL, [30.0, -30.0]])
    assert kept(wide, "aciq", "symmetric") == pytest.approx((-3.92, 3.92), rel=0.01)
    wide = np.concatenate([SAMPLES["laplace"], [30.0, -30.0]])
    assert kept(wide, "aciq", "symmetric") == pytest.approx((-9.89, 9.89), rel=0.01)
    # Of half a distribution every integer is on its side: as with a bit more.
    lo, hi = kept(np.abs(wide), "aciq")
    assert lo == 0
    assert hi == pytest.approx(11.16, rel=0.01)


@pytest.mark.parametrize("percent", [50.0, 90.0, 99.0, 99.9, 99.99, 100.0])
@pytest.mark.parametrize("schema", SCHEMAS)
def test_a_percentile_keeps_its_percent(percent: float, schema: Schema) -> None:
    name: Any = f"percentile-{percent:g}"
    lo, hi = kept(NORMAL, name, schema)
    inside = 100 * float(((lo <= NORMAL) & (hi >= NORMAL)).mean())
    assert inside == pytest.approx(percent, abs=0.3)
    if percent == 99.99:
        assert (lo, hi) == kept(NORMAL, "percentile", schema)


@pytest.mark.parametrize("name", ["percentile-49", "percentile-100.5", "percentile-200"])
def test_a_percentile_of_no_percent(name: Any) -> None:
    with pytest.raises(QuantizationError, match=f"keeps 50 to 100 percent of the values, got {name}"):
        kept(NORMAL, name)


@pytest.mark.parametrize("name", ["percentile-", "percentile-x", "mse-3", "percentiles-99"])
def test_a_number_that_no_calibration_takes(name: Any) -> None:
    with pytest.raises(QuantizationError, match=f"there is no such calibration, got {name}"):
        kept(NORMAL, name)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(BY_HISTOGRAM), st.sampled_from(SCHEMAS))
def test_random_histograms(seed: int, calibration: Calibration, schema: Schema) -> None:
    """Holes, spikes and one-sided ranges: always a legal range, never NaN."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 50, 600) * (rng.random(600) < rng.random()) + (np.arange(600) == rng.integers(600))
    lo = float(rng.choice([-3.0, 0.0, 0.5, -9.0]))
    hi = max(lo + 0.01, float(rng.choice([4.0, 0.0, -1.0, 700.0])))
    scale, zero_point = choose_quantization(lo, hi, schema, "int8", counts, calibration)
    assert math.isfinite(scale)
    assert scale > 0
    assert -128 <= zero_point <= 127


def test_values_far_from_zero() -> None:
    """A window around zero that holds none of them loses everything."""
    counts = np.arange(1000) % 7
    scale, zero_point = choose_quantization(10.0, 20.0, "symmetric", "int8", counts, "kl")
    assert 127 * scale == pytest.approx(20, rel=0.1)
    assert zero_point == 0


@crossed({"centre": [5.0, -1e30], "calibration": BY_HISTOGRAM})
def test_a_few_values_in_a_narrow_band_away_from_zero(centre: float, calibration: Calibration) -> None:
    """Bins as narrow as the band would need billions to reach zero."""
    pairs: tuple[tuple[int, Schema], ...] = ((2, "asymmetric"), (400, "symmetric"))
    for count, schema in pairs:
        seen = TensorProfile(())
        seen.update((centre * (1 + np.linspace(0, 1e-6, count))).astype(np.float32))
        histogram = HistogramAttr.of(seen.exponent, seen.first, seen.counts).histogram()
        scale, zero_point = choose_quantization(seen.lo, seen.hi, schema, "int8", histogram, calibration)
        restored = (min(max(round(centre / scale) + zero_point, -128), 127) - zero_point) * scale
        assert restored == pytest.approx(centre, rel=0.02)


def test_a_constant_has_nothing_to_weigh() -> None:
    for calibration in BY_HISTOGRAM:
        assert choose_quantization(0.0, 0.0, calibration=calibration) == choose_quantization(0.0, 0.0)
        assert choose_quantization(2.5, 2.5, histogram=[7], calibration=calibration) == choose_quantization(0.0, 2.5)


def test_auto_is_mse_where_it_can_be() -> None:
    values = SAMPLES["outlier"]
    lo, hi = float(values.min()), float(values.max())
    wide, few = histogram_of(values), histogram_of(values, 20)
    assert choose_quantization(lo, hi, histogram=wide, calibration="auto") == choose_quantization(
        lo, hi, histogram=wide, calibration="mse"
    )
    for histogram in (few, None):
        found = choose_quantization(lo, hi, histogram=histogram, calibration="auto")
        assert found == choose_quantization(lo, hi)
    assert choose_quantization(lo, hi, histogram=wide, calibration="auto", glow_exact=True) == found


# Refusals.


@pytest.mark.parametrize("calibration", BY_HISTOGRAM)
def test_without_a_histogram(calibration: Calibration) -> None:
    with pytest.raises(QuantizationError, match=f'tensor "x": calibration {calibration} needs a histogram'):
        choose_quantization(0.0, 1.0, calibration=calibration, where='tensor "x"')


@pytest.mark.parametrize("calibration", BY_HISTOGRAM)
def test_too_few_bins(calibration: Calibration) -> None:
    need = 255 if calibration.startswith("kl") else 64
    with pytest.raises(QuantizationError, match=f"{calibration} needs at least {need} bins for int8, got 10 over"):
        choose_quantization(0.0, 1.0, histogram=np.ones(10), calibration=calibration)


def test_divergence_of_16_bits() -> None:
    with pytest.raises(QuantizationError, match="kl needs at least 65535 bins for int16, got 2000"):
        choose_quantization(0.0, 1.0, precision="int16", histogram=np.ones(2000), calibration="kl")


def test_moving_average_is_no_matter_of_a_histogram() -> None:
    with pytest.raises(QuantizationError, match="taken while profiling"):
        choose_quantization(0.0, 1.0, histogram=np.ones(2000), calibration="moving_average")


def test_glow_has_two_calibrations() -> None:
    with pytest.raises(QuantizationError, match="minmax and kl only, got mse"):
        choose_quantization(0.0, 1.0, histogram=np.ones(2000), calibration="mse", glow_exact=True)


def test_every_calibration_is_known() -> None:
    assert {*BY_HISTOGRAM, "auto", "minmax", "moving_average"} == {*(choices(Calibration) or ())}


# Histograms.


def test_magnitudes() -> None:
    folded = Histogram(-2.0, 1.0, np.array([1.0, 2.0, 4.0])).magnitudes()
    assert folded.counts.tolist() == [6.0, 1.0]
    assert (folded.lo, folded.hi) == (0.0, 2.0)
    shifted = Histogram(-0.5, 1.0, np.array([1.0, 2.0])).magnitudes()
    assert shifted.counts.tolist() == [2.0, 1.0], "a bin across zero folds in half"
    assert shifted.total == 3


@pytest.mark.parametrize("apart", [0.5, 1e3, 1e30])
def test_together_takes_a_moderate_number_of_bins(apart: float) -> None:
    """However narrow the bins, and however far the values lie apart."""
    low, high = Histogram(0.25, 2.0**-20, np.ones(2000)), Histogram(apart, 2.0**-20 * apart, np.ones(1000))
    both = Histogram.together([low, high])
    assert len(both.counts) <= MOST_BINS + 1
    assert both.total == pytest.approx(3000)
    assert both.hi >= high.hi
    assert both.below(np.array([apart]))[0] == pytest.approx(2000, abs=1000 * both.width / (high.hi - high.lo))


def test_bins_spread_over_a_wider_range_keep_all_counts() -> None:
    narrow = Histogram(5.0, 2.0**-20, np.arange(1.0, 101.0))
    assert narrow.spread_over(4.999, 5.001) is narrow
    wide = narrow.spread_over(0.0, 5.0)
    assert (wide.lo, wide.hi, len(wide.counts)) == (0.0, 5.0, MOST_BINS)
    assert wide.counts[-1] == wide.total == 5050


def test_points() -> None:
    histogram = Histogram(0.0, 0.5, np.array([1.0, 3.0]))
    assert histogram.point_below(2.5) == 0.75
    assert histogram.below(np.array([0.75])).tolist() == [2.5]
    assert histogram.centers.tolist() == [0.25, 0.75]


# Glow's corners that its tables do not show.


def test_an_int32_bias_counts_in_the_accumulators_steps_per_channel() -> None:
    wider = bias_parameters(0.5, 3, 0.25, 0.5, "int32", per_channel=True)
    assert (wider.scale, wider.zero_point, wider.weight_scale) == (0.5, 0, 2.0)
    assert bias_parameters(0.5, 3, 0.25, 0.5, "int32").weight_scale == 0.5


def test_a_scale_of_two_is_a_multiplier() -> None:
    assert (requantization(4.0, 1).multiplier, requantization(4.0, 1).post) == (4, 0)
