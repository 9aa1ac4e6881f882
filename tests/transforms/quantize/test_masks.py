"""Attention that masks: scores keep their digits, and what is masked has no weight, however the mask is written."""

from pathlib import Path

import numpy as np
import pytest

import qmlir
from tests.conftest import crossed
from tests.transforms.quantize.calibrated import Array, parsed

X = np.random.default_rng(3).normal(0, 1.5, (32, 1, 8, 8)).astype(np.float32)
KEEP = np.tril(np.ones((8, 8), bool))


def network(number: str, way: str) -> str:
    """softmax(scores + mask) of 8 scores a row, with a constant mask, one chosen at run time, or scores replaced."""
    masks = ", ".join("0.0" if keep else number for keep in KEEP.ravel())
    bits = ", ".join("true" if keep else "false" for keep in KEEP.ravel())
    two, scalar = "tensor<8x8xf32>", "tensor<f32>"
    three = "tensor<1x8x8xf32>"
    lines = {
        "constant": f"""
  %m = nn.constant <{two}, [{masks}]> : {two}
  %s = nn.add %y, %m : {three}, {two} -> {three}""",
        "product": f"""
  %drop = nn.constant <{two}, [{", ".join("0.0" if keep else "1.0" for keep in KEEP.ravel())}]> : {two}
  %zero = nn.mul %x, %none : {three}, {scalar} -> {three}
  %given = nn.add %zero, %drop : {three}, {two} -> {three}
  %number = nn.constant <{scalar}, [{number}]> : {scalar}
  %m = nn.mul %given, %number : {three}, {scalar} -> {three}
  %s = nn.add %y, %m : {three}, {three} -> {three}""",
        "replaced": f"""
  %keep = nn.constant <tensor<8x8xi1>, [{bits}]> : tensor<8x8xi1>
  %number = nn.constant <{scalar}, [{number}]> : {scalar}
  %s = nn.where %keep, %y, %number : tensor<8x8xi1>, {three}, {scalar} -> {three}""",
    }
    return f"""
func.func @main(%x: {three}) -> {three} {{
  %none = nn.constant <{scalar}, [0.0]> : {scalar}
  %y = nn.abs %x : {three} -> {three}{lines[way]}
  %p = nn.softmax %s {{axis = 2 : i64}} : {three} -> {three}
  func.return %p : {three}
}}
"""


@crossed(
    {
        "way": ["constant", "product", "replaced"],
        "number": ["0xFF800000", "-3.4028234663852886E+38", "-1.0E+09", "-1.0E+04"],
    }
)
def test_masked_softmax(number: str, way: str, tmp_path: Path) -> None:
    if way == "product" and number == "0xFF800000":
        number = "-1.0E+30"  # 0 times infinity is NaN
    path = tmp_path / "net.mlir"
    path.write_text(network(number, way))
    module = qmlir.load(path)
    scores = np.where(KEEP, np.abs(X), -np.inf)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    expected = e / e.sum(axis=-1, keepdims=True)
    quantized = qmlir.quantize(module, data=list(X))
    reference, compiled = qmlir.reference(quantized), qmlir.compile(quantized)
    for x, y in zip(X, expected, strict=True):
        found = reference(x)
        assert np.array_equal(compiled(x), found)
        assert (found[..., ~KEEP] == 0).all()
        assert np.abs(found - y).max() < 0.02


@crossed(
    {"way": ["constant", "product", "replaced"], "calibration": ["mse", "percentile", "aciq", "kl", "moving_average"]}
)
def test_calibrations_leave_masks_whole(calibration: str, way: str, tmp_path: Path) -> None:
    """The ranges of masks follow from those of the scores: no data are counted of them, and none are cut off."""
    path = tmp_path / "net.mlir"
    path.write_text(network("-1.0E+09", way))
    quantized = qmlir.quantize(path, data=list(X), calibration=calibration)
    assert all(entry.outcome == "quantized" for entry in qmlir.decisions(quantized))
    run = qmlir.compile(quantized)
    assert all((run(x)[..., ~KEEP] == 0).all() for x in X)


DISTANCE = np.subtract.outer(np.arange(8), np.arange(8))

BIASES = {
    "above 0": np.random.default_rng(4).uniform(-2, 6, (8, 8)),
    "far below 0": np.random.default_rng(5).uniform(-60, -50, (8, 8)),
    "slopes": -100.0 * np.abs(DISTANCE),
    "a high row": np.where(np.arange(8)[:, None] == 3, 25.0, -1.0) + np.zeros((8, 8)),
}
"""Numbers that a mask adds to the scores that it keeps; each row has its own."""


