"""Predicts how likely a network meets a floor of agreement, top-1 or a user's score, from its predicted noise.

A sample's class changes if the noise at its logits exceeds the margin of the first class. For small noise, the share of
such samples grows with the noise's amplitude σ, the root of its relative power. So with some ideal quality Q,

    quality ≈ Q − c · σ

where c is fitted to all networks that were scored. Counts scatter about this line, with a variance that grows with the
mean: φ · c · σ, where φ is fitted too (quasi-Poisson regression). The chance is that of a normal distribution.
"""

import math
from collections.abc import Sequence

from qmlir.analysis.tune.result import Point


class Chances:
    """A line through the qualities of networks that were scored, by their noise, and the scatter about the line.

    ideal    the quality without noise: 100 % of agreement, or the best that was reached of any other quality
    slope    c, the loss of quality for each unit of σ
    scatter  φ, the variance over the loss
    factor   measured noise over predicted noise, in the geometric mean of the networks that were predicted
    """

    def __init__(self, points: Sequence[Point], quality: str):
        """Fits the line; some point must have the quality."""
        known = [(p, value) for p in points if (value := p.trial.quality(quality)) is not None]
        self.ideal = 100.0 if quality == "agreement" else max(value for _, value in known)
        amplitudes = [10 ** (-p.trial.sqnr / 20) for p, _ in known]
        losses = [self.ideal - value for _, value in known]
        self.slope = max(sum(losses) / max(sum(amplitudes), 1e-9), 1e-9)
        means = [max(self.slope * amplitude, 1e-9) for amplitude in amplitudes]
        one = 100 / known[0][0].trial.samples if quality in COUNTED else 0.0
        residuals = [(loss - mean) ** 2 / mean for loss, mean in zip(losses, means, strict=True)]
        self.scatter = max(sum(residuals) / len(residuals), one, 1e-9)
        ratios = [(p.predicted - p.trial.sqnr) / 10 for p in points if p.predicted is not None]
        self.factor = 10 ** (sum(ratios) / len(ratios)) if ratios else 1.0

    def of(self, noise: float, floor: float) -> float:
        """Returns the chance that a network of some predicted noise has at least the quality `floor`."""
        mean = max(self.slope * math.sqrt(noise * self.factor), 1e-9)
        return 0.5 * math.erfc((mean - (self.ideal - floor)) / math.sqrt(2 * self.scatter * mean))


COUNTED = ("agreement", "top1")
"""The qualities that are percentages of samples."""
