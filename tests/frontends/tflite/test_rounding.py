"""Operators on integers under each of LiteRT's numerics: bit for bit, with scales that make ties and with others."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

import qmlir
from qmlir.frontends.tflite import load_tflite
from qmlir.runtimes import follow
from tests.frontends.tflite.files import RESOLVERS, Op, T, constant, interpreter, model, run

Parameters = tuple[float, int]
Draw = Callable[[np.random.Generator, str], tuple[list[Parameters], Parameters]]

TIES = (0.25, 0.5, 1, 1.5, 0.75, 1 / 3, 2, 3)
"""Ratios of scales with which results fall between two integers, and one more."""

DRAWS = 8
"""Files of each operator, each with scales of its own."""


def parameters(random: np.random.Generator, format: str) -> Parameters:
    """A scale in [1/1000, 1/3] and a zero point."""
    limits = np.iinfo(format)
    point = 0 if format == "int16" else int(random.integers(limits.min, limits.max + 1))
    return float(np.float32(10 ** random.uniform(-3, -0.5))), point


def tied(random: np.random.Generator, like: Parameters, format: str) -> Parameters:
    """Parameters whose scale is a simple multiple of another's."""
    return float(np.float32(like[0] * random.choice(TIES))), parameters(random, format)[1]


def alike(random: np.random.Generator, format: str) -> tuple[list[Parameters], Parameters]:
    """Two operands and a result within a factor of 3."""
    first = parameters(random, format)
    if random.random() < 0.5:
        return [first, tied(random, first, format)], tied(random, first, format)
    (_, a), (_, b) = parameters(random, format), parameters(random, format)
    near = [float(np.float32(first[0] * 10 ** random.uniform(-0.5, 0.5))) for _ in range(2)]
    return [first, (near[0], a)], (near[1], b)


def product(random: np.random.Generator, format: str) -> tuple[list[Parameters], Parameters]:
    """Two operands and the scale of their product."""
    (left, right), (_, point) = alike(random, format)
    spread = 2.0 ** random.integers(8 if format == "int16" else 2, 13 if format == "int16" else 6)
    return [left, right], (float(np.float32(left[0] * right[0] * spread)), point)


def square(random: np.random.Generator, format: str) -> tuple[list[Parameters], Parameters]:
    """Two operands and the scale of the square of their difference."""
    (left, right), (_, point) = alike(random, format)
    return [left, right], (float(np.float32(max(left[0], right[0]) ** 2 * 2.0 ** random.integers(4, 9))), point)


def quotient(random: np.random.Generator, format: str) -> tuple[list[Parameters], Parameters]:
    """Two operands, the second never 0, and the scale of their quotient."""
    (left, (scale, _)), (_, point) = alike(random, format)
    least = int(np.iinfo(format).min)
    spread = float(np.float32(2.0 ** random.integers(-10, -7)))  # LiteRT shifts by less than 32 bits then
    return [left, (scale, least)], (float(np.float32(left[0] / scale * spread)), point)


def equal(random: np.random.Generator, format: str) -> tuple[list[Parameters], Parameters]:
    """Two operands and a result of one type."""
    same = parameters(random, format)
    return [same, same], same


def single(random: np.random.Generator, format: str) -> tuple[list[Parameters], Parameters]:
    """One operand and a result."""
    (first, _), result = alike(random, format)
    return [first], result


def fixed(scale: float, above_least: int) -> Draw:
    """One operand, and the result that LiteRT wants."""

    def draw(random: np.random.Generator, format: str) -> tuple[list[Parameters], Parameters]:
        (first, _), _ = alike(random, format)
        return [first], (scale, np.iinfo(format).min + above_least)

    return draw


def positive(random: np.random.Generator, format: str) -> tuple[list[Parameters], Parameters]:
    """An operand that no stored integer makes negative."""
    ((scale, _), _), result = alike(random, format)
    return [(scale, int(np.iinfo(format).min))], result


def symmetric(random: np.random.Generator, format: str) -> tuple[list[Parameters], Parameters]:
    """An operand and a result of one scale with the zero point 0."""
    scale, _ = parameters(random, format)
    return [(scale, 0)], (scale, 0)


@dataclass(frozen=True)
class Subject:
    """An operator on flat tensors.

    without   the numerics, or formats and numerics, that LiteRT has no kernel for or that qmlir does not follow
    negative  whether it is defined of negative numbers
    above     how far above the least integer two operands begin
    """

    kind: str
    draw: Draw
    formats: tuple[str, ...] = ("int8", "uint8")
    options: tuple[str, Mapping[str, Any]] = ("", MappingProxyType({}))
    version: int = 1
    without: tuple[str, ...] = ()
    negative: bool = True
    above: int = 0


