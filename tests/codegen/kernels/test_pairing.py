"""Pairs of channels: no sum of two byte products leaves 16 bits, and all products are still there."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from qmlir.codegen.kernels.pairing import GROUP, Pairing, pair_channels
from tests.conftest import crossed

Array = npt.NDArray[Any]

SPAN = 16


def drawn(outputs: int, channels: int, power: int) -> Array:
    """Weights as a symmetric schema stores them: powers of bell-shaped numbers, the largest of each output ±127."""
    w = np.random.default_rng(channels).standard_normal((outputs, channels)) ** power
    return np.rint(127 * w / np.abs(w).max(1, keepdims=True)).astype(np.int8)


def sums(pairing: Pairing, outputs: int, channels: int) -> Array:
    """The weight of each channel for each output, summed over the channel's places."""
    total = np.zeros((len(pairing.weights) * SPAN, channels), np.int64)
    for s, (order, extra, weights) in enumerate(zip(pairing.order, pairing.extra, pairing.weights, strict=True)):
        places = [*(i // GROUP * GROUP + int(place) for i, place in enumerate(order)), *extra.tolist()]
        assert sorted(places[:channels]) == list(range(channels))
        assert weights.shape == (SPAN, len(places))
        assert len(extra) % 4 == 0
        for place, channel in enumerate(places):
            total[s * SPAN : (s + 1) * SPAN, channel] += weights[:, place]
    assert not total[outputs:].any()
    return total[:outputs]


def assert_pairs_fit(pairing: Pairing) -> None:
    """Asserts that the largest and the least sum of each pair of products fit i16, with data from 0 to 255."""
    for weights in pairing.weights:
        pairs = 255 * weights.astype(np.int64).reshape(SPAN, -1, 2)
        assert np.maximum(pairs, 0).sum(2).max() < 1 << 15
        assert np.minimum(pairs, 0).sum(2).min() >= -(1 << 15)


@crossed({"power": [1, 3], "channels": [16, 32, 64, 336], "outputs": [1, 16, 40]})
def test_bell_shaped_weights(outputs: int, channels: int, power: int) -> None:
    weights = drawn(outputs, channels, power)
    pairing = pair_channels(weights, SPAN)
    assert_pairs_fit(pairing)
    assert (sums(pairing, outputs, channels) == weights).all()


def test_few_channels_appear_twice() -> None:
    """With 640 channels nearly all find a partner; neighbours would not."""
    weights = drawn(160, 640, 1)
    pairing = pair_channels(weights, SPAN)
    assert sum(map(len, pairing.extra)) < 0.01 * pairing.order.size
    first, second = weights[:, 0::2].astype(int), weights[:, 1::2].astype(int)
    unsafe = (np.maximum(first, 0) + np.maximum(second, 0) > 128) | (
        np.minimum(first, 0) + np.minimum(second, 0) < -128
    )
    assert unsafe.reshape(-1, SPAN, 320).any(1).mean() > 0.1


@pytest.mark.parametrize("extreme", [-128, 127])
def test_weights_at_one_end(extreme: int) -> None:
    """No pair is safe, so every second channel appears once more, beside a weight of zero."""
    weights = np.full((3, 32), extreme, np.int8)
    pairing = pair_channels(weights, SPAN)
    assert_pairs_fit(pairing)
    assert (sums(pairing, 3, 32) == weights).all()
    assert len(pairing.extra[0]) >= 16


def test_opposite_ends() -> None:
    """A channel of 127 finds a channel of −128 in its group."""
    weights = np.tile(np.repeat(np.array([127, -128], np.int8), 8), (16, 2))
    pairing = pair_channels(weights, SPAN)
    assert_pairs_fit(pairing)
    assert not any(map(len, pairing.extra))
    assert (sums(pairing, 16, 32) == weights).all()


def test_same_pairs_each_time() -> None:
    weights = drawn(48, 96, 3)
    one, other = pair_channels(weights, SPAN), pair_channels(weights.copy(), SPAN)
    assert (one.order == other.order).all()
    assert all((a == b).all() for a, b in zip(one.weights, other.weights, strict=True))
