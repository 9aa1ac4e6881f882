"""Layers on integers whose weights another operator, or the caller, computes: LiteRT's bits, in all three ways.

Weights of a constant that is only moved are constants; all others meet the data in a product of two computed matrices.
"""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qmlir
from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.frontends.tflite import load_tflite
from qmlir.policies.runtimes import follow
from tests.frontends.tflite.files import RESOLVERS, Op, T, constant, interpreter, model, run

SHARED = Path(os.environ.get("QMLIR_SHARED", "../shared"))


def convolution(kind: str, padding: int, stride: int, dilation: int) -> tuple[str, dict[str, Any]]:
    """The options of a convolution."""
    options = {"Padding": padding, "StrideH": stride, "StrideW": stride}
    if kind == "TRANSPOSE_CONV":
        return "TransposeConvOptions", options
    options |= {"DilationHFactor": dilation, "DilationWFactor": dilation}
    return ("Conv2DOptions" if kind == "CONV_2D" else "DepthwiseConv2DOptions"), options


KINDS: dict[str, tuple[str, tuple[int, ...], tuple[int, ...], tuple[int, ...], int, tuple[str, dict[str, Any]]]] = {
    "dense": ("FULLY_CONNECTED", (6, 8), (5, 8), (6, 5), 0, ("FullyConnectedOptions", {})),
    "convolution": ("CONV_2D", (2, 7, 6, 4), (5, 3, 2, 4), (2, 7, 6, 5), 0, convolution("CONV_2D", 0, 1, 1)),
    "strided": ("CONV_2D", (1, 9, 9, 3), (8, 3, 3, 3), (1, 4, 4, 8), 0, convolution("CONV_2D", 1, 2, 1)),
    "dilated": ("CONV_2D", (1, 8, 8, 3), (4, 2, 2, 3), (1, 6, 6, 4), 0, convolution("CONV_2D", 1, 1, 2)),
    "pointwise": ("CONV_2D", (1, 5, 4, 6), (3, 1, 1, 6), (1, 5, 4, 3), 0, convolution("CONV_2D", 0, 1, 1)),
    "grouped": ("CONV_2D", (1, 6, 5, 6), (4, 3, 3, 3), (1, 6, 5, 4), 0, convolution("CONV_2D", 0, 1, 1)),
    "depthwise": (
        "DEPTHWISE_CONV_2D", (2, 6, 6, 8), (1, 3, 3, 8), (2, 6, 6, 8), 3,
        ("DepthwiseConv2DOptions", {**convolution("DEPTHWISE_CONV_2D", 0, 1, 1)[1], "DepthMultiplier": 1}),
    ),
    "multiplied": (
        "DEPTHWISE_CONV_2D", (1, 6, 6, 4), (1, 3, 3, 8), (1, 3, 3, 8), 3,
        ("DepthwiseConv2DOptions", {**convolution("DEPTHWISE_CONV_2D", 0, 2, 1)[1], "DepthMultiplier": 2}),
    ),
    "transposed": (
        "TRANSPOSE_CONV", (1, 5, 4, 6), (4, 3, 3, 6), (1, 10, 8, 4), 0, convolution("TRANSPOSE_CONV", 0, 2, 1)
    ),
}  # fmt: skip
"""Name → operator, shapes of data, weights and result, axis of output channels, options."""

VERSIONS = {"FULLY_CONNECTED": 4, "CONV_2D": 3, "DEPTHWISE_CONV_2D": 3, "TRANSPOSE_CONV": 3}


