"""16-bit data under each of LiteRT's numerics: contractions by 8-bit weights with every bias it takes; functions."""

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.compiler import to_integers
from qmlir.frontends.tflite import load_tflite
from qmlir.policies.runtimes import follow
from tests.conftest import crossed
from tests.frontends.tflite.c_library import functions_of_the_c_library
from tests.frontends.tflite.files import RESOLVERS, Array, Op, T, constant, interpreter, model, run, schema

ROWS, INPUTS, OUTPUTS = 40, 24, 10

KINDS: dict[str, tuple[tuple[int, ...], tuple[int, ...], int, tuple[int, ...], str, dict[str, Any]]] = {
    "CONV_2D": (
        (1, ROWS, 2, INPUTS), (OUTPUTS, 3, 2, INPUTS), 0, (1, ROWS, 2, OUTPUTS), "Conv2DOptions",
        {"StrideH": 1, "StrideW": 1, "DilationHFactor": 1, "DilationWFactor": 1},
    ),
    "DEPTHWISE_CONV_2D": (
        (1, ROWS, 2, OUTPUTS), (1, 3, 2, OUTPUTS), 3, (1, ROWS, 2, OUTPUTS), "DepthwiseConv2DOptions",
        {"StrideH": 1, "StrideW": 1, "DepthMultiplier": 1, "DilationHFactor": 1, "DilationWFactor": 1},
    ),
    "FULLY_CONNECTED": ((ROWS, INPUTS), (OUTPUTS, INPUTS), 0, (ROWS, OUTPUTS), "FullyConnectedOptions", {}),
    "TRANSPOSE_CONV": (
        (1, ROWS, 2, INPUTS), (OUTPUTS, 3, 2, INPUTS), 0, (1, ROWS, 2, OUTPUTS), "TransposeConvOptions",
        {"StrideH": 1, "StrideW": 1},
    ),
}  # fmt: skip
"""Operator → shapes of data and weights, the axis of output channels, the result's shape, options."""

DECLARED = {"CONV_2D": 8, "FULLY_CONNECTED": 11, "TRANSPOSE_CONV": 5}
"""Versions that know `quantized_bias_type`."""

BIASES = {"int64": np.int64, "int32": np.int32, "none": None}
UNKNOWN = {("CONV_2D", "none"), ("DEPTHWISE_CONV_2D", "int32")}
"""What LiteRT has no kernel for."""


def contraction(kind: str, bias: str, *, per_channel: bool, seed: int) -> bytes:
    """A model of one, its scales drawn, with sums that use all 16 bits of the result."""
    random = np.random.default_rng(seed)
    data, weights, axis, result, options, values = KINDS[kind]
    scale = float(np.float32(10 ** random.uniform(-4, -3)))
    scales = (0.01 * 2 ** random.uniform(-1, 1, OUTPUTS if per_channel else 1)).astype(np.float32)
    terms = np.prod(weights) / (weights[axis] if kind != "DEPTHWISE_CONV_2D" else OUTPUTS)
    out = float(np.float32(scale * 0.01 * 127 * np.sqrt(terms) * random.uniform(0.5, 1)))
    w = constant("w", random.integers(-127, 128, weights).astype(np.int8), scale=scales.tolist(), axis=axis)
    tensors = [T("x", data, np.int16, None, [scale], [0]), w, T("y", result, np.int16, None, [out], [0])]
    inputs, version = [0, 1], 1
    if (kept := BIASES[bias]) is not None:
        stored = random.integers(-(10**7), 10**7, OUTPUTS).astype(kept)
        steps = [float(np.float32(scale) * s) for s in scales]
        tensors.append(constant("b", stored, scale=steps, zero=[0] * len(steps)))
        inputs.append(3)
        if bias == "int32":
            values, version = values | {"QuantizedBiasType": schema.TensorType.INT32}, DECLARED[kind]
    if kind == "TRANSPOSE_CONV":
        tensors.append(constant("shape", result, np.int32))
        inputs = [len(tensors) - 1, 1, 0, *inputs[2:]]
    return model(tensors, [Op(kind, inputs, [2], options, values, version)], [0], [2])


