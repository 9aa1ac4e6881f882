"""Networks on Gemmini: what the functional model makes of their commands and memory is what the reference computes."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.numerics import Array
from tests.backends.hardware.boards import Network, device_of, integers
from tests.conftest import ROOT
from tests.models.networks import NETWORKS, logits, split

DEVICE = device_of("gemmini")


def network_of(quantized: ModuleOp) -> Network:
    """The network's layers; the device computes all of them."""
    network = Network.of(quantized, DEVICE)
    assert network.calls == []
    return network


def differing(quantized: ModuleOp, network: Network, given: Array) -> int:
    """How many bytes of the layers, or of the outputs, differ from the reference."""
    run = network.run(given)
    expected = qmlir.reference(quantized).run(given)
    outputs = sum(int((a != b).sum()) for a, b in zip(run.outputs, expected, strict=True))
    return sum(run.differing.values()) + outputs


def test_digits() -> None:
    data = np.load(ROOT / "examples" / "digits" / "digits.npz")
    samples = data["calibration_images"][:20, None]
    file = ROOT / "examples" / "digits" / "digits.onnx"
    quantized = qmlir.quantize(file, data=samples, target=DEVICE, io="int8", measure=False)
    network = network_of(quantized)
    for image in data["test_images"][:20]:
        given = np.round(image[None] / 16 * 127).astype(np.int8)
        assert differing(quantized, network, given) == 0


INPUTS = {"mnist-8": 20, "kws": 3, "resnet8": 3, "vww": 2, "mobilenet": 2}
"""Networks, and how many samples of their data each runs on."""


@pytest.mark.models
@pytest.mark.slow
@pytest.mark.parametrize("name", INPUTS)
def test_a_network(shared: Callable[[str], Path], name: str) -> None:
    known = NETWORKS[name]
    data = split(known, shared, 1.0)
    module = logits(qmlir.load(shared(known.file)))
    quantized = qmlir.quantize(module, data=data.profile, target=DEVICE, io="int8", measure=False)
    network = network_of(quantized)
    (spec,) = qmlir.reference(quantized).signature.inputs
    for given in integers(spec, data.score, INPUTS[name] + 1):
        assert differing(quantized, network, given) == 0
