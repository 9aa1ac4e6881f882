"""Small models with weights: contractions in every way of storing numbers, casts inside, several outputs, names."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tests.frontends.tflite.files import Op, T, constant, model, schema

PARAMETERS = {"int8": (0.04, -7), "uint8": (0.04, 120), "int16": (0.0003, 0)}
OUTPUTS = {"int8": (0.11, 5), "uint8": (0.11, 131), "int16": (0.0008, 0)}
ACT = "FusedActivationFunction"

CONTRACTIONS: Mapping[str, tuple[Sequence[int], Sequence[int], int, Sequence[int], tuple[str, dict[str, Any]]]] = {
    "CONV_2D": ((1, 7, 6, 3), (5, 3, 2, 3), 0, (1, 4, 3, 5),
                ("Conv2DOptions", {"Padding": 0, "StrideH": 2, "StrideW": 2, "DilationHFactor": 1,
                                   "DilationWFactor": 1, ACT: 1})),
    "DEPTHWISE_CONV_2D": ((1, 7, 6, 3), (1, 3, 2, 6), 3, (1, 5, 5, 6),
                          ("DepthwiseConv2DOptions", {"Padding": 1, "StrideH": 1, "StrideW": 1, "DepthMultiplier": 2,
                                                      "DilationHFactor": 1, "DilationWFactor": 1, ACT: 3})),
    "FULLY_CONNECTED": ((2, 9), (5, 9), 0, (2, 5), ("FullyConnectedOptions", {ACT: 0})),
    "TRANSPOSE_CONV": ((1, 3, 4, 3), (5, 3, 3, 3), 0, (1, 6, 8, 5),
                       ("TransposeConvOptions", {"Padding": 0, "StrideH": 2, "StrideW": 2, ACT: 0})),
}  # fmt: skip
"""Operator → shapes of input and weights, the axis of output channels, the output's shape, options."""


DECLARED = {"CONV_2D": 8, "FULLY_CONNECTED": 11}
"""Versions that know `quantized_bias_type`; depthwise convolutions do not."""


def contraction(
    kind: str, format: str, *, per_channel: bool = False, hybrid: bool = False, bias: Any = True, draw: int = 0,
    nibbles: bool = False,
) -> bytes:  # fmt: skip
    """A model of one contraction.

    Args:
        kind: Which one.
        format: How activations are stored.
        per_channel: Whether each output channel has a scale.
        hybrid: Whether weights are int8 beside floats; the file as `dequantized` has the same numbers.
        bias: Whether there is one; a type of numpy for one that it is stored in.
        nibbles: Whether weights are of 4 bits.
        draw: 0 for the parameters above; any other number draws scales, zero points, strides, padding, activation.
    """
    data, shape, axis, result, options = CONTRACTIONS[kind]
    random, channels = np.random.default_rng(draw or 1), shape[axis]
    stored = random.integers(-7 if nibbles else -127, 8 if nibbles else 128, shape).astype(np.int8)
    scales = (0.01 + 0.002 * np.arange(channels if per_channel else 1)).astype(np.float32)
    floats = random.standard_normal(channels).astype(np.float32)
    if draw:
        scales = (scales * 2 ** random.uniform(-1, 1, scales.shape)).astype(np.float32)
        result, options = _drawn(kind, random)
    if format == "float32":
        weights = constant("w", stored, scale=[float(s) for s in scales], axis=axis) if hybrid else constant(
            "w", dequantized(stored, scales, axis))  # fmt: skip
        x, y, b = T("x", data), T("y", result), constant("b", floats)
    else:
        (scale, zero), (out, out_zero) = _scaling(format, draw, random)
        if format == "uint8":
            zero_of_weights = 121 if not draw else int(random.integers(0, 256))
            weights = constant("w", (stored.astype(np.int32) + 128).astype(np.uint8), scale=[float(scales[0])],
                               zero=[zero_of_weights])  # fmt: skip
        else:
            weights = constant("w", stored, scale=[float(s) for s in scales], axis=axis)
        if nibbles:
            weights = replace(weights, dtype=NIBBLES, data=packed(stored))
        x = T("x", data, np.dtype(format), None, [scale], [zero])
        y = T("y", result, np.dtype(format), None, [out], [out_zero])
        steps = [float(np.float32(scale) * np.float32(s)) for s in (weights.scale)]
        kept = (np.int64 if format == "int16" else np.int32) if isinstance(bias, bool) else bias
        b = constant("b", np.rint(floats / steps).astype(kept), scale=steps, zero=[0] * len(steps))
    if kind == "TRANSPOSE_CONV":
        shape_of = constant("shape", result, np.int32)
        return model([shape_of, weights, x, y], [Op(kind, [0, 1, 2], [3], *options)], [2], [3])
    version, (name, values) = 1, options
    if format == "int16" and bias is np.int32:  # what LiteRT takes for one of 64 bits if the file does not say so
        values, version = {**values, "QuantizedBiasType": schema.TensorType.INT32}, DECLARED.get(kind, 1)
    inputs = [0, 1, 2] if bias else [0, 1]
    return model([x, weights, b, y], [Op(kind, inputs, [3], name, values, version)], [0], [3])


