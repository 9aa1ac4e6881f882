"""The rounding method `carry-errors`: rounds the weights of a sum so that their errors cancel on average data.

The mean error of the sum Σ_k q_k·x_k is Σ_k (q_k − w_k)·μ_k, where μ_k is the mean of x_k. The weights are rounded one
after the other, those of the largest means first; each makes up for the error of those before it, as far as half a step
of its own reaches.
"""

import numpy as np
import numpy.typing as npt

from qmlir.numerics.roundings import WeightsToRound


def carry_errors(layer: WeightsToRound) -> npt.NDArray[np.float64]:
    """Returns integers within the limits, [g, m, k]."""
    means = layer.data.mean(axis=1, dtype=np.float64)  # [g, k]
    integers = layer.nearest.copy()
    for group, mean in enumerate(means):
        error = np.zeros(integers.shape[1])
        for k in np.argsort(-np.abs(mean), kind="stable"):
            if mean[k] == 0:
                break
            wanted = layer.weights[group, :, k] - np.clip(error / mean[k], -0.5, 0.5)
            integers[group, :, k] = np.clip(np.rint(wanted), layer.lowest, layer.highest)
            error += (integers[group, :, k] - layer.weights[group, :, k]) * mean[k]
    return integers
