"""Means and sums of quantized tensors along any axes: LiteRT's integers, in each of its three ways."""

from pathlib import Path

import numpy as np
import pytest

import qmlir
from tests.conftest import crossed
from tests.frontends.tflite.files import RESOLVERS, Op, T, constant, interpreter, model, run

pytestmark = pytest.mark.filterwarnings("ignore")

# Images of whole vectors of 16 channels: beyond the last, LiteRT's optimized kernel rounds as its reference.
SHAPES = (
    ((1, 7, 7, 64), (1, 2)),
    ((2, 6, 5, 48), (2, 1)),
    ((40, 9), (-1,)),
    ((5, 8, 9), (0, 2)),
    ((3, 7, 5, 6), (1, 2, 3)),
)
FORMATS = (np.int8, np.uint8, np.int16)
DRAWS = 4


def file(operator: str, shape: tuple[int, ...], axes: tuple[int, ...], keep: bool, format: type, seed: int) -> bytes:
    """A model of one operator, whose results fill the range of its output."""
    random, limits = np.random.default_rng(seed), np.iinfo(format)
    over = [axis % len(shape) for axis in axes]
    count = float(np.prod([shape[axis] for axis in over]))
    kept = [1 if i in over else size for i, size in enumerate(shape) if keep or i not in over]
    scale = float(np.float32(random.uniform(0.01, 0.1)))
    ratio = random.uniform(1, 2) / np.sqrt(count) if operator == "MEAN" else random.uniform(1, 2) * np.sqrt(count)
    points = (0, 0) if format == np.int16 else random.integers(limits.min, limits.max + 1, 2).tolist()
    tensors = [
        T("x", shape, format, scale=[scale], zero=[points[0]]),
        constant("axes", axes, np.int32),
        T("y", kept, format, scale=[float(np.float32(scale * ratio))], zero=[points[1]]),
    ]
    return model(tensors, [Op(operator, [0, 1], [2], "ReducerOptions", {"KeepDims": keep}, 2)], [0], [2])


@crossed(
    {
        "operator": ["MEAN", "SUM"],
        "shape, axes": SHAPES,
        "keep": [True, False],
        "format": FORMATS,
        "numerics": RESOLVERS,
    },
    turns=12,
)
def test_the_integers_are_litert_s(
    operator: str,
    shape: tuple[int, ...],
    axes: tuple[int, ...],
    keep: bool,
    format: type,
    numerics: str,
    tmp_path: Path,
) -> None:
    signed_sum = operator == "SUM" and format != np.uint8
    if signed_sum and numerics == "litert-reference":
        pytest.skip("LiteRT's reference adds the stored integers and wraps around")
    limits = np.iinfo(format)
    for seed in range(DRAWS):
        data = file(operator, shape, axes, keep, format, seed)
        (tmp_path / "m.tflite").write_bytes(data)
        module = qmlir.load(tmp_path / "m.tflite", numerics=numerics)
        assert not [d for d in qmlir.decisions(qmlir.to_integers(module)) if d.outcome == "float"]
        x = np.random.default_rng(seed).integers(limits.min, limits.max + 1, shape).astype(format)
        (want,), (got,) = run(interpreter(data, numerics), [x]), qmlir.reference(module).run(x)
        apart = np.abs(want.astype(int) - got.astype(int))
        # LiteRT computes these sums in float32, half away from zero.
        assert apart.max() <= (1 if signed_sum else 0)
        assert np.count_nonzero(apart) <= apart.size / 100
