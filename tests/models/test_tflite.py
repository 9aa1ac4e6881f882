"""Trained TFLite networks on labelled data beside LiteRT: its score with its numerics, and no less with the default.

`make models` runs all samples; otherwise `QMLIR_MODELS_SHARE` (default 0.02) of them. Figures go to standard error:
run with `-s`.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import qmlir
from qmlir.backends.cpu import Executable
from qmlir.compiler import Pipeline, main_function
from qmlir.dialects.nn.quantizable import uniform
from qmlir.stages import IMPORTED
from tests.frontends.tflite.files import RESOLVERS, interpreter, run
from tests.frontends.tflite.trained import Difference
from tests.models.networks import Array, sqnr
from tests.models.nominal import nominal
from tests.models.test_networks import SHARE
from tests.models.tflite_networks import LABELLED, Labelled, picture_files, pixels, sounds, stored

pytestmark = [pytest.mark.models, pytest.mark.filterwarnings("ignore")]

FEWEST = 20
"""Samples, whatever the share."""

POINTS = 0.4
"""How many points of top-1, and never less than two samples, the default numerics may score below LiteRT's default."""

NEAR = 0.99
"""The share of outputs that the default numerics have within one step of LiteRT's default."""

EPSILON = 1e-5
"""Of floats, relative to the largest output."""


def chosen(count: int) -> Array:
    """Which samples are scored: the first of a fixed permutation."""
    return np.random.default_rng(0).permutation(count)[: max(FEWEST, round(count * SHARE))]


@dataclass(frozen=True)
class Scored:
    """A network's samples and LiteRT's outputs for them, by numerics."""

    network: Labelled
    path: Path
    samples: Sequence[Array]
    labels: Array
    theirs: dict[str, Array]

    def correct(self, outputs: Array) -> int:
        """Samples whose arg-max is their label."""
        return int((outputs[:, self.network.skipped :].argmax(1) == self.labels).sum())

    def compiled(self, numerics: str) -> Executable:
        return qmlir.compile(qmlir.load(self.path, numerics=numerics))

    def ours(self, numerics: str) -> Array:
        """The outputs that qmlir computes, [n, classes]."""
        machine = self.compiled(numerics)
        return np.stack([machine.run(x)[0].reshape(-1) for x in self.samples])

    def show(self, numerics: str, outputs: Array) -> int:
        """Prints a score beside LiteRT's three; the number of samples that are right."""
        right, count = self.correct(outputs), len(self.labels)
        theirs = ", ".join(f"{n.removeprefix('litert-')} {100 * self.correct(y) / count:.2f}"
                           for n, y in self.theirs.items())  # fmt: skip
        sys.stderr.write(f"\n{self.network.name:26s} {numerics:17s} top-1 {100 * right / count:.2f} % of {count}; "
                         f"LiteRT: {theirs}\n")  # fmt: skip
        return right


@pytest.fixture(scope="module", params=list(LABELLED))
def scored(request: pytest.FixtureRequest, shared: Callable[[str], Path]) -> Scored:
    """Each network in turn."""
    network = LABELLED[request.param]
    path = shared(network.file)
    real, labels = network.load(shared)
    picked = chosen(len(real))
    spec = qmlir.compile(path).signature.inputs[0]
    by_numerics = {numerics: interpreter(str(path), numerics) for numerics in RESOLVERS}
    parameters = next(iter(by_numerics.values())).get_input_details()[0]["quantization"]
    samples = [stored(real[i], spec, *parameters) for i in picked]
    theirs = {n: np.stack([run(i, [x])[0].reshape(-1) for x in samples]) for n, i in by_numerics.items()}
    return Scored(network, path, samples, labels[picked], theirs)


@pytest.mark.parametrize("numerics", RESOLVERS)
def test_with_litert_s_numerics_the_score_is_litert_s(scored: Scored, numerics: str) -> None:
    ours, theirs = scored.ours(numerics), scored.theirs[numerics]
    scored.show(numerics, ours)
    assert scored.correct(ours) == scored.correct(theirs)
    if ours.dtype == np.float32:
        assert np.abs(ours - theirs).max() <= EPSILON * np.abs(theirs).max()
    else:
        assert np.array_equal(ours, theirs)


