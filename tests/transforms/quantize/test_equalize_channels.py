"""Equalized channels: the same function, tensors of one height, nothing touched that somebody spoke for."""

from collections.abc import Sequence

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.compiler import Pipeline, main_function
from qmlir.dialects.calib import ObserveOp
from qmlir.dialects.nn import ConstantOp, FullyConnectedOp, MulOp
from qmlir.dialects.target import load_target
from qmlir.errors import ProfileError
from qmlir.numerics.schemas import Schema
from qmlir.settings.quant_config import OpConfig
from qmlir.transforms.quantize.adjust.channel_pairs import set_constant
from qmlir.transforms.quantize.adjust.equalize_channels import equalize_channels
from qmlir.transforms.quantize.adjust.gained_channels import GainedChannels, equalize_gains
from qmlir.transforms.quantize.op_configs import OpConfigs
from qmlir.transforms.quantize.ranges.apply_profile import apply_profile
from tests.transforms.quantize.calibrated import Array, calibrated, learnt, parsed, sqnr

HEIGHTS = np.array([1.0, 0.02, 5.0, 0.3], np.float32)


def weights(rng: np.random.Generator, *shape: int, heights: Array | None = None) -> str:
    """Normal ones, whose output channels, first, may differ in height."""
    array = rng.standard_normal(shape).astype(np.float32)
    if heights is not None:
        array *= heights.reshape(-1, *[1] * (len(shape) - 1))
    type = f"tensor<{'x'.join(map(str, shape))}xf32>"
    return f'<{type}, "0x{array.tobytes().hex()}"> : {type}'


def network(policy: str = "", clamp: str = "min = 0.0 : f32") -> str:
    rng = np.random.default_rng(9)
    return f"""
func.func @main(%x: tensor<1x8x8x3xf32>) -> tensor<1x5xf32> {{
  calib.observe %x {{name = "x"}} : tensor<1x8x8x3xf32>
  %w0 = nn.constant {weights(rng, 4, 3, 3, 3, heights=HEIGHTS)}
  %b0 = nn.constant {weights(rng, 4, heights=HEIGHTS)}
  %0 = nn.conv2d %x, %w0, %b0 {{{clamp}}}
    : tensor<1x8x8x3xf32>, tensor<4x3x3x3xf32>, tensor<4xf32> -> tensor<1x6x6x4xf32>
  calib.observe %0 {{name = "c0"{policy}}} : tensor<1x6x6x4xf32>
  %1 = nn.max_pool2d %0 {{window = array<i64: 2, 2>, strides = array<i64: 2, 2>}}
    : tensor<1x6x6x4xf32> -> tensor<1x3x3x4xf32>
  calib.observe %1 {{name = "p"}} : tensor<1x3x3x4xf32>
  %w1 = nn.constant {weights(rng, 1, 3, 3, 8)}
  %2 = nn.depthwise_conv2d %1, %w1 {{min = 0.0 : f32}}
    : tensor<1x3x3x4xf32>, tensor<1x3x3x8xf32> -> tensor<1x1x1x8xf32>
  calib.observe %2 {{name = "d"}} : tensor<1x1x1x8xf32>
  %3 = nn.reshape %2 {{shape = array<i64: 1, 8>}} : tensor<1x1x1x8xf32> -> tensor<1x8xf32>
  %w2 = nn.constant {weights(rng, 5, 8)}
  %4 = nn.fully_connected %3, %w2 : tensor<1x8xf32>, tensor<5x8xf32> -> tensor<1x5xf32>
  calib.observe %4 {{name = "y"}} : tensor<1x5xf32>
  func.return %4 : tensor<1x5xf32>
}}
"""


@pytest.fixture(scope="module")
def samples() -> list[Array]:
    rng = np.random.default_rng(10)
    return [rng.standard_normal((1, 8, 8, 3)).astype(np.float32) for _ in range(40)]


def equalized(module: ModuleOp, samples: Sequence[Array], op_config: OpConfig | None = None) -> int:
    """Between how many pairs of contractions channels are equalized under a config."""
    network = main_function(module)
    op_configs = OpConfigs(network.body.block, op_config or OpConfig(), load_target())
    return equalize_channels(network, [[x] for x in samples], op_configs)


