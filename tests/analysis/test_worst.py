"""The least exact operations are rows of `analyze`, on as many samples as a bounded cost allows."""

import math
from pathlib import Path

import pytest

import qmlir
from qmlir.analysis.tensors import analyze, ranked
from qmlir.analysis.worst import MACS, MOST_MACS, MOST_OPERATIONS, SHOWN, affordable_samples, worst_operations
from qmlir.errors import QmlirError
from tests.cli.small import write_small


@pytest.mark.slow
def test_they_are_rows_of_analyze(tmp_path: Path) -> None:
    small = write_small(tmp_path)
    samples = list(small.samples[:, None])
    module = qmlir.load(small.onnx)
    quantized = qmlir.quantize(module, data=samples)
    rows = analyze(module, quantized, samples)  # by machine code, the others by numpy
    assert analyze(module, quantized, samples, compiled=False) == rows
    found = worst_operations(module, quantized, samples)
    own = [row for row in ranked(rows) if row.operation != "input" and row.isolated_sqnr not in (None, math.inf)]
    assert found.worst == tuple(own[:SHOWN])
    assert len(found.worst) > 1
    assert found.outputs == tuple(row for row in rows if row.tensor == "scores")
    assert (found.samples, len(found.outputs)) == (6, 1)
    with pytest.raises(QmlirError, match="at least one sample"):
        worst_operations(module, quantized, [])


@pytest.mark.parametrize(
    ("macs", "operations", "samples"),
    [
        (None, 5, 8),
        (0, 5, 8),
        (MACS // 3, 5, 3),
        (MACS, 5, 1),
        (MOST_MACS, MOST_OPERATIONS, 1),
        (MOST_MACS + 1, 5, 0),
        (10, MOST_OPERATIONS + 1, 0),
    ],
)
def test_the_cost_bounds_the_samples(macs: int | None, operations: int, samples: int) -> None:
    totals = {"macs": macs, "operations": operations}
    assert affordable_samples(totals) == samples
    assert affordable_samples(totals, at_any_cost=True) == max(samples, 1)