ALL, SIGNED = ("int8", "uint8", "int16"), ("int8",)
ACT = "FusedActivationFunction"
SUBJECTS = (
    *(Subject("SUB", alike, ALL, ("SubOptions", {ACT: act})) for act in (0, 3)),
    *(Subject("ADD", alike, ALL, ("AddOptions", {ACT: act})) for act in (0, 3)),
    *(Subject("MUL", product, ALL, ("MulOptions", {ACT: act})) for act in (0, 1)),
    Subject("PRELU", product, ("int8", "uint8")),
    *(Subject(kind, equal, ALL, ("MaximumMinimumOptions", {})) for kind in ("MAXIMUM", "MINIMUM")),
    *(Subject(kind, single) for kind in ("RELU", "RELU6", "RELU_N1_TO_1")),
    Subject("LEAKY_RELU", single, options=("LeakyReluOptions", {"Alpha": 0.2})),
    Subject("HARD_SWISH", single, options=("HardSwishOptions", {})),
    Subject("ABS", single, SIGNED, ("AbsOptions", {})),
    Subject("NEG", symmetric, SIGNED, ("NegOptions", {})),
    Subject("EXP", single, SIGNED, ("ExpOptions", {})),
    Subject("LOG", single, SIGNED),
    Subject("SQRT", positive, SIGNED),
    Subject("DIV", quotient, options=("DivOptions", {ACT: 0}), version=2, above=1),
    Subject("RSQRT", single, SIGNED, version=2, negative=False),
    Subject("RSQRT", single, ("int16",), version=3, negative=False),
    Subject("SQUARED_DIFFERENCE", alike, SIGNED, ("SquaredDifferenceOptions", {}), 2),
    Subject("SQUARED_DIFFERENCE", square, SIGNED, ("SquaredDifferenceOptions", {}), 2),
    Subject("ELU", single, SIGNED, without=("litert-reference",)),
    *(Subject("GELU", single, options=("GeluOptions", {"Approximate": tanh})) for tanh in (False, True)),
    Subject("LOGISTIC", fixed(1 / 256, 0)),
    Subject("TANH", fixed(1 / 128, 128)),
)
CASES = [
    pytest.param(s, f, n, id=f"{s.kind} {dict(s.options[1]) or ''} {f} {n}")
    for s in SUBJECTS for f in s.formats for n in RESOLVERS if not {n, f"{f} {n}"} & {*s.without}
]  # fmt: skip


PROBABILITY = {"int8": (1 / 256, -128), "uint8": (1 / 256, 0), "int16": (1 / 32768, 0)}

SOFTMAX = ((2, 400), (12, 100), (101, 20))
"""Classes and rows."""


def agrees(data: bytes, numerics: str, x: np.ndarray, *, compiled: bool = False) -> np.ndarray:
    """Where LiteRT and the reference differ; the CPU's code must not differ from that."""
    module = load_tflite(data)
    follow(module, numerics)
    (want,) = run(interpreter(data, numerics), [x])
    (got,) = qmlir.reference(module).run({"x": x})
    if compiled:
        np.testing.assert_array_equal(qmlir.compile(module).run({"x": x})[0], got)
    return got != want


