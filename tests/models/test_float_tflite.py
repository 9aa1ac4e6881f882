"""Float TFLite networks, profiled and quantized by us, beside the int8 files that TFLite's converter made of them.

The converter's file is computed as LiteRT's reference kernels do, which test_tflite.py holds to LiteRT bit for bit.
What XNNPACK makes of the same file is printed too: on resnet8 it scores half a point more than the floats do, which is
luck, not accuracy. mobilenet has no such file; its figures are those of test_networks.py.

`make models` runs all samples; otherwise `QMLIR_MODELS_SHARE` (default 0.02) of them. Figures go to standard error: run
with `-s`.
"""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import qmlir
from tests.frontends.tflite.files import RESOLVERS, interpreter
from tests.models.networks import NETWORKS, Array, credit, logits, score, split, sqnr
from tests.models.test_networks import SHARE
from tests.models.tflite_networks import sounds, stored

pytestmark = [pytest.mark.models, pytest.mark.filterwarnings("ignore")]

Shared = Callable[[str], Path]

CONVERTED = {"kws": "kws_dscnn_i8", "resnet8": "resnet8_cifar_i8", "vww": "vww_mbv1_i8"}
"""Float network → the converter's file of it."""

BELOW_FLOAT, BELOW_CONVERTED = 0.5, 0.3
"""How many points of top-1 our integers may score below, and never less than two samples."""

DECIBELS = 0.5
"""How many dB of SQNR they may lose beside the converter's, where there are no classes."""


def show(text: str) -> None:
    sys.stderr.write(f"\n{text}\n")


def allowed(points: float, samples: int) -> float:
    """A limit in points of top-1 as a number of samples."""
    return max(points * samples / 100, 2)


def converted(path: Path, numerics: str, samples: Array) -> Array:
    """What the converter's network computes before its softmax, in integers, [n, classes]."""
    machine = qmlir.compile(logits(qmlir.load(path, numerics=numerics)))
    parameters = interpreter(str(path), numerics).get_input_details()[0]["quantization"]
    inputs = (stored(x[0], machine.signature.inputs[0], *parameters) for x in samples)
    return np.stack([machine.run(x)[0].reshape(-1) for x in inputs])


@pytest.mark.parametrize("name", CONVERTED)
def test_classes(name: str, shared: Shared) -> None:
    """Top-1 beside float's and beside the converter's, a tie for the first place counting in part."""
    network = NETWORKS[name]
    module, data = logits(qmlir.load(shared(network.file))), split(network, shared, SHARE)
    labels = data.labels
    assert labels is not None
    quantized = qmlir.quantize(module, qmlir.profile(module, data.profile), data=data.profile, fail_on_float=True)
    floats, integers = qmlir.compile(module), qmlir.compile(quantized)
    truth, ours = (np.stack([m.run(x)[0].reshape(-1) for x in data.score]) for m in (floats, integers))
    path = shared(f"models/tflite/{CONVERTED[name]}.tflite")
    theirs = {numerics: credit(labels, converted(path, numerics, data.score)) for numerics in RESOLVERS}
    own = credit(labels, ours)
    show(f"{name}: SQNR {sqnr(truth, ours):.1f} dB, {score(labels, truth, ours)}; with ties in parts {own:.1f} of "
         f"{data.labelled} right, in float {credit(labels, truth):.1f}, "
         + ", ".join(f"the converter's by {numerics} {right:.1f}" for numerics, right in theirs.items()))  # fmt: skip
    assert own >= credit(labels, truth) - allowed(BELOW_FLOAT, data.labelled)
    assert own >= theirs["litert-reference"] - allowed(BELOW_CONVERTED, data.labelled)


def test_the_autoencoder(shared: Shared) -> None:
    """It has no classes: its outputs beside float's, as SQNR. The clip is short, and a tenth of it profiles."""
    real = sounds(shared)
    order, count = np.random.default_rng(0).permutation(len(real)), len(real) // 10
    profiled, scored = real[order[:count], None], real[order[count:], None]
    module = qmlir.load(shared("models/tflite/ad_fcae_f32.tflite"))
    quantized = qmlir.quantize(module, qmlir.profile(module, profiled), data=profiled, fail_on_float=True)
    floats, integers = qmlir.compile(module), qmlir.compile(quantized)
    truth, ours = (np.stack([m.run(x)[0] for x in scored]) for m in (floats, integers))
    path = shared("models/tflite/ad_fcae_i8.tflite")
    scale, zero_point = interpreter(str(path), "litert-reference").get_output_details()[0]["quantization"]
    theirs = (converted(path, "litert-reference", scored).astype(np.float32) - zero_point) * scale
    show(f"ad_fcae: SQNR {sqnr(truth, ours):.1f} dB, the converter's {sqnr(truth, theirs):.1f} dB")
    assert sqnr(truth, ours) >= sqnr(truth, theirs) - DECIBELS
