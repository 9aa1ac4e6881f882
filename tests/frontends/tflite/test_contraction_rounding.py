"""Sums of products that lie halfway between two integers, under each of LiteRT's numerics: its kernels' bits.

All scales are powers of two, so that every factor between them is one too, and many sums come to halves.
The last channels, fewer than eight, LiteRT's optimized kernels round in another way.
"""

import numpy as np
import pytest

import qmlir
from qmlir.frontends.tflite import load_tflite
from qmlir.policies.runtimes import follow
from tests.frontends.tflite.files import RESOLVERS, Op, T, constant, interpreter, model, run

OPTIONS = {
    "FULLY_CONNECTED": ("FullyConnectedOptions", {"FusedActivationFunction": 0}),
    "CONV_2D": (
        "Conv2DOptions",
        {"Padding": 1, "StrideH": 1, "StrideW": 1, "DilationHFactor": 1, "DilationWFactor": 1},
    ),
    "DEPTHWISE_CONV_2D": (
        "DepthwiseConv2DOptions",
        {"Padding": 1, "StrideH": 1, "StrideW": 1, "DepthMultiplier": 1, "DilationHFactor": 1, "DilationWFactor": 1},
    ),
    "BATCH_MATMUL": ("BatchMatMulOptions", {"AdjX": False, "AdjY": True}),
}

SHAPES = {
    "FULLY_CONNECTED": ((16, 3), (4, 3), (16, 4), 0),
    "CONV_2D": ((1, 16, 1, 3), (4, 1, 1, 3), (1, 16, 1, 4), 0),
    "DEPTHWISE_CONV_2D": ((1, 16, 2, 8), (1, 1, 2, 8), (1, 16, 1, 8), 3),
    "BATCH_MATMUL": ((16, 3), (4, 3), (16, 4), 0),
}
"""Operator → shapes of data, weights and result; the axis of output channels."""

STEPS = {
    "int8": (2.0**-4, 2.0**-9, 2.0**-7),
    "uint8": (2.0**-4, 2.0**-9, 2.0**-7),
    "int16": (2.0**-9, 2.0**-9, 2.0**-9),
}
"""Format → scales of data, weights and result."""


