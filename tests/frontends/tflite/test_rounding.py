"""Operators on integers under each of LiteRT's numerics: bit for bit, with scales that make ties and with others."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

import qmlir
from qmlir.compiler import to_integers
from qmlir.frontends.tflite import load_tflite
from qmlir.frontends.tflite.reader import read_model
from qmlir.policies.ledger import decisions
from qmlir.policies.runtimes import follow
from tests.conftest import THOROUGH, crossed
from tests.frontends.tflite.files import RESOLVERS, Op, T, constant, interpreter, model, run

Parameters = tuple[float, int]
Draw = Callable[[np.random.Generator, str], tuple[list[Parameters], Parameters]]

TIES = (0.25, 0.5, 1, 1.5, 0.75, 1 / 3, 2, 3)
"""Ratios of scales with which results fall between two integers, and one more."""

DRAWS = 8 if THOROUGH else 3
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
    """Two operands and the scale of their quotient, which may be less than a step: LiteRT then shifts by too much."""
    (left, right), (_, point) = alike(random, format)
    spread = 2.0 ** random.integers(-10, 3)
    return [left, right], (float(np.float32(left[0] / right[0] * spread)), point)


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
    divides   whether the second operand is never 0
    """

    kind: str
    draw: Draw
    formats: tuple[str, ...] = ("int8", "uint8")
    options: tuple[str, Mapping[str, Any]] = ("", MappingProxyType({}))
    version: int = 1
    without: tuple[str, ...] = ()
    negative: bool = True
    divides: bool = False


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
    *(Subject("DIV", quotient, ALL, ("DivOptions", {ACT: act}), 2, divides=True) for act in (0, 3)),
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


@crossed({"kind": ALONG_ROWS, "format": ["int8", "uint8"], "numerics": RESOLVERS})
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


@crossed(
    {
        "kind": ["RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"],
        "flags": [(False, False), (True, False), (False, True)],
        "format": ALL,
        "numerics": RESOLVERS,
    },
    turns=6,
)
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
        arrays = [random.integers(limits.min, limits.max + 1, (1, size)).astype(format) for _ in of]
        if subject.divides:
            arrays[0][:, :100] = of[0][1]
            arrays[1][arrays[1] == of[1][1]] = of[1][1] + (1 if of[1][1] < limits.max else -1)
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


COMPARED = ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL")


def comparison(kind: str, format: str, random: np.random.Generator) -> tuple[bytes, dict[str, np.ndarray]]:
    """A file that compares all pairs of some integers, and these; half of the files have one scale for both."""
    limits = np.iinfo(format)
    scales = (10 ** random.uniform(-6, 1.5, 2)).astype(np.float32)
    points = random.integers(limits.min, limits.max + 1, 2) if format != "int16" else [0, 0]
    if random.random() < 0.5:
        scales[1] = scales[0]
    if random.random() < 0.5:
        points[1] = points[0]
    shapes = [(64, 1), (1, 64)]
    tensors = [
        T(name, shape, format, None, [float(scale)], [int(point)])
        for name, shape, scale, point in zip("ab", shapes, scales, points, strict=True)
    ]
    name = "".join(word.capitalize() for word in kind.split("_"))
    version = 3 if format == "int16" and kind in ("EQUAL", "NOT_EQUAL") else 2
    data = model([*tensors, T("y", (64, 64), np.bool_)], [Op(kind, [0, 1], [2], f"{name}Options", {}, version)], [0, 1],
                 [2])  # fmt: skip
    feed = {n: random.integers(limits.min, limits.max + 1, s).astype(format) for n, s in zip("ab", shapes, strict=True)}
    return data, feed


@crossed({"kind": COMPARED, "format": ALL, "numerics": RESOLVERS})
def test_comparisons_equal_litert(kind: str, format: str, numerics: str, tmp_path: Path) -> None:
    """Of scales from 10⁻⁶ to 30: compared are rounded steps of 1/256, signs alone from a scale of 1."""
    random = np.random.default_rng(0)
    for draw in range(2 * DRAWS):
        data, feed = comparison(kind, format, random)
        module = load_tflite(data)
        follow(module, numerics)
        (want,) = run(interpreter(data, numerics), list(feed.values()))
        (got,) = qmlir.reference(module).run(feed)
        np.testing.assert_array_equal(got, want)
        if draw == 0 and numerics == "litert-reference" and kind in ("EQUAL", "GREATER"):
            np.testing.assert_array_equal(qmlir.compile(module).run(feed)[0], got)
            qmlir.save(module, tmp_path / "saved.mlir")
            np.testing.assert_array_equal(qmlir.reference(qmlir.load(tmp_path / "saved.mlir")).run(feed)[0], got)


@pytest.mark.parametrize("format", ALL)
def test_comparisons_are_written_as_they_were_read(format: str, tmp_path: Path) -> None:
    data, feed = comparison("GREATER", format, np.random.default_rng(2))
    path = tmp_path / "written.tflite"
    module = load_tflite(data)
    follow(module, "litert-reference")
    assert [(e.operation, e.outcome, e.code) for e in decisions(to_integers(module))] == [
        ("nn.less", "quantized", "compared")
    ]
    qmlir.export(module, path, format="tflite")
    assert [o.kind for o in read_model(path).subgraphs[0].operators] == ["LESS"]
    (want,) = run(interpreter(data, "litert-reference"), list(feed.values()))
    (got,) = run(interpreter(path.read_bytes(), "litert-reference"), list(feed.values()))
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("format", ALL)
def test_comparisons_behind_casts_compare_floats(format: str) -> None:
    """Under the same numerics: the file has a DEQUANTIZE for each side."""
    random = np.random.default_rng(3)
    limits, scale = np.iinfo(format), 1e-4
    x = {n: random.integers(limits.min, limits.max + 1, (32,)).astype(format) for n in "ab"}
    tensors = [T(n, (32,), format, None, [scale], [0]) for n in "ab"]
    tensors += [T("c", (32,)), T("d", (32,)), T("y", (32,), np.bool_)]
    ops = [Op("DEQUANTIZE", [0], [2]), Op("DEQUANTIZE", [1], [3]), Op("LESS", [2, 3], [4], "LessOptions")]
    data = model(tensors, ops, [0, 1], [4])
    module = load_tflite(data)
    follow(module, "litert-reference")
    (want,) = run(interpreter(data, "litert-reference"), list(x.values()))
    np.testing.assert_array_equal(qmlir.reference(module).run(x)[0], want)
    np.testing.assert_array_equal(want, x["a"] < x["b"])
