"""Networks on Gemmini: what the functional model makes of their commands and memory is what the reference computes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.backends.hardware.gemmini.encoder import BASE
from qmlir.backends.hardware.gemmini.machine import Machine
from qmlir.backends.layered import LayerProgram
from qmlir.devices import Device
from tests.conftest import ROOT
from tests.models.networks import NETWORKS, logits, split

DEVICE: Device = qmlir.load_device("gemmini").with_({"encoder": "gemmini"})


def program_of(quantized: ModuleOp) -> LayerProgram:
    """The network's layers; the device computes all of them."""
    program = qmlir.compile(quantized, target=DEVICE).layered
    assert program is not None
    assert len(program.layers) == len(program.steps)
    return program


def memory_of(program: LayerProgram) -> Any:
    """The memory before the first layer, with something in every byte that no constant fills."""
    memory = np.random.default_rng(5).integers(0, 256, BASE + program.size, np.uint8)
    for address, data in program.constants.items():
        memory[BASE + address : BASE + address + len(data)] = np.frombuffer(data, np.uint8)
    return memory


def differing(quantized: ModuleOp, program: LayerProgram, given: Any) -> int:
    """How many bytes of the outputs differ from the reference."""
    memory = memory_of(program)
    for tensor in program.inputs:
        at = BASE + program.addresses[tensor.name]
        memory[at : at + given.size] = given.reshape(-1).view(np.uint8)
    Machine(memory).run_words(program.words.all)
    total = 0
    for tensor, expected in zip(program.outputs, qmlir.reference(quantized).run(given), strict=True):
        at = BASE + program.addresses[tensor.name]
        total += int((memory[at : at + expected.size] != expected.reshape(-1).view(np.uint8)).sum())
    return total


def test_digits() -> None:
    data = np.load(ROOT / "examples" / "digits" / "digits.npz")
    samples = data["calibration_images"][:20, None]
    network = ROOT / "examples" / "digits" / "digits.onnx"
    quantized = qmlir.quantize(network, data=samples, target=DEVICE, io="int8", measure=False)
    program = program_of(quantized)
    for image in data["test_images"][:20]:
        given = np.round(image[None] / 16 * 127).astype(np.int8)
        assert differing(quantized, program, given) == 0


INPUTS = {"mnist-8": 20, "kws": 3, "resnet8": 3, "vww": 2, "mobilenet": 2}
"""Networks, and how many samples of their data each runs on."""


@pytest.mark.models
@pytest.mark.slow
@pytest.mark.parametrize("name", INPUTS)
def test_a_network(shared: Callable[[str], Path], name: str) -> None:
    network = NETWORKS[name]
    data = split(network, shared, 1.0)
    module = logits(qmlir.load(shared(network.file)))
    quantized = qmlir.quantize(module, data=data.profile, target=DEVICE, io="int8", measure=False)
    program = program_of(quantized)
    rng, spec = np.random.default_rng(1), qmlir.reference(quantized).signature.inputs[0]
    step = float(np.abs(data.profile).max()) / 127
    for sample in data.score[: INPUTS[name]]:
        given = np.rint(sample / step).clip(-128, 127).astype(np.int8).reshape(spec.shape)
        assert differing(quantized, program, given) == 0
    noise = rng.integers(-128, 128, spec.shape, np.int8)
    assert differing(quantized, program, noise) == 0