def file(kind: str, format: str, *, per_channel: bool, bias: bool) -> bytes:
    """A file of one contraction with weights of 8 bits."""
    data, shape, result, axis = SHAPES[kind]
    x, w, y = STEPS[format]
    stored = np.random.default_rng(1).integers(-127, 128, shape).astype(np.int8)
    scales = [w] * (shape[axis] if per_channel else 1)
    zeros, middle = [0] * len(scales), [128 if format == "uint8" else 0]
    weights = constant("w", stored, scale=scales, zero=zeros, axis=axis)
    if format == "uint8":
        weights = constant("w", (stored.astype(np.int16) + 128).astype(np.uint8), scale=[w], zero=[128])
    if kind == "BATCH_MATMUL" and format == "int16":
        weights = constant("w", stored.astype(np.int16), scale=[w], zero=[0])
    tensors = [T("x", data, np.dtype(format), None, [x], middle), weights]
    if bias:
        kept = np.zeros(shape[axis], np.int64 if format == "int16" else np.int32)
        tensors.append(constant("b", kept, scale=[x * s for s in scales], zero=zeros))
    tensors.append(T("y", result, np.dtype(format), None, [y], middle))
    last = len(tensors) - 1
    return model(tensors, [Op(kind, range(last), [last], *OPTIONS[kind])], [0], [last])


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("format", STEPS)
@pytest.mark.parametrize("kind", SHAPES)
def test_halves_are_litert_s(kind: str, format: str, per_channel: bool) -> None:
    if sum((per_channel, format == "uint8", kind == "BATCH_MATMUL")) > 1:
        pytest.skip("LiteRT has no such kernel")
    data = file(kind, format, per_channel=per_channel, bias=kind != "BATCH_MATMUL")
    limits, random = np.iinfo(format), np.random.default_rng(2)
    inputs = [
        random.integers(limits.min // 3, limits.max // 3 + 1, SHAPES[kind][0]).astype(format)
        if format != "uint8"
        else random.integers(90, 170, SHAPES[kind][0]).astype(format)
        for _ in range(20)
    ]
    for numerics in RESOLVERS:
        theirs, module = interpreter(data, numerics), load_tflite(data)
        follow(module, numerics)
        ours = qmlir.reference(module)
        differing = [int((ours.run(x)[0] != run(theirs, [x])[0]).sum()) for x in inputs]
        assert sum(differing) == 0, numerics


@pytest.mark.parametrize("format", ["int8", "uint8"])
def test_the_scales_of_a_fully_connected_layer_multiply_in_float64(format: str) -> None:
    """Of data and result on one scale s: (s · w) / s is w, and only in float64 sums that are a multiple of 50 · w."""
    middle = 128 if format == "uint8" else 0
    for scale in (0.4, 0.1, 0.02, 1 / 3, 0.7):
        x, w = {"scale": [scale], "zero": [middle]}, {"scale": [0.01], "zero": [middle]}
        weights = np.array([[25, 50, 75, 100], [10, 20, -30, 5]], np.int64) + middle
        tensors = [
            T("x", (256, 4), format, **x),
            constant("w", weights.astype(format), **w),
            constant("b", np.zeros(2, np.int32), scale=[float(np.float32(scale) * np.float32(0.01))], zero=[0]),
            T("y", (256, 2), format, **x),
        ]
        data = model(tensors, [Op("FULLY_CONNECTED", [0, 1, 2], [3], *OPTIONS["FULLY_CONNECTED"])], [0], [3])
        stored = np.random.default_rng(0).integers(middle - 60, middle + 60, (256, 4)).astype(format)
        for numerics in RESOLVERS:
            module = load_tflite(data)
            follow(module, numerics)
            (want,) = run(interpreter(data, numerics), [stored])
            np.testing.assert_array_equal(qmlir.reference(module).run(stored)[0], want, f"{scale} {numerics}")


@pytest.mark.parametrize("format", ["int8", "uint8"])
@pytest.mark.parametrize("channels", [3, 8, 12])
@pytest.mark.parametrize("kind", ["DEPTHWISE_CONV_2D", "TRANSPOSE_CONV"])
def test_the_last_channels_fewer_than_eight_are_rounded_as_litert_rounds_them(
    kind: str, channels: int, format: str
) -> None:
    random, middle, width = np.random.default_rng(3), 128 if format == "uint8" else 0, np.dtype(format)
    depthwise = kind == "DEPTHWISE_CONV_2D"
    image = (4, 12, 12, channels if depthwise else 8)
    shape, result = ((1, 3, 3, channels), image) if depthwise else ((channels, 4, 4, 8), (4, 24, 24, channels))
    scales = [0.02] if middle else (0.02 * (1 + random.random(channels))).tolist()
    stored = (random.integers(-127, 128, shape) + middle).clip(*((0, 255) if middle else (-128, 127))).astype(width)
    axis = 3 if depthwise and not middle else 0
    tensors = [
        constant("s", np.array(result, np.int32)),
        constant("w", stored, scale=scales, zero=[middle] * len(scales), axis=axis),
        T("x", image, width, None, [0.05], [3 + middle]),
        constant(
            "b",
            random.integers(-3000, 3000, channels).astype(np.int32),
            scale=[float(np.float32(0.05) * np.float32(s)) for s in scales],
            zero=[0] * len(scales),
        ),
        T("y", result, width, None, [0.17 if depthwise else 0.37], [middle - 9]),
    ]
    options = {**OPTIONS["DEPTHWISE_CONV_2D"][1], "Padding": 0}
    operator = Op("DEPTHWISE_CONV_2D", [2, 1, 3], [4], "DepthwiseConv2DOptions", options, version=3)
    if not depthwise:
        options = {"Padding": 0, "StrideH": 2, "StrideW": 2}
        operator = Op(kind, [0, 1, 2, 3], [4], "TransposeConvOptions", options, version=3)
    data = model(tensors, [operator], [2], [4])
    module = load_tflite(data)
    x = random.integers(np.iinfo(width).min, np.iinfo(width).max + 1, image).astype(width)
    for numerics in RESOLVERS:
        follow(module, numerics)
        (want,) = run(interpreter(data, numerics), [x])
        np.testing.assert_array_equal(qmlir.reference(module).run(x)[0], want, numerics)
    np.testing.assert_array_equal(qmlir.compile(module).run(x)[0], want)


@pytest.mark.parametrize("shape", [(1, 1, 4, 3), (2, 4, 1, 3), (1, 3, 3, 8)], ids=str)
def test_the_last_elements_of_a_transposed_convolution_of_unsigned_bytes(shape: tuple[int, ...]) -> None:
    """LiteRT's kernel computes 16 elements at a time, over rows and images; it rounds the last, fewer, in two steps."""
    random = np.random.default_rng(0)
    tensors = [
        constant("s", np.array(shape, np.int32)),
        constant("w", random.integers(0, 256, (shape[3], 3, 2, 3)).astype(np.uint8), scale=[0.0045], zero=[128]),
        T("x", (*shape[:3], 3), np.uint8, None, [0.0012], [0]),
        T("y", shape, np.uint8, None, [0.00083], [152]),
    ]
    options = {"Padding": 0, "StrideH": 1, "StrideW": 1}
    data = model(tensors, [Op("TRANSPOSE_CONV", [0, 1, 2], [3], "TransposeConvOptions", options)], [2], [3])
    module = load_tflite(data)
    for numerics in RESOLVERS:
        follow(module, numerics)
        reference, theirs = qmlir.reference(module), interpreter(data, numerics)
        for _ in range(100):
            x = random.integers(0, 256, (*shape[:3], 3)).astype(np.uint8)
            np.testing.assert_array_equal(reference.run(x)[0], run(theirs, [x])[0], numerics)
        np.testing.assert_array_equal(qmlir.compile(module).run(x)[0], reference.run(x)[0])
