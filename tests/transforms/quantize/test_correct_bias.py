"""Bias correction: means come back, layer after layer."""

from typing import cast

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.errors import InputError, PipelineError
from qmlir.transforms.quantize.adjust.correct_bias import correct
from qmlir.transforms.quantize.adjust.side_by_side import SideBySide, network_of
from tests.frontends.onnx.agreement import load, model, node
from tests.transforms.quantize.calibrated import Array, learnt, parsed, sqnr
from tests.transforms.quantize.test_schemas import values

RNG = np.random.default_rng(3)
DRAW = np.random.default_rng(5)

DEEP = f"""
func.func @main(%x: tensor<1x8x8x6xf32>) -> tensor<1x6x6x4xf32> {{
  %w0 = nn.constant {values(1, 3, 3, 6, spread=0.5, draw=DRAW)}
  %0 = nn.depthwise_conv2d %x, %w0 {{padding = array<i64: 1, 1, 1, 1>, min = 0.0 : f32}}
    : tensor<1x8x8x6xf32>, tensor<1x3x3x6xf32> -> tensor<1x8x8x6xf32>
  %w1 = nn.constant {values(6, 1, 1, 3, spread=0.5, draw=DRAW)}
  %b1 = nn.constant {values(6, draw=DRAW)}
  %1 = nn.conv2d %0, %w1, %b1 {{groups = 2 : i64}}
    : tensor<1x8x8x6xf32>, tensor<6x1x1x3xf32>, tensor<6xf32> -> tensor<1x8x8x6xf32>
  %2 = nn.add %1, %0 {{max = 4.0 : f32}} : tensor<1x8x8x6xf32>, tensor<1x8x8x6xf32> -> tensor<1x8x8x6xf32>
  %w2 = nn.constant {values(4, 3, 3, 6, spread=0.5, draw=DRAW)}
  %3 = nn.conv2d %2, %w2 : tensor<1x8x8x6xf32>, tensor<4x3x3x6xf32> -> tensor<1x6x6x4xf32>
  func.return %3 : tensor<1x6x6x4xf32>
}}
"""


@pytest.fixture(scope="module")
def samples() -> list[Array]:
    return [(RNG.standard_normal((1, 8, 8, 6)) + 0.7).astype(np.float32) for _ in range(20)]


def shift(module: ModuleOp, quantized_module: ModuleOp, samples: list[Array]) -> float:
    """The largest difference of a channel's means."""
    truth, got = (np.concatenate([qmlir.reference(m)(x) for x in samples]) for m in (module, quantized_module))
    return float(np.abs((truth - got).mean(axis=(0, 1, 2))).max())


@pytest.mark.slow
@pytest.mark.parametrize("weights", ["int4", "int8"])
def test_means_come_back(samples: list[Array], weights: str) -> None:
    module = parsed(DEEP)
    profile = learnt(module, samples)
    options = {"weight_precision": weights, "calibration": "minmax"}
    before = qmlir.quantize(module, profile, **options)  # type: ignore[arg-type]
    after = qmlir.quantize(module, profile, data=iter(samples), **options)  # type: ignore[arg-type]
    assert shift(module, after, samples) < shift(module, before, samples) / 3
    biases = [op.b is not None for op in after.walk() if isinstance(op, WeightedOp)]
    assert biases == [True] * 3


def behind_relu(bias: float) -> str:
    """Sums of one product; of two weights with one scale the second is rounded."""
    return f"""
func.func @main(%x: tensor<1x1xf32>) -> tensor<1x2xf32> {{
  %w = nn.constant <tensor<2x1xf32>, [1.5, 0.33]> : tensor<2x1xf32>
  %b = nn.constant <tensor<2xf32>, [0.0, {bias}]> : tensor<2xf32>
  %y = nn.fully_connected %x, %w, %b {{min = 0.0 : f32}}
    : tensor<1x1xf32>, tensor<2x1xf32>, tensor<2xf32> -> tensor<1x2xf32>
  func.return %y : tensor<1x2xf32>
}}
"""


def second_channel(bias: float) -> tuple[Array, Array]:
    """What floats and integers give of the second channel on data that are negative for the most part."""
    module, data = parsed(behind_relu(bias)), [np.full((1, 1), x, np.float32) for x in [-6.0] * 9 + [0.5, 0.8]]
    options = {"weight_precision": "int4", "per_channel": False, "calibration": "minmax"}
    quantized_module = qmlir.quantize(module, learnt(module, data), data=data, **options)
    truth, got = (np.stack([qmlir.reference(m)(x)[0, 1] for x in data]) for m in (module, quantized_module))
    return truth, got


def test_values_that_a_clamp_lets_pass_are_not_shifted_by_those_it_hides() -> None:
    truth, got = second_channel(0.0)
    assert sqnr(truth, got) > 10


def test_a_channel_that_is_always_0_stays_0() -> None:
    truth, got = second_channel(-0.4)
    assert not truth.any()
    assert not got.any()


def test_a_network_without_casts_is_left_alone(samples: list[Array]) -> None:
    assert SideBySide(network_of(parsed(DEEP)).body.block, [[x] for x in samples]).run(correct) == 0


def test_refusals(samples: list[Array]) -> None:
    module = parsed(DEEP)
    profile = learnt(module, samples)
    with pytest.raises(PipelineError, match="needs calibration data, got no sample"):
        qmlir.quantize(module, profile, data=[])
    with pytest.raises(InputError, match="must be"):
        qmlir.quantize(module, profile, data=[np.zeros((1, 2), np.float32)])


def test_a_sum_of_squares_keeps_its_bias() -> None:
    """Corrected downwards by what its input is off, it would be negative where all elements are small."""
    rng = np.random.default_rng(4)
    loud, quiet = (rng.normal(size=(1, 3, 4, 4)) * height for height in (20.0, 0.3))
    x = np.where(np.arange(4) < 2, loud, quiet).astype(np.float32)
    nodes = [node("Mul", "x two", "m"), node("LpPool", "m", kernel_shape=[3, 3], pads=[1, 1, 1, 1])]
    module = load(model(nodes, {"x": x.shape}, {"two": np.array(2.0, np.float32)}))
    q = qmlir.quantize(module, qmlir.profile(module, [x]), data=[x], schema="symmetric_with_power2_scale")
    (sums,) = [op for op in q.walk() if isinstance(op, WeightedOp)]
    assert sums.b is None or not cast(ConstantOp, sums.b.owner).value.array.any()
