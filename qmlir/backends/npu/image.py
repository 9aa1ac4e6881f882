"""The constants of a device's memories before its words run, as files beside the words, and where tensors lie.

The words of commands or layers name addresses; a driver, or a testbench, has to know what lies there. Beside a file of
words `net.bin` there are

    net.MEMORY.bin    the constants of a memory in the form of the words: bytes, Intel HEX, `$readmemh`, an array of C
    net.places.json   which file holds which bytes of which memory, and the places of the network's inputs and outputs

Bytes and arrays begin with the first constant; what lies between two constants is 0 there. Intel HEX and `$readmemh`
say the address of each run of bytes and leave out what lies between.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from qmlir.backends.npu.stream import Port, Program
from qmlir.devices import Device

Runs = Mapping[int, bytes]
"""Address → the bytes from there on."""


@dataclass(frozen=True)
class TensorPlace:
    """Where a tensor lies.

    memory   the id of the memory
    address  of its first byte
    bytes    that it takes there
    shape    its dimensions
    bits     of an element
    """

    name: str
    memory: str
    address: int
    bytes: int
    shape: tuple[int, ...]
    bits: int


@dataclass(frozen=True)
class Image:
    """What a device's memories hold before its words run.

    constants  memory → address → bytes
    inputs     the places of the network's inputs
    outputs    the places of its outputs
    steps      for words of layers: the layers with their number of words, and what the host computes between them
    """

    constants: Mapping[str, Runs]
    inputs: Sequence[TensorPlace]
    outputs: Sequence[TensorPlace]
    steps: Sequence[Mapping[str, Any]] = field(default_factory=tuple[Mapping[str, Any], ...])


def image_of(program: Program, device: Device) -> Image:
    """The image of a program of commands."""

    def placed(port: Port) -> TensorPlace:
        block = port.block
        memory = device.memory[block.place.memory].id
        return TensorPlace(port.name, memory, block.place.address, block.bytes, port.shape, 8 * port.dtype.itemsize)

    constants: dict[str, dict[int, bytes]] = {}
    for segment in program.segments:
        constants.setdefault(device.memory[segment.place.memory].id, {})[segment.place.address] = segment.data
    return Image(constants, [placed(port) for port in program.inputs], [placed(port) for port in program.outputs])


# ---------------------------------------------------------------------------------------------------------------
# Images as files


def image_files(image: Image, form: str, words: Path, name: str) -> dict[Path, str | bytes]:
    """The files of an image: the constants of each memory, and the index.

    Args:
        image: The image.
        form: The form of the words: bin, hex, readmemh or c.
        words: The file of the words; the files of the image have its name with an addition.
        name: What the names of C begin with.

    Returns:
        The contents of each file.
    """
    files: dict[Path, str | bytes] = {}
    memories: list[dict[str, Any]] = []
    for memory, runs in image.constants.items():
        file, whole = words.with_name(f"{words.stem}.{memory}{words.suffix}"), _whole(runs)
        match form:
            case "bin":
                files[file] = whole
            case "hex":
                files[file] = intel_hex(runs)
            case "readmemh":
                files[file] = byte_lines(runs)
            case _:
                files[file] = _c_array(memory, min(runs), whole, name)
        constants = [{"address": address, "bytes": len(data)} for address, data in sorted(runs.items())]
        extent = {"address": min(runs), "bytes": len(whole)}
        memories.append({"memory": memory, "file": file.name, **extent, "constants": constants})
    index: dict[str, Any] = {"words": words.name, "memories": memories}
    index |= {side: [asdict(place) for place in getattr(image, side)] for side in ("inputs", "outputs")}
    if image.steps:
        index["steps"] = list(image.steps)
    files[words.with_name(f"{words.stem}.places.json")] = json.dumps(index, indent=1) + "\n"
    return files


def _whole(runs: Runs) -> bytes:
    """The bytes from the first run to the last; 0 between them."""
    first = min(runs)
    whole = bytearray(max(address + len(data) for address, data in runs.items()) - first)
    for address, data in runs.items():
        whole[address - first : address - first + len(data)] = data
    return bytes(whole)


LINE = 16
"""Bytes of a line of Intel HEX, and of bytes for `$readmemh`."""

SEGMENT = 1 << 16
"""Bytes that the addresses of Intel HEX tell apart; another line says which of these segments they are of."""


def intel_hex(runs: Runs) -> str:
    """Runs of bytes in Intel HEX: lines of at most 16 bytes, and a line before each 64 KiB but the first."""
    lines, segment = list[str](), 0
    for address, data in sorted(runs.items()):
        for at, some in _lines(address, data):
            if at // SEGMENT != segment:
                segment = at // SEGMENT
                lines.append(_record(0, 4, segment.to_bytes(2, "big")))
            lines.append(_record(at % SEGMENT, 0, some))
    return "\n".join([*lines, _record(0, 1, b"")]) + "\n"


def _record(address: int, kind: int, data: bytes) -> str:
    body = bytes([len(data)]) + address.to_bytes(2, "big") + bytes([kind]) + data
    return f":{(body + bytes([-sum(body) & 0xFF])).hex().upper()}"


def _lines(address: int, data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yields the bytes with their addresses, in lines that end at multiples of `LINE`."""
    at = 0
    while at < len(data):
        size = LINE - (address + at) % LINE
        yield address + at, data[at : at + size]
        at += size


def byte_lines(runs: Runs) -> str:
    """Runs of bytes as Verilog's `$readmemh` reads them into a memory of bytes: each behind its address, `@40`."""
    lines: list[str] = []
    for address, data in sorted(runs.items()):
        lines.append(f"@{address:x}")
        lines += [data[at : at + LINE].hex(" ") for at in range(0, len(data), LINE)]
    return "\n".join(lines) + "\n"


def _c_array(memory: str, first: int, whole: bytes, name: str) -> str:
    """The bytes of a memory from an address on as an array of C, with that address and their size."""
    called = f"{name}_{memory.replace('-', '_')}"
    lines = ["#include <stdint.h>", "", f"const uint32_t {called}_address = {first:#x};"]
    lines += [f"const uint32_t {called}_size = {len(whole)};", "", f"const uint8_t {called}[] = {{"]
    for at in range(0, len(whole), LINE):
        lines.append("    " + " ".join(f"0x{byte:02x}," for byte in whole[at : at + LINE]))
    return "\n".join([*lines, "};"]) + "\n"
