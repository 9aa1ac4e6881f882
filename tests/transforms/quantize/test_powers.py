"""Steps of a sum of squares have 16 bits beside 8: of data that differ in loudness, the quiet ones stay."""

import numpy as np
import onnx
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.compiler import Pipeline
from qmlir.dialects.nn.base import is_quantized
from qmlir.dialects.nn.movement import ConstantOp
from qmlir.ir.facts import POWER
from qmlir.settings.policy import Policy, rule_of
from qmlir.stages import OBSERVE
from tests.conftest import crossed
from tests.frontends.onnx.agreement import load, model, node
from tests.transforms.quantize.calibrated import Array, calibrated, entry, learnt, quantized, run, sqnr, uniform

SHAPE = [2, 8, 5, 5]
"""Images whose channels are between 1 and 200 in loudness."""

TWENTIETH = 3
"""The channel that has a twentieth of the loudest one's loudness."""

AXES = {"axes": np.array([2, 3])}

NORMS: dict[str, onnx.ModelProto] = {
    "global pool": model(node("GlobalLpPool", "x", p=2), {"x": SHAPE}),
    "pool": model(node("LpPool", "x", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]), {"x": SHAPE}),
    "norm": model(node("ReduceL2", "x axes"), {"x": SHAPE}, AXES),
}

WIDE = ["nn.mul", "nn.depthwise_conv2d", "nn.reduce_sum", "nn.sqrt"]


def samples() -> list[Array]:
    rng = np.random.default_rng(3)
    loudness = 200 ** np.linspace(0, 1, SHAPE[1]).reshape(1, -1, 1, 1)
    return [(rng.normal(size=SHAPE) * loudness).astype(np.float32) for _ in range(4)]


def quantized_with(module: ModuleOp, precision: str, *rules: str, schema: str = "asymmetric") -> ModuleOp:
    policy = Policy(rules=[rule_of(r) for r in rules])
    options = {"precision": precision, "schema": schema, "weight_precision": "same"}
    profile = learnt(Pipeline(*OBSERVE[:-1])(module), samples())
    return qmlir.quantize(Pipeline(*OBSERVE[:-1])(module), profile, policy=policy, **options)  # type: ignore[arg-type]


def widths(module: ModuleOp) -> set[int]:
    """The bits of the results of the steps."""
    return {uniform(op.results[0]).storage_width for op in module.walk() if op.name in WIDE}


@crossed({"kind": NORMS, "schema": ["asymmetric", "symmetric", "symmetric_with_power2_scale"]})
def test_a_norm_keeps_what_its_squares_would_lose(kind: str, schema: str) -> None:
    """In 8 bits squares of what is below a twentieth of the loudest are 0."""
    module = load(NORMS[kind])
    result = quantized_with(module, "int8", schema=schema)
    narrow = quantized_with(module, "int8", "glob=* precision=int8", schema=schema)
    assert (widths(result), widths(narrow)) == ({16}, {8})
    exact, got, coarse = (np.stack([run(m, x) for x in samples()]) for m in (module, result, narrow))
    for channel in range(TWENTIETH, SHAPE[1]):
        wide, before = (sqnr(exact[:, :, channel], y[:, :, channel]) for y in (got, coarse))
        assert wide > max(25.0, before + 25)
    assert not coarse[:, :, TWENTIETH].any()


def test_a_sum_of_squares_has_16_bits_and_its_reader_8() -> None:
    nodes = [node("ReduceSumSquare", "x axes", "s"), node("Abs", "s")]
    result = quantized_with(load(model(nodes, {"x": SHAPE}, AXES)), "int8")
    assert widths(result) == {16}
    (reader,) = [op for op in result.walk() if op.name == "nn.abs"]
    assert uniform(reader.operands[0]).storage_width == 8


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["int8", "uint8", "int16"])
def test_the_machine_agrees(precision: str) -> None:
    result = quantized_with(load(NORMS["pool"]), precision)
    for x in samples():
        np.testing.assert_array_equal(qmlir.compile(result)(x), run(result, x))


def test_squares_of_the_model_itself_keep_its_precision() -> None:
    nodes = [node("Mul", "x x", "s"), node("ReduceSum", "s axes", "t"), node("Sqrt", "t")]
    module = load(model(nodes, {"x": SHAPE}, AXES))
    assert not any(POWER.on(op) for op in module.walk())
    assert widths(quantized_with(module, "int8")) == {8}


def test_the_policy_says_otherwise_and_glow_too() -> None:
    module = load(NORMS["norm"])
    assert widths(quantized_with(module, "int8", "kind=nn.sqrt precision=int8")) == {8, 16}
    glow = quantized(calibrated(Pipeline(*OBSERVE[:-1])(module), samples()), glow_exact=True, calibration="minmax")
    assert widths(glow) == {8}


@pytest.mark.parametrize("schema", ["asymmetric", "symmetric"])
@pytest.mark.parametrize("kind", NORMS)
def test_squares_of_16_bits_stay_float(kind: str, schema: str) -> None:
    """They have 32; in integers of 16 a channel 200 times quieter than the loudest would be 0."""
    module = load(NORMS[kind])
    result = quantized_with(module, "int16", schema=schema)
    named = quantized_with(module, "int16", "glob=* precision=int16", schema=schema)
    assert not any(is_quantized(op.results[0]) for op in result.walk() if op.name in WIDE)
    assert "16 bits" in entry(result, "y").reason
    assert is_quantized(next(op for op in named.walk() if op.name == "nn.sqrt").results[0])
    exact, got, coarse = (np.stack([run(m, x) for x in samples()]) for m in (module, result, named))
    assert sqnr(exact[:, :, 0], got[:, :, 0]) > 40
    assert sqnr(exact[:, :, 0], coarse[:, :, 0]) < 15


@pytest.mark.parametrize("precision", ["int8", "int16"])
def test_higher_powers_stay_float(precision: str) -> None:
    """Cubes have three times the digits, and their power has no integer form anyway."""
    module = load(model(node("GlobalLpPool", "x", p=3), {"x": SHAPE}))
    result = quantized_with(module, precision)
    computing = [op for op in result.walk() if POWER.on(op) and not isinstance(op, ConstantOp)]
    assert computing
    assert not any(is_quantized(op.results[0]) for op in computing)
    assert "16 bits" in entry(result, "y.sums").reason


def test_magnitudes_have_no_more_digits_than_the_model() -> None:
    module = load(model(node("GlobalLpPool", "x", p=1), {"x": SHAPE}))
    assert not any(POWER.on(op) for op in module.walk())
