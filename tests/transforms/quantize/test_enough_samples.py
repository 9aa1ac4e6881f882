"""`effort`: how many samples layers are adjusted on, and how weights are rounded."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import qmlir
from qmlir.compiler import main_function
from qmlir.dialects.nn import ConstantOp
from qmlir.errors import OptionError
from qmlir.settings.policy import PolicyError
from qmlir.settings.recorded import recorded_config
from qmlir.transforms.quantize.adjust import enough_samples, side_by_side
from qmlir.transforms.quantize.adjust.enough_samples import ENOUGH, Enough
from tests.transforms.quantize.calibrated import parsed

Array = npt.NDArray[Any]

CONVOLUTION = parsed(
    """
func.func @main(%x: tensor<1x8x8x4xf32>) -> tensor<1x8x8x4xf32> {
  %w = nn.constant <tensor<4x1x1x4xf32>, [0.4, -0.1, 0.3, 0.2, 0.9, 0.35, -0.6, 0.1, 0.2, 0.7, -0.3, 0.8, -0.5, 0.25,
    0.15, 0.45]> : tensor<4x1x1x4xf32>
  %0 = nn.conv2d %x, %w : tensor<1x8x8x4xf32>, tensor<4x1x1x4xf32> -> tensor<1x8x8x4xf32>
  func.return %0 : tensor<1x8x8x4xf32>
}
"""
)
ROWS = parsed(
    """
func.func @main(%x: tensor<1x4xf32>) -> tensor<1x2xf32> {
  %w = nn.constant <tensor<2x4xf32>, [0.4, -0.1, 0.3, 0.2, 0.9, 0.35, -0.6, 0.1]> : tensor<2x4xf32>
  %0 = nn.fully_connected %x, %w : tensor<1x4xf32>, tensor<2x4xf32> -> tensor<1x2xf32>
  func.return %0 : tensor<1x2xf32>
}
"""
)
PRODUCTS = 8 * 8 * 4 * 4
PICTURES = list(np.random.default_rng(3).standard_normal((40, 1, 8, 8, 4)).astype(np.float32))


def test_a_budget_of_products_allows_samples_of_a_convolutional_network(monkeypatch: pytest.MonkeyPatch) -> None:
    network = main_function(CONVOLUTION)
    assert enough_samples.enough_samples(network, "default") == 2**32 // PRODUCTS
    monkeypatch.setitem(ENOUGH, "default", Enough(16, 25.5 * PRODUCTS))
    assert enough_samples.enough_samples(network, "default") == 25
    monkeypatch.setitem(ENOUGH, "default", Enough(16, 3 * PRODUCTS))
    assert enough_samples.enough_samples(network, "default") == 16


def test_best_and_other_networks_take_all_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENOUGH, "default", Enough(16, 1.0))
    assert enough_samples.enough_samples(main_function(CONVOLUTION), "best") == math.inf
    assert enough_samples.enough_samples(main_function(ROWS), "default") == math.inf


def test_efforts_order_samples() -> None:
    fast, default, best = (ENOUGH[effort] for effort in ("fast", "default", "best"))
    assert fast.least <= default.least
    assert fast.products < default.products < best.products == math.inf


def seen_with(monkeypatch: pytest.MonkeyPatch, **options: Any) -> tuple[list[int], Any]:
    """The numbers of samples that layers are adjusted on, and the quantized network."""
    counts: list[int] = []
    run = side_by_side.SideBySide.run

    def counted(self: side_by_side.SideBySide, *steps: side_by_side.Step) -> int:
        counts.append(len(self.inputs))
        return run(self, *steps)

    monkeypatch.setattr(side_by_side.SideBySide, "run", counted)
    return counts, qmlir.quantize(CONVOLUTION, data=PICTURES, measure=False, **options)


@pytest.mark.parametrize(("effort", "count"), [("fast", 8), ("default", 16), ("best", 40)])
def test_layers_are_adjusted_on_as_many(monkeypatch: pytest.MonkeyPatch, effort: str, count: int) -> None:
    for name, held in list(ENOUGH.items()):
        monkeypatch.setitem(ENOUGH, name, Enough(held.least, held.products if name == "best" else 1.0))
    counts, quantized = seen_with(monkeypatch, effort=effort)
    assert counts == [count]
    assert recorded_config(quantized).effort == effort


def test_fast_rounds_to_nearest_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    def weights(**options: Any) -> Array:
        quantized = qmlir.quantize(CONVOLUTION, data=PICTURES, measure=False, weight_precision="int3", **options)
        constants = (op.value.array for op in quantized.walk() if isinstance(op, ConstantOp))
        (w,) = (array for array in constants if array.size == 16)
        return w

    assert (weights(effort="fast") == weights(rounding="nearest")).all()
    assert (weights(effort="fast", rounding="gptq") == weights(rounding="gptq")).all()
    assert (weights(effort="default") != weights(rounding="nearest")).any()


def test_an_unknown_effort_is_refused() -> None:
    with pytest.raises(OptionError, match="effort"):
        qmlir.quantize(CONVOLUTION, data=PICTURES, effort="little")


def test_a_rule_for_one_operation_has_no_effort() -> None:
    with pytest.raises(PolicyError, match="is for the whole network, got fast; put it under default"):
        qmlir.quantize(CONVOLUTION, data=PICTURES, policy={"rules": [{"kind": "conv2d", "effort": "fast"}]})
