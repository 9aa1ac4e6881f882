"""Short forms give every entry of the tables that they stand for, from fewer bytes."""

from collections.abc import Callable

import numpy as np
import pytest

from qmlir.numerics import Array, short_tables, tables
from qmlir.numerics.elementary.lanes import Lanes
from qmlir.numerics.short_tables import Lines, Products, ShortForm

WORDS = np.arange(-(1 << 15), 1 << 15)

FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "exp": np.exp,
    "leaky": lambda x: np.where(x < 0, 0.2 * x, x),
    "square root": lambda x: np.sqrt(np.maximum(x, 0)),
    "reciprocal": lambda x: 1 / np.where(np.abs(x) < 0.05, 0.05, x),
    "sine": np.sin,
    "sign": np.sign,
}


def entries(form: ShortForm, words: Array, count: int) -> Array:
    place = Lanes(np.arange(count, dtype=np.int64))
    return form.entry(place, lambda at: Lanes(words[at.array])).array


def table_of(function: Callable[[Array], Array], reach: float) -> Array:
    """The words of a function on [−reach, reach], by the scale that its largest result asks for."""
    scale = reach / (1 << 15)
    most = float(np.abs(function(WORDS * scale)).max())
    return tables.lookup_table(
        function, scale, 0, most / 32767, 0, in_range=(-32768, 32767), out_range=(-32768, 32767), dtype=np.int16
    )


@pytest.mark.parametrize("reach", [1, 8, 64])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_words_of_functions(name: str, reach: float) -> None:
    table = table_of(FUNCTIONS[name], reach)
    found = short_tables.shortened(table)
    assert found is not None
    form, words = found
    assert words.dtype == np.int32
    assert words.nbytes < table.nbytes / 2
    np.testing.assert_array_equal(entries(form, words, len(table)), table)


@pytest.mark.parametrize("level", short_tables.SHORTFALLS)
def test_entries_are_short_of_as_much_as_their_bits_say(level: int | None) -> None:
    """A line, less a number that the bits just hold."""
    most = 0 if level is None else (1 << (1 << level)) - 1
    rng = np.random.default_rng(level)
    table = (np.arange(1 << 12) * 3 + rng.integers(0, most + 1, 1 << 12)).astype(np.int16)
    form, words = short_tables.on_lines(table) or (None, table)
    assert isinstance(form, Lines)
    assert (form.level, form.segments) == (level, 4)
    np.testing.assert_array_equal(entries(form, words, len(table)), table)


@pytest.mark.parametrize("count", [1, 5, 1023, 1025, 4000])
def test_a_table_of_any_length(count: int) -> None:
    table = (np.arange(count) ** 2 // 700).astype(np.int16)
    form, words = short_tables.on_lines(table) or (None, table)
    assert isinstance(form, Lines)
    np.testing.assert_array_equal(entries(form, words, count), table)


@pytest.mark.parametrize("ends", [(-32768, 32767), (32767, -32768)])
def test_between_extreme_words(ends: tuple[int, int]) -> None:
    """A segment of two places, which the steepest line joins; and a whole piece."""
    table = np.repeat(ends, 512).astype(np.int16)
    table[1::2] = table[::2]
    table[600] = ends[0]
    steep = np.linspace(*ends, 1 << 10).astype(np.int16)
    for each in (table, steep):
        form, words = short_tables.on_lines(each) or (None, each)
        assert isinstance(form, Lines)
        np.testing.assert_array_equal(entries(form, words, len(each)), each)


@pytest.mark.parametrize("unit", [1 << 30, 32767, 12345678])
@pytest.mark.parametrize("rate", [0.0, *10.0 ** np.random.default_rng(5).uniform(-7, 0.5, 12), 40.0])
def test_exponentials(rate: float, unit: int) -> None:
    """Of any rate, up to the largest that softmax divides."""
    table = np.rint(unit * np.exp(-rate * np.arange(1 << 16))).astype(np.int32)
    form, words = short_tables.as_products(table) or (None, table)
    assert isinstance(form, Products)
    assert words.nbytes == 10240
    np.testing.assert_array_equal(entries(form, words, len(table)), table)


def test_tables_without_a_short_form() -> None:
    rng = np.random.default_rng(0)
    assert short_tables.shortened(rng.integers(-(1 << 15), 1 << 15, 1 << 16).astype(np.int16)) is None
    assert short_tables.shortened(rng.integers(0, 1 << 30, 1 << 16).astype(np.int32)) is None
    assert short_tables.as_products(np.zeros(1 << 16, np.int32)) is None
    falling = np.rint(2.0**30 * np.exp(-1e-4 * np.arange(1 << 16))).astype(np.int32)
    falling[40000] += 2  # no rounding
    assert short_tables.as_products(falling) is None
    assert short_tables.on_lines(falling) is None
