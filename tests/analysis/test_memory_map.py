"""Memories over time: what lies where, and how many bytes are in use."""

from itertools import combinations

import pytest

from qmlir.analysis.memory_map import arena_map, memory_maps
from qmlir.backends.simulated import Simulated, serial
from qmlir.devices import shipped_devices
from tests.backends.npu.test_compiled import compiled
from tests.conftest import ROOT

DIGITS = ROOT / "examples" / "digits" / "digits.onnx"


@pytest.mark.parametrize("device", shipped_devices())
def test_memories_of_a_device(device: str) -> None:
    executable = compiled(device)
    maps = memory_maps(executable)
    assert [(m.memory, m.size) for m in maps] == [(m.id, m.bytes) for m in executable.device.memory]
    for found in maps:
        assert found.end == executable.predicted_cycles
        assert all(0 <= used <= found.size for _, used in found.usage)
        assert [time for time, _ in found.usage] == sorted({time for time, _ in found.usage})
        assert found.usage[-1][0] <= found.end
        for extent in found.extents:
            assert 0 <= extent.offset < extent.offset + extent.size <= found.size
            assert 0 <= extent.begin < extent.end <= found.end
        assert found.layers[0].start == 0
        assert all(a.end == b.start for a, b in zip(found.layers, found.layers[1:], strict=False))
        assert found.layers[-1].end == found.end
    ports = {e.name: e for m in maps for e in m.extents if m.external and e.kind == "tensor"}
    assert ports["input0"].begin == 0
    assert 40 in [e.size for e in ports.values() if e.end == maps[0].end]  # the output, ten floats


@pytest.mark.parametrize("device", shipped_devices())
def test_buffers_lie_apart(device: str) -> None:
    """By the numbers of commands, as they were placed; forwarders and barriers change the numbers alone."""
    executable = compiled(device)
    one_by_one = executable.with_program(serial(executable.program, executable.device))
    for each in (executable, one_by_one):
        assert len(each.buffers) == len(executable.buffers) > 10
        for a, b in combinations(each.buffers, 2):
            together = a.memory == b.memory and a.first <= b.last and b.first <= a.last
            assert not together or a.address + a.bytes <= b.address or b.address + b.bytes <= a.address


def test_without_tiles_and_of_a_file() -> None:
    executable = compiled("nmp")
    kinds = [{e.kind for m in memory_maps(executable, tiles=tiles) for e in m.extents} for tiles in (True, False)]
    assert kinds == [{"tensor", "tile", "constant"}, {"tensor", "constant"}]
    loaded = Simulated(executable.program, executable.device, executable.routines, executable.native)
    assert [(m.extents, m.usage) for m in memory_maps(loaded)] == [([], m.usage) for m in memory_maps(executable)]


def test_an_arena() -> None:
    found = arena_map(DIGITS)
    tensors = {e.name: e for e in found.extents if e.kind == "tensor"}
    assert tensors["relu1_out"].size == 4 * 8 * 8 * 8
    assert (tensors["relu1_out"].begin, tensors["relu1_out"].end) == (0, 2)
    assert [layer.layer for layer in found.layers[:2]] == ["conv1+relu1", "conv2+norm2+relu2"]
    for a, b in combinations(found.extents, 2):
        together = a.begin < b.end and b.begin < a.end
        assert not together or a.offset + a.size <= b.offset or b.offset + b.size <= a.offset
    assert 0 < found.peak <= found.size
    assert found.unit == "calls"
