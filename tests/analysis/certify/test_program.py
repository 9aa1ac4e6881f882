"""Certificates of programs: what they state holds for every value that the simulator computes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qmlir
from qmlir.analysis.certify import certificate_of_program
from qmlir.backends.npu import execute
from qmlir.backends.npu.machine import Operands
from qmlir.backends.npu.stream import Program, flat, unflattened
from qmlir.devices import load_device, shipped_devices
from qmlir.isa.encoding import StreamError
from qmlir.numerics import Int64s
from tests.conftest import ROOT

DIGITS = ROOT / "examples" / "digits"


@pytest.mark.slow
@pytest.mark.parametrize("device", ["ethos-u55-like", "nmp", "vta"])
def test_all_values_lie_in_their_intervals(device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = np.load(DIGITS / "digits.npz")["calibration_images"][:, None]
    quantized = qmlir.quantize(DIGITS / "digits.onnx", data=images[:10], target=device)
    executable = qmlir.compile(quantized, target=device)
    executable.save(tmp_path / "net.npu")
    certificate = certificate_of_program(tmp_path / "net.npu")
    ends: dict[Any, list[int]] = {}
    put = Operands.put

    def record(self: Operands, name: str, values: Int64s, bits: int) -> None:
        seen = ends.setdefault(id(self.accesses), [int(values.min()), int(values.max())])
        seen[:] = [min(seen[0], int(values.min())), max(seen[1], int(values.max()))]
        put(self, name, values, bits)

    monkeypatch.setattr(execute.Operands, "put", record)
    wild = np.random.default_rng(0).normal(scale=30, size=images[:5].shape).astype(np.float32)
    for image in (*images[:5], *wild):
        executable(image)
    assert len(ends) == len(certificate["commands"])
    for (low, high), each in zip(ends.values(), certificate["commands"], strict=True):
        assert each["range"][0] <= low <= high <= each["range"][1], each["command"]


@pytest.mark.parametrize("name", shipped_devices())
def test_a_program_tells_its_device(name: str) -> None:
    device = load_device(name)
    keys = flat(device)
    assert flat(unflattened(keys)) | keys == flat(unflattened(keys))
    assert unflattened(keys).array == device.array
    with pytest.raises(StreamError, match="must describe a device"):
        unflattened({**keys, "array.lanes": 3})
    with pytest.raises(StreamError, match="must describe a device"):
        unflattened({**keys, "more": 3})
    with pytest.raises(StreamError, match="must describe a device"):
        unflattened({key: value for key, value in keys.items() if not key.startswith("queue")})


def test_a_program_without_its_routines(tmp_path: Path) -> None:
    images = np.load(DIGITS / "digits.npz")["calibration_images"][:, None]
    quantized = qmlir.quantize(DIGITS / "digits.onnx", data=images[:10], target="vta")
    qmlir.compile(quantized, target="vta").save(tmp_path / "net.npu")
    host = tmp_path / "net.host.mlir"
    host.write_text(host.read_text().replace("@host_0", "@other"))
    with pytest.raises(qmlir.QmlirError, match=r"net\.host\.mlir: must hold the routine host_0, got other, host_1"):
        certificate_of_program(tmp_path / "net.npu")
    host.unlink()
    with pytest.raises(qmlir.QmlirError, match=r"net\.host\.mlir"):
        certificate_of_program(tmp_path / "net.npu")
    assert Program.load(tmp_path / "net.npu").routines
