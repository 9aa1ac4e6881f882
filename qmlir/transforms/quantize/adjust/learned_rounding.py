"""Learns for each weight whether it is rounded up or down, from a layer's own results on data (AdaRound).

A weight t, in steps of its scale, becomes ⌊t⌋ or ⌊t⌋ + 1. While it is learned, it is ⌊t⌋ + h(v), with a variable v and

    h(v) = clip(1.2 · sigmoid(v) − 0.1, 0, 1),

the rectified sigmoid, which reaches 0 and 1 for finite v. At first, h is the fraction of t, so the layer computes with
its float weights. Then the variables of each output m descend

    |f(W·x + b) − f(Ŵ·x̂ + b̂)|² / d  +  λ · Σ_k (1 − |2·h_k − 1|^β)

by Adam, on batches of positions in a drawn order. f is the clamp of the layer; x are the data of the float network and
x̂ those of the quantized network (asymmetric reconstruction). b̂ has the mean error of the sums taken off, which bias
correction removes (correct_bias.py): so x̂ counts from its mean. The second term draws h to 0 or 1; β falls from 20 to
2, so that at first only decided weights are drawn. (Nagel et al. 2020, "Up or down? Adaptive rounding for
post-training quantization".) Two things are added to the publication:

* d is the error of the nearest integers for each weight of the output. So λ means the same for all outputs, layers and
  numbers of bits.
* With few samples, the errors of a sum's terms cancel on these samples only. As in round_weights.py, the square of the
  sum's error is therefore shrunk towards the sum of the squares of its terms, by the share that is noise.

An output keeps the nearest integers if these cost less. All is computed in float32, with a seed.

A layer with w weights takes `STEPS` times the time of a product of its weights with `BATCH` positions, twice, and of
about 20 passes over w numbers: 0.5 s for 4 thousand weights, 2 s for 37 thousand, on one core. The memory is that of
the data twice, 128 MiB at most, of two sums for each output at 16384 positions at most, and of about 12·w numbers.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from qmlir.numerics import Array, Float32s, Float64s

STEPS = 1000
"""The number of descents of each layer."""

BATCH = 256
"""The number of positions that each step sees."""

RATE = 0.1
"""The learning rate of Adam."""

ROUNDNESS = 8.0
"""λ. Errors on other samples of kws fall up to here, and stay up to 30; below 1, most weights stay undecided."""

WARM = 0.2
"""The share of the steps before weights are drawn to integers."""

POWERS = (20.0, 2.0)
"""β at first and in the end."""

STRETCH = (-0.1, 1.1)
"""The range of the sigmoid before it is clipped to [0, 1]."""

APART = 0.01
"""The standard deviation of what variables are moved by at first: equal weights of equal data would stay equal."""

MOMENTS = (0.9, 0.999)
"""How much of its two moments Adam keeps at each step."""


@dataclass(frozen=True)
class Reconstruction:
    """The results that the weights of a layer are to give, in steps of each output, and the data that they meet.

    g counts groups of outputs that read the same values, p positions of samples, m the outputs of a group, k the terms
    of a sum.

    weights      the float weights, [g, m, k] float64
    data         the integers that the layer reads, [g, p, k] float32
    sums         the sums of the float network, biases included, [g, p, m] float32
    least, most  the bounds of the layer's clamp, [g, 1, m] float32; infinite where there is none
    noise        the share of the products of different terms that is noise, [g]; see `Moments` in round_weights.py
    """

    weights: Float64s
    data: Float32s
    sums: Float32s
    least: Float32s
    most: Float32s
    noise: Float64s

    @cached_property
    def less_mean(self) -> tuple[Float32s, Float32s]:
        """The data less their mean, [g, p, k], and the mean of the sums, [g, 1, m]."""
        means = (a.mean(axis=1, keepdims=True, dtype=np.float64).astype(np.float32) for a in (self.data, self.sums))
        data, sums = means
        return self.data - data, sums

    @cached_property
    def variances(self) -> Float64s:
        """The variance of each term, [g, 1, k]."""
        return np.einsum("gpk,gpk->gk", *[self.less_mean[0]] * 2, dtype=np.float64)[:, None] / self.data.shape[1]

    def clamped(self, sums: Array) -> Array:
        """The results of the layer for sums [g, p, m]."""
        return np.clip(sums, self.least, self.most)

    def cost(self, integers: Array) -> Float64s:
        """The mean square error that integers [g, m, k] leave in the results of each output, shrunk: [g, m]."""
        data, bias = self.less_mean
        apart = self.clamped(data @ integers.astype(np.float32).swapaxes(1, 2) + bias) - self.clamped(self.sums)
        seen = np.einsum("gpm,gpm->gm", apart, apart, dtype=np.float64) / self.data.shape[1]
        alone = ((integers - self.weights) ** 2 * self.variances).sum(axis=2)
        return (1 - self.noise[:, None]) * seen + self.noise[:, None] * alone


def learned_integers(
    problem: Reconstruction, nearest: Array, limits: tuple[int, int], steps: Array | None = None
) -> Float64s:
    """The integers of a layer's weights, each rounded up or down as its results ask for.

    Args:
        problem: What the layer is to give.
        nearest: The nearest integers within the limits, [g, m, k].
        limits: The least and the greatest integer.
        steps: Positive integers, [g, m, k]: each number is a multiple of its own, by an integer within the limits.

    Returns:
        [g, m, k], integers as float64.
    """
    before = problem.cost(nearest)
    units = np.ones(problem.weights.shape) if steps is None else steps
    real = np.clip(problem.weights / units, *limits)
    down = np.clip(np.floor(real), limits[0], limits[1] - 1)
    up = _learned(problem, before, down, real - down, units)
    found = (down + up) * units
    return np.where((problem.cost(found) < before)[:, :, None], found, nearest)


def _learned(problem: Reconstruction, before: Array, down: Array, fraction: Array, units: Array) -> Array:
    """Whether each weight is rounded up, [g, m, k]: `down` + 1 in place of `down`, in `units`.

    Args:
        problem: What the layer is to give.
        before: The cost of the nearest integers, [g, m].
        down: The integers to round down to.
        fraction: What the float weights are above them.
        units: What the integers are multiples of.
    """
    data, bias = problem.less_mean
    draw = np.random.default_rng(0)
    order = draw.permutation(data.shape[1])
    data, wanted = data[:, order], problem.clamped(problem.sums)[:, order]
    size = min(BATCH, data.shape[1])
    batches = data.shape[1] // size
    # What a square error counts, [g, m]: 2 is the derivative of a square.
    counts = np.where(before > 0, 2 * problem.weights.shape[2] / np.where(before > 0, before, 1.0), 0.0)
    noise = problem.noise[:, None, None]
    of_sums = ((1 - noise) * counts[:, None] / size).astype(np.float32)  # [g, 1, m]
    of_terms = (noise * counts[:, :, None] * problem.variances).astype(np.float32)  # [g, m, k]
    low, unit, goal = (a.astype(np.float32) for a in (down, units, problem.weights))
    v = _inverse_of_h(fraction) + draw.normal(0.0, APART, fraction.shape).astype(np.float32)
    first, second = np.zeros_like(v), np.zeros_like(v)
    for step in range(STEPS):
        sigmoid = 1 / (1 + np.exp(-v))
        stretched = STRETCH[0] + (STRETCH[1] - STRETCH[0]) * sigmoid
        h = np.clip(stretched, 0, 1)
        held = (low + h) * unit
        at = step % batches * size
        read = data[:, at : at + size]
        sums = read @ held.swapaxes(1, 2) + bias
        errors = (problem.clamped(sums) - wanted[:, at : at + size]) * of_sums
        errors[(sums < problem.least) | (sums > problem.most)] = 0
        slope = (errors.swapaxes(1, 2) @ read + of_terms * (held - goal)) * unit
        slope -= ROUNDNESS * _slope_of_roundness(h, step)
        slope *= (STRETCH[1] - STRETCH[0]) * sigmoid * (1 - sigmoid) * (stretched == h)
        first += (1 - MOMENTS[0]) * (slope - first)
        second += (1 - MOMENTS[1]) * (slope * slope - second)
        rate = RATE * np.sqrt(1 - MOMENTS[1] ** (step + 1)) / (1 - MOMENTS[0] ** (step + 1))
        v -= np.float32(rate) * first / (np.sqrt(second) + np.float32(1e-8))
    return v >= 0  # where h is at least 1/2


def _inverse_of_h(fraction: Array) -> Float32s:
    """The variable v with h(v) = `fraction`, which is kept off 0 and 1 a little: there, h has no slope."""
    share = (np.clip(fraction, 0.01, 0.99) - STRETCH[0]) / (STRETCH[1] - STRETCH[0])
    return np.log(share / (1 - share)).astype(np.float32)


def _slope_of_roundness(h: Array, step: int) -> Array:
    """The derivative of |2·h − 1|^β by h at a step; 0 as long as weights are not drawn to integers."""
    done = (step / STEPS - WARM) / (1 - WARM)
    if done <= 0:
        return np.zeros_like(h)
    power = POWERS[1] + (POWERS[0] - POWERS[1]) * (1 + np.cos(np.pi * done)) / 2
    away = 2 * h - 1
    return np.float32(2 * power) * np.sign(away) * np.abs(away) ** np.float32(power - 1)