def _scaling(format: str, draw: int, random: np.random.Generator) -> tuple[tuple[float, int], tuple[float, int]]:
    """Scale and zero point of the input and of the output."""
    if not draw:
        return PARAMETERS[format], OUTPUTS[format]
    limits = np.iinfo(format)

    def near(scale: float) -> tuple[float, int]:
        zero = 0 if format == "int16" else int(random.integers(limits.min, limits.max + 1))
        return float(np.float32(scale * 2 ** random.uniform(-1, 1))), zero

    return near(PARAMETERS[format][0]), near(OUTPUTS[format][0])


def _drawn(kind: str, random: np.random.Generator) -> tuple[Sequence[int], tuple[str, dict[str, Any]]]:
    """The output's shape and the options of a contraction with other strides, padding and activation."""
    data, shape, axis, result, (name, options) = CONTRACTIONS[kind]
    drawn = {**options, ACT: int(random.choice([0, 0, 1, 3]))}
    if "StrideH" not in options:
        return result, (name, drawn)
    strides = [int(s) for s in random.integers(1, 3, 2)]
    drawn |= {"Padding": int(random.integers(2)), "StrideH": strides[0], "StrideW": strides[1]}
    sizes = zip(data[1:3], shape[1:3], strides, strict=True)
    if kind == "TRANSPOSE_CONV":
        drawn[ACT] = 0
        places = [n * s if drawn["Padding"] == 0 else (n - 1) * s + k for n, k, s in sizes]
    else:
        places = [-(-n // s) if drawn["Padding"] == 0 else (n - k) // s + 1 for n, k, s in sizes]
    return (data[0], *places, shape[axis]), (name, drawn)


NIBBLES = 17
"""INT4 in the schema."""


def packed(numbers: np.ndarray) -> np.ndarray:
    """Numbers of 4 bits, two in a byte, the first in the low half."""
    flat = np.append(numbers.reshape(-1), np.zeros(numbers.size % 2, np.int8)).astype(np.uint8) & 15
    return flat[::2] | flat[1::2] << 4


def dequantized(stored: np.ndarray, scales: np.ndarray, axis: int) -> np.ndarray:
    """The floats that weights stand for."""
    along = [1] * stored.ndim
    along[axis] = len(scales)
    return stored.astype(np.float32) * scales.reshape(along)


def mixed(format: str) -> bytes:
    """float → QUANTIZE → TANH-free integer part → DEQUANTIZE, a second output in integers, and names of a signature."""
    (scale, zero), (out, out_zero) = PARAMETERS[format], OUTPUTS[format]
    kind = np.dtype(format)
    tensors = [
        T("x", (2, 6)), T("q", (2, 6), kind, None, [scale], [zero]), T("s", (2, 6), kind, None, [out], [out_zero]),
        T("y", (2, 6)), T("r", (2, 6), kind, None, [scale], [zero]),
    ]  # fmt: skip
    operators = [
        Op("QUANTIZE", [0], [1]),
        Op("ADD", [1, 1], [2], "AddOptions", {ACT: 0}),
        Op("DEQUANTIZE", [2], [3]),
        Op("QUANTIZE", [2], [4]),
    ]
    return model(tensors, operators, [0], [3, 4], signature=({"picture": 0}, {"sum": 3, "again": 4}))
