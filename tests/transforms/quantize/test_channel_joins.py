"""Channels that concatenations join or several layers read: the same function, one magnitude, nothing else touched."""

from typing import Any

import numpy as np
import pytest

import qmlir
from qmlir.compiler import Pipeline, main_function
from qmlir.dialects.calib import ObserveOp
from qmlir.dialects.target import load_target
from qmlir.settings.quant_config import OpConfig
from qmlir.transforms.quantize.adjust.channel_joins import channel_joins
from qmlir.transforms.quantize.adjust.equalize_channels import equalize_channels
from qmlir.transforms.quantize.op_configs import OpConfigs
from tests.transforms.quantize.calibrated import Array, calibrated, parsed, quantized, sqnr

POINTS, PIXELS = np.array([1.0, 0.05, 3.0, 0.4]), np.array([0.02, 0.2, 0.01, 0.1])
"""What the channels of the two expanding layers are multiplied with."""


def weights(rng: np.random.Generator, *shape: int, heights: Array | None = None, read: Array | None = None) -> str:
    """Normal ones, whose output channels, first, may differ in height; what is `read`, last, is brought to one."""
    array = rng.standard_normal(shape).astype(np.float32)
    if heights is not None:
        array *= heights.astype(np.float32).reshape(-1, *[1] * (len(shape) - 1))
    if read is not None:
        array /= read.astype(np.float32)
    type = f"tensor<{'x'.join(map(str, shape))}xf32>"
    return f'<{type}, "0x{array.tobytes().hex()}"> : {type}'


def fire(clamp: str = "min = 0.0 : f32", observed: str = "", joined: str = "1x6x6x4", axis: int = 3) -> str:
    """A squeezing layer, two that expand it, what joins these, a pool, and a last layer."""
    rng = np.random.default_rng(3)
    height, channels = (6, 8) if axis == 3 else (12, 4)
    whole, pooled = f"tensor<1x{height}x6x{channels}xf32>", f"tensor<1x{height // 2}x3x{channels}xf32>"
    return f"""
func.func @main(%x: tensor<1x6x6x5xf32>) -> tensor<1x{height // 2}x3x6xf32> {{
  calib.observe %x {{name = "x"}} : tensor<1x6x6x5xf32>
  %w0 = nn.constant {weights(rng, 3, 1, 1, 5, heights=np.array([1.0, 0.1, 4.0]))}
  %s = nn.conv2d %x, %w0 {{min = 0.0 : f32}} : tensor<1x6x6x5xf32>, tensor<3x1x1x5xf32> -> tensor<1x6x6x3xf32>
  calib.observe %s {{name = "squeezed"}} : tensor<1x6x6x3xf32>
  %w1 = nn.constant {weights(rng, 4, 1, 1, 3, heights=POINTS)}
  %b1 = nn.constant {weights(rng, 4, heights=POINTS)}
  %p = nn.conv2d %s, %w1, %b1 {{{clamp}}}
    : tensor<1x6x6x3xf32>, tensor<4x1x1x3xf32>, tensor<4xf32> -> tensor<1x6x6x4xf32>
  calib.observe %p {{name = "points"{observed}}} : tensor<1x6x6x4xf32>
  %w2 = nn.constant {weights(rng, 4, 3, 3, 3, heights=PIXELS)}
  %q = nn.conv2d %s, %w2 {{min = 0.0 : f32, padding = array<i64: 1, 1, 1, 1>}}
    : tensor<1x6x6x3xf32>, tensor<4x3x3x3xf32> -> tensor<1x6x6x4xf32>
  calib.observe %q {{name = "pixels"}} : tensor<1x6x6x4xf32>
  %c = nn.concat %p, %q {{axis = {axis} : i64}} : tensor<1x6x6x4xf32>, tensor<1x6x6x4xf32> -> {whole}
  calib.observe %c {{name = "joined"}} : {whole}
  %m = nn.max_pool2d %c {{window = array<i64: 2, 2>, strides = array<i64: 2, 2>}} : {whole} -> {pooled}
  calib.observe %m {{name = "pooled"}} : {pooled}
  %w3 = nn.constant {weights(rng, 6, 1, 1, channels, read=np.concatenate([POINTS, PIXELS])[:channels])}
  %y = nn.conv2d %m, %w3 : {pooled}, tensor<6x1x1x{channels}xf32> -> tensor<1x{height // 2}x3x6xf32>
  calib.observe %y {{name = "y"}} : tensor<1x{height // 2}x3x6xf32>
  func.return %y : tensor<1x{height // 2}x3x6xf32>
}}"""


