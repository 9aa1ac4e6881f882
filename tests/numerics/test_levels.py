"""Levels of weights of few bits: what each form lets weights become, and what it costs to store them."""

import numpy as np
import pytest

from qmlir.numerics import Array
from qmlir.numerics.codebooks import Codebook
from qmlir.numerics.groups import Groups
from qmlir.numerics.levels import Blocks, Entries, Even, Levels

ROWS = np.random.default_rng(0).normal(size=(4, 70))
TABLE = np.array([-9, -2, 0, 5], np.int8)
FORMS = (
    Even(4),
    Groups(3, 32, np.full((4, 3), 2, np.int8)),
    Codebook(2, TABLE),
    Blocks(32),
)


def form_of(levels: Levels) -> str:
    return type(levels).__name__


@pytest.mark.parametrize("levels", FORMS, ids=form_of)
def test_choices_are_the_nearest_levels(levels: Levels) -> None:
    limits = levels.span((-3, 3))
    real = ROWS * 5
    found = levels.choices(limits, real.shape).nearest(real)
    if isinstance(levels, Codebook):
        every: Array = levels.table.astype(int)
    else:
        every = np.arange(-3, 4) * (2 if isinstance(levels, Groups) else 1)
    assert np.isin(found, every).all()
    np.testing.assert_array_equal(np.abs(found - real), np.abs(real[..., None] - every).min(axis=-1))


@pytest.mark.parametrize("form", [Groups, Codebook])
@pytest.mark.parametrize("powers", [False, True])
def test_what_is_fitted_is_valid(form: type[Levels], powers: bool) -> None:
    scales, levels_for = form.fitted(ROWS, 4, (-7, 7), size=32, powers_of_two=powers, zero=True)
    levels = levels_for(scales)
    assert levels.need() == ""
    assert levels.bits == 4
    assert (np.log2(scales) == np.rint(np.log2(scales))).all() == powers
    low, high = levels.span((-7, 7))
    stored = levels.choices((low, high), ROWS.shape).nearest(ROWS / scales[:, None])
    assert low <= stored.min() <= stored.max() <= high
    assert np.square(stored * scales[:, None] - ROWS).mean() < 0.05


def test_bytes() -> None:
    """Packed integers, with multipliers or a table beside them; even levels take what their type takes."""
    assert [levels.bytes(280, 8) for levels in FORMS] == [280, 280 * 3 // 8 + 12, 280 * 2 // 8 + 4, 280]
    assert Even(4).bytes(281, 4) == 141
    assert [levels.plain_bits for levels in FORMS] == [4, 8, 7, 8]


def test_a_codebook_takes_the_table_of_a_rounding() -> None:
    other = Entries(TABLE + 1)
    assert [form_of(levels.refitted(other)) for levels in FORMS] == [form_of(levels) for levels in FORMS]
    np.testing.assert_array_equal(Codebook(2, TABLE).refitted(other).choices((-9, 9), ()).table, TABLE + 1)
