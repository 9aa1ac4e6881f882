"""Integer operators of Caffe2 against integers computed here: sums are exact, and each result is rounded once."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from qmlir.compiler import Pipeline
from qmlir.errors import QmlirError
from qmlir.frontends.caffe2 import load_caffe2
from qmlir.frontends.opaque import opaque_report
from qmlir.policies.ledger import decisions
from qmlir.stages import IMPORTED
from tests.conftest import crossed
from tests.frontends.caffe2.nets import U8, made, run, stored

Array = np.ndarray[Any, Any]

XS, XZ = float(np.float32(0.02)), 120
WS, WZ = float(np.float32(0.013)), 131
YS, YZ = float(np.float32(0.07)), 100
OUT = {"Y_scale": YS, "Y_zero_point": YZ}
SHAPE = (1, 5, 6, 4)


def u8(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8)


def rescaled(sums: Array, ratio: float, zero_point: int = YZ, low: int = 0) -> Array:
    """sums · ratio rounded once by a multiplier of 31 bits, halves up, then the zero point and the ends."""
    mantissa, exponent = math.frexp(ratio)
    multiplier, shift = round(mantissa * 2**31), 31 - exponent
    values = [(int(v) * multiplier + (1 << shift - 1) >> shift) + zero_point for v in np.asarray(sums).reshape(-1)]
    return np.clip(np.array(values).reshape(sums.shape), low, 255).astype(np.uint8)


def conv_sums(x: Array, w: Array, pad: int = 0, stride: int = 1, groups: int = 1) -> Array:
    """Sums of products of integers minus their zero points: x [N, H, W, C], w [O, K, K, C/g]."""
    less_zero_point = np.pad(x.astype(np.int64) - XZ, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    views = np.lib.stride_tricks.sliding_window_view(less_zero_point, w.shape[1:3], (1, 2))[:, ::stride, ::stride]
    inputs, outputs = w.shape[3], len(w) // groups
    parts = [
        np.einsum(
            "nyxcij,oijc->nyxo",
            views[:, :, :, g * inputs : (g + 1) * inputs],
            w[g * outputs : (g + 1) * outputs].astype(np.int64) - WZ,
        )
        for g in range(groups)
    ]
    return np.concatenate(parts, axis=-1)


def int8(net: bytes, x: Array, scale: float = XS, zero_point: int = XZ, **more: tuple[Array, float, int]) -> Array:
    """Runs a net on stored integers and checks that it is computed in integers throughout."""
    given = {"x": (x, scale, zero_point), **more}
    shapes = {n: "".join(f"{d}x" for d in a.shape) + U8.format(repr(s), z) for n, (a, s, z) in given.items()}
    module = Pipeline(*IMPORTED)(load_caffe2(net, shapes=shapes))
    assert {e.outcome for e in decisions(module)} <= {"quantized"}
    (y,) = run(net, {n: a for n, (a, _, _) in given.items()}, shapes=shapes)
    return y


@crossed({"groups, order": [(1, "NHWC"), (2, "NHWC"), (4, "NHWC"), (1, "NCHW")], "relu": [False, True]})
def test_a_convolution(groups: int, order: str, *, relu: bool) -> None:
    x, w = u8(*SHAPE), u8(8, 3, 3, 4 // groups, seed=1)
    b = np.random.default_rng(2).integers(-900, 900, 8).astype(np.int32)
    given = (w.transpose(0, 3, 1, 2), x.transpose(0, 3, 1, 2)) if order == "NCHW" else (w, x)
    weights, data = map(np.ascontiguousarray, given)
    arguments = {"kernel": 3, "pad": 1, "stride": 2, "group": groups, "order": order, **OUT}
    kind = "Int8ConvRelu" if relu else "Int8Conv"
    net = made(
        stored("w", weights, WS, WZ), stored("b", b, XS * WS, 0), (kind, "x w b", "y", arguments), outputs="y"
    )  # fmt: skip
    y = int8(net, data)
    expected = rescaled(conv_sums(x, w, 1, 2, groups) + b, XS * WS / YS, low=YZ if relu else 0)
    np.testing.assert_array_equal(y, expected.transpose(0, 3, 1, 2) if order == "NCHW" else expected)


BIASES: dict[str, tuple[Array, float, int]] = {
    "in the steps of the sums": (np.array([5, -900, 12345, 0], np.int32), XS * WS, 0),
    "int32 of a scale of its own": (np.array([5, -900, 345, 0], np.int32), 0.0031, 0),
    "int32 with a zero point": (np.array([5, -900, 345, 0], np.int32), 10.0, 4),
    "uint8 of a scale of its own": (np.array([5, 200, 255, 0], np.uint8), 0.05, 128),
}


@pytest.mark.parametrize("name", BIASES)
@pytest.mark.parametrize("kind", ["Int8Conv", "Int8FC"])
def test_a_bias_stands_for_its_real_numbers(name: str, kind: str) -> None:
    """(q − z) · s / (s_x · s_w), computed exactly, half to even."""
    b, scale, zero_point = BIASES[name]
    own = float(np.float32(scale))
    ratio = Fraction(own) / (Fraction(XS) * Fraction(WS))
    ratio = Fraction(1) if abs(ratio - 1) < Fraction(1, 2**20) else ratio
    steps = np.array([round((int(q) - zero_point) * ratio) for q in b])
    x, w = u8(1, 4, 4, 4), u8(4, 1, 1, 4, seed=1)
    if kind == "Int8FC":
        x, w = x.reshape(16, 4), w.reshape(4, 4)
        sums = (x.astype(np.int64) - XZ) @ (w.astype(np.int64) - WZ).T
    else:
        sums = conv_sums(x, w)
    arguments: dict[str, Any] = {**OUT, **({} if kind == "Int8FC" else {"kernel": 1, "order": "NHWC"})}
    net = made(stored("w", w, WS, WZ), stored("b", b, own, zero_point), (kind, "x w b", "y", arguments), outputs="y")
    np.testing.assert_array_equal(int8(net, x), rescaled(sums + steps, XS * WS / YS))


def test_a_bias_of_floats_is_rounded_to_the_steps_of_the_sums() -> None:
    x, w, b = u8(2, 4), u8(3, 4, seed=1), np.array([0.5, -0.25, 0.125], np.float32)
    fill = ("GivenTensorFill", "", "b", {"shape": [3], "values": b})
    net = made(stored("w", w, WS, WZ), fill, ("Int8FC", "x w b", "y", OUT), outputs="y")
    steps = np.array([round(Fraction(float(v)) / (Fraction(XS) * Fraction(WS))) for v in b])
    sums = (x.astype(np.int64) - XZ) @ (w.astype(np.int64) - WZ).T + steps
    np.testing.assert_array_equal(int8(net, x), rescaled(sums, XS * WS / YS))


def test_a_bias_that_no_sum_can_hold_is_refused() -> None:
    net = made(
        stored("w", u8(1, 4), 1e-12, 128), stored("b", np.array([2**31 - 1], np.int32), 1e6, 0),
        ("Int8FC", "x w b", "y", OUT), outputs="y",
    )  # fmt: skip
    module = load_caffe2(net, shapes={"x": "2x4x" + U8.format(XS, XZ)})
    (kind,) = opaque_report(module)
    assert "its bias does not fit 48 bits" in kind.reason


def test_a_bias_of_more_than_32_bits() -> None:
    """2^33 steps beside sums of 0: half of the greatest result."""
    x = np.full((1, 4), XZ, np.uint8)
    w, scale = u8(1, 4), float(np.float32(2.0**-20))
    net = made(
        stored("w", w, scale, 128), stored("b", np.array([1 << 30], np.int32), 8 * XS * scale, 0),
        ("Int8FC", "x w b", "y", {"Y_scale": XS * 2.0**13 / 100, "Y_zero_point": 0}), outputs="y",
    )  # fmt: skip
    np.testing.assert_array_equal(int8(net, x), [[100]])


@pytest.mark.parametrize("kind", ["Int8Sum", "Int8Add", "Int8SumRelu", "Int8AddRelu"])
def test_a_sum(kind: str) -> None:
    """Scales that are powers of 2 leave nothing to round but the result; halves round up."""
    a, b = u8(3, 50), u8(3, 50, seed=1)
    y = int8(made((kind, "x b", "y", {"Y_scale": 1.0, "Y_zero_point": 90}), outputs="y"), a, 0.25, 100, b=(b, 0.5, 130))
    real = (a.astype(np.int64) - 100) * 0.25 + (b.astype(np.int64) - 130) * 0.5
    low = 90 if kind.endswith("Relu") else 0
    np.testing.assert_array_equal(y, np.clip(np.floor(real + 0.5) + 90, low, 255))


FUNCTIONS: dict[str, Any] = {
    "Int8Relu": lambda x: np.maximum(x, 0), "Int8Sigmoid": lambda x: 1 / (1 + np.exp(-x)), "Int8Tanh": np.tanh,
    "Int8LeakyRelu": lambda x: np.where(x < 0, 0.01 * x, x),
}  # fmt: skip


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_a_function_of_all_bytes(kind: str) -> None:
    x = np.arange(256, dtype=np.uint8)
    scale, point = (1 / 256, 0) if kind == "Int8Sigmoid" else (float(np.float32(0.03)), 128)
    y = int8(made((kind, "x", "y", {"Y_scale": scale, "Y_zero_point": point}), outputs="y"), x)
    real = FUNCTIONS[kind]((x.astype(np.float64) - XZ) * XS)
    np.testing.assert_array_equal(y, np.clip(np.rint(real / scale) + point, 0, 255))


def test_a_relu_without_a_type_keeps_that_of_its_input() -> None:
    x = np.arange(256, dtype=np.uint8)
    np.testing.assert_array_equal(int8(made(("Int8Relu", "x", "y"), outputs="y"), x), np.maximum(x, XZ))


def test_a_softmax() -> None:
    x = u8(4, 10)
    y = int8(made(("Int8Softmax", "x", "y", {"Y_scale": 1 / 256, "Y_zero_point": 0}), outputs="y"), x)
    real = np.exp((x.astype(np.float64) - x.max(axis=1, keepdims=True)) * XS)
    wanted = np.rint(real / real.sum(axis=1, keepdims=True) * 256)
    assert np.abs(y.astype(int) - wanted).max() <= 1


def pool_sums(x: Array, size: int, stride: int) -> Array:
    views = np.lib.stride_tricks.sliding_window_view(x.astype(np.int64), (size, size), (1, 2))
    return views[:, ::stride, ::stride].sum((4, 5))


def test_means() -> None:
    """Windows with a scale of their own, and windows of the whole image, are rounded once."""
    x = u8(1, 5, 5, 4)
    arguments = {"kernel": 3, "stride": 2, "order": "NHWC", **OUT}
    y = int8(made(("Int8AveragePool", "x", "y", arguments), outputs="y"), x)
    sums = pool_sums(x.astype(np.int64) - XZ, 3, 2)
    np.testing.assert_array_equal(y, rescaled(sums, XS / 9 / YS))
    y = int8(made(("Int8AveragePool", "x", "y", {**arguments, "kernel": 5}), outputs="y"), x)
    np.testing.assert_array_equal(y, rescaled(pool_sums(x.astype(np.int64) - XZ, 5, 1), XS / 25 / YS))


def test_means_of_the_same_scale_and_of_padding() -> None:
    x, same = u8(1, 4, 4, 4), {"Y_scale": XS, "Y_zero_point": XZ, "order": "NHWC"}
    y = int8(made(("Int8AveragePool", "x", "y", {"kernel": 2, "stride": 2, **same}), outputs="y"), x)
    real = pool_sums(x, 2, 2) / 4
    assert np.abs(y - real).max() <= 0.5
    padded = {"kernel": 3, "pad": 1, "order": "NHWC", **OUT}
    y = int8(made(("Int8AveragePool", "x", "y", padded), outputs="y"), x)
    wide = np.pad(x.astype(np.int64) - XZ, ((0, 0), (1, 1), (1, 1), (0, 0)))
    np.testing.assert_array_equal(y, rescaled(pool_sums(wide, 3, 1), XS / 9 / YS))
    y = int8(made(("Int8AveragePool", "x", "y", {**padded, "count_include_pad": 0}), outputs="y"), x)
    inside = pool_sums(np.pad(np.ones_like(x, np.int64), ((0, 0), (1, 1), (1, 1), (0, 0))), 3, 1)
    real = pool_sums(wide, 3, 1) / inside * XS / YS + YZ
    assert np.abs(y - real).max() <= 0.5 + 0.5 * XS / YS + 1e-6  # rounded to the input's scale, then to its own


def test_a_maximum_keeps_the_type_of_its_input() -> None:
    """Glow ignores the arguments: the result has the scale of the input."""
    x = u8(1, 4, 4, 4)
    net = made(
        ("Int8MaxPool", "x", "m", {"kernel": 2, "stride": 2, "order": "NHWC", **OUT}), ("Int8Dequantize", "m", "y"),
        outputs="m y",
    )  # fmt: skip
    m, y = run(net, {"x": x}, shapes={"x": "1x4x4x4x" + U8.format(repr(XS), XZ)})
    wanted = np.lib.stride_tricks.sliding_window_view(x, (2, 2), (1, 2))[:, ::2, ::2].max((4, 5))
    np.testing.assert_array_equal(m, wanted)
    np.testing.assert_allclose(y, (wanted.astype(np.float64) - XZ) * XS, rtol=1e-6)


MOVES: dict[str, tuple[str, dict[str, Any], Any]] = {
    "Int8Reshape": ("Int8Reshape", {"shape": [-1, 6]}, lambda x: x.reshape(-1, 6)),
    "Int8Flatten": ("Int8Flatten", {}, lambda x: x.reshape(1, -1)),
    "Int8Transpose": ("Int8Transpose", {"axes": [0, 3, 1, 2]}, lambda x: x.transpose(0, 3, 1, 2)),
    "Int8Slice": ("Int8Slice", {"starts": [0, 1, 0, 0], "ends": [-1, 3, -1, 2]}, lambda x: x[:, 1:3, :, :2]),
    "Int8ResizeNearest": (
        "Int8ResizeNearest", {"height_scale": 2.0, "width_scale": 2.0}, lambda x: x.repeat(2, 1).repeat(2, 2)),
    "Int8ChannelShuffle": ("Int8ChannelShuffle", {"group": 2, "order": "NHWC"}, lambda x: x[..., [0, 2, 1, 3]]),
    "Int8Copy": ("Int8Copy", {}, lambda x: x),
    "Copy": ("Copy", {}, lambda x: x),
    "NHWC2NCHW": ("NHWC2NCHW", {}, lambda x: x.transpose(0, 3, 1, 2)),
}  # fmt: skip


@pytest.mark.parametrize("name", MOVES)
def test_moves_keep_the_integers(name: str) -> None:
    kind, arguments, move = MOVES[name]
    x = u8(*SHAPE)
    np.testing.assert_array_equal(int8(made((kind, "x", "y", arguments), outputs="y"), x), move(x))


def test_a_concatenation_brings_its_inputs_to_one_type() -> None:
    a, b = u8(2, 6), u8(2, 5, seed=1)
    y = int8(made(("Int8Concat", "x b", "y", {"axis": 1, "Y_scale": 0.5, "Y_zero_point": 10}), outputs="y"), a, 0.5, 10,
             b=(b, 0.25, 128))  # fmt: skip
    moved = np.clip(np.floor((b.astype(np.int64) - 128) * 0.5 + 0.5) + 10, 0, 255)
    np.testing.assert_array_equal(y, np.concatenate([a, moved], axis=1))


def test_a_transposed_convolution() -> None:
    """Steps of 2 by windows of 2: each input makes four outputs of its own."""
    x, w = u8(1, 2, 3, 4), u8(4, 2, 2, 5, seed=1)
    net = made(
        stored("w", w, WS, WZ), stored("b", np.arange(5, dtype=np.int32), XS * WS, 0),
        ("Int8ConvTranspose", "x w b", "y", {"kernel": 2, "stride": 2, "order": "NHWC", **OUT}), outputs="y",
    )  # fmt: skip
    sums = np.einsum("nyxc,cijo->nyixjo", x.astype(np.int64) - XZ, w.astype(np.int64) - WZ).reshape(1, 4, 6, 5)
    np.testing.assert_array_equal(int8(net, x), rescaled(sums + np.arange(5), XS * WS / YS))


def test_floats_become_integers_and_floats_again() -> None:
    x = np.array([-9, -0.5, 0, 0.25, 0.75, 1, 400], np.float32)
    net = made(
        ("Int8Quantize", "x", "q", {"Y_scale": 0.5, "Y_zero_point": 3}), ("Int8Dequantize", "q", "y"), outputs="q y"
    )
    q, y = run(net, {"x": x})
    np.testing.assert_array_equal(q, [0, 2, 3, 3, 5, 5, 255])  # halves round to even
    np.testing.assert_array_equal(y, [-1.5, -0.5, 0, 0, 1, 1, 126])


CONV = {"kernel": 1, "order": "NHWC"}
REFUSALS: dict[str, tuple[tuple[Any, ...], str]] = {
    "no type": (("Int8Conv", "x w", "y", CONV), "it needs its arguments Y_scale and Y_zero_point"),
    "no zero point": (("Int8Relu", "x", "y", {"Y_scale": 0.5}), "it needs a Y_scale above 0 and a whole Y_zero_point"),
    "a scale of 0": (("Int8Relu", "x", "y", {"Y_scale": 0.0, "Y_zero_point": 1}), "it needs a Y_scale above 0"),
    "a zero point of more bits": (
        ("Int8Relu", "x", "y", {"Y_scale": 0.5, "Y_zero_point": 256}), "its Y_zero_point must lie in [0, 255]"),
    "a kernel of another size": (
        ("Int8Conv", "x w", "y", {**CONV, "kernel": 2, **OUT}), "its kernel must be that of its weights"),
    "groups that do not divide": (
        ("Int8Conv", "x w", "y", {**CONV, "group": 3, **OUT}), "its groups must divide 4 inputs and 8 outputs"),
    "another order": (("Int8Conv", "x w", "y", {**CONV, "order": "CHWN", **OUT}), "order must be NCHW or NHWC"),
    "sizes that differ": (("Int8Sum", "x w", "y", OUT), "its inputs must have one shape"),
    "one input": (("Int8Sum", "x", "y", OUT), "it needs 2 inputs, got 1"),
    "an argument of another type": (
        ("Int8Conv", "x w", "y", {**CONV, "group": 1.5, **OUT}), "its argument group must be an integer, got 1.5"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSALS)
def test_a_wrong_operator_is_a_typed_error(name: str) -> None:
    operator, said = REFUSALS[name]
    net = made(stored("w", u8(8, 1, 1, 4), WS, WZ), operator, outputs="y")
    with pytest.raises(QmlirError, match=operator[0]) as caught:
        load_caffe2(net, shapes={"x": "1x5x6x4x" + U8.format(XS, XZ)})
    assert said in str(caught.value)
    assert '"y"' in str(caught.value)


@pytest.mark.parametrize("moved", [False, True])
def test_an_input_without_a_scale_needs_a_quantized_shape(*, moved: bool) -> None:
    """The shape that the error names is one with which the net is read."""
    before = [("NCHW2NHWC", "data/x:0", "t")] if moved else []
    net = made(*before, ("Int8Relu", "t" if moved else "data/x:0", "y", OUT), inputs="data/x:0")
    shapes = {"data/x:0": "1x4x5x6"}
    with pytest.raises(QmlirError, match='its input "data/x:0" must be quantized, got f32; state its scale') as refused:
        load_caffe2(net, shapes=shapes)
    (name, shape) = str(refused.value).split("--shape '")[1].rstrip("'").split("=", 1)
    assert name == "data/x:0"
    load_caffe2(net, shapes={name: shape}).verify()


def test_floats_of_an_operator_need_a_quantization() -> None:
    net = made(("Relu", "x", "a"), ("Int8Relu", "a", "y", OUT), inputs="x")
    with pytest.raises(QmlirError, match='its input "a" must be quantized, got f32; put an Int8Quantize in front'):
        load_caffe2(net, shapes={"x": "1x4"})
    net = made(("Relu", "x", "a"), ("Int8Quantize", "a", "q", OUT), ("Int8Relu", "q", "y", OUT), inputs="x")
    load_caffe2(net, shapes={"x": "1x4"}).verify()
