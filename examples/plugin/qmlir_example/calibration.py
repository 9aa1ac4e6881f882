"""The calibration `clip-tails`: saturates the 0.5 % of the values that are largest in magnitude."""

from qmlir.numerics.calibration import Search

KEPT = 0.995
"""The share of the values that stay within the range."""


def clip_tails(search: Search) -> tuple[float, float]:
    """Returns the range [−m, m] that holds 99.5 % of the values; qmlir cuts it at the tensor's own range."""
    magnitudes = search.histogram.magnitudes()
    most = magnitudes.point_below(KEPT * magnitudes.total)
    return -most, most
