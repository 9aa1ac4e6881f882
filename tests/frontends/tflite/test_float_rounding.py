"""Operators on floats between DEQUANTIZE and QUANTIZE: the bits of each of LiteRT's three ways, ties among them.

Scales are such that sums and means of floats often lie halfway between two steps, where the last bit of a float32
decides: how an integer is dequantized, in which order floats are added, and how a half is rounded.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import pytest

import qmlir
from qmlir.frontends.tflite import load_tflite
from qmlir.policies.runtimes import follow
from tests.conftest import crossed
from tests.frontends.tflite.files import RESOLVERS, Op, T, constant, interpreter, model, run

Array = np.ndarray[Any, np.dtype[Any]]

POINTS = {"int8": 5, "uint8": 133, "int16": 0}
VERSIONS = {"int8": 2, "uint8": 2, "int16": 3}


def stored(format: str, shape: Sequence[int], seed: int = 0) -> Array:
    """Integers of the whole range of a type; of 16 bits those of the range of a byte."""
    low, high = (-128, 127) if format == "int16" else (np.iinfo(format).min, np.iinfo(format).max)
    return np.random.default_rng(seed).integers(low, high + 1, shape).astype(format)


def fallback(
    operators: Sequence[Op], shapes: Sequence[Sequence[int]], format: str, *,
    data: float = 0.1, result: float | None = 0.1, constants: Sequence[T] = (), to: str | None = None,
) -> bytes:  # fmt: skip
    """A file that dequantizes inputs, computes on floats, and quantizes the result.

    Args:
        operators: On tensors 0 … n − 1, which are the dequantized inputs, then the constants, then the result.
        shapes: Of the inputs, then of the result.
        format: How the inputs are stored.
        data: Their scale.
        result: The scale of the result; None for floats.
        constants: Further operands.
        to: How the result is stored; as the inputs by default.
    """
    *inputs, output = shapes
    floats = [T(f"x{i}", shape) for i, shape in enumerate(inputs)]
    tensors = [*floats, *constants, T("y", output)]
    made, entering = [], []
    for i, shape in enumerate(inputs):
        entering.append(len(tensors))
        tensors.append(T(f"q{i}", shape, np.dtype(format), None, [data], [POINTS[format]]))
        made.append(Op("DEQUANTIZE", [entering[-1]], [i], "DequantizeOptions", {}, VERSIONS[format]))
    made += operators
    place = len(floats) + len(constants)
    if result is not None:
        tensors.append(T("r", output, np.dtype(to or format), None, [result], [POINTS[to or format]]))
        made.append(Op("QUANTIZE", [place], [len(tensors) - 1], "QuantizeOptions", {}, 2))
        place = len(tensors) - 1
    return model(tensors, made, entering, [place])


def assert_litert_s(data: bytes, format: str, shapes: Sequence[Sequence[int]], numerics: str, draws: int = 2) -> None:
    """Compares the reference and machine code with LiteRT, bit for bit."""
    module, theirs = load_tflite(data), interpreter(data, numerics)
    follow(module, numerics)
    reference, code = qmlir.reference(module), qmlir.compile(module)
    for seed in range(draws):
        inputs = [stored(format, shape, 10 * seed + i) for i, shape in enumerate(shapes)]
        (want,) = run(theirs, inputs)
        named = dict(zip([spec.name for spec in reference.signature.inputs], inputs, strict=True))
        np.testing.assert_array_equal(reference.run(named)[0], want, numerics)
        np.testing.assert_array_equal(code.run(named)[0], want, numerics)


# ---------------------------------------------------------------------------------------------------------------
# Casts


@pytest.mark.parametrize("numerics", RESOLVERS)
@pytest.mark.parametrize("format", POINTS)
def test_every_byte_is_dequantized_as_litert_dequantizes_it(format: str, numerics: str) -> None:
    """The last of 260 bytes, fewer than eight, its optimized kernel computes in another way."""
    integers = (np.arange(260) - (128 if format != "uint8" else 0)).astype(format)
    for scale in (0.1, 0.021, 0.033):
        q = T("q", (260,), np.dtype(format), None, [scale], [POINTS[format]])
        operator = Op("DEQUANTIZE", [0], [1], "DequantizeOptions", {}, VERSIONS[format])
        data = model([q, T("x", (260,))], [operator], [0], [1])
        module = load_tflite(data)
        follow(module, numerics)
        (want,) = run(interpreter(data, numerics), [integers])
        np.testing.assert_array_equal(qmlir.reference(module)(integers), want)
        np.testing.assert_array_equal(qmlir.compile(module)(integers), want)


@pytest.mark.parametrize("size", [1, 7, 8, 13, 23])
@pytest.mark.parametrize("numerics", RESOLVERS)
def test_the_last_floats_are_quantized_as_litert_quantizes_them(numerics: str, size: int) -> None:
    for format, point in POINTS.items():
        for scale in (0.5, 0.1, 0.33):
            x = ((np.arange(size) * 37 % 200 - 99.5) * np.float32(scale)).astype(np.float32)
            q = T("q", (size,), np.dtype(format), None, [scale], [point])
            data = model([T("x", (size,)), q], [Op("QUANTIZE", [0], [1], "QuantizeOptions")], [0], [1])
            module = load_tflite(data)
            follow(module, numerics)
            (want,) = run(interpreter(data, numerics), [x])
            np.testing.assert_array_equal(qmlir.reference(module)(x), want, f"{format} {scale}")
    np.testing.assert_array_equal(qmlir.compile(module)(x), want)


@pytest.mark.parametrize("numerics", RESOLVERS)
@pytest.mark.parametrize(("format", "to"), [*zip(POINTS, POINTS, strict=True), ("uint8", "int8")])
def test_a_function_between_casts_is_tabled_with_their_bits(format: str, to: str, numerics: str) -> None:
    """Half the results are ties, and the last of 19 are computed in another way than the others."""
    for kind, size in (("RELU", 19), ("NEG", 19), ("NEG", 5), ("NEG", 16)):
        options = {"NEG": "NegOptions"}.get(kind, "")
        data = fallback([Op(kind, [0], [1], options)], [(size,), (size,)], format, result=0.2, to=to)
        assert_litert_s(data, format, [(size,)], numerics, draws=6)


@pytest.mark.parametrize("numerics", RESOLVERS)
@pytest.mark.parametrize("format", ["int8", "uint8"])
def test_a_change_of_scale_between_casts(format: str, numerics: str) -> None:
    point = POINTS[format]
    tensors = [
        T("q", (19,), format, None, [0.1], [point]),
        T("x", (19,)),
        T("r", (19,), format, None, [0.2], [point]),
    ]
    casts = [
        Op("DEQUANTIZE", [0], [1], "DequantizeOptions", {}, 2),
        Op("QUANTIZE", [1], [2], "QuantizeOptions", {}, 1),
    ]
    assert_litert_s(model(tensors, casts, [0], [2]), format, [(19,)], numerics, draws=6)


@pytest.mark.parametrize("numerics", RESOLVERS)
@pytest.mark.parametrize("format", ["int8", "uint8"])
def test_dequantized_numbers_are_cut_to_integers(format: str, numerics: str) -> None:
    """3.0 and the float below it are cut to other integers."""
    tensors = [
        T("q", (4, 65), format, None, [0.1], [POINTS[format]]),
        T("x", (4, 65)),
        T("y", (4, 65), np.int32),
    ]
    codes = {"InDataType": 0, "OutDataType": 2}
    casts = [Op("DEQUANTIZE", [0], [1], "DequantizeOptions", {}, 2), Op("CAST", [1], [2], "CastOptions", codes)]
    assert_litert_s(model(tensors, casts, [0], [2]), format, [(4, 65)], numerics)


# ---------------------------------------------------------------------------------------------------------------
# Sums, means, products


@crossed({"kind": ["ADD", "MUL", "SUB"], "format": POINTS, "numerics": RESOLVERS})
def test_sums_of_two_tensors(kind: str, format: str, numerics: str) -> None:
    shape = (3, 25)
    result = 0.2 if kind == "ADD" else 0.02
    data = fallback([Op(kind, [0, 1], [2], f"{kind.capitalize()}Options")], [shape] * 3, format, result=result)
    assert_litert_s(data, format, [shape] * 2, numerics)


POOLS = (
    ((2, 2), 2, 1), ((3, 3), 1, 0), ((2, 3), 2, 0), ((5, 4), 1, 1), ((1, 7), 1, 0), ((9, 11), 1, 1), ((2, 2), 3, 1),
)  # fmt: skip
"""Windows, strides and paddings (1: VALID) of images of 9 by 11; of the last, XNNPACK declines."""


@crossed({"window, stride, padding": POOLS, "format": POINTS, "numerics": RESOLVERS})
def test_average_pools(window: tuple[int, int], stride: int, padding: int, format: str, numerics: str) -> None:
    sizes = [(n - k) // stride + 1 if padding else -(-n // stride) for n, k in zip((9, 11), window, strict=True)]
    shapes = [(2, 9, 11, 5), (2, *sizes, 5)]
    options = {"Padding": padding, "StrideH": stride, "StrideW": stride}
    options |= {"FilterHeight": window[0], "FilterWidth": window[1]}
    operator = Op("AVERAGE_POOL_2D", [0], [1], "Pool2DOptions", options)
    assert_litert_s(fallback([operator], shapes, format), format, shapes[:1], numerics)
    assert_litert_s(fallback([operator], shapes, format, result=None), format, shapes[:1], numerics)


AXES = (
    ((2, 6, 7, 5), (1, 2)), ((2, 6, 7, 5), (0, 2)), ((4, 9, 13), (1,)), ((33, 6), (0,)), ((3, 4, 1, 5), (0, 2)),
    ((2, 3, 4, 5, 6), (1, 3)), ((2, 3, 4, 5, 6), (0, 2)),
)  # fmt: skip
"""Shapes and axes whose sums do not depend on the vectors of a processor."""


def reduction(kind: str, shape: tuple[int, ...], axes: tuple[int, ...], format: str, *, floats: bool) -> bytes:
    """A sum, mean or product along axes, between casts; its result quantized in steps that leave many ties."""
    kept = [1 if i in axes else size for i, size in enumerate(shape)]
    count = prod(shape[i] for i in axes)
    scale = 0.2 * count**0.5 if kind == "SUM" else 0.1 / count**0.5
    operator = Op(kind, [0, 1], [2], "ReducerOptions", {"KeepDims": True})
    axis = constant("axes", np.array(axes, np.int32))
    data = 0.01 if kind == "REDUCE_PROD" else 0.1
    return fallback([operator], [shape, kept], format, data=data, result=None if floats else scale, constants=[axis])


@crossed({"kind": ["SUM", "MEAN", "REDUCE_PROD"], "shape, axes": AXES, "format": POINTS, "numerics": RESOLVERS})
def test_reductions(kind: str, shape: tuple[int, ...], axes: tuple[int, ...], format: str, numerics: str) -> None:
    for floats in (False, True):
        assert_litert_s(reduction(kind, shape, axes, format, floats=floats), format, [shape], numerics)


@pytest.mark.parametrize(("numerics", "kind"), [("litert-reference", "MEAN"), ("litert-builtin", "SUM")])
@pytest.mark.parametrize(("shape", "axes"), [((2, 6, 7, 5), (3,)), ((5, 64), (1,)), ((40,), (0,))])
def test_sums_along_the_last_axis(numerics: str, kind: str, shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    assert_litert_s(reduction(kind, shape, axes, "int8", floats=True), "int8", [shape], numerics)


@pytest.mark.parametrize("numerics", RESOLVERS)
@pytest.mark.parametrize("axis", [1, 2])
def test_running_sums(axis: int, numerics: str) -> None:
    shape = (3, 21, 5)
    operator = Op("CUMSUM", [0, 1], [2], "CumsumOptions", {})
    axes = constant("axis", np.int32(axis))
    assert_litert_s(fallback([operator], [shape] * 2, "int8", result=None, constants=[axes]), "int8", [shape], numerics)


def test_more_than_six_dimensions_are_left_to_the_optimized_kernels() -> None:
    shape = (1, 1, 2, 1, 3, 1, 5)
    data = fallback([Op("NEG", [0], [1], "NegOptions")], [shape] * 2, "int8", result=0.2)
    assert_litert_s(data, "int8", [shape], "litert-xnnpack", draws=6)
