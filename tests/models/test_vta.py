"""Trained networks on VTA: its functional model computes every layer from streams and memory alone, bit for bit.

What VTA has no shifts for, a mean of 49 elements, the host computes between two streams.
"""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.backends.hardware.vta.driver import Driver
from qmlir.backends.layered import Call, LayerProgram
from qmlir.compiler import main_function, to_integers
from qmlir.devices import load_device, text_of
from qmlir.devices.legality.layers import keeps_images
from qmlir.dialects.nn.movement import ConstantOp
from qmlir.dialects.npu import HostOp, LayerOp
from qmlir.numerics import Array
from qmlir.stages import to_layers
from tests.models.networks import NETWORKS, logits, split

pytestmark = [pytest.mark.models, pytest.mark.slow]

DEVICE = load_device("vta").with_({"encoder": "vta", "fallback.macs_per_cycle": 0.01})
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
    program = qmlir.compile(module, target=DEVICE).layered
    assert program is not None
    assert sum(isinstance(step, Call) for step in program.steps) == ON_HOST[name]
    reference = qmlir.reference(module)
    (spec,) = reference.signature.inputs
    rng = np.random.default_rng(0)
    taken = [rng.integers(-128, 128, spec.shape, np.int8)]
    assert spec.quantization is not None
    scale, zero_point = spec.quantization
    assert zero_point == 0
    for sample in samples[: INPUTS[name] - 1]:
        taken.append(np.round(sample.reshape(spec.shape) / scale).clip(-128, 127).astype(np.int8))
    assert len(taken) == INPUTS[name]
    for x in taken:
        outputs = carried_out(module, program, x)
        assert outputs.tobytes() == np.asarray(reference(x)).tobytes()


def carried_out(module: ModuleOp, program: LayerProgram, x: Array) -> Array:
    """The network's output; every layer's bytes are compared with the reference's on the way."""
    driver, steps = Driver(program), iter(program.steps)
    layered = qmlir.Pipeline(*to_layers(text_of(DEVICE)))(to_integers(module, DEVICE))
    body = main_function(layered).body.block
    values: dict[Any, Array] = {body.args[0]: x}
    driver.put(program.inputs[0], x)
    for op in body.ops:
        if isinstance(op, ConstantOp):
            (values[op.y],) = op.evaluate()
        elif isinstance(op, LayerOp | HostOp):
            found = op.evaluate(*(values[value] for value in op.inputs))
            values |= dict(zip(op.outputs, found, strict=True))
            inner = [each for each in op.operations() if not isinstance(each, ConstantOp)]
            if isinstance(op, LayerOp) and keeps_images(inner[0]):
                continue  # another name of its input
            step = next(steps)
            if isinstance(step, Call):
                for tensor, array in zip(step.written, found, strict=True):
                    driver.put(tensor, array)
                continue
            driver.run(step)
            got = driver.get(step.layer.output)
            assert (got.reshape(-1) == found[0].reshape(-1)).all(), str(step.layer)
    return driver.get(program.outputs[0])