def file(name: str, format: str, *, zero: int = 0, per_channel: bool = False, bias: bool = True) -> bytes:
    """A file of one layer whose weights are an input."""
    kind, shape, weights, result, axis, options = KINDS[name]
    middle, channels = {"int8": 3, "uint8": 131, "int16": 0}[format], result[-1]
    scales = [0.01 * (2 + i) for i in range(channels)] if per_channel else [0.03]
    width = np.int8 if format == "int16" else np.dtype(format)
    step = {"int8": 0.9, "uint8": 0.9, "int16": 0.01}[format]
    tensors = [
        T("x", shape, np.dtype(format), None, [0.05 if format != "int16" else 0.0002], [middle]),
        T("w", weights, width, None, scales, [zero] * len(scales), axis if per_channel else 0),
        T("y", result, np.dtype(format), None, [step], [middle]),
    ]
    operands = [0, 1]
    if kind == "TRANSPOSE_CONV":
        tensors.append(constant("s", np.array(result, np.int32)))
        operands = [3, 1, 0]
    if bias:
        steps = [float(np.float32(tensors[0].scale[0]) * np.float32(s)) for s in scales]
        numbers = np.random.default_rng(0).integers(-900, 900, channels)
        wide = np.int64 if format == "int16" else np.int32
        tensors.append(constant("b", numbers.astype(wide), scale=steps, zero=[0] * len(steps)))
        operands.append(len(tensors) - 1)
    elif kind in ("CONV_2D", "DEPTHWISE_CONV_2D"):
        raise ValueError("LiteRT's convolutions need a bias")
    return model(tensors, [Op(kind, operands, [2], *options, version=VERSIONS[kind])], [0, 1], [2])


def check(data: bytes, *, calls: int = 3, compiled: bool = False) -> None:
    """Checks that qmlir has the bits of LiteRT in all three ways, in machine code too if asked for."""
    module, random = load_tflite(data), np.random.default_rng(5)
    for numerics in RESOLVERS:
        theirs = interpreter(data, numerics)
        follow(module, numerics)
        ours = qmlir.reference(module)
        names = [spec.name for spec in ours.signature.inputs]
        for _ in range(calls):
            arrays = [_drawn(random, detail) for detail in theirs.get_input_details()]
            given = dict(zip(names, arrays, strict=True))
            (want,) = run(theirs, arrays)
            np.testing.assert_array_equal(ours.run(given)[0], want, numerics)
            if compiled and numerics == "litert-reference":
                np.testing.assert_array_equal(qmlir.compile(module).run(given)[0], want)
                compiled = False


def _drawn(random: np.random.Generator, detail: dict[str, Any]) -> np.ndarray:
    """Integers for an input; weights of −128 are left out, as TFLite's specification wants."""
    limits = np.iinfo(detail["dtype"])
    least = limits.min + (detail["name"] == "w" and limits.min < 0)
    return random.integers(least, limits.max + 1, detail["shape"]).astype(detail["dtype"])


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("name", KINDS)
def test_weights_that_the_caller_gives(name: str, *, per_channel: bool) -> None:
    check(file(name, "int8", per_channel=per_channel), compiled=per_channel)


@pytest.mark.parametrize("name", ["dense", "convolution", "depthwise", "transposed"])
def test_unsigned_weights_that_the_caller_gives(name: str) -> None:
    check(file(name, "uint8", zero=120))


def test_dense_weights_with_a_zero_point_or_without_a_bias() -> None:
    check(file("dense", "int8", zero=5))
    check(file("dense", "int8", zero=-128, bias=False))
    check(file("transposed", "int8", bias=False))


@pytest.mark.parametrize("name", ["dense", "convolution", "depthwise", "transposed"])
def test_weights_beside_data_of_16_bits(name: str) -> None:
    check(file(name, "int16"), calls=1)


