"""The tile search: what it takes for the best is close to what the device then takes, and to what it could."""

from math import prod

import pytest

from qmlir.backends.npu.report import predicted_cycles
from qmlir.backends.npu.stream import Program
from qmlir.devices import Device, load_device, shipped_devices
from qmlir.devices.model.work import Work
from qmlir.isa.commands import Convolve, Window
from qmlir.transforms.npu.tile.costs import Kept
from qmlir.transforms.npu.tile.search import tiling
from tests.conftest import crossed
from tests.transforms.npu.contractions import Convolution, program

LAYERS = {
    "3x3": (Convolution((1, 28, 28, 32), (64, 3, 3, 32), padding=(1, 1, 1, 1)), Work(28, 28, 32, 28, 28, 64, (3, 3))),
    "1x1": (Convolution((1, 28, 28, 64), (128, 1, 1, 64)), Work(784, 1, 64, 784, 1, 128)),
}


def compiled(layer: Convolution, device: Device) -> Program:
    return program(layer.module(device.quant.contract), device.name)


@crossed({"layer": LAYERS, "name": shipped_devices()})
def test_what_it_expects_is_what_the_device_takes(name: str, layer: str) -> None:
    device, (convolution, work) = load_device(name), LAYERS[layer]
    chosen = tiling(work, device)
    assert chosen is not None
    taken = predicted_cycles(compiled(convolution, device), device)
    ideal = prod((work.out_rows, work.out_columns, work.out_channels, work.taps, work.channels)) / device.peak_macs
    assert ideal < taken
    assert 0.9 * taken < chosen.price.cycles < 1.1 * taken


@pytest.mark.parametrize("name", shipped_devices())
def test_every_product_is_computed_once(name: str) -> None:
    device = load_device(name)
    convolution, work = LAYERS["3x3"]
    windows = [c for c in compiled(convolution, device).commands if isinstance(c, Window)]
    computed = sum(
        c.out_rows * c.out_columns * c.kernel_rows * c.kernel_columns * c.channels * c.out_channels
        for c in windows
        if isinstance(c, Convolve)
    )
    assert computed == prod((work.out_rows, work.out_columns, work.out_channels, work.taps, work.channels))


def test_small_weights_stay_for_the_layer() -> None:
    found = tiling(LAYERS["1x1"][1], load_device("gemmini"))
    assert found is not None
    assert found.weights is Kept.LAYER


def test_large_weights_come_once_where_they_come_slowly() -> None:
    """2.4 MB of weights through one byte a cycle: the loop over output channels is outside."""
    found = tiling(Work(7, 7, 512, 7, 7, 512, (3, 3), before=(1, 1)), load_device("ethos-u55-like"))
    assert found is not None
    assert found.outputs_outside or (found.shape.rows, found.shape.columns) == (7, 7)


def test_nothing_fits() -> None:
    assert tiling(Work(16, 16, 1, 1, 1, 16, (4096, 4096)), load_device("vta")) is None