def test_default_numerics_score_no_less(scored: Scored) -> None:
    ours, theirs = scored.ours("default"), scored.theirs["litert-xnnpack"]
    right = scored.show("default", ours)
    assert right >= scored.correct(theirs) - max(POINTS * len(scored.labels) / 100, 2)
    if ours.dtype == np.float32:
        assert np.abs(ours - theirs).max() <= EPSILON * np.abs(theirs).max()
        return
    apart = Difference.of(ours, theirs)
    sys.stderr.write(f"{scored.network.name:26s} {apart} outputs differ from LiteRT's default, {apart.far} by more "
                     "than a step\n")  # fmt: skip
    assert apart.far <= (1 - NEAR) * apart.compared


def test_segmentation_agrees_pixel_by_pixel(shared: Callable[[str], Path]) -> None:
    """DeepLab's class of each pixel. Its pictures have no labels; its score is how many pixels are the floats'.

    These are the numbers that its integers stand for. What differs lies within 8 pixels of an edge between classes,
    where a step in some tensor decides: of 20 pictures LiteRT's own two answers agree in 96.5 % of the pixels.
    """
    path = shared("models/tflite/deeplabv3_mnv2_dm05_pascal_quant.tflite")
    files = picture_files(shared)
    images = [pixels(files[i], 513)[None] for i in chosen(len(files))[: max(2, round(FEWEST * SHARE))]]
    classes: dict[str, list[Array]] = {}
    for numerics in ("litert-reference", "litert-xnnpack"):
        theirs = interpreter(str(path), numerics)
        classes[f"LiteRT's {numerics}"] = [run(theirs, [x])[0] for x in images]
    for numerics in ("litert-reference", "litert-xnnpack", "default"):
        machine = qmlir.compile(qmlir.load(path, numerics=numerics))
        classes[numerics] = [machine.run(x)[0] for x in images]
    module = Pipeline(*IMPORTED)(qmlir.load(path))
    data, floats = uniform(main_function(module).body.block.args[0]), qmlir.compile(nominal(module))
    classes["floats"] = [floats.run(((x - np.float32(data.zero_point)) * data.scale).astype(np.float32))[0]
                         for x in images]  # fmt: skip

    def agreement(one: str, other: str) -> float:
        agreeing = float(np.mean([np.mean(a == b) for a, b in zip(classes[one], classes[other], strict=True)]))
        sys.stderr.write(
            f"\ndeeplab {one} and {other}: {100 * agreeing:.3f} % of the pixels of {len(images)} pictures\n"
        )
        return agreeing

    agreement("default", "LiteRT's litert-xnnpack")
    assert agreement("litert-reference", "LiteRT's litert-reference") == 1
    assert agreement("litert-xnnpack", "LiteRT's litert-xnnpack") >= NEAR
    theirs = agreement("LiteRT's litert-xnnpack", "floats")
    assert theirs >= 0.9, "the floats are those of another network"
    assert agreement("default", "floats") >= theirs - POINTS / 100


def test_the_autoencoder_is_as_near_to_floats_as_litert_s(shared: Callable[[str], Path]) -> None:
    real = sounds(shared)
    samples = real[chosen(len(real))]
    floats = qmlir.compile(shared("models/tflite/ad_fcae_f32.tflite"))
    truth = np.stack([floats.run(x[None])[0] for x in samples])
    path = shared("models/tflite/ad_fcae_i8.tflite")
    theirs = interpreter(str(path), "litert-reference")
    given, returned = (d[0]["quantization"] for d in (theirs.get_input_details(), theirs.get_output_details()))
    figures: dict[str, float] = {}
    for numerics in ("litert-reference", "default"):
        machine = qmlir.compile(qmlir.load(path, numerics=numerics))
        inputs = [stored(x, machine.signature.inputs[0], *given) for x in samples]
        ours = np.stack([machine.run(x)[0] for x in inputs])
        figures[numerics] = sqnr(truth, (ours.astype(np.float32) - returned[1]) * returned[0])
        if numerics == "litert-reference":
            assert np.array_equal(ours, np.stack([run(theirs, [x])[0] for x in inputs]))
    sys.stderr.write(f"\nad_fcae_i8: SQNR {figures} dB against ad_fcae_f32 on {len(samples)} samples\n")
    assert figures["default"] >= figures["litert-reference"] - 0.1
