"""Concatenations whose parts have other scales than the result, in all three ways of LiteRT's and by default."""

from pathlib import Path

import numpy as np
import pytest

import qmlir
from qmlir.frontends.tflite import load_tflite
from qmlir.policies.runtimes import follow
from tests.frontends.tflite.files import RESOLVERS, Op, T, constant, interpreter, model, run

ROWS = (16, 16)


def joined(random: np.random.Generator, format: str) -> tuple[bytes, list[tuple[float, int]]]:
    """A file that joins an input, itself once more, another input and a constant.

    Also the scales and zero points of the inputs, the constant and the result.
    """
    limits = np.iinfo(format)
    first = 10 ** random.uniform(-3, -0.5)
    scales = [float(np.float32(first * 2 ** random.uniform(-2, 2))) for _ in range(4)]
    points = [int(random.integers(0, 256)) if format == "uint8" else 0 for _ in scales]
    parameters = list(zip(scales, points, strict=True))
    x, y, c, z = ({"scale": [s], "zero": [p]} for s, p in parameters)
    held = random.integers(limits.min, limits.max + 1, ROWS).astype(format)
    tensors = [T("x", ROWS, format, **x), T("y", ROWS, format, **y), constant("c", held, **c)]
    tensors.append(T("z", (16, 64), format, **z))
    op = Op("CONCATENATION", [0, 0, 1, 2], [3], "ConcatenationOptions", {"Axis": 1})
    return model(tensors, [op], [0, 1], [3]), parameters


def elements(random: np.random.Generator, format: str) -> list[np.ndarray]:
    """Every byte, or some numbers of 16 bits, for each input."""
    if format == "uint8":
        return [random.permutation(256).astype(np.uint8).reshape(ROWS) for _ in range(2)]
    return [random.integers(-(1 << 15), 1 << 15, ROWS).astype(np.int16) for _ in range(2)]


@pytest.mark.parametrize("numerics", RESOLVERS)
@pytest.mark.parametrize("format", ["uint8", "int16"])
def test_the_integers_are_litert_s(format: str, numerics: str, tmp_path: Path) -> None:
    """On the CPU too, and in the file that is written of it."""
    random = np.random.default_rng(0)
    for draw in range(6):
        data, parameters = joined(random, format)
        inputs = elements(random, format)
        module = load_tflite(data)
        follow(module, numerics)
        named = dict(zip("xy", inputs, strict=True))
        (want,) = run(interpreter(data, numerics), inputs)
        np.testing.assert_array_equal(qmlir.reference(module).run(named)[0], want, str(parameters))
        if draw == 0:
            np.testing.assert_array_equal(qmlir.compile(module).run(named)[0], want)
            qmlir.export(module, tmp_path / "again.tflite", format="tflite")
            (again,) = run(interpreter(str(tmp_path / "again.tflite"), numerics), inputs)
            np.testing.assert_array_equal(again, want)


@pytest.mark.parametrize("format", ["uint8", "int16"])
def test_by_default_it_is_one_of_real_numbers(format: str) -> None:
    random = np.random.default_rng(1)
    data, (first, second, _, (scale, point)) = joined(random, format)
    inputs = elements(random, format)
    (got,) = qmlir.reference(load_tflite(data)).run(dict(zip("xy", inputs, strict=True)))
    limits = np.iinfo(format)
    for x, columns, own in ((inputs[0], slice(16), first), (inputs[1], slice(32, 48), second)):
        real = (x.astype(np.float64) - own[1]) * own[0]
        near = np.clip(np.rint(real / scale) + point, limits.min, limits.max)
        assert np.abs(got[:, columns] - near).max() <= 1
