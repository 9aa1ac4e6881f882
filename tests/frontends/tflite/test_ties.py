"""QUANTIZE of floats halfway between two integers: at run time, and of constants, which are folded, as LiteRT rounds.

LiteRT's reference rounds halves away from zero, its other kernels to even, and all of them away from zero if there is a
scale for each channel. Tensors have a multiple of eight elements; test_float_rounding.py has others.
"""

import numpy as np
import pytest

import qmlir
from qmlir.frontends.tflite import load_tflite
from qmlir.policies.runtimes import follow
from tests.frontends.tflite.files import RESOLVERS, Op, T, constant, interpreter, model, run

SCALES = [0.5, 0.25, 1.0, 2.0]


def halves(scales: list[float], axis: int) -> np.ndarray:
    """Numbers halfway between two steps of the scales along an axis, beyond the range of bytes too."""
    rows = (np.arange(-136, 136) + 0.5) * np.broadcast_to(np.array(scales), 4)[:, None]
    return np.ascontiguousarray(rows if axis == 0 else rows.T).astype(np.float32)


def file(format: str, scales: list[float], axis: int, *, folded: bool) -> bytes:
    """A file that quantizes its input, or a constant, and adds the dequantized numbers to an input."""
    numbers = halves(scales, axis)
    zeros = [0 if format == "int16" else 131 if format == "uint8" else 3] * len(scales)
    shape = numbers.shape
    tensors = [
        T("x", shape),
        constant("c", numbers),
        T("q", shape, np.dtype(format), None, scales, zeros, axis),
        T("d", shape),
        T("y", shape),
    ]
    quantize = Op("QUANTIZE", [1 if folded else 0], [2], "QuantizeOptions", version=2)
    dequantize = Op("DEQUANTIZE", [2], [3], "DequantizeOptions", version=5)
    add = Op("ADD", [3, 0 if folded else 1], [4], "AddOptions")
    return model(tensors, [quantize, dequantize, add], [0], [4])


@pytest.mark.parametrize("folded", [False, True])
@pytest.mark.parametrize(("scales", "axis"), [([0.5], 0), (SCALES, 0), (SCALES, 1)])
@pytest.mark.parametrize("format", ["int8", "uint8", "int16"])
def test_halves_are_rounded_as_litert_rounds_them(format: str, scales: list[float], axis: int, *, folded: bool) -> None:
    if format == "int16" and len(scales) > 1:
        pytest.skip("LiteRT dequantizes no 16-bit data with a scale for each channel")
    data, zeros = file(format, scales, axis, folded=folded), np.zeros_like(halves(scales, axis))
    module, image = load_tflite(data), zeros if folded else halves(scales, axis)
    results = []
    for numerics in RESOLVERS:
        follow(module, numerics)
        (want,) = run(interpreter(data, numerics), [image])
        np.testing.assert_array_equal(qmlir.reference(module)(image), want, numerics)
        np.testing.assert_array_equal(qmlir.compile(module)(image), want, numerics)
        results.append(want)
    assert (results[0] == results[1]).all() == (len(scales) > 1)


@pytest.mark.parametrize("numerics", RESOLVERS)
def test_a_dequantized_constant_is_quantized_as_at_run_time(numerics: str) -> None:
    """DEQUANTIZE and QUANTIZE of a constant to twice its scale, where each second integer becomes a half."""
    stored = np.arange(-128, 128).astype(np.int8).reshape(16, 16)
    quarter, half = {"scale": [0.25], "zero": [3]}, {"scale": [0.5], "zero": [0]}
    tensors = [
        T("x", (16, 16), np.int8, **half),
        constant("c", stored, **quarter),
        T("f", (16, 16)),
        T("q", (16, 16), np.int8, **half),
        T("y", (32, 16), np.int8, **half),
    ]
    operators = [
        Op("DEQUANTIZE", [1], [2], "DequantizeOptions", version=2),
        Op("QUANTIZE", [2], [3], "QuantizeOptions", version=2),
        Op("CONCATENATION", [3, 0], [4], "ConcatenationOptions", {"Axis": 0}, version=2),
    ]
    data = model(tensors, operators, [0], [4])
    module = load_tflite(data)
    follow(module, numerics)
    (want,) = run(interpreter(data, numerics), [stored])
    np.testing.assert_array_equal(qmlir.reference(module)(stored), want)
