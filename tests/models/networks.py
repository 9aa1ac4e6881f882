"""The trained networks under $QMLIR_SHARED and their data: what to profile on, what to score on.

Each set is split by `numpy.random.default_rng(0).permutation(n)`: the first part profiles, the next is scored.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Find = Callable[[str], Path]


@dataclass(frozen=True)
class Network:
    """A network and its data.

    name       as the figures call it
    file       below $QMLIR_SHARED
    samples    all samples in the network's own layout and scaling, each with its batch dimension of 1
    labels     the class of each sample, or None where there is none
    profiled   how many of the permuted samples profile
    scored     how many of those after them are scored
    """

    name: str
    file: str
    load: Callable[[Find], tuple[Array, Array | None]]
    profiled: int
    scored: int


def _mnist(find: Find) -> tuple[Array, Array]:
    data = np.load(find("data/mnist_t10k_first5000.npz"))
    return data["X"].astype(np.float32)[:, None, None], data["Y"].astype(int)


def _cifar(find: Find) -> tuple[Array, Array]:
    data = np.load(find("data/cifar10_jpeg_2000.npz"))
    x = ((data["X"].astype(np.float32) / 255 - 0.5) / 0.5).transpose(0, 3, 1, 2)
    return np.ascontiguousarray(x)[:, None], data["Y"].astype(int)


def _pictures(find: Find, width: int, height: int) -> Array:
    from PIL import Image

    files = sorted(find("data/imagenet1k-sample").glob("*.JPEG"))
    pictures = [Image.open(f).convert("RGB").resize((width, height), Image.Resampling.BILINEAR) for f in files]
    return np.stack([np.asarray(p) for p in pictures])


def _ultraface(find: Find) -> tuple[Array, None]:
    x = (_pictures(find, 320, 240).astype(np.float32) - 127) / 128
    return np.ascontiguousarray(x.transpose(0, 3, 1, 2))[:, None], None


def _super_resolution(find: Find) -> tuple[Array, None]:
    rgb = _pictures(find, 224, 224).astype(np.float32)
    luma = (rgb @ np.array([0.299, 0.587, 0.114], np.float32)) / np.float32(255)
    return luma.astype(np.float32)[:, None, None], None


NETWORKS = {
    n.name: n
    for n in (
        Network("mnist-8", "models/onnx/mnist-8.onnx", _mnist, 100, 4900),
        Network("cifar", "models/onnx/cifar_imageclassifier.onnx", _cifar, 200, 1800),
        Network("ultraface", "models/onnx/ultraface_RFB-320_simplified.onnx", _ultraface, 25, 100),
        Network("super_resolution", "models/onnx/super_resolution.onnx", _super_resolution, 25, 100),
    )
}


@dataclass(frozen=True)
class Split:
    """Samples to profile on, samples to score, and the labels of the latter."""

    profile: Array
    score: Array
    labels: Array | None


def split(network: Network, find: Find, share: float = 1.0) -> Split:
    """The network's samples, permuted and split.

    Args:
        network: Which.
        find: Finds files below $QMLIR_SHARED, or skips the test.
        share: The part of the scored samples to keep, at least 2 of them.
    """
    x, labels = network.load(find)
    order = np.random.default_rng(0).permutation(len(x))
    count = max(2, round(network.scored * share))
    profile, score = order[: network.profiled], order[network.profiled : network.profiled + count]
    return Split(x[profile], x[score], None if labels is None else labels[score])


# ---------------------------------------------------------------------------------------------------------------
# Figures


def sqnr(truth: Array, got: Array) -> float:
    """Offset-free signal-to-noise ratio in dB: without each sample's mean output and mean error; [n, outputs]."""
    truth, got = truth.reshape(len(truth), -1).astype(np.float64), got.reshape(len(got), -1).astype(np.float64)
    signal, error = truth - truth.mean(axis=1, keepdims=True), got - truth
    error -= error.mean(axis=1, keepdims=True)
    noise = float((error**2).sum())
    return float("inf") if noise == 0 else 10 * float(np.log10((signal**2).sum() / noise))


@dataclass(frozen=True)
class Score:
    """Classification, against the labels and against float.

    correct      samples whose arg-max is the label
    lost, won    right in float and wrong now, and the other way round
    agreeing     samples with float's arg-max
    """

    samples: int
    correct: int
    lost: int
    won: int
    agreeing: int

    @property
    def points(self) -> float:
        """Top-1 minus float's, in points."""
        return 100 * (self.won - self.lost) / self.samples

    def __str__(self) -> str:
        top, agree = 100 * self.correct / self.samples, 100 * self.agreeing / self.samples
        change = f"{self.points:+.2f} points: {self.lost} lost, {self.won} won"
        return f"top-1 {top:.2f} % ({change}), agreement {agree:.2f} %"


def score(labels: Array, truth: Array, got: Array) -> Score:
    """The score of logits `got` beside float logits `truth`; both [n, classes]."""
    before, after = truth.argmax(1) == labels, got.argmax(1) == labels
    return Score(
        len(labels),
        int(after.sum()),
        int((before & ~after).sum()),
        int((~before & after).sum()),
        int((truth.argmax(1) == got.argmax(1)).sum()),
    )
