"""The distances of a quantized network's tensors from the float network's."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.analysis.tensors import RANKINGS, Distance, TensorError, analyze, ranked
from qmlir.cli.analyzing import RANKINGS as OPTIONS
from qmlir.compiler import Pipeline
from qmlir.errors import QmlirError, QmlirWarning
from tests.cli.small import write_small
from tests.transforms.quantize.calibrated import parsed

Array = npt.NDArray[Any]

TEXT = """
func.func @main(%x: tensor<1x4xf32> {qmlir.name = #qmlir.name<tensors ["x"]>}) -> tensor<1x4xf32> {
  calib.observe %x {name = "x", range = [-RANGE, 0.9921875]} : tensor<1x4xf32>
  %w = nn.constant <tensor<4x4xf32>, [1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0]> : tensor<4x4xf32>
  %0 = nn.fully_connected %x, %w {qmlir.name = #qmlir.name<tensors ["same"]>} : tensor<1x4xf32>, tensor<4x4xf32> -> tensor<1x4xf32>
  calib.observe %0 {name = "same", range = [-1.0, 1.0]} : tensor<1x4xf32>
  %2 = nn.relu %0 {qmlir.name = #qmlir.name<tensors ["r"]>} : tensor<1x4xf32> -> tensor<1x4xf32>
  calib.observe %2 {name = "r", range = [0.0, 1.0]} : tensor<1x4xf32>
  %4 = nn.cumulative_sum %2 {axis = 1 : i64, qmlir.name = #qmlir.name<tensors ["p"]>} : tensor<1x4xf32> -> tensor<1x4xf32>
  func.return %4 : tensor<1x4xf32>
}
"""  # noqa: E501
SAMPLES = [np.array([v], np.float32) for v in ([0.5, -0.25, 0.75, 0.0], [0.3, 0.111, -0.7, 0.9])]


def analyzed(reach: str = "1.0", samples: list[Array] = SAMPLES) -> dict[str, TensorError]:
    float_network, quantized = parsed(TEXT.replace("RANGE", reach)), parsed(TEXT.replace("RANGE", reach))
    return {r.tensor: r for r in analyze(float_network, qmlir.quantize(quantized), samples)}


def test_the_error_of_each_operation_and_of_all_before_it() -> None:
    rows = analyzed("100.0")  # the input gets steps of 0.4, which all others inherit
    assert list(rows) == ["x", "same", "r", "p"]
    assert rows["x"].operation == "input"
    assert rows["x"].isolated_sqnr == rows["x"].cumulative_sqnr < 20
    assert rows["same"].isolated_sqnr is not None
    assert rows["same"].isolated_sqnr < 20  # it reads the input in those steps
    assert rows["r"].isolated_sqnr is not None
    assert rows["r"].isolated_sqnr > 35 > 20 > rows["r"].cumulative_sqnr  # what it inherits is not its own
    assert rows["p"].operation == "nn.cumulative_sum"
    assert rows["p"].isolated_sqnr is None  # no operation on integers makes it


def moved(relu: str) -> str:
    """The network with a relu between transposes, which simplifying takes away."""
    old = """%2 = nn.relu %0 {qmlir.name = #qmlir.name<tensors ["r"]>} : tensor<1x4xf32> -> tensor<1x4xf32>
  calib.observe %2 {name = "r", range = [0.0, 1.0]} : tensor<1x4xf32>"""
    assert old in relu
    return relu.replace(
        old,
        """%1 = nn.transpose %0 {permutation = array<i64: 1, 0>} : tensor<1x4xf32> -> tensor<4x1xf32>
  %t = nn.relu %1 {qmlir.name = #qmlir.name<tensors ["r"]>} : tensor<4x1xf32> -> tensor<4x1xf32>
  calib.observe %t {name = "r", range = [0.0, 1.0]} : tensor<4x1xf32>
  %2 = nn.transpose %t {permutation = array<i64: 1, 0>} : tensor<4x1xf32> -> tensor<1x4xf32>""",
    )


def test_what_was_quantized_as_it_came_is_compared_so() -> None:
    text = moved(TEXT.replace("RANGE", "100.0"))
    rows = {r.tensor: r for r in analyze(parsed(text), qmlir.quantize(parsed(text)), SAMPLES)}
    assert rows == analyzed("100.0")


def test_a_square_tensor_is_compared_in_the_layout_that_was_quantized() -> None:
    """Its shape is the same in both layouts, so only what computes it says which one it has."""
    text = """
func.func @main(%x: tensor<2x2xf32> {qmlir.name = #qmlir.name<tensors ["x"]>}) -> tensor<2x2xf32> {
  calib.observe %x {name = "x", range = [-1.0, 0.9921875]} : tensor<2x2xf32>
  %0 = nn.transpose %x {permutation = array<i64: 1, 0>} : tensor<2x2xf32> -> tensor<2x2xf32>
  %1 = nn.tanh %0 {qmlir.name = #qmlir.name<tensors ["t"]>} : tensor<2x2xf32> -> tensor<2x2xf32>
  %2 = nn.transpose %1 {permutation = array<i64: 1, 0>} : tensor<2x2xf32> -> tensor<2x2xf32>
  func.return %2 : tensor<2x2xf32>
}
"""
    sample = np.array([[0.5, -0.75], [0.125, 0.25]], np.float32)
    for original in (parsed(text), Pipeline("simplify")(parsed(text))):
        rows = {r.tensor: r for r in analyze(parsed(text), qmlir.quantize(original), [sample])}
        assert rows["t"].cumulative_sqnr > 35


def test_tensors_whose_shapes_differ_are_named() -> None:
    text = TEXT.replace("RANGE", "1.0")
    with pytest.warns(QmlirWarning, match="^not compared, as their shapes differ between the two networks: r$"):
        rows = analyze(parsed(text), qmlir.quantize(parsed(moved(text))), SAMPLES)
    assert [row.tensor for row in rows] == ["x", "same", "p"]


def test_figures_against_numpy() -> None:
    rows = analyzed()
    x = np.concatenate(SAMPLES).astype(np.float64)
    stored = np.clip(np.rint(x * 128), -128, 127) / 128
    np.testing.assert_allclose(rows["x"].cumulative_sqnr, 10 * np.log10((x**2).sum() / ((stored - x) ** 2).sum()))
    cosine = (x * stored).sum() / np.sqrt((x**2).sum() * (stored**2).sum())
    np.testing.assert_allclose(rows["x"].cumulative_cosine, cosine)


def test_nothing_differs() -> None:
    assert analyzed(samples=[np.array([[0.5, -0.25, 0.75, 0.0]], np.float32)])["x"].cumulative_sqnr == math.inf
    assert analyzed(samples=[np.zeros((1, 4), np.float32)])["x"].as_dict()["cumulative_sqnr"] is None


@pytest.mark.parametrize(
    ("f", "q", "sqnr", "cosine"),
    [
        ([0.0], [0.0], math.inf, 1.0),
        ([0.0], [1.0], -math.inf, 0.0),
        ([1.0], [-1.0], -6.0206, -1.0),
        ([1, 0], [0, 1], -3.0103, 0),
    ],
)
def test_distances(f: list[float], q: list[float], sqnr: float, cosine: float) -> None:
    distance = Distance()
    distance.update(np.array(f), np.array(q))
    assert distance.sqnr == pytest.approx(sqnr, abs=1e-4)
    assert distance.cosine == cosine


def test_rankings() -> None:
    rows = list(analyzed("100.0").values())
    first, *_, last = ranked(rows)
    assert (first.tensor in ("x", "same"), last.tensor) == (True, "p")
    assert [r.cumulative_sqnr for r in ranked(rows, "cumulative")] == sorted(r.cumulative_sqnr for r in rows)
    assert ranked(rows, "order") == rows
    assert RANKINGS == OPTIONS


@pytest.mark.slow
def test_an_imported_network(tmp_path: Path) -> None:
    """Its transposes and reshapes have no names; the operations around them are taken apart all the same."""
    small = write_small(tmp_path)
    module = qmlir.load(small.onnx)
    samples = list(small.samples[:, None])
    rows = analyze(module, qmlir.quantize(module, qmlir.profile(module, samples)), samples)
    assert [r.tensor for r in rows] == ["image", "active", "pooled", "scores"]
    assert all(r.isolated_sqnr is not None and r.isolated_sqnr > 35 for r in rows)
    wide = qmlir.Policy.of({"rules": [{"name": "conv1", "precision": "int16", "weight-precision": "int8"}]})
    mixed = analyze(module, qmlir.quantize(module, qmlir.profile(module, samples), policy=wide), samples)
    assert [r.tensor for r in mixed] == [r.tensor for r in rows]
    assert all(r.isolated_sqnr is not None for r in mixed)


def test_equalized_channels_are_no_error(tmp_path: Path) -> None:
    small = write_small(tmp_path)
    module, samples = parsed(EQUALIZED), list(small.samples[:, None, 0, 0, :4])
    quantized = qmlir.quantize(module, qmlir.profile(module, samples), data=samples)
    assert "qmlir.channel_factors" in str(quantized)
    rows = {r.tensor: r for r in analyze(module, quantized, samples)}
    assert rows["h"].isolated_sqnr is not None
    assert min(rows["h"].isolated_sqnr, rows["h"].cumulative_sqnr) > 30
    assert rows["y"].isolated_sqnr is not None
    assert min(rows["y"].isolated_sqnr, rows["y"].cumulative_sqnr) > 25


EQUALIZED = """
func.func @main(%x: tensor<1x4xf32> {qmlir.name = #qmlir.name<tensors ["x"]>}) -> tensor<1x2xf32> {
  %w = nn.constant <tensor<2x4xf32>, [1.0, 0.5, -0.25, 0.75, 0.01, 0.02, -0.01, 0.005]> : tensor<2x4xf32>
  %0 = nn.fully_connected %x, %w {qmlir.name = #qmlir.name<tensors ["h"]>} : tensor<1x4xf32>, tensor<2x4xf32> -> tensor<1x2xf32>
  %v = nn.constant <tensor<2x2xf32>, [1.0, 20.0, 0.5, -10.0]> : tensor<2x2xf32>
  %1 = nn.fully_connected %0, %v {qmlir.name = #qmlir.name<tensors ["y"]>} : tensor<1x2xf32>, tensor<2x2xf32> -> tensor<1x2xf32>
  func.return %1 : tensor<1x2xf32>
}
"""  # noqa: E501


@pytest.mark.parametrize("which", ["other names", "float"])
def test_networks_that_are_not_of_each_other(which: str) -> None:
    module = parsed(TEXT.replace("RANGE", "1.0"))
    other: ModuleOp = qmlir.quantize(module) if which == "other names" else module
    renamed = parsed(TEXT.replace("RANGE", "1.0").replace('tensors ["', 'tensors ["other_'))
    with pytest.raises(
        QmlirError, match=r"must have tensors of the same names, got (none in common|one that was never)"
    ):
        analyze(renamed if which == "other names" else module, other, SAMPLES)


def test_no_samples() -> None:
    with pytest.raises(QmlirError, match="needs at least one sample"):
        analyzed(samples=[])
