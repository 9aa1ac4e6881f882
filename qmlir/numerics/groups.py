"""Weights with a scale for each group of a sum's terms: integers of few bits times an integer of the group.

A channel has one scale S, and each group of its weights, neighbours along the axis of the sum, an integer multiplier m:

    w ≈ S · m · q,   q an integer of 2 to 6 bits,  m from 1 to M,  |m · q| ≤ 127

m·q is an integer of 8 bits. So a sum of products is an integer, the sum over the groups of m times the group's own sum,
and it has one scale for each channel, as if the weights had 8 bits. What is stored are q and, for each group, m.
"""

import numpy as np

from qmlir.numerics import Array, Float64s

LARGEST = 127
"""The largest magnitude of a multiplier times an integer."""

BITS = range(2, 7)
"""The bits of integers that leave room for a multiplier."""


def largest_multiplier(limits: tuple[int, int]) -> int:
    """The largest multiplier M for integers within `limits`."""
    return LARGEST // max(-limits[0], limits[1])


def spread(multipliers: Array, size: int, terms: int) -> Array:
    """The multipliers [O,G] of groups of `size` as those of weights, [O,K]."""
    return np.repeat(multipliers, size, axis=1)[:, :terms]


def finest_scales(rows: Array, limits: tuple[int, int]) -> Float64s:
    """The scale S of each channel, [O], with which the largest multiplier covers the channel's largest weight.

    `rows` are the weights, [O,K]. A channel of zeros takes the largest scale of the others.
    """
    high = np.abs(rows.astype(np.float64)).max(axis=1) / (largest_multiplier(limits) * limits[1])
    high = np.where(high > 0, high, high.max() or 1.0)
    return np.maximum(high, np.finfo(np.float32).tiny).astype(np.float32).astype(np.float64)


def choose_multipliers(rows: Array, scales: Array, size: int, limits: tuple[int, int]) -> Array:
    """The multiplier of each group that leaves the least square error of its weights, rounded to the nearest.

    Args:
        rows: The weights, [O,K].
        scales: S of each channel, [O].
        size: The weights of a group; the last group may have fewer.
        limits: The least and the greatest integer.

    Returns:
        int8, [O, ⌈K / size⌉].
    """
    outputs, terms = rows.shape
    real = np.pad(rows / scales[:, None], ((0, 0), (0, -terms % size))).reshape(outputs, -1, size)
    errors = [
        ((np.clip(np.rint(real / m), *limits) * m - real) ** 2).sum(axis=2)
        for m in range(1, largest_multiplier(limits) + 1)
    ]
    return (np.argmin(errors, axis=0) + 1).astype(np.int8)


def nearest(rows: Array, scales: Array, multipliers: Array, size: int, limits: tuple[int, int]) -> Array:
    """The nearest m·q to weights [O,K] in steps of their channel's scale; int8."""
    steps = spread(multipliers, size, rows.shape[1])
    return (np.clip(np.rint(rows / scales[:, None] / steps), *limits) * steps).astype(np.int8)
