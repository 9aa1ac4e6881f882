"""Tensors brought to powers of two: the same function, clamps along with it, and what is spoken for stays."""

import math

import numpy as np
import pytest

import qmlir
from qmlir.compiler import main_function
from qmlir.dialects.calib import ObserveOp
from qmlir.dialects.nn import Conv2DOp
from qmlir.dialects.quant.calibration import choose_quantization
from qmlir.recipe import Recipe
from qmlir.transforms.quantize.align_scales import align_scales
from qmlir.transforms.quantize.apply_profile import apply_profile
from qmlir.transforms.quantize.headroom import expected
from tests.transforms.quantize.calibrated import Array, learnt, parsed
from tests.transforms.quantize.test_equalize_channels import network

RNG = np.random.default_rng(23)
POWERS = Recipe(schema="symmetric_with_power2_scale")
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