@crossed(
    {
        "numerics": RESOLVERS,
        "kind, bias": [(k, b) for k in KINDS for b in BIASES if (k, b) not in UNKNOWN],
        "per_channel": [True, False],
    },
    turns=3,
)
def test_equals_litert(numerics: str, kind: str, bias: str, per_channel: bool) -> None:
    for seed in range(4):
        data = contraction(kind, bias, per_channel=per_channel, seed=seed)
        module = load_tflite(data)
        follow(module, numerics)
        x = np.random.default_rng(seed).integers(-32768, 32768, KINDS[kind][0]).astype(np.int16)
        (wanted,) = run(interpreter(data, numerics), [x])
        if (kind, bias) == ("TRANSPOSE_CONV", "int32") and numerics != "litert-reference":
            wanted = _without_the_last_channels(module, x, wanted)
        np.testing.assert_array_equal(qmlir.reference(module)(x), wanted)
        if not seed:
            np.testing.assert_array_equal(qmlir.compile(module)(x), wanted)


def _without_the_last_channels(module: ModuleOp, x: Array, wanted: Array) -> Array:
    """A transposed convolution beside an int32 bias rounds channels by eight at a time; what is left as the reference.

    That is not followed: qmlir rounds all channels of an operation alike.
    """
    reference = module.clone()
    follow(reference, "litert-reference")
    rest = OUTPUTS // 8 * 8
    np.testing.assert_array_equal(qmlir.reference(reference)(x)[..., rest:], wanted[..., rest:])
    return np.concatenate([wanted[..., :rest], qmlir.reference(module)(x)[..., rest:]], axis=-1)


@pytest.mark.parametrize("bias", ["int64", "int32"])
def test_by_default_sums_have_32_bits_where_these_are_enough(bias: str) -> None:
    """Then every bit of the multiplier counts: the result is the rounded real one."""
    data = contraction("FULLY_CONNECTED", bias, per_channel=True, seed=1)
    integers = str(to_integers(load_tflite(data)))
    assert "-> tensor<40x10xi32>" in integers
    assert '"single"' in integers


def test_sums_that_need_64_bits_by_default() -> None:
    """A bias of 37 bits, and a result that shows it."""
    random = np.random.default_rng(1)
    w, b = random.integers(-127, 128, (4, 8)).astype(np.int8), random.integers(-(2**37), 2**37, 4)
    tensors = [
        T("x", (5, 8), np.int16, None, [0.5], [0]), constant("w", w, scale=[0.25]),
        T("y", (5, 4), np.int16, None, [float(2**19)], [0]), constant("b", b, scale=[0.125], zero=[0]),
    ]  # fmt: skip
    data = model(tensors, [Op("FULLY_CONNECTED", [0, 1, 3], [2], "FullyConnectedOptions")], [0], [2])
    module = load_tflite(data)
    x: Array = random.integers(-32768, 32768, (5, 8)).astype(np.int16)
    acc = x.astype(np.int64) @ w.T.astype(np.int64) + b
    wanted = np.clip((acc + (1 << 21)) >> 22, -32768, 32767)
    np.testing.assert_array_equal(qmlir.reference(module)(x), wanted)
    np.testing.assert_array_equal(qmlir.compile(module)(x), wanted)
    np.testing.assert_array_equal(run(interpreter(data, "litert-reference"), [x])[0], wanted)


