"""Tensors brought to powers of two: the same function, clamps along with it, and what is spoken for stays."""

import math

import numpy as np
import pytest

import qmlir
from qmlir.compiler import main_function
from qmlir.dialects.calib import ObserveOp
from qmlir.dialects.nn import AddOp, Conv2DOp
from qmlir.numerics.calibration import choose_quantization
from qmlir.settings.quant_config import OpConfig
from qmlir.transforms.quantize.adjust.align_scales import align_scales
from qmlir.transforms.quantize.adjust.channel_pairs import contraction_sums
from qmlir.transforms.quantize.ranges.apply_profile import apply_profile
from qmlir.transforms.quantize.ranges.margins import expected
from tests.transforms.quantize.calibrated import Array, learnt, parsed
from tests.transforms.quantize.test_equalize_channels import network, weights

RNG = np.random.default_rng(23)
POWERS = OpConfig(schema="symmetric_with_power2_scale")
SIX = "min = 0.0 : f32, max = 6.0 : f32"


@pytest.fixture(scope="module")
def samples() -> list[Array]:
    return [RNG.standard_normal((1, 8, 8, 3)).astype(np.float32) for _ in range(40)]


@pytest.mark.parametrize("clamp", ["min = 0.0 : f32", SIX])
def test_the_function_stays_and_scales_are_powers_of_two(samples: list[Array], clamp: str) -> None:
    module = parsed(network(clamp=clamp))
    apply_profile(module, learnt(module, samples))
    aligned = module.clone()
    assert align_scales(main_function(aligned), [[x] for x in samples], POWERS) == 2
    for x in samples[:5]:
        before, after = qmlir.reference(module)(x), qmlir.reference(aligned)(x)
        np.testing.assert_allclose(after, before, rtol=1e-4, atol=1e-4 * np.abs(before).max())
    observers = {o.tensor.data: o for o in aligned.walk() if isinstance(o, ObserveOp)}
    for name in ("c0", "d"):
        seen = observers[name].observation
        assert seen is not None
        seen = expected(observers[name].value, seen, POWERS)
        scale, _ = choose_quantization(*seen.bounds, "symmetric", "int8", seen.histogram, "auto")
        distance = abs(math.log2(scale) - round(math.log2(scale)))
        assert distance < 0.1  # of the 0.5 that it might be: histograms of new values have other bins


def test_clamps_are_scaled_along(samples: list[Array]) -> None:
    module = parsed(network(clamp=SIX))
    apply_profile(module, learnt(module, samples))
    align_scales(main_function(module), [[x] for x in samples], POWERS)
    (convolution,) = [o for o in module.walk() if isinstance(o, Conv2DOp)]
    low, high = convolution.bounds()
    assert low == 0.0
    assert high is not None
    assert 6 / math.sqrt(2) <= high <= 6 * math.sqrt(2)
    assert high != 6.0


def test_what_the_policy_speaks_of_stays(samples: list[Array]) -> None:
    module = parsed(network(", qmlir.policy = {range = [0.0, 9.0]}"))
    apply_profile(module, learnt(module, samples))
    assert align_scales(main_function(module), [[x] for x in samples[:3]], POWERS) == 1


