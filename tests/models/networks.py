"""The trained networks under $QMLIR_SHARED and their data: what to profile on, what to score on.

Each set is split by `numpy.random.default_rng(0).permutation(n)`: the first part profiles, the next is scored.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import ModuleOp
from xdsl.rewriter import Rewriter

from qmlir.compiler import Pipeline, main_function
from qmlir.dialects.nn import SoftmaxOp

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
    others     samples without labels, of another set: the first `profiled` of them, drawn at random, profile, and the
               rest is scored beside all that have labels
    unlabelled how many of these are scored
    """

    name: str
    file: str
    load: Callable[[Find], tuple[Array, Array | None]]
    profiled: int
    scored: int
    others: Callable[[Find], Array] | None = None
    unlabelled: int = 0

    @property
    def is_onnx(self) -> bool:
        """Whether it comes in ONNX's format, not TFLite's."""
        return self.file.endswith(".onnx")

    @property
    def all_scored(self) -> int:
        """How many samples are scored, those without labels too."""
        return self.scored + self.unlabelled


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


def _set(find: Find, name: str) -> tuple[Array, Array]:
    data = np.load(find(f"data/{name}.npz"))
    return data["X"].astype(np.float32)[:, None], data["Y"].astype(int)


def _kws(find: Find) -> tuple[Array, Array]:
    x, labels = _set(find, "kws01_500")
    real = (x - 83) * np.float32(0.5847029089927673)
    return real.reshape(-1, 1, 49, 10, 1), labels


def _resnet8(find: Find) -> tuple[Array, Array]:
    return _set(find, "cifar10_jpeg_2000")


def _vww(find: Find) -> tuple[Array, Array]:
    x, labels = _set(find, "vww_coco_128")
    return x / np.float32(255), labels


def _cropped(find: Find, size: int) -> tuple[Array, Array]:
    """ImageNet's pictures, the short side resized, the middle cropped; the number in a name is its class."""
    from PIL import Image

    pictures: list[Array] = []
    labels: list[int] = []
    for path in sorted(find("data/imagenet1k-sample").glob("*.JPEG")):
        picture = Image.open(path).convert("RGB")
        scale = size * 256 / 224 / min(picture.size)
        wide, high = (round(side * scale) for side in picture.size)
        left, top = (wide - size) // 2, (high - size) // 2
        resized = picture.resize((wide, high), Image.Resampling.BILINEAR)
        pictures.append(np.asarray(resized.crop((left, top, left + size, top + size))))
        labels.append(int(path.name.split("_")[0]))
    return np.stack(pictures).astype(np.float32)[:, None], np.array(labels)


def _vww_pictures(find: Find) -> Array:
    return _cropped(find, 96)[0] / np.float32(255)


def mobilenet(find: Find) -> tuple[Array, Array]:
    x, labels = _cropped(find, 224)
    return x / np.float32(127.5) - 1, labels + 1  # class 0 is the background


NETWORKS = {
    n.name: n
    for n in (
        Network("mnist-8", "models/onnx/mnist-8.onnx", _mnist, 100, 4900),
        Network("cifar", "models/onnx/cifar_imageclassifier.onnx", _cifar, 200, 1800),
        Network("kws", "models/tflite/kws_dscnn_f32.tflite", _kws, 50, 450),
        Network("resnet8", "models/tflite/resnet8_cifar_f32.tflite", _resnet8, 200, 1800),
        Network("vww", "models/tflite/vww_mbv1_f32.tflite", _vww, 150, 128, _vww_pictures, 100),
        Network("mobilenet", "models/tflite/mobilenet_v1_0.25_224_f32.tflite", mobilenet, 25, 225),
        Network("ultraface", "models/onnx/ultraface_RFB-320_simplified.onnx", _ultraface, 25, 100),
        Network("super_resolution", "models/onnx/super_resolution.onnx", _super_resolution, 25, 25),
    )
}


CLASSIFIERS = tuple(name for name in NETWORKS if name not in ("ultraface", "super_resolution"))
"""Those whose samples have labels."""

