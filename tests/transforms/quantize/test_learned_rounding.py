"""AdaRound: rounding up or down is near the best of all ways to, and networks of all kinds of layers err less."""

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import qmlir
from qmlir.errors import OptionError
from qmlir.transforms.quantize.adjust.learned_rounding import Reconstruction, learned_integers
from tests.transforms.quantize.calibrated import learnt, parsed
from tests.transforms.quantize.test_correct_bias import DEEP
from tests.transforms.quantize.test_round_weights import noise, pictures
from tests.transforms.quantize.test_schemas import values

Array = npt.NDArray[Any]

LIMITS = (-7, 7)


def problem(seed: int, *, groups: int = 1, terms: int = 8, relu: bool = False, noise: float = 0.0) -> Reconstruction:
    """A layer of four outputs on correlated integers, quantized with an error."""
    draw = np.random.default_rng(seed)
    mixed = draw.standard_normal((groups, 600, terms)) @ draw.standard_normal((groups, terms, terms)) * 6 + 20
    read = np.rint(mixed + draw.normal(0, 0.5, mixed.shape))
    weights = draw.uniform(-7, 7, (groups, 4, terms))
    sums = mixed @ weights.swapaxes(1, 2)
    bias = -sums.mean(axis=1, keepdims=True) if relu else 3.0
    bounds = (0.0 if relu else -np.inf), np.inf
    least, most = (np.full((groups, 1, 4), bound, np.float32) for bound in bounds)
    noises = np.full(groups, noise)
    return Reconstruction(weights, read.astype(np.float32), (sums + bias).astype(np.float32), least, most, noises)


def plain_cost(p: Reconstruction, group: int, output: int, integers: Array) -> float:
    """The mean square error of an output's results behind its clamp, whose mean error before the clamp is 0."""
    x, wanted = p.data[group].astype(np.float64), p.sums[group, :, output].astype(np.float64)
    sums = x @ integers
    sums += (wanted - sums).mean()
    low = p.least[group, 0, output]
    return float(np.mean((np.maximum(sums, low) - np.maximum(wanted, low)) ** 2))


def nearest(p: Reconstruction) -> Array:
    return np.clip(np.rint(p.weights), *LIMITS)


@pytest.mark.parametrize("relu", [False, True])
def test_costs_are_those_of_a_plain_computation(relu: bool) -> None:
    p = problem(1, groups=2, relu=relu)
    found = p.cost(nearest(p))
    for group, output in product(range(2), range(4)):
        assert found[group, output] == pytest.approx(plain_cost(p, group, output, nearest(p)[group, output]), rel=1e-3)


@pytest.mark.parametrize("relu", [False, True])
def test_few_ways_to_round_up_or_down_are_better(relu: bool) -> None:
    """Of the 256 ways for an output of eight terms, at most three beat the learned one in the mean."""
    p = problem(2, groups=3, relu=relu)
    learned = learned_integers(p, nearest(p), LIMITS)
    ranks: list[int] = []
    for group, output in product(range(3), range(4)):
        down = np.floor(p.weights[group, output])
        every = [plain_cost(p, group, output, down + ups) for ups in product((0, 1), repeat=8)]
        own = plain_cost(p, group, output, learned[group, output])
        ranks.append(sum(cost < own * (1 - 1e-6) for cost in every))
        assert own <= plain_cost(p, group, output, nearest(p)[group, output]) * (1 + 1e-3)
    assert max(ranks) <= 8
    assert np.mean(ranks) <= 3
    assert p.cost(learned).sum() < 0.7 * p.cost(nearest(p)).sum()


def test_each_weight_is_rounded_up_or_down() -> None:
    p = problem(3)
    learned = learned_integers(p, nearest(p), LIMITS)
    assert (np.abs(learned - p.weights) < 1).all()
    assert (learned == np.rint(learned)).all()
    assert LIMITS[0] <= learned.min() <= learned.max() <= LIMITS[1]


