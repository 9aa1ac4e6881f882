"""How well cheap scores order the parts of a network: their rank correlation with the effect on the output."""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from qmlir.analysis.output_measure import OutputEffect
from qmlir.numerics import Float64s

CHEAP_SCORES: Mapping[str, Callable[[OutputEffect], float | None]] = {
    "own": lambda row: row.own,
    "gained": lambda row: row.gained,
    "informed": lambda row: row.informed,
}
"""The cheap scores by name."""


def rank_correlations(rows: Sequence[OutputEffect]) -> dict[str, float]:
    """Returns the rank correlation of each cheap score with the effect; NaN for fewer than three parts."""
    found: dict[str, float] = {}
    for name, score in CHEAP_SCORES.items():
        pairs = [(value, row.noise) for row in rows if (value := score(row)) is not None]
        found[name] = rank_correlation(*zip(*pairs, strict=True)) if pairs else math.nan
    return found


def rank_correlation(one: Sequence[float], other: Sequence[float]) -> float:
    """Returns Spearman's rank correlation, with the mean rank for equal values; NaN for fewer than three pairs."""
    if len(one) < 3:
        return math.nan
    a, b = (_ranks(np.asarray(values, np.float64)) for values in (one, other))
    spread = float(a.std() * b.std())
    return float(((a - a.mean()) * (b - b.mean())).mean() / spread) if spread else math.nan


def _ranks(values: Float64s) -> Float64s:
    less = (values[:, None] > values).sum(axis=1)
    same = (values[:, None] == values).sum(axis=1)
    return less + (same - 1) / 2
