"""Images of memories as files, read back by readers of their own."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from qmlir.backends.npu.image import Image, TensorPlace, image_files
from tests.backends.npu.image_reader import c_bytes, intel_hex_bytes, verilog_bytes

PLACES = [TensorPlace("x", "dram", 0x40, 12, (1, 2, 2, 3), 8)], [TensorPlace("y", "sram-1", 0, 8, (1, 4), 16)]


def constants() -> dict[str, dict[int, bytes]]:
    """Runs at odd addresses, one of them over the end of 64 KiB, and one behind another without a gap."""
    rng = np.random.default_rng(0)
    runs = {0x13: 5, 0x18: 40, 0x41: 1, 0xFFF5: 70_000, 0x345678: 33}
    drawn = {address: rng.bytes(size) for address, size in runs.items()}
    return {"dram": drawn, "sram-1": {0x200: rng.bytes(16)}}


def files(form: str, suffix: str, folder: Path) -> dict[str, bytes]:
    made = image_files(Image(constants(), *PLACES), form, folder / f"net{suffix}", "net")
    return {path.name: text if isinstance(text, bytes) else text.encode() for path, text in made.items()}


def read(form: str, content: bytes, memory: str, address: int) -> dict[int, int]:
    match form:
        case "bin":
            return {address + n: byte for n, byte in enumerate(content)}
        case "hex":
            return intel_hex_bytes(content.decode())
        case "readmemh":
            return verilog_bytes(content.decode())
        case _:
            return c_bytes(content.decode(), f"net_{memory.replace('-', '_')}")


@pytest.mark.parametrize(("form", "suffix"), [("bin", ".bin"), ("hex", ".ihex"), ("readmemh", ".hex"), ("c", ".c")])
def test_files_hold_every_byte(form: str, suffix: str, tmp_path: Path) -> None:
    made = files(form, suffix, tmp_path)
    index = json.loads(made.pop("net.places.json"))
    assert index["words"] == f"net{suffix}"
    assert list(made) == [each["file"] for each in index["memories"]] == [f"net.dram{suffix}", f"net.sram-1{suffix}"]
    for each, (memory, runs) in zip(index["memories"], constants().items(), strict=True):
        assert (each["memory"], each["address"]) == (memory, min(runs))
        assert [(c["address"], c["bytes"]) for c in each["constants"]] == [(a, len(d)) for a, d in runs.items()]
        wanted = {address + n: byte for address, data in runs.items() for n, byte in enumerate(data)}
        found = read(form, made[each["file"]], memory, each["address"])
        assert {address: found[address] for address in wanted} == wanted
        between = set(found) - set(wanted)
        assert not any(found[address] for address in between)
        if form in ("bin", "c"):
            assert len(found) == each["bytes"] == max(wanted) - min(wanted) + 1
        else:
            assert not between


def test_the_index_says_where_tensors_lie(tmp_path: Path) -> None:
    index = json.loads(files("bin", ".bin", tmp_path)["net.places.json"])
    place = {"name": "x", "memory": "dram", "address": 64, "bytes": 12, "shape": [1, 2, 2, 3], "bits": 8}
    assert index["inputs"] == [place]
    assert index["outputs"] == [
        {"name": "y", "memory": "sram-1", "address": 0, "bytes": 8, "shape": [1, 4], "bits": 16}
    ]
    assert "steps" not in index


def test_a_memory_without_constants_has_no_file(tmp_path: Path) -> None:
    made = image_files(Image({}, *PLACES), "hex", tmp_path / "net.ihex", "net")
    assert [path.name for path in made] == ["net.places.json"]


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler called cc")
def test_c_is_compiled(tmp_path: Path) -> None:
    for name, content in files("c", ".c", tmp_path).items():
        (tmp_path / name).write_bytes(content)
    for name in ("net.dram.c", "net.sram-1.c"):
        command = ["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only", name]
        subprocess.run(command, cwd=tmp_path, check=True)
