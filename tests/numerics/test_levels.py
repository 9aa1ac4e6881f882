"""Levels of weights of few bits: what each form lets weights become, and what it costs to store them."""

from itertools import product

import numpy as np
import pytest

from qmlir.numerics import Array, groups
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


@pytest.mark.parametrize("limits", [(-1, 1), (-7, 7), (-8, 7), (-31, 31)])
def test_no_multiplier_has_a_smaller_error(limits: tuple[int, int]) -> None:
    rng = np.random.default_rng(3)
    rows, size = rng.normal(0, 1, (3, 70)) * rng.uniform(0.05, 1, (3, 70)), 32
    rows[1] = 0
    scales = groups.finest_scales(rows, limits)
    chosen = groups.choose_multipliers(rows, scales, size, limits)
    levels = Groups(limits[1].bit_length() + 1, size, chosen)
    got = levels.choices(levels.span(limits), rows.shape).nearest(rows / scales[:, None])
    assert chosen.shape == (3, 3)
    for channel, group in product(range(3), range(3)):
        own = rows[channel, group * size : (group + 1) * size]
        stored = got[channel, group * size : (group + 1) * size].astype(int)
        assert not (stored % chosen[channel, group]).any()
        assert limits[0] <= (stored // chosen[channel, group]).min()
        assert (stored // chosen[channel, group]).max() <= limits[1]
        error = ((stored * scales[channel] - own) ** 2).sum()
        for m in range(1, 127 // max(-limits[0], limits[1]) + 1):
            other = np.clip(np.rint(own / scales[channel] / m), *limits) * m * scales[channel]
            assert error <= ((other - own) ** 2).sum() * (1 + 1e-12)