def stream(add: str = "min = 0.0 : f32", pad: float = 0.0) -> str:
    """A residual stream: a layer, a block with a leaky relu that adds to it, two more channels of zeros, a layer."""
    rng = np.random.default_rng(5)
    four, six = "tensor<1x6x6x4xf32>", "tensor<1x6x6x6xf32>"
    return f"""
func.func @main(%x: tensor<1x6x6x5xf32>) -> {six} {{
  calib.observe %x {{name = "x"}} : tensor<1x6x6x5xf32>
  %w0 = nn.constant {weights(rng, 4, 1, 1, 5, heights=POINTS)}
  %s = nn.conv2d %x, %w0 : tensor<1x6x6x5xf32>, tensor<4x1x1x5xf32> -> {four}
  calib.observe %s {{name = "s"}} : {four}
  %w1 = nn.constant {weights(rng, 4, 1, 1, 4, heights=PIXELS, read=POINTS)}
  %p = nn.conv2d %s, %w1 : {four}, tensor<4x1x1x4xf32> -> {four}
  calib.observe %p {{name = "p"}} : {four}
  %slopes = nn.constant {weights(rng, 4)}
  %r = nn.prelu %p, %slopes : {four}, tensor<4xf32> -> {four}
  calib.observe %r {{name = "r"}} : {four}
  %w2 = nn.constant {weights(rng, 4, 1, 1, 4, heights=POINTS, read=PIXELS)}
  %q = nn.conv2d %r, %w2 : {four}, tensor<4x1x1x4xf32> -> {four}
  calib.observe %q {{name = "q"}} : {four}
  %a = nn.add %s, %q {{{add}}} : {four}, {four} -> {four}
  calib.observe %a {{name = "a"}} : {four}
  %z = nn.pad %a {{value = {pad} : f32, low = array<i64: 0, 0, 0, 0>, high = array<i64: 0, 0, 0, 2>}} : {four} -> {six}
  calib.observe %z {{name = "z"}} : {six}
  %w3 = nn.constant {weights(rng, 6, 1, 1, 4, heights=np.array([*POINTS, 0.01, 5.0]), read=POINTS)}
  %t = nn.conv2d %a, %w3 : {four}, tensor<6x1x1x4xf32> -> {six}
  calib.observe %t {{name = "t"}} : {six}
  %b = nn.add %t, %z : {six}, {six} -> {six}
  calib.observe %b {{name = "b"}} : {six}
  %l = nn.leaky_relu %b {{alpha = 0.25 : f32}} : {six} -> {six}
  calib.observe %l {{name = "l"}} : {six}
  %w4 = nn.constant {weights(rng, 6, 1, 1, 6, read=np.array([*POINTS, 0.01, 5.0]))}
  %y = nn.conv2d %l, %w4 : {six}, tensor<6x1x1x6xf32> -> {six}
  calib.observe %y {{name = "y"}} : {six}
  func.return %y : {six}
}}"""


@pytest.fixture(scope="module")
def samples() -> list[Array]:
    rng = np.random.default_rng(4)
    return [rng.standard_normal((1, 6, 6, 5)).astype(np.float32) for _ in range(24)]


def test_a_fire_module_keeps_its_function_and_its_channels_meet(samples: list[Array]) -> None:
    module = calibrated(parsed(fire()), samples)
    equal = module.clone()
    network = main_function(equal)
    block = network.body.block
    squeezed, joined = channel_joins(block)
    assert (len(squeezed.writers), len(squeezed.readers), len(squeezed.tensors)) == (1, 2, 1)
    assert (len(joined.writers), len(joined.readers), len(joined.tensors)) == (2, 1, 4)
    assert equalize_channels(network, [[x] for x in samples], OpConfigs(block, OpConfig(), load_target())) == 2
    for x in samples[:5]:
        before, after = qmlir.reference(module)(x), qmlir.reference(equal)(x)
        np.testing.assert_allclose(after, before, rtol=1e-4, atol=1e-4 * np.abs(before).max())
    old, new = ({o.tensor.data: o for o in m.walk() if isinstance(o, ObserveOp)} for m in (module, equal))
    for name in "xy":
        assert (new[name].range, new[name].histogram) == (old[name].range, old[name].histogram)
    # One factor for the largest of all eight channels: what was small beside the other layer's channels grows.
    assert new["points"].bounds == pytest.approx(old["points"].bounds, rel=1e-5)
    assert new["pixels"].bounds is not None
    assert old["pixels"].bounds is not None
    assert new["pixels"].bounds[1] > 2 * old["pixels"].bounds[1]
    for name in ("squeezed", "points", "pixels", "joined", "pooled"):
        assert new[name].histogram != old[name].histogram


