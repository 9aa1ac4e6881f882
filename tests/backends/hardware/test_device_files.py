"""Seeded faults in the device files of real hardware: the encoder whose words a file names finds each."""

import json
from pathlib import Path

import pytest

import qmlir
from qmlir.devices.model.agreement import AtMost, OneOf, disagreement
from qmlir.devices.model.encoder import layer_encoder_of
from qmlir.plugins import PluginError
from tests.backends.hardware.boards import ENCODERS, device_of
from tests.cli.small import Small, run, write_small

FAULTS: list[tuple[str, str, object]] = [
    ("nvdla-small", "memory.cbuf.banks", 16),
    ("nvdla-small", "memory.cbuf.bytes", 1 << 18),
    ("nvdla-small", "array.lanes.k", 16),
    ("nvdla-small", "array.lanes.n", 16),
    ("nvdla-small", "array.depthwise.lanes.c", 16),
    ("nvdla-small", "array.overflow", "wrap"),
    ("nvdla-small", "layout.channels", 16),
    ("nvdla-small", "layout.weights", {"n": 16, "k": 8}),
    ("nvdla-small", "quant.round", "half-even"),
    ("nvdla-small", "quant.multiplier_bits", 18),
    ("nvdla-small", "quant.shift", {"max": 62, "per": "layer"}),
    ("nvdla-small", "quant.shift", {"max": 31}),
    ("nvdla-small", "quant.bias", {"type": "i16", "when": "init"}),
    ("nvdla-small", "ops.add.multiplier_bits", 9),
    ("nvdla-small", "ops.conv2d.kernel_max", [32, 33]),
    ("nvdla-small", "ops.conv2d.stride_max", 9),
    ("nvdla-small", "ops.depthwise.padding_max", 32),
    ("nvdla-small", "ops.maxpool.kernel_max", [9, 8]),
    ("nvdla-small", "ops.avgpool.padding_max", 8),
    ("gemmini", "array.lanes.k", 8),
    ("gemmini", "memory.spad.bytes", 1 << 19),
    ("gemmini", "memory.acc.bytes", 1 << 15),
    ("gemmini", "array.depthwise.lanes.taps", 9),
    ("gemmini", "layout.channels", 32),
    ("gemmini", "quant.bias", {"type": "i32", "when": "post"}),
    ("gemmini", "quant.granularity", "channel"),
    ("gemmini", "ops.add.operand_scale", "independent"),
    ("gemmini", "ops.maxpool.kernel_max", [15, 15]),
    ("gemmini", "ops.maxpool.stride_max", 4),
    ("gemmini", "ops.conv2d.padding_max", 256),
    ("vta", "array.lanes.n", 32),
    ("vta", "memory.inp.bytes", 1 << 16),
    ("vta", "memory.wgt.bytes", 1 << 17),
    ("vta", "memory.acc.bytes", 1 << 18),
    ("vta", "memory.out.bytes", 1 << 14),
    ("vta", "layout.weights", {"n": 8, "k": 16}),
    ("vta", "quant.shift.max", 32),
    ("vta", "quant.granularity", "channel"),
    ("vta", "ops.conv2d.padding_max", 16),
    ("vta", "ops.maxpool.padding_max", 31),
]
"""Device, key, and a value that its hardware does not have."""


@pytest.mark.parametrize("name", ENCODERS)
def test_the_files_that_ship(name: str) -> None:
    found = layer_encoder_of(device_of(name))
    assert found is not None
    assert len(found[0].hardware) > 10


@pytest.mark.parametrize(("name", "key", "value"), FAULTS, ids=[f"{n} {k} {v}" for n, k, v in FAULTS])
def test_a_fault_in_a_file(name: str, key: str, value: object) -> None:
    wrong = device_of(name).with_({key: value})
    with pytest.raises(PluginError, match=rf"{name}: {key}[\w.]* must be .* for the encoder {ENCODERS[name]}, got"):
        layer_encoder_of(wrong)


@pytest.mark.parametrize("name", ENCODERS)
def test_the_faults_are_of_each_kind(name: str) -> None:
    """A table of the file that the encoder speaks of has a fault."""
    found = layer_encoder_of(device_of(name))
    assert found is not None
    spoken = {key.split(".")[0] for key in found[0].hardware}
    assert spoken == {key.split(".")[0] for each, key, _ in FAULTS if each == name}


def test_what_a_file_may_say() -> None:
    device = qmlir.load_device("nmp")
    assert disagreement(device, {"ops.absent.kernel_max": 3, "layout.channels": AtMost(1 << 20)}) is None
    assert disagreement(device, {"array.dataflow": OneOf(("ws", "os", "dot"))}) is None
    wanted = {"array.dataflow": OneOf(("tree", "none"))}
    assert disagreement(device, wanted) == ("array.dataflow must be tree or none", device.array.dataflow)
    need = "memory.absent.bytes must be at most 3"
    assert disagreement(device, {"memory.absent.bytes": AtMost(3)}) == (need, "nothing")


@pytest.fixture
def small(tmp_path: Path) -> Small:
    return write_small(tmp_path)


def test_what_the_refusal_advises(small: Small, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("device", "check", "nvdla-small", small.onnx, "--set", "encoder=nvdla")
    assert run(*arguments, "--set", "memory.cbuf.banks=16") == 1
    message = "nvdla-small: memory.cbuf.banks must be 32 for the encoder nvdla, got 16; correct the device file, or "
    assert message in capsys.readouterr().err
    # Both remedies: another bank count, and no such encoder.
    assert run(*arguments, "--set", "memory.cbuf.banks=32") == 0
    assert run("device", "check", "nvdla-small", small.onnx, "--set", "memory.cbuf.banks=16") == 0


def test_every_fault_is_a_value_of_the_schema() -> None:
    """A file without the encoder may say it: the schema does not refuse it, the hardware does."""
    for name, key, value in FAULTS:
        assert json.dumps(qmlir.load_device(name).with_({key: value}).model_dump(mode="json"))
