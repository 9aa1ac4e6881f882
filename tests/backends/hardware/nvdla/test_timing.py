"""Predicted cycles of a network: those of the jobs that the functional model computes, without computing any."""

import numpy as np
import pytest

import qmlir
from qmlir.backends.hardware.nvdla.cost import cycles
from qmlir.backends.hardware.nvdla.machine import Nvdla
from qmlir.backends.hardware.nvdla.memory import Memory
from qmlir.backends.hardware.nvdla.timing import layer_cycles
from qmlir.backends.hardware.nvdla.words import step_of
from tests.backends.hardware.boards import Network, device_of
from tests.backends.hardware.nvdla.layers import SOURCE, TARGET, convolution


@pytest.mark.slow
def test_cycles_of_each_layer() -> None:
    device, data = device_of("nvdla-small"), np.load("examples/digits/digits.npz")
    quantized = qmlir.quantize("examples/digits/digits.onnx", data=data["calibration_images"][:8, None], target=device)
    program, computing, expected = Network.of(quantized, device).program, Nvdla(Memory()), list[int]()
    for words in program.words.commands:
        before = len(computing.done)
        computing.execute(map(step_of, words))
        expected.append(sum(map(cycles, computing.done[before:])))
    found = layer_cycles(program)
    assert found == expected
    assert len(found) == len(program.layers) > 2
    assert min(found) > 100


def test_a_model_that_computes_nothing_leaves_memory_as_it_is() -> None:
    memory = Memory([(SOURCE, bytes(range(96)))])
    Nvdla(memory, computes=False).execute(convolution())
    assert not memory.read(TARGET, 96).any()
