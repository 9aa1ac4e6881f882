"""float32 rounded to float16 and bfloat16: against numpy, ml_dtypes and exact arithmetic, on all numbers of 16 bits."""

from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from qmlir.numerics.halves import HALVES, HalfFormat, HalfPrecision

Array = npt.NDArray[Any]
FORMATS = [pytest.param(format, id=name) for name, format in HALVES.items()]


def every_number(format: HalfFormat) -> Array:
    """All 2^16 numbers of a format."""
    return np.arange(1 << 16, dtype=np.uint16).view(format.dtype)


def bits(x: Array) -> npt.NDArray[np.uint16]:
    return np.ascontiguousarray(x).view(np.uint16)


def peers(x: npt.NDArray[np.float32], format: HalfFormat) -> Array:
    """The numbers that numpy or ml_dtypes round to, with NaN in the form of this format."""
    with np.errstate(all="ignore"):
        found = bits(x.astype(format.dtype))
    nan = np.where(np.signbit(x), 0x8000 | format.nan, format.nan).astype(np.uint16)
    return np.where(np.isnan(x), nan, found)


def around_every_number(format: HalfFormat) -> npt.NDArray[np.float32]:
    """Each number of a format, each middle between neighbours, and the float32 just below and just above of both."""
    whole = every_number(format)[: format.infinity + 1].astype(np.float32)
    with np.errstate(all="ignore"):
        middles = ((whole[:-1].astype(np.float64) + whole[1:].astype(np.float64)) / 2).astype(np.float32)
    largest = float(ml_dtypes.finfo(format.dtype).max)
    middles[-1] = largest + (largest - float(whole[-3])) / 2  # what is from here on becomes infinite
    found = np.concatenate([whole, middles])
    found = np.concatenate([found, np.nextafter(found, np.float32(0)), np.nextafter(found, np.float32(np.inf))])
    return np.concatenate([found, -found])


@pytest.mark.parametrize("format", FORMATS)
def test_every_number_of_a_format_is_itself(format: HalfFormat) -> None:
    numbers = every_number(format)
    again = bits(format.rounded(numbers.astype(np.float32)))
    nan = np.isnan(numbers.astype(np.float32))
    np.testing.assert_array_equal(again[~nan], bits(numbers)[~nan])
    np.testing.assert_array_equal(again[nan], bits(numbers)[nan] & 0x8000 | format.nan)
    assert np.isnan(every_number(format)[format.nan].astype(np.float32))


@pytest.mark.parametrize("format", FORMATS)
def test_middles_and_their_neighbours_are_rounded_as_by_numpy_and_ml_dtypes(format: HalfFormat) -> None:
    x = around_every_number(format)
    np.testing.assert_array_equal(bits(format.rounded(x)), peers(x, format))


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("start", range(0, 1 << 16, 1 << 13))
def test_float32_of_all_exponents_and_fractions(format: HalfFormat, start: int) -> None:
    """All 2^16 leading halves of a float32, each with 33 trailing halves: ends, middle and random ones."""
    trailing = np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)
    trailing = np.concatenate([trailing, np.random.default_rng(start).integers(0, 1 << 16, 27, np.uint32)])
    leading = np.arange(start, start + (1 << 13), dtype=np.uint32) << 16
    x = (leading[:, None] | trailing).view(np.float32).ravel()
    np.testing.assert_array_equal(bits(format.rounded(x)), peers(x, format))


@pytest.mark.parametrize(
    ("name", "x", "wanted"),
    [
        ("float16", 65519.996, 0x7BFF),  # below the middle of 65504 and 65536
        ("float16", 65520.0, 0x7C00),
        ("float16", -65520.0, 0xFC00),
        ("float16", 2.0**-25, 0x0000),  # half of the least number: a tie, to even
        ("float16", 2.0**-25 * (1 + 2.0**-23), 0x0001),
        ("float16", 3 * 2.0**-25, 0x0002),
        ("float16", 2.0**-14 * (1 - 2.0**-12), 0x0400),  # a subnormal that becomes the least normal number
        ("float16", -(2.0**-149), 0x8000),
        ("float16", 1 + 2.0**-11, 0x3C00),
        ("float16", 1 + 3 * 2.0**-11, 0x3C02),
        ("bfloat16", 1 + 2.0**-8, 0x3F80),
        ("bfloat16", 1 + 3 * 2.0**-8, 0x3F82),
        ("bfloat16", float(np.finfo(np.float32).max), 0x7F80),
        ("bfloat16", 2.0**-134, 0x0000),
        ("bfloat16", 3 * 2.0**-134, 0x0002),
        ("bfloat16", -np.inf, 0xFF80),
    ],
)
def test_known_numbers(name: HalfPrecision, x: float, wanted: int) -> None:
    assert bits(HALVES[name].rounded(np.array([x], np.float32))).tolist() == [wanted]


@pytest.mark.parametrize("format", FORMATS)
def test_no_number_of_the_format_is_nearer(format: HalfFormat) -> None:
    x = np.random.default_rng(3).normal(0, 2.0**-13, 300).astype(np.float32)
    known = [Fraction(float(v)) for v in np.sort(every_number(format)[: format.infinity].astype(np.float64))]
    places = np.searchsorted(np.array([float(v) for v in known]), np.abs(x).astype(np.float64))
    for number, got, at in zip(x, format.rounded(x).astype(np.float64), places, strict=True):
        exact = Fraction(float(np.abs(number)))
        assert abs(Fraction(abs(float(got))) - exact) == min(abs(v - exact) for v in known[max(at - 1, 0) : at + 1])


def test_shapes_and_orders_are_kept() -> None:
    x = np.asfortranarray(np.random.default_rng(0).normal(size=(3, 4, 5)).astype(np.float32))[::2]
    for format in HALVES.values():
        np.testing.assert_array_equal(format.rounded(x), x.astype(format.dtype))
        assert format.rounded(np.ones((), np.float32)).shape == ()