def test_groups_of_weights_are_multiples_of_their_steps() -> None:
    p = problem(4)
    steps = np.broadcast_to(np.repeat([1.0, 3.0], 4), p.weights.shape)
    own = np.clip(np.rint(p.weights / steps), -2, 2) * steps
    learned = learned_integers(p, own, (-2, 2), steps)
    assert not (learned % steps).any()
    assert np.abs(learned / steps).max() <= 2
    assert p.cost(learned).sum() < p.cost(own).sum()


def test_a_clamp_counts_what_passes_it() -> None:
    """Rounding for the sums, of which relu hides a half, leaves a larger error behind it."""
    p = problem(5, groups=4, terms=12, relu=True)
    of_sums = replace(p, least=np.full_like(p.least, -np.inf))
    for_sums, learned = (learned_integers(each, nearest(p), LIMITS) for each in (of_sums, p))
    assert p.cost(learned).sum() < p.cost(for_sums).sum()
    assert of_sums.cost(learned).sum() > of_sums.cost(for_sums).sum()


def test_without_knowledge_of_how_terms_vary_together_the_nearest_are_best() -> None:
    p = problem(6, noise=1.0)
    assert (learned_integers(p, nearest(p), LIMITS) == nearest(p)).all()


def test_data_that_never_change_leave_the_nearest() -> None:
    p = problem(7)
    still = np.full_like(p.data, 3.0)
    sums = (still @ p.weights.swapaxes(1, 2)).astype(np.float32)
    p = replace(p, data=still, sums=sums)
    assert (learned_integers(p, nearest(p), LIMITS) == nearest(p)).all()


WIDE: dict[str, Any] = {"schema": "symmetric", "precision": "int16", "weight_precision": "int4"}
"""16 bits for activations, so that the error is that of the weights."""


@pytest.mark.slow
@pytest.mark.parametrize("options", [WIDE, {**WIDE, "per_channel": False}, {"weight_precision": "int4"}], ids=str)
def test_networks_err_less_on_other_samples(options: dict[str, Any]) -> None:
    """The network has a convolution, a depthwise convolution and a fully connected layer."""
    roundings = "nearest", "adaround"
    before, after = noise(parsed(DEEP), options, pictures(40, 1), pictures(20, 2), roundings)
    assert after > before + 1.5


GROUPED = f"""
func.func @main(%x: tensor<1x8x8x6xf32>) -> tensor<1x8x8x4xf32> {{
  %w = nn.constant {values(4, 3, 3, 3, draw=np.random.default_rng(6))}
  %y = nn.conv2d %x, %w {{padding = array<i64: 1, 1, 1, 1>, groups = 2 : i64}}
    : tensor<1x8x8x6xf32>, tensor<4x3x3x3xf32> -> tensor<1x8x8x4xf32>
  func.return %y : tensor<1x8x8x4xf32>
}}
"""


def test_grouped_convolutions() -> None:
    before, after = noise(parsed(GROUPED), WIDE, pictures(40, 1), pictures(20, 2), ("nearest", "adaround"))
    assert after > before + 1.5


@pytest.mark.slow
def test_sums_of_very_many_terms_are_learned_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of terms are there for covariances; here they are joined."""
    monkeypatch.setattr("qmlir.transforms.quantize.adjust.matrix_terms.MOST", 20)
    before, after = noise(parsed(DEEP), WIDE, pictures(40, 1), pictures(20, 2), ("nearest", "adaround"))
    assert after > before + 1


def test_it_is_refused_without_samples_and_beside_glow() -> None:
    module = parsed(DEEP)
    profile = learnt(module, samples := pictures(4, 1))
    with pytest.raises(OptionError, match="rounding adaround: needs samples, got none"):
        qmlir.quantize(module, profile, rounding="adaround")
    options: dict[str, Any] = {"glow_exact": True, "calibration": "minmax", "data": samples}
    with pytest.raises(OptionError, match="rounding adaround: cannot give Glow's numbers"):
        qmlir.quantize(module, profile, rounding="adaround", **options)
