"""A device's program as plain Python data, read from the bytes of its file.

The file is magic "QMLIRNPU", version, length of text, words of commands and bytes of data, each of 32 bits; then the
text in JSON, the commands, the data, and the CRC-32 of all of it. The instruction set decodes the commands.
"""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from struct import error as StructError
from struct import unpack_from
from typing import Any

from qmlir.checker.memory import Area
from qmlir.checker.reading import parse_json
from qmlir.isa.commands import decode
from qmlir.isa.encoding import Command, StreamError

VERSION = 4

WIDTHS = {"i1": 1, **{f"{kind}{bits}": bits // 8 for kind in ("i", "ui", "f") for bits in (8, 16, 32, 64)}}
"""Element type → its bytes in memory."""


WIDEST = 64
"""The most bits of an accumulator that count."""


@dataclass(frozen=True)
class Port:
    """A tensor that enters or leaves a program or a routine of the host."""

    name: str
    type: str
    area: Area

    @property
    def width(self) -> int:
        """Bytes of an element."""
        return WIDTHS[self.type]

    @property
    def float(self) -> bool:
        """Whether it holds floats."""
        return self.type.startswith("f")


@dataclass(frozen=True)
class Routine:
    """A routine that the host runs."""

    name: str
    inputs: Sequence[Port]
    outputs: Sequence[Port]


@dataclass(frozen=True)
class Program:
    """A program: the keys of its device, its commands, the constants before the first, and the size of its file."""

    device: Mapping[str, Any]
    commands: Sequence[Command]
    layers: Sequence[str]
    inputs: Sequence[Port]
    routines: Sequence[Routine]
    constants: Sequence[tuple[Area, bytes]]
    bytes: int

    def sizes(self) -> list[int]:
        """The bytes of each memory."""
        return [int(self.device[f"memory.{n}.bytes"]) for n in range(self._count("memory", "id"))]

    def modes(self) -> dict[tuple[str, str], int]:
        """Types of data and weights → the width of the array's accumulators."""
        found: dict[tuple[str, str], int] = {}
        for n in range(self._count("array.modes", "a")):
            a, w, acc = (str(self.device[f"array.modes.{n}.{key}"]) for key in ("a", "w", "acc"))
            found.setdefault((a, w), min(int(acc[1:]), WIDEST))
        return found

    def unpacks(self, queue: int) -> set[int]:
        """The bits of each weight that a queue unpacks."""
        return {int(bits) for name, bits in self.device.items() if name.startswith(f"queue.{queue}.unpacks.")}

    def arranges(self, queue: int) -> bool:
        """Whether a queue arranges matrices as weights."""
        return self.device.get(f"queue.{queue}.arranges") is True

    def tile(self) -> tuple[int, int]:
        """The tile in which weights are stored: output channels by elements of a sum."""
        return self.device.get("layout.weights.n", 1), self.device.get("layout.weights.k", 1)

    def _count(self, table: str, key: str) -> int:
        return sum(1 for name in self.device if name.startswith(f"{table}.") and name.endswith(f".{key}"))


def parse_program(raw: bytes) -> Program:
    """Reads a program from the bytes of its file.

    Raises:
        ValueError: It is no program; the error's text says why.
    """
    try:
        magic, version, text_size, words, data_size = unpack_from("<8s4I", raw)
        whole = 24 + text_size + 4 * words + data_size
        if (magic, version, len(raw)) != (b"QMLIRNPU", VERSION, whole + 4):
            raise ValueError("another format or length")
        if zlib.crc32(raw[:whole]) != int.from_bytes(raw[whole:], "little"):
            raise ValueError("another checksum")
        text: Any = parse_json(raw[24 : 24 + text_size])
        commands = decode(unpack_from(f"<{words}I", raw, 24 + text_size))
        return Program(
            text["device"], commands, text["layers"], _ports(text["inputs"]),
            [Routine(r["name"], _ports(r["inputs"]), _ports(r["outputs"])) for r in text["routines"]],
            _constants(text["segments"], raw[whole - data_size : whole]), len(raw),
        )  # fmt: skip
    except (KeyError, TypeError, IndexError, AttributeError, StructError, StreamError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from None


def _ports(entries: Sequence[Mapping[str, Any]]) -> list[Port]:
    found: list[Port] = []
    for entry in entries:
        memory, address = entry["place"]
        area = Area(memory, address, prod(entry["shape"]) * WIDTHS[entry["type"]])
        found.append(Port(entry["name"], entry["type"], area))
    return found


def _constants(places: Sequence[Sequence[int]], data: bytes) -> list[tuple[Area, bytes]]:
    found: list[tuple[Area, bytes]] = []
    at = 0
    for memory, address, size in places:
        found.append((Area(memory, address, size), data[at : at + size]))
        at += size
    if at != len(data):
        raise ValueError("segments of another size than the data")
    return found
