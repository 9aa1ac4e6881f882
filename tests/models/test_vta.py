"""Trained networks on VTA: its functional model computes every layer from streams and memory alone, bit for bit.

What VTA has no shifts for, a mean of 49 elements, the host computes between two streams.
"""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.numerics import Array
from tests.backends.hardware.boards import Network, device_of, integers
from tests.models.networks import NETWORKS, logits, split

pytestmark = [pytest.mark.models, pytest.mark.slow]

DEVICE = device_of("vta", fallback__macs_per_cycle=0.01)
"""VTA beside a host that is so slow that the device computes whatever it can."""

INPUTS = {"mnist-8": 20, "kws": 3, "resnet8": 3, "vww": 3, "mobilenet": 2}
"""Network → how many inputs."""

ON_HOST = {"mnist-8": 0, "kws": 1, "resnet8": 0, "vww": 1, "mobilenet": 1}
"""Network → what the host computes: the mean of an image whose elements are no power of two."""


@pytest.fixture(scope="module")
def quantized(shared: Callable[[str], Path]) -> Callable[[str], tuple[ModuleOp, Array]]:
    """A network quantized by the rules of VTA, and float samples that it was not profiled on."""

    @cache
    def of(name: str) -> tuple[ModuleOp, Array]:
        network = NETWORKS[name]
        data = split(network, shared, 0.05)
        module = logits(qmlir.load(shared(network.file)))
        profiled = list(data.profile[:16])
        return qmlir.quantize(module, data=profiled, target=DEVICE, io="int8", measure=False), data.score

    return of


@pytest.mark.parametrize("name", INPUTS)
def test_a_network_from_streams_alone(quantized: Callable[[str], tuple[ModuleOp, Array]], name: str) -> None:
    module, samples = quantized(name)
    network = Network.of(module, DEVICE)
    assert len(network.calls) == ON_HOST[name]
    reference = qmlir.reference(module)
    (spec,) = reference.signature.inputs
    taken = list(integers(spec, samples, INPUTS[name]))
    assert len(taken) == INPUTS[name]
    for x in taken:
        run = network.run(x)
        assert {at: count for at, count in run.differing.items() if count} == {}
        (output,) = run.outputs
        assert output.tobytes() == np.asarray(reference(x)).tobytes()
