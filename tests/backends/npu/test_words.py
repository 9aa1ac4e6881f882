"""Programs in words as files: bytes, Intel HEX, `$readmemh` and C, read back by readers of their own; and listings."""

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from qmlir.backends.npu.image import intel_hex
from qmlir.backends.npu.stream import assemble, listing
from qmlir.backends.npu.words import Words, binary, c_array, decoded, encoded, readmemh, words_listing
from qmlir.devices import load_device
from qmlir.errors import UnsupportedError
from qmlir.isa.encoding import StreamError
from tests.backends.npu.image_reader import intel_hex_bytes
from tests.backends.npu.programs import DEVICE, Layer


def some(bits: int, count: int) -> Words:
    """Random words, none to three for each command."""
    rng = np.random.default_rng(bits)
    words = [int.from_bytes(rng.bytes(bits // 8), "big") for _ in range(count)]
    groups, at = list[list[int]](), 0
    while at < count:
        groups.append(words[at : at + (size := int(rng.integers(4)))])
        at += size
    return Words(bits, groups, [f"load move number={n}" for n in range(len(groups))])


@pytest.mark.parametrize("bits", [8, 32, 64, 96])
def test_bytes_are_little_endian(bits: int) -> None:
    words = some(bits, 100)
    size = bits // 8
    raw = binary(words)
    assert len(raw) == 100 * size
    assert [int.from_bytes(raw[at : at + size][::-1], "big") for at in range(0, len(raw), size)] == words.all


@pytest.mark.parametrize(("bits", "count"), [(8, 5), (64, 100), (64, 20_000)])
def test_intel_hex(bits: int, count: int) -> None:
    words = some(bits, count)
    memory = intel_hex_bytes(intel_hex({0: binary(words)}))
    assert bytes(memory[n] for n in range(len(memory))) == binary(words)


@pytest.mark.parametrize("bits", [8, 64, 96])
def test_readmemh(bits: int) -> None:
    words = some(bits, 50)
    text = readmemh(words)
    assert [int(line, 16) for line in text.splitlines() if not line.startswith("//")] == words.all
    assert [line[3:] for line in text.splitlines() if line.startswith("// load")] == list(words.listed)


@pytest.mark.skipif(shutil.which("iverilog") is None, reason="needs Icarus Verilog: apt-get install iverilog")
def test_verilog_reads_it(tmp_path: Path) -> None:
    words = some(64, 50)
    (tmp_path / "net.hex").write_text(readmemh(words))
    (tmp_path / "show.v").write_text(
        'module show; reg [63:0] words [0:49]; integer i;\ninitial begin $readmemh("net.hex", words);\n'
        'for (i = 0; i < 50; i = i + 1) $display("%h", words[i]); end\nendmodule\n'
    )
    for command in (["iverilog", "-o", "show", "show.v"], ["vvp", "show"]):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert [int(line, 16) for line in done.stdout.split()] == words.all


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_c_arrays(bits: int, tmp_path: Path) -> None:
    words = some(bits, 40)
    main = (
        "#include <stdio.h>\nint main(void) { for (uint32_t i = 0; i < net_count; ++i) "
        'printf("%llx\\n", (unsigned long long)net[i]); }\n'
    )
    (tmp_path / "net.c").write_text(c_array(words, "net") + main)
    subprocess.run(["cc", "-std=c99", "-Wall", "-Werror", "-o", "net", "net.c"], cwd=tmp_path, check=True)
    shown = subprocess.run([tmp_path / "net"], capture_output=True, text=True, check=True).stdout
    assert [int(line, 16) for line in shown.split()] == words.all


def test_c_has_no_integers_of_other_widths() -> None:
    said = "words of a C array must have 8, 16, 32, 64 bits, got 96; write them by --emit bin"
    with pytest.raises(UnsupportedError, match=said):
        c_array(some(96, 3), "net")


def test_a_device_without_an_encoder_has_the_words_of_the_instruction_set() -> None:
    program = Layer.random().program()
    words = encoded(program, DEVICE)
    assert words.bits == 32
    assert words.all == [word for command in program.commands for word in command.words()]
    assert decoded(words.all, DEVICE) == list(program.commands)
    with pytest.raises(StreamError):
        decoded(words.all[:-1], DEVICE)
    with pytest.raises(StreamError, match="must be made for this device"):
        encoded(program, load_device("vta"))


def test_a_listing_with_words_assembles_to_the_same_commands() -> None:
    program = Layer.random().program()
    words = encoded(program, DEVICE)
    text = words_listing(listing(program.commands, DEVICE), words)
    assert assemble(text, DEVICE) == list(program.commands)
    for line, own in zip(text.splitlines(), words.commands, strict=True):
        assert re.search(r"; words ((?:[0-9a-f]{8} ?)+)$", line)
        assert [int(word, 16) for word in line.partition("words ")[2].split()] == own
