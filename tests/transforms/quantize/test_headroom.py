"""Room beyond the observed range: how much of it, for whom, and what it saves on data beyond that."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from xdsl.ir import SSAValue

import qmlir
from qmlir.compiler import main_function
from qmlir.dialects.calib import Observation, ObserveOp
from qmlir.dialects.nn import AddOp
from qmlir.ir.states import StateAttr, set_state
from qmlir.numerics.histograms import Histogram
from qmlir.settings.quant_config import OpConfig
from qmlir.transforms.quantize.ranges.margins import expected
from tests.transforms.quantize.calibrated import calibrated, learnt, parsed, sqnr

RNG = np.random.default_rng(17)

TEXT = """
func.func @main(%x: tensor<1x256xf32>) -> tensor<1x256xf32> {
  %0 = nn.add %x, %x CLAMP : tensor<1x256xf32>, tensor<1x256xf32> -> tensor<1x256xf32>
  func.return %0 : tensor<1x256xf32>
}
"""
SEEN = Observation((-1.0, 8.0), Histogram(-1.0, 0.5, np.ones(18)), (-0.5, 6.0))
INT16 = OpConfig(schema="symmetric", precision="int16")
INT8 = OpConfig()


def total(clamp: str = "", text: str = TEXT) -> SSAValue:
    """A sum, the first of a network."""
    module = calibrated(parsed(text.replace("CLAMP", clamp)), [np.ones((1, 256), np.float32)])
    (_, observer, *_) = (o for o in module.walk() if isinstance(o, ObserveOp))
    return observer.value


READ = TEXT.replace("  func", "  %1 = nn.exp %0 : tensor<1x256xf32> -> tensor<1x256xf32>\n  func").replace(
    "return %0", "return %1"
)


@pytest.mark.parametrize(
    ("clamp", "text", "bounds"),
    [("", READ, (-2.0, 16.0)), ("", TEXT, (-5.5, 16.0)), ("{max = 100.0 : f32}", TEXT, (-2.0, 16.0))],
)
def test_data_of_16_bits_have_a_bit_to_spare(clamp: str, text: str, bounds: tuple[float, float]) -> None:
    """Results of the network without a clamp may move as a whole, by half of the observed range."""
    got = expected(total(clamp, text), SEEN, INT16)
    assert got.bounds == bounds
    assert got.histogram is not None
    assert (got.histogram.lo, got.histogram.hi) == bounds
    assert got.histogram.counts.tolist() == [1.0] * 18


def test_data_of_8_bits_get_what_more_samples_hold() -> None:
    got = expected(total(), SEEN, INT8)
    factor = ((8.0 + 0.3 * (8.0 - 6.0)) - (-1.0 - 0.3 * (-0.5 + 1.0))) / 9
    assert got.bounds == pytest.approx((-factor, 8 * factor))
    assert got.histogram is not None
    assert (got.histogram.lo, got.histogram.hi) == pytest.approx((-factor, 8 * factor))
    assert got.histogram.counts.tolist() == [1.0] * 18


@pytest.mark.parametrize("average", [(-1.0, 8.0), None])
def test_data_of_8_bits_get_none_where_samples_are_alike_or_nobody_knows(average: tuple[float, float] | None) -> None:
    seen = replace(SEEN, average=average)
    assert expected(total(), seen, INT8) is seen


@pytest.mark.slow
def test_gumbel_tails_reach_as_far_as_is_expected() -> None:
    """The mean of what 100 samples make expect, over 300 draws, is the mean of the greatest of 100^1.3 = 398."""
    random = np.random.default_rng(18)
    samples = random.gumbel(6.0, 0.8, (300, 100))
    room = [
        expected(total(), Observation((0.0, most), SEEN.histogram, (0.0, mean)), INT8).bounds[1]
        for most, mean in zip(samples.max(axis=1), samples.mean(axis=1), strict=True)
    ]
    greatest = random.gumbel(6.0, 0.8, (300, 398)).max(axis=1)
    assert np.mean(room) == pytest.approx(greatest.mean(), rel=0.01)


@pytest.mark.parametrize("high", [8.0, 8.5])
def test_none_beyond_a_clamp(high: float) -> None:
    clamped = total(f"{{min = -1.0 : f32, max = {high} : f32}}")
    factor = (high + 1) / 9
    assert expected(clamped, SEEN, INT16).bounds == pytest.approx((-factor, 8 * factor))


@pytest.mark.parametrize(
    "op_config",
    [
        OpConfig(schema="symmetric", precision="int16", calibration="minmax"),
        OpConfig(schema="symmetric", precision="int16", calibration="mse"),
        OpConfig(schema="symmetric", precision="int16", glow_exact=True),
        OpConfig(calibration="minmax"),
        OpConfig(calibration="mse"),
        OpConfig(glow_exact=True),
    ],
)
def test_who_gets_none(op_config: OpConfig) -> None:
    assert expected(total(), SEEN, op_config) is SEEN


BELOW = Observation((-8.0, 1.0), Histogram(-8.0, 0.5, np.ones(18)), (-6.0, 0.5))
POWERS = OpConfig(schema="symmetric_with_power2_scale")


@pytest.mark.parametrize(
    ("op_config", "wider"),
    [(POWERS, False), (replace(POWERS, precision="int16"), True), (OpConfig(schema="symmetric"), True), (INT8, True)],
)
def test_results_of_powers_of_two_get_none(op_config: OpConfig, wider: bool) -> None:
    assert (expected(total(), BELOW, op_config) is not BELOW) == wider
    assert expected(total(), SEEN, op_config) is not SEEN  # the largest values, which decide, would tie


def test_what_layers_read_or_keep_for_the_next_call_gets_a_margin_under_powers_of_two() -> None:
    text = TEXT.replace("CLAMP", "")
    read = text.replace("func.return %0", "%1 = nn.tanh %0 : tensor<1x256xf32> -> tensor<1x256xf32>\n  func.return %1")
    data = [np.ones((1, 256), np.float32)]
    kept = calibrated(parsed(text), data)
    set_state(main_function(kept), 0, StateAttr.of(0))
    for module in (calibrated(parsed(read), data), kept):
        (observer,) = (o for o in module.walk() if isinstance(o, ObserveOp) and isinstance(o.value.owner, AddOp))
        assert expected(observer.value, BELOW, POWERS) is not BELOW


def test_inputs_and_what_was_not_counted_get_none() -> None:
    said = Observation((-1.0, 8.0))
    assert expected(total(), said, INT16) is said
    (argument,) = main_function(parsed(TEXT.replace("CLAMP", ""))).body.block.args
    assert expected(argument, SEEN, INT16) is SEEN


@pytest.mark.parametrize(("precision", "gain"), [("int16", 20), ("int8", 1)])
def test_data_beyond_the_range_lose_less(precision: str, gain: float) -> None:
    """Others of the same inputs lie together where those that were profiled cancel: their sums leave the range."""
    weights = np.ones((4, 256), np.float32)
    module = parsed(f"""
func.func @main(%x: tensor<1x256xf32>) -> tensor<1x4xf32> {{
  %w = nn.constant <tensor<4x256xf32>, "0x{weights.tobytes().hex()}"> : tensor<4x256xf32>
  %0 = nn.fully_connected %x, %w : tensor<1x256xf32>, tensor<4x256xf32> -> tensor<1x4xf32>
  func.return %0 : tensor<1x4xf32>
}}
""")
    samples = list(RNG.uniform(-1, 1, (20, 1, 256)).astype(np.float32))
    profile = learnt(module, samples)
    most = max(float(np.abs(x.sum()) / np.abs(x).sum()) for x in samples)
    others = [x + np.float32(1.2 * most) * (1 - np.abs(x)) for x in samples]
    truth = np.concatenate([x @ weights.T for x in others])

    def decibels(calibration: str) -> float:
        options: dict[str, Any] = {"schema": "symmetric", "precision": precision, "calibration": calibration}
        run = qmlir.reference(qmlir.quantize(module, profile, **options))
        return sqnr(truth, np.concatenate([run(x) for x in others]))

    assert decibels("auto") > decibels("minmax") + gain
