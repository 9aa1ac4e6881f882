"""Variants of a device: keys that are changed without a file, and what is refused."""

from pathlib import Path

import numpy as np
import pytest

import qmlir
from qmlir.devices import load_device, parse_device, shipped_devices, text_of
from qmlir.devices.description.changing import settings_of
from qmlir.errors import FileError, OptionError
from qmlir.ir.facts import DEVICE
from qmlir.isa.encoding import StreamError
from tests.conftest import ROOT

DIGITS = ROOT / "examples" / "digits" / "digits.onnx"
TARGETS = ROOT / "qmlir" / "targets"


def test_keys_of_every_kind() -> None:
    nmp = load_device("nmp")
    changes = {
        "array.lanes.k": 16, "array.modes.0.rate": 0.5, "memory.act.bytes": 65536, "memory.1.align": 32,
        "queue.load.from": ["dram"], "queue.load.can_pad": False, "sync.kind": "barrier",
        "array.depthwise.lanes.taps": 9,
    }  # fmt: skip
    found = nmp.with_(changes)
    assert (found.array.lanes.k, found.array.lanes.n, found.array.modes[0].rate) == (16, 16, 0.5)
    assert [memory.bytes for memory in found.memory[:2]] == [65536, nmp.memory[1].bytes]
    assert found.memory[1].align == 32
    assert (found.queue[0].source, found.queue[0].can_pad, found.sync.kind) == (("dram",), False, "barrier")
    vta = load_device("vta")
    assert vta.ops.mul is None
    assert vta.with_({"ops.mul": {}}).ops.mul is not None
    assert found.peak_macs == 256
    assert nmp == load_device("nmp")


def test_a_variant_is_what_the_file_would_be() -> None:
    text = (TARGETS / "nmp.toml").read_text("utf-8")
    changed = parse_device(text.replace("k = 32, n = 16 }", "k = 16, n = 16 }", 1), "mine.toml")
    assert load_device("nmp").with_({"array.lanes.k": 16}) == changed


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("array.lanes.kk", 1, "array.lanes.kk: there is no such key of a device; did you mean array.lanes.k?"),
        ("arrays.lanes.k", 1, "arrays.lanes.k: there is no such key of a device; did you mean array?"),
        ("memory.atc.bytes", 1, "memory.atc.bytes: there is no memory.atc; did you mean memory.acc or memory.act?"),
        ("memory.9.bytes", 1, "there is no memory.9; known: memory.acc, memory.act, memory.dram, memory.wgt"),
        ("array.lanes.k.x", 1, "array.lanes.k.x: array.lanes.k has no keys below it"),
        ("array.lanes.k", "x", "nmp with array.lanes.k = x: array.lanes.k: must be a whole number of lanes, got 'x'"),
        ("array.lanes.k", 0, "array.lanes.k: must be at least 1 lanes, got 0"),
        ("array.lanes", 16, "array.lanes: must be a table, got 16"),
        ("memory", 16, "memory: must be a list, got 16"),
        ("sync.kind", "barier", "sync.kind: must be 'watermark', 'tokens', 'interlock', 'descriptor' or 'barrier'"),
        ("sync.tokens", 3, "sync.tokens is for kind tokens, got watermark"),
        (3, 1, "a key of a device: must be text, such as array.lanes.k, got 3"),
    ],
)
def test_what_is_refused(key: str, value: object, message: str) -> None:
    with pytest.raises(OptionError) as error:
        load_device("nmp").with_({key: value})
    assert message in str(error.value)


def test_settings_of_a_command_line() -> None:
    texts = ["array.lanes.k=16", "array.modes.0.rate = 0.5", "sync.kind=barrier", "queue.load.can_pad=false"]
    texts += ['queue.load.from=["dram"]', "ops.mul={}", "name=a=b"]
    assert settings_of(texts) == {
        "array.lanes.k": 16, "array.modes.0.rate": 0.5, "sync.kind": "barrier", "queue.load.can_pad": False,
        "queue.load.from": ["dram"], "ops.mul": {}, "name": "a=b",
    }  # fmt: skip


@pytest.mark.parametrize("text", ["array.lanes.k", "=16", "array.lanes.k=", ""])
def test_settings_that_are_none(text: str) -> None:
    with pytest.raises(OptionError, match="must be a key of the device and its value: array"):
        settings_of([text])


@pytest.mark.parametrize("name", shipped_devices())
def test_the_text_of_a_device(name: str) -> None:
    device = load_device(name)
    assert text_of(name) == text_of(device) == name
    assert text_of(Path("mine.toml")) == "mine.toml"
    variant = device.with_({"clock_mhz": device.clock + 1})
    assert load_device(text_of(variant)) == variant
    assert load_device(variant) is variant


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "must be JSON"),
        ("{" * 10**5, "must be JSON"),
        ("{}", "schema: is missing"),
        ('{"schema": ' + "1" * 5000 + "}", "must be JSON"),
    ],
)
def test_a_text_that_is_no_device(text: str, message: str) -> None:
    with pytest.raises(FileError, match=f"the device of the module: {message}"):
        load_device(text)


@pytest.mark.slow
def test_a_target_is_a_device_too(tmp_path: Path) -> None:
    """The module keeps the variant, in a file too; its program names its keys."""
    variant = qmlir.load_device("nmp").with_({"array.lanes.k": 16, "queue.post.elements_per_cycle": 3.0})
    assert isinstance(variant, qmlir.Device)
    with np.load(ROOT / "examples" / "digits" / "digits.npz") as data:
        samples = [image[None] for image in data["calibration_images"][:8]]
    quantized = qmlir.quantize(DIGITS, data=samples, target=variant)
    qmlir.save(quantized, tmp_path / "q.mlir")
    read = qmlir.load(tmp_path / "q.mlir")
    assert load_device(DEVICE.required(read)) == variant
    executable = qmlir.compile(read, target=variant)
    assert executable.device == variant
    assert executable.program.device["array.lanes.k"] == 16
    expected = qmlir.reference(read)(samples[0])
    assert np.array_equal(executable(samples[0]), expected)
    assert np.array_equal(qmlir.reference(quantized, target=variant)(samples[0]), expected)
    executable.save(tmp_path / "q.npu")
    assert np.array_equal(qmlir.load_program(tmp_path / "q.npu", variant)(samples[0]), expected)
    with pytest.raises(StreamError, match=r"array\.lanes\.k = 16 there, 32 here"):
        qmlir.load_program(tmp_path / "q.npu", "nmp")
    assert executable.predicted_cycles != qmlir.compile(quantized, target="nmp").predicted_cycles


def test_a_target_that_is_none() -> None:
    with pytest.raises(OptionError, match="target: must be text or a Path, got 3 of type int"):
        qmlir.compile(DIGITS, target=3)  # pyright: ignore[reportArgumentType]
