"""The ways in which runtimes add floats: sums, means and products along axes, running sums, and average pools.

Without a way of its own, an operation accumulates in float64 and rounds once; an average pool adds the elements of a
window row by row in float32 and divides. The order of float32 additions decides the last bit of a sum.
"""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from qmlir.numerics import Array
from qmlir.numerics.elementary.lanes import Arithmetic

N = TypeVar("N", bound=Arithmetic)

IN_ORDER = ("float32",)
"""The ways that a product or a running sum can follow."""

ADDITIONS = (*IN_ORDER, "float32_reciprocal")
"""The ways to add floats, by name.

`float32` (LiteRT's own kernels) accumulates one element after another in float32, and divides the sum for a mean.

`float32_reciprocal` (XNNPACK) adds the elements of the last run of neighbouring axes, multiplies their sum by 1 / n for
a mean of n elements, and adds these numbers for the axes before. An average pool adds the elements of a window column
by column, nine at a time (`added_nine`), and multiplies by 1 / n.
"""

NINE = 9
"""The elements of a window that XNNPACK adds at a time."""


def added_nine(total: N, taps: Sequence[N]) -> N:
    """Adds nine elements of a window to a total, in XNNPACK's order."""
    middle = (taps[2] + taps[3]) + (taps[4] + taps[5])
    ends = ((taps[0] + taps[1]) + taps[8]) + (taps[6] + taps[7])
    return total + (middle + ends)


def added_runs(rows: Array, run: int, factor: float = 1.0) -> Array:
    """Adds rows of float32 by runs of neighbours: each run's sum times a factor, one after another."""
    parts = np.add.accumulate(rows.reshape(-1, run, *rows.shape[1:]), axis=1)[:, -1] * np.float32(factor)
    return np.add.accumulate(parts, axis=0)[-1] + np.float32(0)  # sums begin with +0, so that none is −0
