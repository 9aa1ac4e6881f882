"""How long a calibration takes for one tensor at 2000 bins: against the limits, and against minmax.

Figures go to standard output: run with `-s`.
"""

import sys
import time
from collections.abc import Callable

import numpy as np
import pytest

from qmlir.numerics.calibration import CALIBRATIONS, choose_quantization
from qmlir.numerics.histograms import Histogram
from qmlir.numerics.schemas import Calibration, Schema

BINS = 2000
LIMITS = {("kl", "asymmetric"): 20.0}
"""Milliseconds where it is not 5: the windows of Glow's asymmetric search are no regular ones."""

SHARED_MACHINE = 3.0
"""What a busy machine may take longer."""


def histogram(seed: int) -> Histogram:
    values = np.random.default_rng(seed).laplace(size=200_000)
    counts, _ = np.histogram(values, BINS, (-8.0, 9.0))
    return Histogram.over(-8.0, 9.0, counts)


def best(run: Callable[[], object], times: int = 9) -> float:
    """Milliseconds of the fastest of some runs."""
    found: list[float] = []
    for _ in range(times):
        start = time.perf_counter()
        run()
        found.append(time.perf_counter() - start)
    return 1e3 * min(found)


@pytest.mark.parametrize("schema", ["asymmetric", "symmetric", "symmetric_with_power2_scale"])
@pytest.mark.parametrize("calibration", CALIBRATIONS)
def test_calibration(calibration: Calibration, schema: Schema) -> None:
    counted = histogram(0)
    took = best(lambda: choose_quantization(-8.0, 9.0, schema, "int8", counted, calibration))
    whole = best(lambda: choose_quantization(-8.0, 9.0, schema))
    limit = LIMITS.get((calibration, schema), 5.0)
    sys.stdout.write(
        f"\n{calibration:12s} {schema:28s} {took:6.2f} ms, limit {limit:.0f}, {took / whole:6.0f} × minmax\n"
    )
    assert took <= limit * SHARED_MACHINE
