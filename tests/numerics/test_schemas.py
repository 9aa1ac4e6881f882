"""The promises each schema makes; tests/conformance/test_glow_quantization.py has Glow's own results."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmlir.errors import QmlirWarning
from qmlir.numerics.calibration import choose_quantization
from qmlir.numerics.fixed_point import dequantize, quantize
from qmlir.numerics.schemas import (
    SCHEMAS,
    SMALLEST_SCALE,
    STORAGE_RANGES,
    ZERO_WEIGHTS_SCALE,
    Precision,
    QuantizationError,
    Schema,
    WeightPrecision,
    choose_weight_quantization,
    exponent_of,
    is_symmetric,
    nearest_exponent,
    power_of_two_above,
    scale_text,
    weight_range,
)

# The four corners where we leave Glow.


def test_small_one_sided_ranges_keep_their_height() -> None:
    scale, zero_point = choose_quantization(0.0, 1e-8)
    assert zero_point == -128
    assert (127 - zero_point) * scale == pytest.approx(1e-8)
    assert choose_quantization(0.0, 1e-8, glow_exact=True) == (scale, 0), "saturates at half the range"


def test_unsigned_integers_hold_both_signs() -> None:
    scale, zero_point = choose_quantization(-1.0, 1.0, precision="uint8")
    assert (scale, zero_point) == (float(np.float32(2 / 255)), 128)
    assert choose_quantization(-1.0, 1.0, precision="uint8", glow_exact=True) == (scale, 0), "all below 0 saturates"
    with pytest.warns(
        QmlirWarning, match=r'tensor "t": Glow stores \[-1, 1\] with the zero point 0, so that all below 0'
    ):
        choose_quantization(-1.0, 1.0, precision="uint8", glow_exact=True, where='tensor "t"')


def test_scales_are_normal() -> None:
    assert choose_quantization(0.0, 1e-44)[0] == SMALLEST_SCALE
    assert choose_quantization(0.0, 1e-44, glow_exact=True)[0] == 0.0
    assert (
        choose_quantization(0.0, 0.0) == choose_quantization(0.0, 0.0, glow_exact=True) == (float(np.float32(0.1)), 0)
    )


@pytest.mark.parametrize("schema", ["symmetric", "symmetric_with_power2_scale"])
def test_extreme_ranges(schema: Schema) -> None:
    scale, zero_point = choose_quantization(-3.4e38, 1e30, schema)
    assert zero_point == 0
    assert math.isfinite(scale)
    assert -128 * scale <= -3.39e38


# Promises.

bounds = st.floats(-(2.0**100), 2.0**100, width=32, allow_subnormal=False)


@given(bounds, bounds, st.sampled_from(SCHEMAS), st.sampled_from(["int8", "int16", "uint8"]))
def test_promises(a: float, b: float, schema: Schema, precision: Precision) -> None:
    lo, hi = min(a, b), max(a, b)
    if precision == "uint8" and (is_symmetric(schema) or (schema == "symmetric_with_uint8" and lo < 0)):
        with pytest.raises(QuantizationError, match="signed integers"):
            choose_quantization(lo, hi, schema, precision)
        return
    scale, zero_point = choose_quantization(lo, hi, schema, precision)
    qmin, qmax = STORAGE_RANGES[precision]
    assert scale >= SMALLEST_SCALE
    assert float(np.float32(scale)) == scale
    assert qmin <= zero_point <= qmax
    if is_symmetric(schema) or (schema == "symmetric_with_uint8" and lo < 0):
        assert zero_point == 0
    if schema == "symmetric_with_power2_scale":
        assert math.frexp(scale)[0] == 0.5
    # The bounds come back within half a step, and a rounding of the scale and of the zero point.
    dtype = np.dtype(precision)
    x = np.array([min(lo, 0.0), 0.0, max(hi, 0.0)])
    again = dequantize(quantize(x, scale, zero_point, qmin, qmax, dtype), scale, zero_point)
    assert again[1] == 0
    assert np.abs(again - x).max() <= scale * 1.02 + abs(x).max() * 1e-6


def test_known_values() -> None:
    third = float(np.float32(2 / 255))
    assert choose_quantization(-1.0, 1.0) == (third, 0)
    assert choose_quantization(0.0, 2.0) == (third, -128)
    assert choose_quantization(0.0, 2.0, precision="uint8") == (third, 0)
    assert choose_quantization(0.5, 2.0) == (third, -128), "widened to hold 0"
    assert choose_quantization(-1.0, 1.0, "symmetric") == (float(np.float32(1 / 127)), 0)
    assert choose_quantization(-1.28, 1.0, "symmetric")[0] == pytest.approx(0.01), "−128 is used"
    assert choose_quantization(0.0, 2.55, "symmetric_with_uint8") == (float(np.float32(np.float32(2.55) / 255.0)), -128)
    assert choose_quantization(-1.0, 1.0, "symmetric_with_uint8") == choose_quantization(-1.0, 1.0, "symmetric")
    assert choose_quantization(-1.0, 1.0, "symmetric_with_power2_scale") == (2.0**-6, 0)
    assert choose_quantization(-1.0, 127 / 128, "symmetric_with_power2_scale") == (2.0**-7, 0), "exact stays"


def test_power_of_two_above() -> None:
    for e in range(-126, 127):
        assert power_of_two_above(2.0**e) == 2.0**e
        assert power_of_two_above(math.nextafter(2.0**e, math.inf)) == 2.0 ** (e + 1)


@pytest.mark.parametrize(
    ("lo", "hi", "message"),
    [
        (math.nan, 1.0, "a range must be two finite float32 numbers, got \\[nan, 1.0\\]"),
        (0.0, math.inf, "a range must be two finite float32 numbers"),
        (-math.inf, 0.0, "a range must be two finite float32 numbers"),
        (0.0, 1e39, "a range must be two finite float32 numbers"),
        (1.0, 0.0, "a range must be in order, lowest first, got \\[1.0, 0.0\\]"),
    ],
)
def test_bad_ranges(lo: float, hi: float, message: str) -> None:
    with pytest.raises(QuantizationError, match=f'tensor "x": {message}'):
        choose_quantization(lo, hi, where='tensor "x"')


# Weights.


def test_weights_per_tensor_and_per_channel() -> None:
    w = np.array([[1.0, -2.54], [0.5, 0.127]], np.float32)
    assert choose_weight_quantization(w).tolist() == [float(np.float32(np.float32(2.54) / 127.0))]
    assert choose_weight_quantization(w, 0) == pytest.approx([0.02, 0.5 / 127])
    assert choose_weight_quantization(w, 1) == pytest.approx([1 / 127, 0.02])
    assert choose_weight_quantization(w, 0, narrow=False) == pytest.approx([2.54 / 128, 0.5 / 127])
    assert choose_weight_quantization(w, 0, precision="int16") == pytest.approx([2.54 / 32767, 0.5 / 32767])
    assert choose_weight_quantization(w, 0, "symmetric_with_power2_scale").tolist() == [2.0**-5, 2.0**-7]
    for schema in ("asymmetric", "symmetric", "symmetric_with_uint8"):
        assert (choose_weight_quantization(w, 0, schema) == choose_weight_quantization(w, 0)).all()


@pytest.mark.parametrize(("schema", "precision"), [("symmetric_with_power2_scale", "int8"), ("symmetric", "int4")])
def test_searched_weights_are_better(schema: Schema, precision: WeightPrecision) -> None:
    w = (np.random.default_rng(2).standard_normal((8, 300)) * 0.68).astype(np.float32)
    low, high = weight_range(precision)

    def errors(searched: bool) -> np.ndarray:
        scales = choose_weight_quantization(w, 0, schema, precision, searched=searched)[:, None]
        assert (np.frexp(scales)[0] == 0.5).all() or schema == "symmetric"
        return ((np.clip(np.rint(w / scales), low, high) * scales - w) ** 2).sum(axis=1)

    assert (errors(True) <= errors(False)).all()
    assert errors(True).sum() < 0.9 * errors(False).sum()


def test_weight_ranges() -> None:
    assert weight_range("int8") == weight_range("uint8") == (-127, 127)
    assert weight_range("int8", narrow=False) == (-128, 127)
    assert weight_range("int16") == (-32767, 32767)
    assert [weight_range(f"int{bits}") for bits in (2, 3, 7)] == [(-1, 1), (-3, 3), (-63, 63)]  # type: ignore[arg-type]


def test_channels_of_zeros() -> None:
    w = np.array([[0.0, 0.0], [0.127, -0.01]], np.float32)
    assert choose_weight_quantization(w, 0) == pytest.approx([0.001, 0.001])
    assert choose_weight_quantization(np.zeros((2, 2)), 0).tolist() == [ZERO_WEIGHTS_SCALE] * 2
    assert choose_weight_quantization(np.zeros((2, 2)), 0, "symmetric_with_power2_scale").tolist() == [2.0**-7] * 2


def test_tiny_and_huge_weights() -> None:
    assert choose_weight_quantization(np.array([1e-40])).tolist() == [SMALLEST_SCALE]
    assert choose_weight_quantization(np.array([3.4e38])) == pytest.approx([3.4e38 / 127])


@given(st.lists(st.floats(-100, 100, width=32), min_size=1, max_size=20), st.booleans(), st.sampled_from(SCHEMAS))
def test_weights_do_not_saturate(values: list[float], narrow: bool, schema: Schema) -> None:
    w = np.array(values, np.float32)
    (scale,) = choose_weight_quantization(w, schema=schema, narrow=narrow)
    assert float(np.float32(scale)) == scale
    low, high = weight_range("int8", narrow=narrow)
    q = np.rint(w.astype(np.float64) / scale)
    assert low <= q.min()
    assert q.max() <= high


@pytest.mark.parametrize("bad", [np.array([1.0, np.nan]), np.array([np.inf]), np.zeros((0, 3))])
def test_bad_weights(bad: np.ndarray) -> None:
    with pytest.raises(QuantizationError, match='constant "w": weights must be finite numbers, got'):
        choose_weight_quantization(bad, where='constant "w"')


@given(st.integers(-1074, 1023))
def test_exponents_are_exact(e: int) -> None:
    """Every power of two that float64 has, and neither neighbour of one with a whole significand."""
    scale = math.ldexp(1.0, e)
    assert exponent_of(scale) == nearest_exponent(scale) == e
    assert scale_text(scale) == f"2^{e}"
    assert math.ldexp(1.0, e) == power_of_two_above(scale)
    if e > -1022:
        assert exponent_of(math.nextafter(scale, 0.0)) is None
        assert exponent_of(math.nextafter(scale, math.inf)) is None


@given(st.floats(2.0**-1022, 2.0**1022))
def test_the_nearest_power(scale: float) -> None:
    exact = Fraction(scale)
    nearest = nearest_exponent(scale)
    distance = abs(exact - Fraction(2) ** nearest)
    assert all(distance <= abs(exact - Fraction(2) ** e) for e in (nearest - 1, nearest + 1))
    assert (exponent_of(scale) == nearest) == (distance == 0)


def test_scales_for_people() -> None:
    assert [scale_text(s) for s in (1.0, 0.0078125, 1 / 127, 3.0)] == ["2^0", "2^-7", "0.00787402", "3"]
    assert nearest_exponent(0.75) == 0, "of two as near, the larger"
