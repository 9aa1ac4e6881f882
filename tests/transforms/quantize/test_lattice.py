"""Integers of small cost: beside all there are, where these can be counted."""

from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from qmlir.numerics.levels import Entries, Multiples
from qmlir.transforms.quantize.adjust.near_integers import cost, descended, near_integers, rounded_in_turn

Array = npt.NDArray[Any]

RNG = np.random.default_rng(5)
LIMITS = -2, 2
CHOICES = Multiples(LIMITS)


def form(groups: int, terms: int, rows: int) -> Array:
    """Positive definite, of values that go up and down together."""
    x = RNG.standard_normal((groups, rows, terms)) + 2 * RNG.standard_normal((groups, rows, 1))
    return x.swapaxes(1, 2) @ x / rows


def test_few_terms_are_as_good_as_the_best() -> None:
    h, t = form(3, 5, 40), RNG.uniform(-2, 2, (3, 4, 5))
    every = np.array(list(product(range(-2, 3), repeat=5)), float)
    best = np.array([[min(cost(every[None], row[None, None], g[None])[0]) for row in rows] for rows, g in zip(t, h)])
    found = cost(near_integers(t, h, CHOICES), t, h)
    nearest = cost(np.rint(t), t, h)
    assert (found >= best - 1e-12).all()
    assert found.mean() < best.mean() * 1.1
    assert nearest.mean() > best.mean() * 2


@pytest.mark.parametrize("terms", [1, 63, 64, 65, 200])
def test_each_step_costs_no_more(terms: int) -> None:
    h, t = form(2, terms, 3 * terms), RNG.uniform(-3, 3, (2, 7, terms))
    in_turn = rounded_in_turn(t, h, CHOICES)
    found = descended(in_turn, t, h, CHOICES)
    assert np.abs(found).max() <= 2
    assert (found == np.rint(found)).all()
    assert (cost(found, t, h) <= cost(in_turn, t, h) + 1e-9).all()
    assert (
        cost(descended(np.clip(np.rint(t), *LIMITS), t, h, CHOICES), t, h)
        <= cost(np.clip(np.rint(t), *LIMITS), t, h) + 1e-9
    ).all()


def test_columns_are_rounded_as_if_one_by_one() -> None:
    """Blocks of columns only change the order of sums."""
    h, t = form(1, 130, 400), RNG.uniform(-2, 2, (1, 3, 130))
    order = np.argsort(np.diagonal(h[0]), kind="stable")
    factor = np.linalg.cholesky(h[0][np.ix_(order, order)])
    expected = np.zeros((3, 130))
    errors = np.zeros((3, 130))
    for k in reversed(range(130)):
        column = t[0][:, order[k]]
        fed = errors[:, k + 1 :] @ factor[k + 1 :, k] / factor[k, k]
        expected[:, order[k]] = np.clip(np.rint(column - fed), *LIMITS)
        errors[:, k] = expected[:, order[k]] - column
    assert (rounded_in_turn(t, h, CHOICES)[0] == expected).all()


def test_independent_terms_go_to_the_nearest() -> None:
    t = RNG.uniform(-4, 4, (2, 3, 9))
    h = np.stack([np.diag(RNG.uniform(0.1, 9, 9)) for _ in range(2)])
    assert (near_integers(t, h, CHOICES) == np.clip(np.rint(t), *LIMITS)).all()


def test_rounding_in_turn_takes_entries() -> None:
    rng = np.random.default_rng(5)
    x = rng.standard_normal((1, 90, 20)) + 2 * rng.standard_normal((1, 90, 1))
    h, t = x.swapaxes(1, 2) @ x / 90, rng.uniform(-30, 30, (1, 8, 20))
    choices = Entries(np.array([-30, -11, -3, 0, 2, 7, 19, 31], np.int8))
    found = near_integers(t, h, choices)
    assert set(np.unique(found)) <= set(choices.table.tolist())
    assert cost(found, t, h).sum() < 0.7 * cost(choices.nearest(t), t, h).sum()