@pytest.mark.parametrize("numerics", RESOLVERS)
@pytest.mark.parametrize("format", ALL)
@pytest.mark.filterwarnings("ignore")
def test_softmax_equals_litert(format: str, numerics: str) -> None:
    """XNNPACK and the optimized kernels sum float32 numbers, qmlir exact ones: 1 of 10,000 may differ."""
    limits, random, differ, count = np.iinfo(format), np.random.default_rng(0), 0, 0
    for draw in range(3 * DRAWS):
        classes, rows = SOFTMAX[draw % 3]
        scale, zero = parameters(random, format)
        middle, half = (limits.min + limits.max + 1) // 2, limits.max // 2 + 1
        x = (
            random.normal(0, half / 5, (rows, classes))
            if draw % 2
            else random.uniform(-2 * half, 2 * half, (rows, classes))
        )
        x = np.clip(x + middle, limits.min, limits.max).astype(format)
        scale = scale / 200 if format == "int16" else scale
        tensors = [
            T("x", x.shape, format, None, [scale], [zero]),
            T("y", x.shape, format, None, [PROBABILITY[format][0]], [PROBABILITY[format][1]]),
        ]
        beta = (1.0, 0.5, 1.7)[draw % 3]
        data = model(tensors, [Op("SOFTMAX", [0], [1], "SoftmaxOptions", {"Beta": beta})], [0], [1])
        wrong = agrees(data, numerics, x, compiled=draw == 0)
        differ, count = differ + int(wrong.sum()), count + wrong.size
    assert differ <= (0 if numerics == "litert-reference" or format == "int16" else count // 10_000)


ALONG_ROWS = {
    "LOG_SOFTMAX": ("LogSoftmaxOptions", {}, {"int8": (16 / 256, 127), "uint8": (16 / 256, 255)}),
    "L2_NORMALIZATION": ("L2NormOptions", {}, {"int8": (1 / 128, 0), "uint8": (1 / 128, 128)}),
}
"""Operator → options, scale and zero point of its result."""


@pytest.mark.parametrize("numerics", RESOLVERS)
@pytest.mark.parametrize("format", ["int8", "uint8"])
@pytest.mark.parametrize("kind", ALONG_ROWS)
@pytest.mark.filterwarnings("ignore")
def test_normalizations_equal_litert(kind: str, format: str, numerics: str) -> None:
    """LiteRT's optimized kernels take logarithms in float32: 1 of 10,000 may differ."""
    limits, random, differ, count = np.iinfo(format), np.random.default_rng(0), 0, 0
    name, options, results = ALONG_ROWS[kind]
    for draw in range(3 * DRAWS):
        columns, rows = ((2, 400), (12, 100), (301, 20))[draw % 3]
        scale, zero = parameters(random, format)
        x = random.normal(random.uniform(limits.min, limits.max), (3, 20, 80)[draw % 3], (rows, columns))
        x = np.clip(np.rint(x), limits.min, limits.max).astype(format)
        x[0] = zero
        tensors = [
            T("x", x.shape, format, None, [scale], [zero]),
            T("y", x.shape, format, None, [results[format][0]], [results[format][1]]),
        ]
        data = model(tensors, [Op(kind, [0], [1], name, options)], [0], [1])
        wrong = agrees(data, numerics, x, compiled=draw == 0)
        differ, count = differ + int(wrong.sum()), count + wrong.size
    floats = kind == "LOG_SOFTMAX" and numerics != "litert-reference"
    assert differ <= (count // 10_000 if floats else 0)


@pytest.mark.parametrize("numerics", RESOLVERS)
@pytest.mark.parametrize("format", ALL)
@pytest.mark.parametrize("flags", [(False, False), (True, False), (False, True)], ids=str)
@pytest.mark.parametrize("kind", ["RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"])
@pytest.mark.filterwarnings("ignore")
def test_resize_equals_litert(kind: str, flags: tuple[bool, bool], format: str, numerics: str) -> None:
    limits, random = np.iinfo(format), np.random.default_rng(0)
    options = "ResizeBilinearOptions" if kind == "RESIZE_BILINEAR" else "ResizeNearestNeighborOptions"
    named: dict[str, bool] = {"AlignCorners": flags[0], "HalfPixelCenters": flags[1]}
    for draw in range(DRAWS):
        shape = (1, *random.integers(1, 12, 2).tolist(), int(random.choice([1, 4, 20])))
        size = [2 * n for n in shape[1:3]] if draw % 4 == 0 else random.integers(1, 24, 2).tolist()
        x = random.integers(limits.min, limits.max + 1, shape).astype(format)
        quantized = {"scale": [0.05], "zero": [0 if format == "int16" else 3]}
        tensors = [
            T("x", shape, format, **quantized),
            constant("size", size, np.int32),
            T("y", (1, *size, shape[3]), format, **quantized),
        ]
        data = model(tensors, [Op(kind, [0, 1], [2], options, named, 3)], [0], [2])
        assert not agrees(data, numerics, x, compiled=draw == 0).any()


def written(subject: Subject, format: str, of: list[Parameters], result: Parameters, size: int) -> bytes:
    """The file of one draw."""
    tensors = [T(f"x{i}", (1, size), format, None, [s], [z]) for i, (s, z) in enumerate(of)]
    tensors.append(T("y", (1, size), format, None, [result[0]], [result[1]]))
    op = Op(subject.kind, range(len(of)), [len(of)], *subject.options, subject.version)
    return model(tensors, [op], range(len(of)), [len(of)])


@pytest.mark.parametrize(("subject", "format", "numerics"), CASES)
@pytest.mark.filterwarnings("ignore")
def test_equals_litert(subject: Subject, format: str, numerics: str) -> None:
    limits, random = np.iinfo(format), np.random.default_rng(0)
    for draw in range(DRAWS):
        of, result = subject.draw(random, format)
        every = np.arange(limits.min, limits.max + 1).astype(format)[None] if len(of) == 1 else None
        if every is not None and not subject.negative:
            every = every[every >= of[0][1]][None]
        size = 4096 if every is None else every.size
        arrays = [random.integers(limits.min + subject.above, limits.max + 1, (1, size)).astype(format) for _ in of]
        inputs = arrays if every is None else [every]
        data = written(subject, format, of, result, size)
        module = load_tflite(data)
        follow(module, numerics)
        (want,) = run(interpreter(data, numerics), inputs)
        meaning = qmlir.reference(module)
        named = dict(zip([s.name for s in meaning.signature.inputs], inputs, strict=True))
        (got,) = meaning.run(named)
        np.testing.assert_array_equal(got, want, f"{of} {result}")
        if draw == 0:
            np.testing.assert_array_equal(qmlir.compile(module).run(named)[0], got)