def residual(tail: str = "", reads: str = "%3", policy: str = "") -> str:
    """Two convolutions whose sum goes through a pool into a fully connected layer."""
    rng = np.random.default_rng(31)
    return f"""
func.func @main(%x: tensor<1x8x8x3xf32>) -> tensor<1x5xf32> {{
  calib.observe %x {{name = "x"}} : tensor<1x8x8x3xf32>
  %w0 = nn.constant {weights(rng, 3, 1, 1, 3)}
  %b0 = nn.constant {weights(rng, 3)}
  %0 = nn.conv2d %x, %w0, %b0 : tensor<1x8x8x3xf32>, tensor<3x1x1x3xf32>, tensor<3xf32> -> tensor<1x8x8x3xf32>
  calib.observe %0 {{name = "c0"{policy}}} : tensor<1x8x8x3xf32>
  %w1 = nn.constant {weights(rng, 3, 1, 1, 3)}
  %1 = nn.conv2d %x, %w1 : tensor<1x8x8x3xf32>, tensor<3x1x1x3xf32> -> tensor<1x8x8x3xf32>
  calib.observe %1 {{name = "c1"}} : tensor<1x8x8x3xf32>
  %2 = nn.add %0, %1 {{{SIX}}} : tensor<1x8x8x3xf32>, tensor<1x8x8x3xf32> -> tensor<1x8x8x3xf32>
  calib.observe %2 {{name = "sum"}} : tensor<1x8x8x3xf32>
  %a = nn.global_average_pool %2 : tensor<1x8x8x3xf32> -> tensor<1x1x1x3xf32>
  calib.observe %a {{name = "mean"}} : tensor<1x1x1x3xf32>
  %3 = nn.reshape %a {{shape = array<i64: 1, 3>}} : tensor<1x1x1x3xf32> -> tensor<1x3xf32>
  {tail}
  %w2 = nn.constant {weights(rng, 5, 3)}
  %y = nn.fully_connected {reads}, %w2 : tensor<1x3xf32>, tensor<5x3xf32> -> tensor<1x5xf32>
  calib.observe %y {{name = "y"}} : tensor<1x5xf32>
  func.return %y : tensor<1x5xf32>
}}
"""


def test_sums_of_contractions_are_aligned(samples: list[Array]) -> None:
    module = parsed(residual())
    apply_profile(module, learnt(module, samples))
    aligned = module.clone()
    assert align_scales(main_function(aligned), [[x] for x in samples], POWERS) == 1
    aligned.verify()
    for x in samples[:5]:
        before, after = qmlir.reference(module)(x), qmlir.reference(aligned)(x)
        np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-5 * np.abs(before).max())
    old, new = ({o.tensor.data: o.bounds for o in m.walk() if isinstance(o, ObserveOp)} for m in (module, aligned))
    (add,) = [o for o in aligned.walk() if isinstance(o, AddOp)]
    high = add.bounds()[1]
    assert high is not None
    assert high != 6.0
    for name in ("c0", "c1", "sum", "mean"):
        was, now = old[name], new[name]
        assert was is not None
        assert now is not None
        np.testing.assert_allclose(now, np.array(was) * high / 6, rtol=1e-5)
    assert (old["x"], old["y"]) == (new["x"], new["y"])


@pytest.mark.parametrize(
    "text",
    [
        residual(
            f"%k = nn.constant {weights(RNG, 1, 3)}\n"
            "  %4 = nn.add %3, %k : tensor<1x3xf32>, tensor<1x3xf32> -> tensor<1x3xf32>",
            "%4",
        ),
        residual("%4 = nn.sigmoid %3 : tensor<1x3xf32> -> tensor<1x3xf32>", "%4"),
        residual(
            f"%w = nn.constant {weights(RNG, 5, 3)}\n"
            "  %z = nn.fully_connected %3, %w : tensor<1x3xf32>, tensor<5x3xf32> -> tensor<1x5xf32>"
        ),
        residual(policy=", qmlir.policy = {range = [0.0, 9.0]}"),
        residual().replace("nn.add %0, %1", "nn.add %0, %x"),
        residual()
        .replace("-> tensor<1x5xf32> {", "-> (tensor<1x5xf32>, tensor<1x3xf32>) {")
        .replace("func.return %y : tensor<1x5xf32>", "func.return %y, %3 : tensor<1x5xf32>, tensor<1x3xf32>"),
    ],
    ids=["a constant", "a sigmoid", "two readers", "the policy", "an input", "an output"],
)
def test_sums_that_others_hold_stay(text: str) -> None:
    assert not contraction_sums(main_function(parsed(text)).body.block)
