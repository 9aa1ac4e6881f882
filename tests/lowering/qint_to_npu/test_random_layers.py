"""1,000 random layers on each device: legal ones give the reference's bits, illegal ones are refused by name.

`make test` draws a few of each, `make conformance` the rest.
"""

import numpy as np
import pytest
from hypothesis import given, seed

from qmlir.backends.npu.execute import Simulator
from qmlir.backends.reference import evaluate
from qmlir.backends.simulated import assemble, serial
from qmlir.compiler import Pipeline, main_function
from qmlir.devices import Device, load_device, shipped_devices
from qmlir.devices.legality.equivalents import equivalent_of
from qmlir.devices.legality.limits import reasons
from qmlir.errors import PipelineError
from qmlir.stages import TO_COMMANDS, to_layers
from tests.conftest import THOROUGH
from tests.graphs import drawn
from tests.lowering.qint_to_npu.layers import Layer, illegal, legal

BATCHES, EACH = 14, 50
"""Of legal layers; of illegal ones there are 6 such batches."""

ILLEGAL_BATCHES = 6
QUICK = 12
THOROUGHLY = pytest.mark.skipif(not THOROUGH, reason="make conformance draws them")


def commands(device: str) -> Pipeline:
    return Pipeline(*to_layers(device), *TO_COMMANDS)


def computes(layer: Layer, device: Device) -> None:
    """The layer runs on the device alone, and gives the reference's bits, in order and beside each other."""
    program = assemble(commands(device.name)(layer.module))
    assert not program.routines, "the host computes a part"
    (expected,) = evaluate(main_function(layer.module), layer.inputs)
    for each in (program, serial(program, device)):
        (got,) = Simulator(each, device).run(*layer.inputs)
        np.testing.assert_array_equal(got, expected)


def refuses(layer: Layer, device: Device) -> None:
    """The layer is refused in words that name the key, or the device computes an equivalent of it."""
    assert layer.flaw is not None
    if any(equivalent_of(op, device) is not None for op in layer.module.walk()):
        assert layer.flaw in str([reasons(op, device) for op in layer.module.walk()])
        computes(layer, device)
        return
    with pytest.raises(PipelineError) as refused:
        commands(device.name)(layer.module)
    assert layer.flaw in str(refused.value)


@pytest.mark.parametrize("name", shipped_devices())
def test_some_layers(name: str) -> None:
    device = load_device(name)
    drawn(QUICK)(seed(0)(given(legal(device))(lambda layer: computes(layer, device))))()
    drawn(QUICK)(seed(0)(given(illegal(device))(lambda layer: refuses(layer, device))))()


@THOROUGHLY
@pytest.mark.parametrize("batch", range(BATCHES))
@pytest.mark.parametrize("name", shipped_devices())
def test_legal_layers_are_exact(name: str, batch: int) -> None:
    device = load_device(name)
    drawn(EACH)(seed(1 + batch)(given(legal(device))(lambda layer: computes(layer, device))))()


@THOROUGHLY
@pytest.mark.parametrize("batch", range(ILLEGAL_BATCHES))
@pytest.mark.parametrize("name", shipped_devices())
def test_illegal_layers_are_refused(name: str, batch: int) -> None:
    device = load_device(name)
    drawn(EACH)(seed(1 + batch)(given(illegal(device))(lambda layer: refuses(layer, device))))()
