"""Scores of a float and a quantized network: what is lost and won, ties, logits before a softmax, own metrics."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qmlir
from qmlir.analysis.scores import score, scored, sqnr
from qmlir.errors import OptionError, QmlirError
from tests.backends.quantized_text import network


def test_ranks_and_ties() -> None:
    """Of equal logits, the first is arg-max's; the second of two is right by half."""
    logits = np.array([[3, 3, 1, 0, 0, 0, 0], [3, 3, 1, 0, 0, 0, 0], [9, 8, 7, 6, 5, 4, 3], [9, 8, 7, 6, 5, 5, 3]])
    found = scored(logits, np.array([0, 1, 5, 5]))
    assert (found.top1, found.top5, found.tied, found.shared) == (1, 2, 2, 1.0)


def test_noise_without_offsets() -> None:
    truth = np.random.default_rng(0).normal(size=(4, 5))
    assert sqnr(truth, truth + np.arange(4.0)[:, None]) > 200
    assert sqnr(truth, truth) == float("inf")
    noisy = truth + np.array([0.1, -0.1, 0, 0, 0])
    expected = 10 * np.log10(((truth - truth.mean(1, keepdims=True)) ** 2).sum() / (4 * 0.02))
    assert sqnr(truth, noisy) == pytest.approx(expected)


TEXT = """
  func.func @main(%x: tensor<1x4xf32> {qmlir.name = #qmlir.name<tensors ["x"]>}) -> tensor<1x3xf32> {
    %w = nn.constant <tensor<3x4xf32>, [9.0, 0.0, 0.0, 0.1, 0.0, 9.0, 0.0, 0.2, 0.0, 0.0, 9.0, 0.3]> : tensor<3x4xf32>
    %z = nn.fully_connected %x, %w {qmlir.name = #qmlir.name<tensors ["z"]>}
       : tensor<1x4xf32>, tensor<3x4xf32> -> tensor<1x3xf32>
    %y = nn.softmax %z {axis = 1 : i64, qmlir.name = #qmlir.name<tensors ["y"]>} : tensor<1x3xf32> -> tensor<1x3xf32>
    func.return %y : tensor<1x3xf32>
  }"""

SAMPLES = [np.random.default_rng(i).normal(size=(1, 4)).astype(np.float32) for i in range(40)]
SAMPLES[:2] = [np.array([[4.0, 3.0, 0, 0]], np.float32), np.array([[3.9, 4.0, 0, 0]], np.float32)]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A float network that ends in a softmax, and the same in few bits, as files."""
    folder = tmp_path_factory.mktemp("pair")
    module = network(TEXT)
    qmlir.save(module, folder / "float.mlir")
    quantized = qmlir.quantize(module, data=SAMPLES, weight_precision="int3", rounding="nearest")
    qmlir.save(quantized, folder / "quantized.mlir")
    return folder / "float.mlir", folder / "quantized.mlir"


def test_logits_before_a_softmax(pair: tuple[Path, Path]) -> None:
    """With the float network's own classes as labels, it is right everywhere, and what differs is lost."""
    logits = np.stack([9 * x[0, :3] + x[0, 3] * np.array([0.1, 0.2, 0.3]) for x in SAMPLES])
    labels = logits.argmax(1)
    seen: list[Any] = []

    def metric(outputs: Any, given: Any) -> float:
        seen.append((outputs.shape, np.array_equal(given, labels)))
        return float(outputs.sum())

    found = score(*pair, SAMPLES, labels, metric=metric)
    assert (found.samples, found.original.top1, found.original.tied, found.won) == (40, 40, 0, 0)
    assert found.quantized.top1 == found.agreeing == 40 - (found.lost or 0)
    assert 0 < (found.sqnr or 0) < 60
    assert seen == [((40, 1, 3), True)] * 2
    assert found.original.metric == pytest.approx(40, abs=1e-4)
    assert found.as_dict()["original"]["top5"] == 40


@pytest.mark.slow
def test_what_cannot_be_scored(pair: tuple[Path, Path]) -> None:
    labels = [0] * len(SAMPLES)
    with pytest.raises(OptionError, match="labels: must be a class of the network, from 0 to 2, got 3; count classes"):
        score(*pair, SAMPLES, [3, *labels[1:]])
    with pytest.raises(OptionError, match="labels: must be as many as samples, at least one, got 39 for 40"):
        score(*pair, SAMPLES, labels[1:])
    with pytest.raises(OptionError, match="labels: must be as many as samples, at least one, got 0 for 0"):
        score(*pair, [], np.zeros(0, np.int64))
    with pytest.raises(OptionError, match=r"labels: must be a list of integers, .* got an array float64\[2, 1\]"):
        score(*pair, SAMPLES, [[0.5], [1]])
    with pytest.raises(OptionError, match="labels: or a metric must be given"):
        score(*pair, SAMPLES)
    with pytest.raises(QmlirError, match=r"metric .*: must return a number, got ZeroDivisionError: division by zero"):
        score(*pair, SAMPLES[:1], metric=lambda outputs, labels: 1 / 0)
    with pytest.raises(QmlirError, match=r"metric .*: must return a number, got str"):
        score(*pair, SAMPLES[:1], metric=lambda outputs, labels: "good")  # pyright: ignore[reportArgumentType]
    image = network("func.func @main(%x: tensor<2x4xf32>) -> tensor<2x4xf32> { return %x : tensor<2x4xf32> }")
    with pytest.raises(
        QmlirError, match=r"labels need a network of one output with a number for each class, got \[2, 4\]"
    ):
        score(image, image, [np.zeros((2, 4), np.float32)], [0])
