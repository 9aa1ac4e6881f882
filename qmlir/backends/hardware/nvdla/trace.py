"""Traces as NVIDIA's trace player reads them: `NAME.cfg` with writes and checks, and files of memory beside it."""

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from qmlir.backends.hardware.nvdla.memory import Memory
from qmlir.backends.hardware.nvdla.program import Command, Program, poll, wait, write
from qmlir.backends.hardware.nvdla.registers import DONE
from qmlir.errors import FileError

_STATEMENT = re.compile(r"(?:\s|//[^\n]*)*(\w+)\s*\(([^)]*)\)\s*;")
_BEHIND = re.compile(r"(?:\s|//[^\n]*)*")
_PIECE = re.compile(r"\{\s*offset:(\w+)\s*,\s*size:(\w+)\s*,\s*payload:([^}]*)\}")


@dataclass(frozen=True)
class Check:
    """What memory must hold at the end: a checksum (CRC-32) of bytes from an address on."""

    address: int
    size: int
    crc: int

    def holds(self, memory: Memory) -> bool:
        """Whether a memory has the checksum."""
        return zlib.crc32(memory.read(self.address, self.size).tobytes()) == self.crc


@dataclass(frozen=True)
class Trace:
    """A trace: its program, and what its author says of the memory after it."""

    program: Program
    checks: tuple[Check, ...]


def read(path: Path) -> Trace:
    """Reads a trace; files of memory that it loads are looked for in its folder.

    Raises:
        FileError: A file is missing, or holds what is no statement of a trace.
        QmlirError: A register that nv_small does not have is written.
    """
    text, commands, segments, checks = _text(path), list[Command](), list[tuple[int, bytes]](), list[Check]()
    for line, name, arguments in _statements(path, text):
        where = f"{path}:{line}"
        match name, arguments:
            case "reg_write", [register, value]:
                unit, register = _register(where, register)
                commands.append(write(unit, register, _number(where, value)))
            case "poll_reg_equal", [register, value]:
                unit, register = _register(where, register)
                commands.append(poll(unit, register, _number(where, value)))
            case "intr_notify", [unit, _]:
                commands.append(wait(_interrupt(where, unit)))
            case "mem_init", [_, address, size, "ALL_ZERO"]:
                segments.append((_number(where, address), bytes(_number(where, size))))
            case "mem_load", [_, address, file]:
                base = _number(where, address)
                pieces = _pieces(path.parent / file.strip('"'))
                segments.extend((base + offset, data) for offset, data in pieces)
            case "check_crc", [_, _, address, size, crc]:
                checks.append(Check(*(_number(where, number) for number in (address, size, crc))))
            case "check_nothing", [_]:
                pass
            case _:
                raise FileError(where, "must be a statement of a trace", got=f"{name}({', '.join(arguments)})")
    return Trace(Program(commands, segments), tuple(checks))


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError as error:
        raise FileError(str(path), "must be readable", got=error) from None


def _statements(path: Path, text: str) -> Iterator[tuple[int, str, list[str]]]:
    """Yields the line, the name and the arguments of each statement."""
    place = 0
    while match := _STATEMENT.match(text, place):
        line = text.count("\n", 0, match.start(1)) + 1
        yield line, match[1], [part.strip() for part in match[2].split(",")]
        place = match.end()
    behind = _BEHIND.match(text, place)
    place = behind.end() if behind else place
    if place < len(text):
        line = text.count("\n", 0, place) + 1
        raise FileError(f"{path}:{line}", "must be a statement of a trace", got=text[place : place + 40])


def _register(where: str, name: str) -> tuple[str, str]:
    """Returns unit and register of `NVDLA_CDMA.D_BANK_0`."""
    unit, dot, register = name.partition(".")
    if not (dot and unit.startswith("NVDLA_") and register.endswith("_0")):
        raise FileError(where, "must name a register as NVDLA_UNIT.REGISTER_0", got=name)
    return unit.removeprefix("NVDLA_"), register.removesuffix("_0")


def _interrupt(where: str, name: str) -> int:
    """Returns the bit of the interrupt `SDP_0`."""
    unit, _, group = name.rpartition("_")
    if unit not in DONE or group not in ("0", "1"):
        raise FileError(where, "must name an interrupt, a unit with its group", got=name)
    return DONE[unit] << int(group)


def _number(where: str, text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        raise FileError(where, "must be a number", got=text) from None


def _pieces(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yields offset and bytes of each piece of a file of memory."""
    text = _text(path)
    for match in _PIECE.finditer(text):
        data = bytes(_number(str(path), byte) & 0xFF for byte in match[3].split())
        if len(data) != _number(str(path), match[2]):
            raise FileError(str(path), f"a piece must have the {match[2]} bytes that it says", got=str(len(data)))
        yield _number(str(path), match[1]), data
