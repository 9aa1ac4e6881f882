"""Devices at a glance, and as the text of a file."""

import json

import pytest

from qmlir.devices import load_device, parse_device, shipped_devices
from qmlir.devices.description.summary import summaries, summary, toml_of
from qmlir.errors import FileError


def test_what_ships() -> None:
    found = summaries()
    assert [device["name"] for device in found] == list(shipped_devices())
    assert json.loads(json.dumps(found)) == found
    assert all(device["description"].endswith(".") for device in found)


def test_a_summary() -> None:
    found = summary(load_device("ethos-u55-like").with_({"clock_mhz": 7, "queue.kernel.unpacks": [4]}))
    assert (found["clock_mhz"], found["macs_per_cycle"], found["depthwise"]) == (7, 128, 16)
    assert found["array"]["lanes"] == {"k": 8, "n": 8, "m": 2}
    assert found["array"]["modes"][1] == {"a": "i16", "w": "i8", "acc": "i40", "macs_per_cycle": 64.0}
    assert found["memories"][2] == {
        "id": "flash", "bytes": 33554432, "external": True, "holds": ["weights", "bias", "scales"],
        "read": 1.0, "write": None,
    }  # fmt: skip
    assert found["queues"] == [
        {"id": "dma", "engine": "dma", "unpacks": []},
        {"id": "kernel", "engine": "array", "unpacks": [4]},
    ]
    assert (found["sync"], found["contract"], found["fallback"]) == ("watermark", "single", "host")


@pytest.mark.parametrize("name", shipped_devices())
def test_the_text_of_a_file(name: str) -> None:
    quotes = 'a "quoted" \\ line'
    for device in (load_device(name), load_device(name).with_({"array.lanes.k": 64, "description": quotes})):
        assert parse_device(toml_of(device), "mine.toml") == device


@pytest.mark.parametrize("text", ['"two\\nlines"', "3"])
def test_a_description_is_a_line_of_text(text: str) -> None:
    file = toml_of(load_device("nmp")).replace("clock_mhz", f"description = {text}\nclock_mhz", 1)
    with pytest.raises(FileError, match="must be"):
        parse_device(file.replace('description = "A', "#", 1), "mine.toml")
