"""Tables of functions against Python's fractions and the functions themselves."""

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st

from qmlir.numerics import tables


@given(st.integers(0, 2**32 - 1))
def test_interpolation_is_the_line_between_breakpoints(seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = rng.integers(-32768, 32768, tables.BREAKPOINTS).astype(np.int16)
    x = np.concatenate([rng.integers(-32768, 32768, 50), [-32768, 32767]]).astype(np.int16)
    expected: list[int] = []
    for q in x.tolist():
        breakpoint, offset = divmod(q + 32768, 128)
        line = int(table[breakpoint]) + Fraction(int(table[breakpoint + 1]) - int(table[breakpoint])) * Fraction(
            offset, 128
        )
        expected.append(math.floor(line + Fraction(1, 2)))
    got = tables.interpolated(table, x)
    assert got.dtype == np.int16
    assert got.tolist() == expected


def test_breakpoints_of_a_line_give_it_back() -> None:
    """The last breakpoint of all, 2^15, is one more than a table holds."""
    exact = np.arange(-32768, 32768)
    got = tables.interpolated(tables.interpolation_table(exact), exact)
    np.testing.assert_array_equal(got[:-63], exact[:-63])
    np.testing.assert_array_equal(got[-63:], exact[-63:] - 1)


def test_moved_breakpoints_halve_the_error_of_a_curve() -> None:
    """A parabola of 30 steps of sagitta in a segment."""
    x = np.arange(-32768, 32768)
    exact = np.clip(x**2 * 30 // 64**2 - 30000, -32768, 32767)
    inside = np.abs(x) < 2000
    far = tables.interpolated(tables.interpolation_table(exact), x) - exact
    plain = tables.interpolated(np.append(exact[::128], exact[-1]).astype(np.int16), x) - exact
    assert np.abs(plain[inside]).max() in (29, 30, 31)
    assert np.abs(far[inside]).max() in (14, 15, 16)


def test_table() -> None:
    table = tables.lookup_table(lambda x: 1 / (1 + np.exp(-x)), 0.05, 3, 1 / 256, -128)
    assert table.dtype == np.int8
    assert table.shape == (256,)
    for i, entry in enumerate(table):
        real = 1 / (1 + math.exp(-((i - 128 - 3) * 0.05)))
        assert entry == min(round(real * 256) - 128, 127)


def test_table_of_other_types() -> None:
    def negate(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return -x

    table = tables.lookup_table(negate, 1.0, 128, 0.5, 0, in_range=(0, 255), out_range=(-200, 200), dtype=np.int16)
    assert table.dtype == np.int16
    assert table[[0, 100, 128, 255]].tolist() == [200, 56, 0, -200]