MOVED: dict[str, tuple[tuple[int, ...], list[Any], str, dict[str, Any]]] = {
    "TRANSPOSE": ((8, 3, 3, 4), [np.array([0, 2, 1, 3], np.int32)], "TransposeOptions", {}),
    "RESHAPE": ((8, 9, 4), [np.array([8, 3, 3, 4], np.int32)], "ReshapeOptions", {}),
    "REVERSE_V2": ((8, 3, 3, 4), [np.array([1], np.int32)], "ReverseV2Options", {}),
    "GATHER": ((8, 3, 3, 4), [np.arange(8)[::-1].astype(np.int32)], "GatherOptions", {"Axis": 0}),
    "SLICE": ((9, 3, 3, 4), [np.array(n, np.int32) for n in ([1, 0, 0, 0], [8, 3, 3, 4])], "SliceOptions", {}),
    "CONCATENATION": ((4, 3, 3, 4), [], "ConcatenationOptions", {"Axis": 0}),
    "PACK": ((8, 3, 4), [], "PackOptions", {"ValuesCount": 3, "Axis": 1}),
    "SPLIT": ((16, 3, 3, 4), [np.array(0, np.int32)], "SplitOptions", {"NumSplits": 2}),
    "PAD": ((7, 3, 3, 4), [np.array([[0, 1], *[[0, 0]] * 3], np.int32)], "PadOptions", {}),
}
"""Operator → shape of the constant of which it makes weights [8, 3, 3, 4], its further inputs, its options."""


def moved(kind: str, format: str, *, per_channel: bool) -> bytes:
    """A file of a convolution whose weights are a constant behind an operator of movement."""
    shape, others, options_kind, options = MOVED[kind]
    zero, width = 128 if format == "uint8" else 0, np.dtype(format)
    scales = [0.01 * (2 + i) for i in range(8)] if per_channel else [0.03]
    stored = np.random.default_rng(1).integers(-127, 128, shape) + zero
    stored = stored.clip(np.iinfo(width).min, np.iinfo(width).max).astype(width)
    own = {"scale": scales, "zero": [zero] * len(scales)}
    steps, bias = [float(np.float32(0.05) * np.float32(s)) for s in scales], np.arange(-400, 400, 100).astype(np.int32)
    tensors = [
        T("x", (1, 7, 7, 4), width, None, [0.05], [3 + zero]),
        constant("b", bias, scale=steps, zero=[0] * len(steps)),
        T("y", (1, 7, 7, 8), width, None, [0.9], [3 + zero]),
        constant("source", stored, **own),
        *(T(name, (8, 3, 3, 4), width, None, **own) for name in ("w", "rest")),
        *(constant(f"n{i}", array) for i, array in enumerate(others)),
    ]
    further = list(range(6, len(tensors)))
    inputs = {"CONCATENATION": [3, 3], "PACK": [3, 3, 3], "SPLIT": [*further, 3]}.get(kind, [3, *further])
    outputs = [4, 5] if kind == "SPLIT" else [4]
    version = {"TRANSPOSE": 2, "SLICE": 2}.get(kind, 1)
    layer = Op("CONV_2D", [0, 4, 1], [2], *convolution("CONV_2D", 0, 1, 1), version=3)
    return model(tensors, [Op(kind, inputs, outputs, options_kind, options, version=version), layer], [0], [2])


@pytest.mark.parametrize(("per_channel", "format"), [(False, "int8"), (True, "int8"), (False, "uint8")])
@pytest.mark.parametrize("kind", MOVED)
def test_weights_that_are_a_moved_constant(kind: str, format: str, *, per_channel: bool) -> None:
    if per_channel and kind not in ("TRANSPOSE", "RESHAPE", "REVERSE_V2", "GATHER"):
        pytest.skip("the parts have other scales than the whole")
    data = moved(kind, format, per_channel=per_channel)
    module = load_tflite(data)
    check(data, calls=1)
    (layer,) = [op for op in qmlir.Pipeline("simplify")(module).walk() if isinstance(op, WeightedOp)]
    assert isinstance(layer.w.owner, ConstantOp)


def test_a_product_of_two_computed_tensors_of_a_real_file() -> None:
    path = SHARED / "cases" / "tf" / "cosine_i8.tflite"
    if not path.exists():
        pytest.skip(f"needs {path}, from the folder that QMLIR_SHARED names")
    check(path.read_bytes(), compiled=True)