def biased(number: str, way: str, biases: Array) -> str:
    """softmax(scores + (biases where scores are kept, else the number)): constant, a sum, or chosen at run time."""
    two, three, scalar = "tensor<8x8xf32>", "tensor<1x8x8xf32>", "tensor<f32>"
    masks = ", ".join(repr(float(b)) if keep else number for keep, b in zip(KEEP.ravel(), biases.ravel(), strict=True))
    at_run_time = f"""
  %none = nn.constant <{scalar}, [0.0]> : {scalar}
  %drop = nn.constant <{two}, [{", ".join("0.0" if keep else "1.0" for keep in KEEP.ravel())}]> : {two}
  %zero = nn.mul %x, %none : {three}, {scalar} -> {three}
  %given = nn.add %zero, %drop : {three}, {two} -> {three}
  %number = nn.constant <{scalar}, [{number}]> : {scalar}
  %biases = nn.constant <{two}, [{", ".join(map(repr, biases.ravel().tolist()))}]> : {two}"""
    lines = {
        "constant": f"""
  %m = nn.constant <{two}, [{masks}]> : {two}
  %s = nn.add %y, %m : {three}, {two} -> {three}""",
        "sum": f"""{at_run_time}
  %mask = nn.mul %given, %number : {three}, {scalar} -> {three}
  %m = nn.add %mask, %biases : {three}, {two} -> {three}
  %s = nn.add %y, %m : {three}, {three} -> {three}""",
        "chosen": f"""{at_run_time}
  %half = nn.constant <{scalar}, [0.5]> : {scalar}
  %keep = nn.less %given, %half : {three}, {scalar} -> tensor<1x8x8xi1>
  %m = nn.where %keep, %biases, %number : tensor<1x8x8xi1>, {two}, {scalar} -> {three}
  %s = nn.add %y, %m : {three}, {three} -> {three}""",
    }
    return f"""
func.func @main(%x: {three}) -> {three} {{
  %y = nn.abs %x : {three} -> {three}{lines[way]}
  %p = nn.softmax %s {{axis = 2 : i64}} : {three} -> {three}
  func.return %p : {three}
}}
"""


@pytest.mark.parametrize("way", ["constant", "sum", "chosen"])
@pytest.mark.parametrize("kind", BIASES)
def test_biases_of_kept_scores(kind: str, way: str) -> None:
    """What a mask adds to the scores that it keeps is in the range of the masked scores, where it counts."""
    scores = np.where(KEEP, np.abs(X) + BIASES[kind], -np.inf)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    expected = e / e.sum(axis=-1, keepdims=True)
    module = parsed(biased("-1.0E+09", way, BIASES[kind]))
    run = qmlir.reference(qmlir.quantize(module, data=list(X), precision="int16"))
    for x, y in zip(X, expected, strict=True):
        found = run(x)
        assert (found[..., ~KEEP] == 0).all()
        assert np.abs(found - y).max() < (0.008 if kind == "slopes" and way != "constant" else 0.002)


@pytest.mark.parametrize("kind", ["above 0", "far below 0"])
def test_biases_of_a_search(kind: str) -> None:
    """The greatest of masked scores with biases is found; what is masked is not."""
    two, three, largest = "tensor<8x8xf32>", "tensor<1x8x8xf32>", "tensor<1x8x1xf32>"
    masks = np.where(KEEP, BIASES[kind], -1e9).ravel().tolist()
    module = parsed(f"""
func.func @main(%x: {three}) -> {largest} {{
  %y = nn.abs %x : {three} -> {three}
  %m = nn.constant <{two}, [{", ".join(map(repr, masks))}]> : {two}
  %s = nn.add %y, %m : {three}, {two} -> {three}
  %p = nn.reduce_max %s {{axes = array<i64: 2>}} : {three} -> {largest}
  func.return %p : {largest}
}}""")
    run = qmlir.reference(qmlir.quantize(module, data=list(X)))
    for x in X:
        expected = np.where(KEEP, np.abs(x) + BIASES[kind], -np.inf).max(axis=-1, keepdims=True)
        assert np.abs(run(x) - expected).max() < 0.4  # two steps of a mask of 60