def test_the_function_stays_and_channels_grow(samples: list[Array]) -> None:
    module = parsed(network())
    apply_profile(module, learnt(module, samples))
    equal = module.clone()
    assert equalized(equal, samples) == 2
    for x in samples[:5]:
        before, after = qmlir.reference(module)(x), qmlir.reference(equal)(x)
        np.testing.assert_allclose(after, before, rtol=1e-4, atol=1e-4 * np.abs(before).max())
    old, new = ({o.tensor.data: o for o in m.walk() if isinstance(o, ObserveOp)} for m in (module, equal))
    for name in "xy":
        assert (new[name].range, new[name].histogram) == (old[name].range, old[name].histogram)
    for name in ("c0", "p", "d"):
        assert new[name].range != old[name].range or new[name].histogram != old[name].histogram
    # What observers say is what a profile of the new network says.
    again = learnt(Pipeline("simplify")(equal), samples)
    assert new["c0"].bounds == pytest.approx((again.tensors["c0"].lo, again.tensors["c0"].hi))


@pytest.mark.slow
def test_small_channels_are_worth_more(samples: list[Array]) -> None:
    module = parsed(network())
    profile = learnt(module, samples)
    truth = np.concatenate([qmlir.reference(module)(x) for x in samples])
    plain, equal = (
        np.concatenate([qmlir.reference(q)(x) for x in samples])
        for q in (qmlir.quantize(module, profile), qmlir.quantize(module, profile, data=samples))
    )
    assert sqnr(truth, equal) > sqnr(truth, plain) + 1


@pytest.mark.parametrize(
    ("policy", "clamp", "pairs"),
    [
        (", qmlir.policy = {range = [0.0, 9.0]}", "min = 0.0 : f32", 1),
        ("", "min = 0.0 : f32, max = 6.0 : f32", 1),
        ("", 'min = 0.0 : f32, qmlir.policy = {weight_precision = "int4"}', 2),
        ("", 'min = 0.0 : f32, qmlir.policy = {precision = "float16"}', 1),
        ("", "min = 0.0 : f32, qmlir.policy = {per_channel = false}", 1),
        ("", "min = 0.0 : f32, qmlir.policy = {range = [0.0, 9.0]}", 1),
        ("", "", 2),
    ],
)
def test_what_stays_as_it_is(samples: list[Array], policy: str, clamp: str, pairs: int) -> None:
    """What the policy says a word about, and what a clamp from above keeps from scaling."""
    module = parsed(network(policy, clamp))
    apply_profile(module, learnt(module, samples))
    assert equalized(module, samples[:3]) == pairs


@pytest.mark.slow
def test_a_rule_that_says_what_holds_already_changes_nothing(samples: list[Array]) -> None:
    """Rules about the integers of weights and data leave their layers among those whose channels are equalized."""
    module = parsed(network())
    profile, rules = learnt(module, samples), [{"weight_precision": "int8"}, {"precision": "int8", "rounding": "auto"}]
    plain, *ruled = (
        qmlir.quantize(module, profile, data=samples, policy=policy)
        for policy in (None, *(qmlir.Policy(rules=[qmlir.Rule(each, kind="*")]) for each in rules))
    )
    expected = [qmlir.reference(plain)(x) for x in samples]
    for each in ruled:
        np.testing.assert_array_equal([qmlir.reference(each)(x) for x in samples], expected)


@pytest.mark.parametrize(
    ("op_config", "pairs"),
    [
        (OpConfig(calibration="minmax"), 2),
        (OpConfig(precision="int16"), 2),
        (OpConfig(precision="int16", weight_precision="int8"), 0),
        (OpConfig(precision="int16", calibration="minmax"), 0),
    ],
)
def test_data_of_16_bits_get_room_and_weights_as_fine_or_stay_as_they_are(
    samples: list[Array], op_config: OpConfig, pairs: int
) -> None:
    module = parsed(network())
    apply_profile(module, learnt(module, samples))
    assert equalized(module, samples[:3], op_config) == pairs


