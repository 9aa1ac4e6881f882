"""The causes of the error that a quantized operation makes by itself."""

import math
from typing import Any

import numpy as np
import pytest

import qmlir
from qmlir.analysis.error_budget import CAUSES, ErrorBudget, error_budgets
from qmlir.analysis.tensors import analyze
from qmlir.errors import QmlirError
from tests.cli.small import write_small
from tests.transforms.quantize.calibrated import parsed

RNG = np.random.default_rng(3)

TEXT = """
func.func @main(%x: tensor<1x64xf32> {qmlir.name = #qmlir.name<tensors ["x"]>}) -> tensor<1x64xf32> {
  calib.observe %x {name = "x", range = [-DATA, DATA]} : tensor<1x64xf32>
  %w = nn.constant <tensor<64x64xf32>, WEIGHTS> : tensor<64x64xf32>
  %0 = nn.fully_connected %x, %w {qmlir.name = #qmlir.name<tensors ["y"]>} : tensor<1x64xf32>, tensor<64x64xf32> -> tensor<1x64xf32>
  calib.observe %0 {name = "y", range = [-RESULT, RESULT]} : tensor<1x64xf32>
  func.return %0 : tensor<1x64xf32>
}
"""  # noqa: E501
WEIGHTS = "[" + ", ".join(f"{w:.4f}" for w in RNG.standard_normal(64 * 64) / 8) + "]"
SAMPLES = [RNG.standard_normal((1, 64)).astype(np.float32) for _ in range(8)]


def budget(data: float = 5.0, result: float = 6.0, **options: Any) -> tuple[ErrorBudget, float]:
    """The budget of a fully connected layer with these ranges, and its isolated SQNR from `analyze`."""
    text = TEXT.replace("DATA", str(data)).replace("RESULT", str(result)).replace("WEIGHTS", WEIGHTS)
    floats, quantized = parsed(text), qmlir.quantize(parsed(text), calibration="minmax", **options)
    (row,) = error_budgets(floats, quantized, SAMPLES)
    (own,) = (r.isolated_sqnr for r in analyze(floats, quantized, SAMPLES) if r.tensor == "y")
    assert own is not None
    return row, own


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cause", "options"),
    [
        ("weights", {"weight_precision": "int3"}),
        ("data_clipping", {"data": 1.0}),
        ("data_rounding", {"data": 200.0}),
        ("result_clipping", {"result": 1.0}),
        ("result_rounding", {"result": 300.0}),
    ],
)
def test_the_main_cause_is_what_was_made_bad(cause: str, options: dict[str, Any]) -> None:
    row, own = budget(**options)
    assert (row.tensor, row.operation, row.main_cause) == ("y", "nn.fully_connected", cause)
    others = [getattr(row, other) for other in CAUSES if other != cause]
    assert row.whole < getattr(row, cause) + 3 < min(others)
    assert row.whole == own


def test_causes_that_do_nothing_are_infinite() -> None:
    row, _ = budget()
    assert row.data_clipping == row.result_clipping == math.inf
    assert row.arithmetic > 45  # a multiplier of 31 bits rounds as the quotient does, but for ties
    assert row.as_dict()["data_clipping"] is None


@pytest.mark.slow
def test_a_bias_of_integers_counts_with_the_weights() -> None:
    """Results without their bias are far off; those with it are not."""
    row, _ = budget(bias="int32")
    assert row.weights > 35


@pytest.mark.slow
def test_operations_that_only_move_data_have_no_other_cause(tmp_path: Any) -> None:
    small = write_small(tmp_path)
    samples = [s[None] for s in small.samples]
    rows = {r.tensor: r for r in error_budgets(small.onnx, qmlir.quantize(small.onnx, data=samples), samples)}
    assert rows["pooled"].main_cause == "data_rounding"
    assert rows["pooled"].weights == rows["pooled"].arithmetic == math.inf
    assert rows["pooled"].whole == rows["pooled"].data_rounding
    assert [r.whole for r in rows.values()] == sorted(r.whole for r in rows.values())


def test_samples_are_needed() -> None:
    text = TEXT.replace("DATA", "5.0").replace("RESULT", "6.0").replace("WEIGHTS", WEIGHTS)
    floats, quantized = parsed(text), qmlir.quantize(parsed(text))
    with pytest.raises(QmlirError, match="at least one sample"):
        error_budgets(floats, quantized, [])