@pytest.mark.slow
def test_a_fire_module_is_worth_more(samples: list[Array]) -> None:
    module = parsed(fire())
    profile = qmlir.profile(module, samples)
    truth = np.concatenate([qmlir.reference(module)(x) for x in samples])
    together = qmlir.quantize(module, profile, data=samples)
    # A policy's word about a tensor, its own range here, keeps all that is joined with it as it is.
    bounds = [profile.tensors["joined"].lo, profile.tensors["joined"].hi]
    apart = qmlir.quantize(
        module, profile, data=samples, policy=qmlir.Policy(rules=[qmlir.Rule({"range": bounds}, kind="concat")])
    )
    found = [sqnr(truth, np.concatenate([qmlir.reference(q)(x) for x in samples])) for q in (together, apart)]
    assert found[0] > found[1] + 1, found


@pytest.mark.parametrize(
    ("text", "joins"),
    [
        (fire(), 2),
        (fire(clamp=""), 2),
        (fire(clamp="min = 0.0 : f32, max = 6.0 : f32"), 1),
        (fire(observed=", qmlir.policy = {range = [0.0, 9.0]}"), 1),
        (fire(clamp='min = 0.0 : f32, qmlir.policy = {weight_precision = "int4"}'), 2),
        (fire(clamp='min = 0.0 : f32, qmlir.policy = {schema = "symmetric"}'), 2),
        (fire(axis=1), 1),
        (stream(), 1),
        (stream(add="min = 0.0 : f32, max = 6.0 : f32"), 0),
        (stream(pad=1.0), 0),
    ],
    ids=["fire", "no relu", "clamped from above", "range of the policy", "weights of a layer", "schema of a layer",
         "joined rows", "stream", "clamped sum", "ones around"],
)  # fmt: skip
def test_what_is_joined(text: str, joins: int) -> None:
    module = Pipeline("simplify")(parsed(text))
    assert len(channel_joins(main_function(module).body.block)) == joins


def test_channels_of_a_residual_stream_have_one_factor(samples: list[Array]) -> None:
    module = calibrated(parsed(stream()), samples)
    equal = module.clone()
    network = main_function(equal)
    block = network.body.block
    (joined,) = channel_joins(block)  # the layers around the leaky relu are a pair
    assert (len(joined.writers), len(joined.readers)) == (3, 3)
    sizes = {value.name_hint: places.tolist() for value, places in joined.places.items()}
    assert sizes == {name: list(range(4 if name in "sqa" else 6)) for name in "sqaztbl"}
    assert equalize_channels(network, [[x] for x in samples], OpConfigs(block, OpConfig(), load_target())) == 2
    for x in samples[:5]:
        before, after = qmlir.reference(module)(x), qmlir.reference(equal)(x)
        np.testing.assert_allclose(after, before, rtol=1e-4, atol=1e-4 * np.abs(before).max())
    truth = np.concatenate([qmlir.reference(module)(x) for x in samples])
    found = [np.concatenate([qmlir.reference(qmlir.quantize(m))(x) for x in samples]) for m in (module, equal)]
    assert sqnr(truth, found[1]) > sqnr(truth, found[0]) + 2


def test_powers_of_two_keep_the_channels_of_sums(samples: list[Array]) -> None:
    module = calibrated(parsed(stream()), samples)
    network = main_function(module)
    config = OpConfig(schema="symmetric_with_power2_scale")
    op_configs = OpConfigs(network.body.block, config, load_target())
    assert equalize_channels(network, [[x] for x in samples], op_configs) == 1


def test_channels_stay_where_the_calibration_would_clip_more(
    samples: list[Array], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Kullback-Leibler divergence keeps less of a tensor whose channels are alike; minmax keeps all of it."""
    module = calibrated(parsed(fire()), samples)
    truth = np.concatenate([qmlir.reference(module)(x) for x in samples])

    def found(calibration: Any) -> tuple[int, float]:
        equal = module.clone()
        network, config = main_function(equal), OpConfig(calibration=calibration)
        op_configs = OpConfigs(network.body.block, config, load_target())
        count = equalize_channels(network, [[x] for x in samples], op_configs)
        q = qmlir.reference(quantized(equal, calibration=calibration))
        return count, sqnr(truth, np.concatenate([q(x) for x in samples]))

    (all_of, _), (some, kept) = found("minmax"), found("kl")
    assert (all_of, some) == (2, 1)
    monkeypatch.setattr("qmlir.transforms.quantize.adjust.equalize_channels._keeping_more", lambda _, joins, *__: joins)
    forced, clipped = found("kl")
    assert forced == 2
    assert kept > clipped + 0.3