@pytest.mark.parametrize("schema", ["symmetric", "symmetric_with_power2_scale"])
def test_scales_per_channel_lose_nothing_on_data_beyond_the_ranges(schema: Schema) -> None:
    """A channel of small values has room in a range that minmax ends at the largest of all channels."""
    rng = np.random.default_rng(10)
    seen = [rng.uniform(-1, 1, (1, 8, 8, 3)).astype(np.float32) for _ in range(8)]
    unseen = [np.sign(x) for x in seen]  # no larger than what was seen, but their sums are
    module = parsed(network())
    profile = learnt(module, seen)
    truth = np.concatenate([qmlir.reference(module)(x) for x in unseen])
    tensor, channel = (
        qmlir.quantize(
            module, profile, data=seen, precision="int16", calibration="minmax", schema=schema, per_channel=each
        )
        for each in (False, True)
    )
    found = [sqnr(truth, np.concatenate([qmlir.reference(q)(x) for x in unseen])) for q in (tensor, channel)]
    assert found[1] > found[0] - 0.1, found


def layers(between: str, shape: str, observed: str = "") -> str:
    """Two layers with something between them."""
    return f"""
func.func @main(%x: tensor<1x4xf32>) -> tensor<1x2xf32> {{
  calib.observe %x {{name = "x", range = [-1.0, 1.0]}} : tensor<1x4xf32>
  %w0 = nn.constant <tensor<1x4xf32>, [1.0, -2.0, 0.5, 3.0]> : tensor<1x4xf32>
  %w1 = nn.constant <tensor<2x1xf32>, [1.0, -1.0]> : tensor<2x1xf32>
  %0 = nn.fully_connected %x, %w0 : tensor<1x4xf32>, tensor<1x4xf32> -> tensor<1x1xf32>
  {observed}
  %1 = {between} : tensor<1x1xf32> -> {shape}
  %2 = nn.reshape %1 {{shape = array<i64: 1, 1>}} : {shape} -> tensor<1x1xf32>
  %3 = nn.fully_connected %2, %w1 : tensor<1x1xf32>, tensor<2x1xf32> -> tensor<1x2xf32>
  func.return %3 : tensor<1x2xf32>
}}"""


@pytest.mark.parametrize("schema", ["asymmetric", "symmetric_with_power2_scale"])
def test_a_scalar_between_layers_has_no_channels(schema: str) -> None:
    scalar = layers(
        "nn.reshape %0 {shape = array<i64>}", "tensor<f32>", 'calib.observe %0 {name = "y"} : tensor<1x1xf32>'
    )
    data = [np.full((1, 4), 0.5, np.float32)]
    quantized = qmlir.quantize(parsed(scalar), data=data, schema=schema)
    assert qmlir.reference(quantized)(data[0]).shape == (1, 2)


def test_pairs_that_nobody_observed_learn_nothing() -> None:
    """Only the input has a range, as a policy may give it."""
    text = layers("nn.reshape %0 {shape = array<i64: 1, 1>}", "tensor<1x1xf32>")
    quantized = qmlir.quantize(parsed(text), data=[np.full((1, 4), 0.5, np.float32)])
    assert {entry.outcome for entry in qmlir.decisions(quantized)} == {"float"}


@pytest.mark.parametrize("values", [[np.nan, 1, 1, 1], [np.inf, 1, 1, 1], [3e38, -3e38, 3e38, 3e38]])
def test_samples_on_which_a_tensor_is_not_finite_are_refused(values: list[float]) -> None:
    text = layers(
        "nn.reshape %0 {shape = array<i64: 1, 1>}", "tensor<1x1xf32>", 'calib.observe %0 {name = "y"} : tensor<1x1xf32>'
    )
    with pytest.raises(ProfileError, match="must stay finite on calibration data"):
        qmlir.quantize(parsed(text), data=[np.array([values], np.float32)])


def tokens(moves: str, rows: int = 1) -> str:
    """Three tokens of four channels, gained and shifted as behind a normalization; a layer reads what is moved."""
    rng = np.random.default_rng(11)
    return f"""
func.func @main(%x: tensor<1x3x4xf32>) -> tensor<{rows}x2xf32> {{
  calib.observe %x {{name = "x"}} : tensor<1x3x4xf32>
  %n = nn.layer_norm %x {{axis = 2 : i64, epsilon = 1.0e-6 : f32}} : tensor<1x3x4xf32> -> tensor<1x3x4xf32>
  %g = nn.constant {weights(rng, 4, heights=np.array([1.0, 30.0, 0.2, 1.0], np.float32))}
  %1 = nn.mul %n, %g : tensor<1x3x4xf32>, tensor<4xf32> -> tensor<1x3x4xf32>
  %s = nn.constant {weights(rng, 4)}
  %2 = nn.add %1, %s : tensor<1x3x4xf32>, tensor<4xf32> -> tensor<1x3x4xf32>
  calib.observe %2 {{name = "shifted"}} : tensor<1x3x4xf32>
  {moves}
  %w = nn.constant {weights(rng, 2, 4)}
  %y = nn.fully_connected %r, %w : tensor<{rows}x4xf32>, tensor<2x4xf32> -> tensor<{rows}x2xf32>
  calib.observe %y {{name = "y"}} : tensor<{rows}x2xf32>
  func.return %y : tensor<{rows}x2xf32>
}}"""


