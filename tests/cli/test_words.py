"""`qmlir compile --target … --emit`: a device's own words from the command line, by the example's encoder."""

import json
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from qmlir.backends.npu.stream import Program, assemble
from qmlir.backends.npu.words import decoded
from qmlir.devices import Device, load_device
from qmlir.devices.model.encoder import Encoder, Issued, register_encoder
from qmlir.plugins import ENCODERS
from tests.backends.npu.image_reader import c_bytes, intel_hex_bytes, verilog_bytes
from tests.cli.small import Small, run
from tests.packages import install, site

__all__ = ["site"]


@pytest.fixture
def device(root: Path, site: Path, small: Small) -> Path:
    """The example's device, with its package installed."""
    example = root / "examples" / "encoder"
    text = (example / "packet64.py").read_text(encoding="utf-8")
    install(site, "qmlir-packet64", {ENCODERS: {"packet64": "packet64:Packet64"}}, {"packet64": text})
    shutil.copy(example / "packet.toml", small / "packet.toml")
    return small / "packet.toml"


@pytest.fixture
def quantized(small: Small, device: Path) -> Path:
    output = small / "small.mlir"
    assert run("quantize", small.onnx, "--data", small.data, "--target", device, "-o", output) == 0
    return output


@pytest.mark.slow
def test_forms(small: Small, device: Path, quantized: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("compile", quantized, "--target", device, "-o", small / "net.npu") == 0
    for emit, suffix in (("bin", "bin"), ("hex", "ihex"), ("readmemh", "hex"), ("c", "c"), ("asm", "s")):
        assert run("compile", quantized, "--target", device, "--emit", emit, "-o", small / f"net.{suffix}") == 0
    shown = capsys.readouterr().out
    commands = list(Program.load(small / "net.npu").commands)
    raw = (small / "net.bin").read_bytes()
    words = [int.from_bytes(raw[at : at + 8], "little") for at in range(0, len(raw), 8)]
    assert f"net.bin: {len(words)} words of 64 bits by the encoder packet64" in shown
    assert decoded(words, load_device(device)) == commands
    assert [int(line, 16) for line in _lines(small / "net.hex") if "//" not in line] == words
    assert [int(word, 16) for word in re.findall(r"0x(\w{16})ull", (small / "net.c").read_text())] == words
    assert "const uint64_t net[]" in (small / "net.c").read_text()
    listed = (small / "net.s").read_text()
    assert assemble(listed, load_device(device)) == commands
    assert [int(w, 16) for line in listed.splitlines() for w in line.partition("words ")[2].split()] == words
    assert _lines(small / "net.ihex")[-1] == ":00000001FF"
    _check_image(small, Program.load(small / "net.npu"), load_device(device))


def _check_image(small: Small, program: Program, device: Device) -> None:
    """Checks that the files beside the words hold the program's data, and its places."""
    wanted: dict[str, dict[int, int]] = {}
    for segment in program.segments:
        held = {segment.place.address + n: byte for n, byte in enumerate(segment.data)}
        wanted.setdefault(device.memory[segment.place.memory].id, {}).update(held)
    assert wanted
    index = json.loads((small / "net.places.json").read_text())
    assert {each["memory"] for each in index["memories"]} == set(wanted)
    for memory, data in wanted.items():
        found = [
            intel_hex_bytes((small / f"net.{memory}.ihex").read_text()),
            verilog_bytes((small / f"net.{memory}.hex").read_text()),
            c_bytes((small / f"net.{memory}.c").read_text(), f"net_{memory}"),
        ]
        assert all({at: bytes_[at] for at in data} == data for bytes_ in found)
    for side, ports in (("inputs", program.inputs), ("outputs", program.outputs)):
        places = [(device.memory[p.place.memory].id, p.place.address, p.block.bytes) for p in ports]
        assert [(each["memory"], each["address"], each["bytes"]) for each in index[side]] == places


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


@pytest.mark.slow
def test_a_device_without_an_encoder(small: Small, quantized: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("quantize", small.onnx, "--data", small.data, "--target", "nmp", "-o", quantized) == 0
    assert run("compile", quantized, "--target", "nmp", "-o", small / "net.npu") == 0
    assert run("compile", quantized, "--target", "nmp", "--emit", "bin", "-o", small / "net.bin") == 0
    raw = (small / "net.bin").read_bytes()
    words = [int.from_bytes(raw[at : at + 4], "little") for at in range(0, len(raw), 4)]
    assert decoded(words, load_device("nmp")) == list(Program.load(small / "net.npu").commands)
    assert re.search(r"net\.bin: \d+ words of 32 bits$", capsys.readouterr().out, re.MULTILINE)


def test_what_goes_wrong_is_said(
    small: Small, device: Path, quantized: Path, site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = device.read_text(encoding="utf-8")
    (small / "other.toml").write_text(text.replace('encoder = "packet64"', 'encoder = "packet46"'), encoding="utf-8")
    for arguments, message in [
        (
            ("compile", quantized, "--emit", "bin", "-o", small / "x.bin"),
            "--emit: writes the words of a device, got bin",
        ),
        (
            ("compile", quantized, "--target", device, "--emit", "hex", "-o", small / "x.hex"),
            "--output: must end in .ihex with --target --emit hex",
        ),
        (
            ("compile", quantized, "--target", small / "other.toml", "-o", small / "x.npu"),
            "packet: encoder must be one that a package or the program offers, got packet46; did you mean packet64?",
        ),
    ]:
        capsys.readouterr()
        assert run(*arguments) == 1
        assert message in " ".join(capsys.readouterr().err.split())
    assert not list(small.folder.glob("x*"))


def test_what_refusals_advise(small: Small, device: Path, quantized: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("compile", quantized, "--emit", "bin", "-o", small / "x.bin") == 1
    assert "name it by --target" in capsys.readouterr().err
    assert run("compile", quantized, "--target", device, "--emit", "bin", "-o", small / "x.bin") == 0
    register_encoder("wide", Wide)
    text = device.read_text(encoding="utf-8").replace("packet64", "wide")
    device.write_text(text, encoding="utf-8")
    assert run("compile", quantized, "--target", device, "--emit", "c", "-o", small / "x.c") == 1
    assert "write them by --emit bin" in capsys.readouterr().err
    assert run("compile", quantized, "--target", device, "--emit", "bin", "-o", small / "x.bin") == 0
    assert (small / "x.bin").stat().st_size % 12 == 0


class Wide(Encoder):
    """Words of 96 bits."""

    word_bits = 96

    def encode(self, commands: Iterator[Issued]) -> Iterator[Sequence[int]]:
        return (each.command.words() for each in commands)