def test_an_output_shape_that_comes_with_the_data() -> None:
    """It must be what the file says of the output, so its values are not read."""
    random = np.random.default_rng(1)
    w = random.integers(-127, 128, (3, 2, 2, 4)).astype(np.int8)
    tensors = [
        T("shape", (4,), np.int32), constant("w", w, scale=[0.01]),
        T("x", (1, 3, 2, 4), np.int16, None, [0.001], [0]), T("y", (1, 6, 4, 3), np.int16, None, [0.01], [0]),
    ]  # fmt: skip
    options = {"Padding": 1, "StrideH": 2, "StrideW": 2}
    data = model(tensors, [Op("TRANSPOSE_CONV", [0, 1, 2], [3], "TransposeConvOptions", options)], [0, 2], [3])
    module = load_tflite(data)
    follow(module, "litert-reference")
    x = random.integers(-32768, 32768, (1, 3, 2, 4)).astype(np.int16)
    inputs = [np.array([1, 6, 4, 3], np.int32), x]
    wanted = run(interpreter(data, "litert-reference"), inputs)[0]
    for made in (qmlir.reference(module), qmlir.compile(module)):
        np.testing.assert_array_equal(made.run(dict(zip(["shape", "x"], inputs, strict=True)))[0], wanted)


@pytest.mark.parametrize("numerics", RESOLVERS)
@pytest.mark.parametrize("depth", [16, 300])
def test_matrix_products(depth: int, numerics: str) -> None:
    """Both sides of 16 bits; the last scales multiply to just below a power of two, in float32 to that itself."""
    random = np.random.default_rng(depth)
    spread = 2.0**15 * depth**0.5
    draws = [tuple(10 ** random.uniform(-4, -3, 2)) for _ in range(3)]
    for left, right in [*draws, (3e-4, 5e-4)]:
        scales = [float(np.float32(s)) for s in (left, right, left * right * spread)]
        shapes = (2, 20, depth), (2, depth, 12), (2, 20, 12)
        tensors = [T(n, s, np.int16, None, [scale], [0]) for n, s, scale in zip("xzy", shapes, scales, strict=True)]
        data = model(tensors, [Op("BATCH_MATMUL", [0, 1], [2], "BatchMatMulOptions", {}, 3)], [0, 1], [2])
        module = load_tflite(data)
        follow(module, numerics)
        inputs = [random.integers(-32768, 32768, s).astype(np.int16) for s in shapes[:2]]
        wanted = run(interpreter(data, numerics), inputs)[0]
        named = dict(zip("xz", inputs, strict=True))
        np.testing.assert_array_equal(qmlir.reference(module).run(named)[0], wanted)
    np.testing.assert_array_equal(qmlir.compile(module).run(named)[0], wanted)


UNIT = 2.0**-15
FUNCTIONS: list[tuple[str, float, float, str, dict[str, Any]]] = [
    *((kind, scale, UNIT, "", {}) for kind in ("LOGISTIC", "TANH") for scale in (3e-5, 3e-4, 1e-3, 2e-3)),
    *(("EXP", scale, 0.01, "", {}) for scale in (1e-4, 3e-4, 1e-3)),
    ("LOG", 1e-3, 1e-3, "", {}),
    ("LOG", 1e-4, 3e-4, "", {}),
    ("EXP", 2.97e-3, 2.79e-4, "", {}),  # breakpoints 2^15 steps apart, of which LiteRT sees 16 bits
    ("LOG", 1.2e-3, 4.97e-6, "", {}),
    *(("GELU", scale, scale, "GeluOptions", {"Approximate": how}) for scale in (3e-4, 1e-3) for how in (True, False)),
    (
        "GELU",
        3.488693982944824e-5,
        2.53367034e-5,
        "GeluOptions",
        {"Approximate": False},
    ),  # the C library decides a breakpoint
    ("GELU", 3.786944944295101e-5, 1.21621898e-5, "GeluOptions", {"Approximate": True}),  # and steps of float32 do
    ("ABS", 3e-4, 4e-4, "", {}),
    ("NEG", 3e-4, 3e-4, "", {}),
    ("RELU", 3e-4, 4e-4, "", {}),
    ("RELU6", 3e-4, 4e-4, "", {}),
    ("LEAKY_RELU", 3e-4, 4e-4, "LeakyReluOptions", {"Alpha": 0.1}),
]
"""Operator, the scales of data and result, options."""