TOKEN = """
  %t = nn.slice %2 {offsets = array<i64: 0, 0, 0>, sizes = array<i64: 1, 1, 4>, strides = array<i64: 1, 1, 1>}
      : tensor<1x3x4xf32> -> tensor<1x1x4xf32>
  calib.observe %t {name = "token"} : tensor<1x1x4xf32>
  %r = nn.reshape %t {shape = array<i64: 1, 4>} : tensor<1x1x4xf32> -> tensor<1x4xf32>"""

GATHERED = """
  %i = nn.constant <tensor<1xi64>, [2]> : tensor<1xi64>
  %t = nn.gather %2, %i {axis = 1 : i64} : tensor<1x3x4xf32>, tensor<1xi64> -> tensor<1x1x4xf32>
  %r = nn.reshape %t {shape = array<i64: 1, 4>} : tensor<1x1x4xf32> -> tensor<1x4xf32>"""

TURNED = """
  %t = nn.transpose %2 {permutation = array<i64: 1, 0, 2>} : tensor<1x3x4xf32> -> tensor<3x1x4xf32>
  %r = nn.reshape %t {shape = array<i64: 3, 4>} : tensor<3x1x4xf32> -> tensor<3x4xf32>"""

BACKWARDS = """
  %t = nn.slice %2 {offsets = array<i64: 0, 0, 3>, sizes = array<i64: 1, 3, 4>, strides = array<i64: 1, 1, -1>}
      : tensor<1x3x4xf32> -> tensor<1x3x4xf32>
  %r = nn.reshape %t {shape = array<i64: 3, 4>} : tensor<1x3x4xf32> -> tensor<3x4xf32>"""

PICKED = """
  %i = nn.constant <tensor<4xi64>, [3, 0, 1, 2]> : tensor<4xi64>
  %t = nn.gather %2, %i {axis = 2 : i64} : tensor<1x3x4xf32>, tensor<4xi64> -> tensor<1x3x4xf32>
  %r = nn.reshape %t {shape = array<i64: 3, 4>} : tensor<1x3x4xf32> -> tensor<3x4xf32>"""


@pytest.mark.parametrize(
    ("moves", "rows", "number"),
    [(TOKEN, 1, 1), (GATHERED, 1, 1), (TURNED, 3, 1), (BACKWARDS, 3, 0), (PICKED, 3, 0)],
    ids=["slice", "gather", "transpose", "channels backwards", "channels picked"],
)
def test_gains_reach_layers_through_moved_rows(moves: str, rows: int, number: int) -> None:
    """Operations that move whole tokens lie between gains and layer; operations that move channels do not."""
    rng = np.random.default_rng(12)
    data = [rng.standard_normal((1, 3, 4)).astype(np.float32) for _ in range(8)]
    module = calibrated(parsed(tokens(moves, rows)), data)
    equal = module.clone()
    network, target = main_function(equal), load_target()
    op_configs = OpConfigs(network.body.block, OpConfig(), target)
    assert equalize_gains(network, [[x] for x in data], op_configs, target) == number
    for x in data:
        before, after = qmlir.reference(module)(x), qmlir.reference(equal)(x)
        np.testing.assert_allclose(after, before, rtol=1e-4, atol=1e-4 * np.abs(before).max())
    spread = [np.ptp(np.log(np.abs(_gains(m)))) for m in (module, equal)]
    assert (spread[1] < spread[0] - 1) == (number == 1)
    if moves is TOKEN:
        old, new = ({o.tensor.data: o for o in m.walk() if isinstance(o, ObserveOp)} for m in (module, equal))
        assert new["token"].range != old["token"].range


