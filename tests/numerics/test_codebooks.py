"""Codebooks that are fitted to weights: the table and the scales, against other tables and even distances."""

from itertools import product

import numpy as np
import pytest

from qmlir.numerics import Array, codebooks
from qmlir.numerics.codebooks import Codebook
from qmlir.numerics.levels import Entries


def normal(*shape: int) -> Array:
    """Weights whose channels differ in size."""
    rng = np.random.default_rng(1)
    return rng.normal(0, 1, shape) * rng.uniform(0.05, 1, (shape[0], 1))


def even_error(rows: Array, bits: int, *, powers: bool) -> float:
    """The least square error of integers at even distances, with the best of some scales for each channel."""
    most = (1 << bits - 1) - 1
    tried = np.abs(rows).max(axis=1, keepdims=True) / most * np.linspace(0.3, 1, 29)[:, None, None]
    if powers:
        tried = 2 ** (np.ceil(np.log2(tried[-1])) - np.arange(4)[:, None, None])
    errors = ((np.clip(np.rint(rows / tried), -most, most) * tried - rows) ** 2).sum(axis=2)
    return float(errors.min(axis=0).sum())


@pytest.mark.parametrize("bits", Codebook.BITS)
@pytest.mark.parametrize("powers", [False, True])
def test_a_table_that_is_fitted(bits: int, powers: bool) -> None:
    rows = normal(30, 200)
    scales, table = codebooks.fitted(rows, bits, powers_of_two=powers)
    assert (table.dtype, table.shape) == (np.dtype(np.int8), (1 << bits,))
    assert (np.diff(table.astype(int)) >= 0).all()
    assert np.abs(table.astype(int)).max() <= codebooks.LARGEST[bits]
    assert (scales > 0).all()
    assert (scales == scales.astype(np.float32)).all()
    assert not powers or (np.log2(scales) == np.rint(np.log2(scales))).all()
    error = ((Entries(table).nearest(rows / scales[:, None]) * scales[:, None] - rows) ** 2).sum()
    assert error < (0.95 if powers else 0.8) * even_error(rows, bits, powers=powers)


def test_the_best_of_all_tables() -> None:
    """One channel, three values that four entries hold exactly: with the largest at 63, nothing is lost."""
    rows = np.array([[0.5, -1.0, 0.25, 0.25, 0.5, -1.0, 0.5, 0.25]])
    scales, table = codebooks.fitted(rows, 2)
    np.testing.assert_allclose(Entries(table).nearest(rows / scales[:, None]) * scales[:, None], rows, atol=0.01)


def test_entries_are_near_the_best() -> None:
    """Beside all tables of four entries for a few weights of one channel, at the scale that was found."""
    rows = np.random.default_rng(2).normal(0, 1, (1, 12))
    scales, table = codebooks.fitted(rows, 2)
    real = (rows / scales[:, None]).ravel()
    errors = [
        ((Entries(np.array(each, np.int8)).nearest(real) - real) ** 2).sum()
        for each in product(range(-63, 64, 7), repeat=4)
        if list(each) == sorted(each)
    ]
    assert ((Entries(table).nearest(real) - real) ** 2).sum() < min(errors) * 1.05


@pytest.mark.parametrize("bits", Codebook.BITS)
def test_a_table_with_0(bits: int) -> None:
    rows = normal(30, 200) + 0.5
    errors: list[float] = []
    for zero in (False, True):
        scales, table = codebooks.fitted(rows, bits, zero=zero)
        assert not zero or (table == 0).any()
        errors.append(float(((Entries(table).nearest(rows / scales[:, None]) * scales[:, None] - rows) ** 2).sum()))
    assert errors[1] < 1.2 * errors[0]


def test_importance_decides() -> None:
    """Weights that count more are met better, and those that count as much in sum decide."""
    rows, counts = normal(4, 60), np.ones((4, 60))
    counts[:, :6] = 1000
    errors: list[float] = []
    for importance in (None, counts):
        scales, table = codebooks.fitted(rows, 2, importance)
        found = Entries(table).nearest(rows / scales[:, None]) * scales[:, None]
        errors.append(float((counts * (found - rows) ** 2).sum()))
    assert errors[1] < 0.6 * errors[0]


@pytest.mark.parametrize("rows", [np.zeros((3, 5)), np.full((2, 4), 1e-40), np.full((1, 1), -3.0)])
def test_weights_without_spread(rows: Array) -> None:
    scales, table = codebooks.fitted(rows, 3)
    found = Entries(table).nearest(rows / scales[:, None]) * scales[:, None]
    np.testing.assert_allclose(found, rows, rtol=0.01, atol=1e-36)