GELUS = 30
"""Files of one gelu, each with scales of its own."""


def function(kind: str, scale: float, result: float, options: str, values: dict[str, Any]) -> bytes:
    """A model of one, of all integers of 16 bits; the version is the first that takes these."""
    version = 3 if kind in ("LOGISTIC", "TANH", "RELU", "RELU6") else 2 if kind in ("EXP", "LOG", "LEAKY_RELU") else 1
    x, y = (T(n, (1 << 16,), np.int16, None, [float(np.float32(s))], [0]) for n, s in (("x", scale), ("y", result)))
    return model([x, y], [Op(kind, [0], [1], options, values, version)], [0], [1])


@crossed({"case": FUNCTIONS, "numerics": RESOLVERS})
def test_functions_equal_litert(case: tuple[str, float, float, str, dict[str, Any]], numerics: str) -> None:
    """Tables and lines between breakpoints; at every integer."""
    data = function(*case)
    module = load_tflite(data)
    follow(module, numerics)
    x = np.arange(-32768, 32768).astype(np.int16)
    wanted = run(interpreter(data, numerics), [x])[0]
    with functions_of_the_c_library():
        np.testing.assert_array_equal(qmlir.reference(module)(x), wanted)
        if numerics == "litert-reference":
            np.testing.assert_array_equal(qmlir.compile(module)(x), wanted)


@pytest.mark.parametrize("tanh", [False, True])
def test_gelu_at_many_scales(tanh: bool) -> None:
    """With the functions of the library of LiteRT all are equal; with correctly rounded ones few entries move."""
    random, x, moved = np.random.default_rng(0), np.arange(-32768, 32768).astype(np.int16), 0
    for _ in range(GELUS):
        scale = 10 ** random.uniform(-6.5, -2.5)
        data = function("GELU", scale, scale * 10 ** random.uniform(-0.6, 0.6), "GeluOptions", {"Approximate": tanh})
        module = load_tflite(data)
        follow(module, "litert-reference")
        wanted = run(interpreter(data, "litert-reference"), [x])[0]
        with functions_of_the_c_library():
            np.testing.assert_array_equal(qmlir.reference(module)(x), wanted)
        off = np.abs(qmlir.reference(module)(x).astype(int) - wanted)
        assert off.max() <= 1
        moved += int(np.count_nonzero(off[::128]))
    assert moved <= GELUS * 512 // 4_000


@pytest.mark.parametrize("kind", ["LOGISTIC", "TANH"])
@pytest.mark.parametrize("power", [2.0**-12, 2.0**-11])
@pytest.mark.parametrize("factor", [0.999, 0.9995, 1, 1.0006, 1.001])
def test_scales_near_a_power_of_two_are_taken_for_it(kind: str, power: float, factor: float) -> None:
    data = function(kind, float(np.float32(power * factor)), UNIT, "", {})
    module = load_tflite(data)
    follow(module, "litert-reference")
    x = np.arange(-32768, 32768).astype(np.int16)
    wanted = run(interpreter(data, "litert-reference"), [x])[0]
    np.testing.assert_array_equal(qmlir.reference(module)(x), wanted)


@pytest.mark.parametrize("kind", ["LOGISTIC", "TANH"])
def test_steps_of_the_twelfth_power_of_two(kind: str) -> None:
    """The optimized kernels have an algorithm of their own for them, up to 12 steps off; that is not followed."""
    data = function(kind, 2.0**-12, UNIT, "", {})
    module = load_tflite(data)
    follow(module, "litert-reference")
    x = np.arange(-32768, 32768).astype(np.int16)
    got = qmlir.reference(module)(x)
    np.testing.assert_array_equal(got, run(interpreter(data, "litert-reference"), [x])[0])
    for numerics in ("litert-builtin", "litert-xnnpack"):
        off = np.abs(got.astype(int) - run(interpreter(data, numerics), [x])[0])
        assert 0 < off.max() <= 12