DIVIDED = """
  %f = nn.reshape %2 {shape = array<i64: 3, 4>} : tensor<1x3x4xf32> -> tensor<3x4xf32>
  %m = nn.row_magnitudes %f : tensor<3x4xf32> -> tensor<3x1xf32>
  %r = nn.divide_rows %f : tensor<3x4xf32> -> tensor<3x4xf32>"""

PRODUCT = "%z = nn.multiply_rows %y, %m : tensor<3x2xf32>, tensor<3x1xf32> -> tensor<3x2xf32>"
OF_OTHERS = f"""
  %o = nn.reshape %x {{shape = array<i64: 3, 4>}} : tensor<1x3x4xf32> -> tensor<3x4xf32>
  %k = nn.row_magnitudes %o : tensor<3x4xf32> -> tensor<3x1xf32>
  {PRODUCT.replace("%m", "%k")}"""
READ_TWICE = f"""
  {PRODUCT.replace("%z", "%k")}
  %z = nn.add %k, %m : tensor<3x2xf32>, tensor<3x1xf32> -> tensor<3x2xf32>"""


@pytest.mark.parametrize(
    ("products", "number"),
    [(PRODUCT, 1), (OF_OTHERS, 0), (READ_TWICE, 0), ("", 0)],
    ids=["multiplied", "by magnitudes of other rows", "magnitudes read twice", "not multiplied"],
)
def test_gains_reach_layers_through_divided_rows(products: str, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Quotients of other rows are the same function only where the sums are multiplied by the rows' magnitudes."""
    monkeypatch.setattr("qmlir.transforms.quantize.adjust.gained_channels.LEAST_GAIN", 0.0)  # of four channels only
    rng = np.random.default_rng(12)
    data = [rng.standard_normal((1, 3, 4)).astype(np.float32) for _ in range(8)]
    result = "%z" if products else "%y"
    text = tokens(DIVIDED, 3).replace("func.return %y", f"{products}\n  func.return {result}")
    module = calibrated(parsed(text), data)
    equal = module.clone()
    network, target = main_function(equal), load_target()
    op_configs = OpConfigs(network.body.block, OpConfig(), target)
    assert equalize_gains(network, [[x] for x in data], op_configs, target) == number
    for x in data:
        before, after = qmlir.reference(module)(x), qmlir.reference(equal)(x)
        np.testing.assert_allclose(after, before, rtol=1e-4, atol=1e-4 * np.abs(before).max())


def test_rows_that_gain_little_have_no_factors() -> None:
    """A row's own scale serves channels of one magnitude; a product in front of it would cost time."""
    rng = np.random.default_rng(13)
    module = calibrated(parsed(tokens(TURNED, 3)), [rng.standard_normal((1, 3, 4)).astype(np.float32)])
    (layer,) = (o for o in module.walk() if isinstance(o, FullyConnectedOp))
    set_constant(layer, 1, np.ones((2, 4), np.float32))
    rows = GainedChannels(layer.x, (), (), (layer,), "asymmetric", 8, rows=(layer,))
    alike, unlike = 3.0 * np.ones(4), np.array([1.0, 300.0, 1.0, 1.0])
    assert rows.factors(alike, alike, alike**2 / 9) is None
    factors = rows.factors(unlike, unlike, unlike**2 / 9)
    assert factors is not None
    assert factors.argmax() == 1


def _gains(module: ModuleOp) -> Array:
    """The constant that the product multiplies by."""
    (product,) = (o for o in module.walk() if isinstance(o, MulOp))
    assert isinstance(product.rhs.owner, ConstantOp)
    return product.rhs.owner.value.array


def test_the_share_leaves_the_least_noise() -> None:
    """The fewer bits weights have, the more of the differences between channels stays in the data."""
    rng = np.random.default_rng(13)
    module = calibrated(parsed(tokens(TURNED, 3)), [rng.standard_normal((1, 3, 4)).astype(np.float32)])
    (layer,) = (o for o in module.walk() if isinstance(o, FullyConnectedOp))
    highest, squares = np.array([1.0, 30.0, 0.2, 1.0]), np.array([0.1, 90.0, 0.004, 0.1])
    spread = []
    for bits in (4, 8, 16):
        gained = GainedChannels(layer.x, (), (), (layer,), "asymmetric", bits)
        factors = gained.factors(highest, highest, squares)
        assert factors is not None
        spread.append(np.ptp(np.log(highest / factors)))
    assert spread[0] > spread[1] > spread[2]
