"""Covariances from samples: what is noise shrinks, what is not stays."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from qmlir.transforms.quantize.adjust.covariances import Moments, mean_of

Array = npt.NDArray[Any]


def moments(x: Array) -> Moments:
    """Of samples [n, p, k], in one group; y is a tenth of the sum of x."""
    pairs = [(sample[None], sample[None].sum(axis=2, keepdims=True) / 10) for sample in x]
    return Moments.of(pairs, (mean_of([a for a, _ in pairs]), mean_of([b for _, b in pairs])))


def test_sums_are_numpys_covariance() -> None:
    x = np.random.default_rng(1).standard_normal((30, 7, 4)) @ np.random.default_rng(2).standard_normal((4, 4)) + 3
    found = moments(x)
    truth = np.cov(x.reshape(-1, 4).T, bias=True)
    np.testing.assert_allclose(found.mean_xx[0], truth)
    np.testing.assert_allclose(found.xy[0, :, 0] / found.samples, truth.sum(axis=1) / 10)
    origin = np.zeros((1, 1, 4)), np.zeros((1, 1, 4))
    halves = [Moments.of([(s[None], s[None]) for s in half], origin) for half in (x[:13], x[13:])]
    whole = Moments.of([(s[None], s[None]) for s in x], origin)
    np.testing.assert_allclose((halves[0] + halves[1]).covariance(), whole.covariance())


def test_shrinking_brings_it_nearer_to_the_truth() -> None:
    draw = np.random.default_rng(3)
    mixed = draw.standard_normal((40, 40)) / 6 + np.eye(40)
    truth = mixed.T @ mixed
    found = moments(draw.standard_normal((25, 1, 40)) @ mixed)
    assert np.linalg.norm(found.covariance()[0] - truth) < 0.7 * np.linalg.norm(found.mean_xx[0] - truth)


def test_independent_values_end_with_hardly_any_covariance() -> None:
    found = moments(np.random.default_rng(4).standard_normal((20, 1, 50)))
    off = ~np.eye(50, dtype=bool)
    assert np.abs(found.covariance()[0][off]).mean() < 0.15 * np.abs(found.mean_xx[0][off]).mean()


@pytest.mark.slow
def test_many_samples_stay_as_they_are() -> None:
    draw = np.random.default_rng(6)
    found = moments(draw.standard_normal((20000, 1, 3)) @ draw.standard_normal((3, 3)))
    np.testing.assert_allclose(found.covariance()[0], found.mean_xx[0], rtol=1e-2)


def test_one_sample_says_nothing_of_how_values_go_together() -> None:
    found = moments(np.random.default_rng(7).standard_normal((1, 30, 5))).covariance()[0]
    assert (found[~np.eye(5, dtype=bool)] == 0).all()


def test_what_never_changes_has_a_covariance_too() -> None:
    assert (np.linalg.eigvalsh(moments(np.ones((5, 2, 3))).covariance()[0]) > 0).all()
