"""Trained networks on NVDLA's functional model, from streams of register writes: every byte is the reference's."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.backends.hardware.nvdla.timing import layer_cycles
from qmlir.numerics import Array
from tests.backends.hardware.boards import Network, device_of
from tests.models.networks import NETWORKS

pytestmark = [pytest.mark.models, pytest.mark.slow]

DEVICE = device_of("nvdla-small")

INPUTS = {"mnist-8": 20, "kws": 3, "resnet8": 3, "vww": 2}


RTL_CYCLES = {
    "mnist-8": [20771, 6407, 10498, 2439, 520, 995],
    "kws": [41152, 14912, 12892, 14918, 12892, 14918, 12892, 14918, 12892],
    "resnet8": [24701, 39590, 39584, 16539, 21435, 39253, 12949, 8347, 20830, 38294, 6897, 4251, 10264, 395],
    "vww": [
        35843,
        28927,
        54946,
        18530,
        27654,
        30054,
        29453,
        10398,
        14264,
        17214,
        15257,
        7022,
        6728,
        12100,
        10721,
        12102,
        10721,
        12102,
        10721,
        12102,
        10721,
        12102,
        10721,
        7286,
        5286,
        13700,
        10182,
        11140,
        541,
    ],
}
"""What the RTL took for each layer, from the first enabling of each job to its interrupt; no byte of a layer differed.

Each network ran as one stream of writes after a reset, for as many inputs. Memory answered 8 bytes a cycle after 32
cycles, and the driver did not wait for the ends of its writes.
"""


@cache
def network(name: str, shared: Callable[[str], Path]) -> tuple[Network, ModuleOp, list[Array]]:
    """A network on the device, as quantized, and inputs that did not profile it."""
    of = NETWORKS[name]
    samples, _ = of.load(shared)
    order = np.random.default_rng(0).permutation(len(samples))
    profiled = [samples[n] for n in order[: of.profiled]]
    quantized = qmlir.quantize(shared(of.file), data=profiled, target=DEVICE, measure=False)
    return Network.of(quantized, DEVICE), quantized, [samples[n] for n in order[-INPUTS[name] :]]


@pytest.fixture(scope="module")
def measured(shared: Callable[[str], Path]) -> Callable[[str], list[dict[str, int]]]:
    """The differing bytes of each layer in each run of a network."""

    @cache
    def runs(name: str) -> list[dict[str, int]]:
        layers, quantized, inputs = network(name, shared)
        reference = qmlir.reference(quantized)
        found: list[dict[str, int]] = []
        for sample in inputs:
            run = layers.run(sample)
            expected = reference.run(sample)
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


@pytest.mark.parametrize("name", INPUTS)
def test_predicted_cycles(shared: Callable[[str], Path], name: str) -> None:
    """Within a tenth of those of the RTL for each layer, a twentieth for each network."""
    predicted, measured = layer_cycles(network(name, shared)[0].program), RTL_CYCLES[name]
    errors = [ours / theirs - 1 for ours, theirs in zip(predicted, measured, strict=True)]
    assert max(map(abs, errors)) < 0.1
    assert abs(sum(predicted) / sum(measured) - 1) < 0.05
