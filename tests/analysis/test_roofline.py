"""Rooflines of networks on devices and on this processor."""

import pytest

from qmlir.analysis.roofline import Ceiling, ceilings, copy_bandwidth, measured_roofline, moved_bytes, roofline
from qmlir.devices import load_device, shipped_devices
from tests.backends.npu.test_compiled import compiled
from tests.conftest import ROOT

ROUNDING = 1 + 1e-9
DIGITS = ROOT / "examples" / "digits" / "digits.onnx"


@pytest.mark.parametrize("device", shipped_devices())
def test_nothing_lies_above_its_roof(device: str) -> None:
    executable = compiled(device)
    report = executable.predicted
    found = roofline(report, executable.device)
    assert [line.memory for line in found] == [m.id for m in executable.device.memory if m.bytes_per_cycle]
    for line in found:
        assert [point.products for point in line.points] == [n.products for n in report.layers if n.products]
        assert line.whole.products == report.products
        assert line.whole.time == report.cycles
        for point in (*line.points, line.whole):
            assert 0 < point.attained <= point.attainable * ROUNDING
            assert point.attainable <= line.roof(point.intensity) * ROUNDING
            assert point.bytes <= point.moved


def test_a_roof() -> None:
    """64 products a cycle, and a byte a cycle."""
    slow = {"memory.dram.bytes_per_cycle": {"read": 1.0, "write": 1.0}, "queue.load.bytes_per_cycle": 1.0}
    executable = compiled(load_device("nvdla-small").with_(slow))
    (line,) = roofline(executable.predicted, executable.device)
    assert (line.peak, line.bandwidth, line.ridge) == (64.0, 1.0, 64.0)
    assert (line.roof(32.0), line.roof(64.0), line.roof(1000.0), line.roof(None)) == (32.0, 64.0, 64.0, 64.0)
    weights = line.points[-1]
    assert weights.attained == pytest.approx(line.roof(weights.intensity))  # its fully connected layer only loads


def test_ceilings() -> None:
    assert ceilings(load_device("vta")) == []
    assert ceilings(load_device("ethos-u55-like")) == [
        Ceiling("i16 by i8", 64.0), Ceiling("depthwise, i8 by i8", 16.0), Ceiling("depthwise, i16 by i8", 8.0),
    ]  # fmt: skip


def test_of_what_bench_measures() -> None:
    layers = [{"name": "conv1+relu1", "macs": 4608, "seconds": 2.0}, {"name": "pool2", "macs": 0, "seconds": 1.0}]
    figures = {"layers": layers, "macs": 4608, "timed_seconds": 3.0, "peak": {"macs_per_second": 1e4}}
    moved = moved_bytes(DIGITS)
    # Inputs, outputs, weights and biases of floats: 8 windows of 3x3 on one channel of 8x8.
    assert moved["conv1+relu1"] == 4 * (64 + 8 * 64 + 8 * 9 + 8)
    line = measured_roofline(figures, 1e3, moved)
    (point,) = line.points
    assert (point.attained, point.intensity) == (2304.0, 4608 / moved["conv1+relu1"])
    assert (line.unit, line.whole.attained) == ("seconds", 1536.0)
    assert copy_bandwidth(1 << 20, 1) > 0