UNLABELLED = -1
"""The label of a sample that has none, beside some that have."""

FEWEST = 16
"""Samples to profile on, whatever the share."""

DRAW = 20261121
"""The seed of the samples without labels that profile: the one the other tools' figures were measured with."""


@dataclass(frozen=True)
class Split:
    """Samples to profile on, samples to score, and the labels of the latter; those without a label come last."""

    profile: Array
    score: Array
    labels: Array | None

    @property
    def labelled(self) -> int:
        """How many of the scored samples have a label."""
        return 0 if self.labels is None else int((self.labels != UNLABELLED).sum())


def split(network: Network, find: Find, share: float = 1.0) -> Split:
    """The network's samples, permuted and split.

    Args:
        network: Which.
        find: Finds files below $QMLIR_SHARED, or skips the test.
        share: The part of the samples to keep, at least 2 of those to score and FEWEST of those to profile on.
    """

    def part(count: int) -> int:
        return max(2, round(count * share))

    profiled = min(network.profiled, max(FEWEST, round(network.profiled * share)))

    x, labels = network.load(find)
    order = np.random.default_rng(0).permutation(len(x))
    if network.others is None:
        profile, score = order[:profiled], order[network.profiled :][: part(network.scored)]
        return Split(x[profile], x[score], None if labels is None else labels[score])
    assert labels is not None
    others = network.others(find)
    another = np.random.default_rng(DRAW).permutation(len(others))
    score, rest = order[: part(network.scored)], another[network.profiled :]
    rest = rest[: part(network.unlabelled)]
    unknown = np.full(len(rest), UNLABELLED)
    return Split(
        others[another[:profiled]],
        np.concatenate([x[score], others[rest]]),
        np.concatenate([labels[score], unknown]),
    )


def logits(module: ModuleOp) -> ModuleOp:
    """The simplified network up to a final softmax, which maps the differences that count to ones that do not."""
    module = Pipeline("simplify")(module)
    function = main_function(module)
    last = function.body.block.last_op
    assert last is not None
    for index, operand in enumerate(last.operands):
        if isinstance(operand.owner, SoftmaxOp) and len(last.operands) == 1:
            softmax = operand.owner
            last.operands[index] = softmax.x
            Rewriter.erase_op(softmax)
            function.update_function_type()
    return module


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

    samples      all of them
    labelled     those with a label
    correct      samples whose arg-max is the label
    lost, won    right in float and wrong now, and the other way round
    agreeing     samples with float's arg-max
    """

    samples: int
    labelled: int
    correct: int
    lost: int
    won: int
    agreeing: int

    @property
    def points(self) -> float:
        """Top-1 minus float's, in points."""
        return 100 * (self.won - self.lost) / self.labelled

    @property
    def agreement(self) -> float:
        """In percent of all samples."""
        return 100 * self.agreeing / self.samples

    def __str__(self) -> str:
        change = f"{self.points:+.2f} points: {self.lost} lost, {self.won} won"
        top = f"top-1 {100 * self.correct / self.labelled:.2f} % ({change})"
        return f"{top}, agreement {self.agreement:.2f} % ({self.agreeing} of {self.samples})"


def score(labels: Array, truth: Array, got: Array) -> Score:
    """The score of logits `got` beside float logits `truth`; both [n, classes]."""
    before, after = truth.argmax(1) == labels, got.argmax(1) == labels
    return Score(
        len(labels),
        int((labels != UNLABELLED).sum()),
        int(after.sum()),
        int((before & ~after).sum()),
        int((~before & after).sum()),
        int((truth.argmax(1) == got.argmax(1)).sum()),
    )


def credit(labels: Array, got: Array) -> float:
    """How many samples with a label are right, each of n outputs that tie for the largest 1/n; [n, classes].

    Integers tie, and which of them an arg-max takes says nothing about the network.
    """
    known = labels != UNLABELLED
    labels, got = labels[known], got[known]
    first = got == got.max(axis=1, keepdims=True)
    return float((first[np.arange(len(labels)), labels] / first.sum(axis=1)).sum())
