"""Trained networks on NVDLA's functional model, from streams of register writes: every byte is the reference's."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import qmlir
from tests.backends.hardware.boards import Network, device_of
from tests.models.networks import NETWORKS

pytestmark = [pytest.mark.models, pytest.mark.slow]

DEVICE = device_of("nvdla-small")

INPUTS = {"mnist-8": 20, "kws": 3, "resnet8": 3, "vww": 2}


@pytest.fixture(scope="module")
def measured(shared: Callable[[str], Path]) -> Callable[[str], list[dict[str, int]]]:
    """The differing bytes of each layer in each run of a network."""

    @cache
    def runs(name: str) -> list[dict[str, int]]:
        network = NETWORKS[name]
        samples, _ = network.load(shared)
        order = np.random.default_rng(0).permutation(len(samples))
        profiled = [samples[n] for n in order[: network.profiled]]
        quantized = qmlir.quantize(shared(network.file), data=profiled, target=DEVICE, measure=False)
        layers, reference = Network.of(quantized, DEVICE), qmlir.reference(quantized)
        found: list[dict[str, int]] = []
        for n in order[-INPUTS[name] :]:
            run = layers.run(samples[n])
            expected = reference.run(samples[n])
            assert [got.tobytes() for got in run.outputs] == [np.asarray(each).tobytes() for each in expected]
            found.append(run.differing)
        return found

    return runs


@pytest.mark.parametrize("name", INPUTS)
def test_a_network_from_its_words(measured: Callable[[str], list[dict[str, int]]], name: str) -> None:
    runs = measured(name)
    assert len(runs) == INPUTS[name]
    assert {count for run in runs for count in run.values()} == {0}
    assert {len(run) for run in runs} == {len(runs[0])}


@pytest.mark.parametrize(("name", "layers"), [("mnist-8", 6), ("kws", 9), ("resnet8", 14), ("vww", 27)])
def test_how_much_runs_on_the_device(measured: Callable[[str], list[dict[str, int]]], name: str, layers: int) -> None:
    """All convolutions and sums; the last layers of kws and of vww cost less on the host than their transfers."""
    assert len(measured(name)[0]) >= layers
